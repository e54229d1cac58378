//! What `--help` says.

pub(crate) const OVERVIEW: &str = "\
Commands of the Wuji workspace

Usage: cargo xtask COMMAND [OPTIONS]

  demo      simulate three materials and write target/demo/mpm88.gif
  test      everything that must hold: rules, format, lints, tests, doc tests, filetests, random programs, Python
  rules     only the rules of this repository that neither rustc nor clippy checks
  bench     measure the workloads against hand-written loops
  peers     measure the sparse applications against the same programs in Taichi
  fuzz      random kernels over random layouts: interpreter against compiled code
  bundle    a self-contained build for another machine
  python    build the extension module into the Python package of this checkout
  wheel     the Python package with LLVM inside, for any machine with Python and NumPy
  setup     install or ask for LLVM 22 (every other command does this first)
  help      this text; `cargo xtask help COMMAND` for one command

The first command on a bare machine installs LLVM 22 by apt where it may (root or sudo without a
password); elsewhere it prints the command to type.";

const DEMO: &str = "\
Simulate jelly, snow and water falling into a box (MLS-MPM), and draw it

Usage: cargo xtask demo [--frames N] [--out PATH] [--view]

  --frames N   pictures in the animation (default 160)
  --out PATH   a folder, or a file that ends in .gif, .png or .mp4 (default target/demo)
  --view       also show it live in a window

Writes mpm88.gif and ends with the number of particles, substeps per second and compile time.
It is one of the examples: `cargo run --release --bin gallery` lists all of them.";

const TEST: &str = "\
Everything that must hold before a change lands

Usage: cargo xtask test [--quick] [--fuzz-seconds N]
       cargo xtask test --backend cuda

  --quick            only the rules, `cargo test` (with the filetests) and the tests in Python, no lints, doc tests or random programs
  --fuzz-seconds N   how long to try random programs (default 30)
  --backend cuda     instead: the tests that can run kernels on the first GPU, there, those in Python included;
                     for a GPU machine without Rust there is `bundle`, and WUJI_TEST_BACKEND=cuda sh test.sh

The tests in Python run in an environment of their own, target/python, which has NumPy, pytest, mypy and what runs notebooks.
It also has NVIDIA's ptxas, which assembles what kernels become for GPUs (unless WUJI_PTXAS or the path has one).
Steps that need rustfmt or clippy are skipped, and said to be, where those are not installed
(`rustup component add rustfmt clippy`). All steps run even when one fails; the closing table has
the time of each. The golden files are rewritten by WUJI_BLESS=1 cargo xtask test --quick.";

const RULES: &str = "\
Check the rules of this repository that neither rustc nor clippy checks

Usage: cargo xtask rules [NAME...]

Without names it checks all of them, which takes less than a second. CONTRIBUTING.md explains the rules;
each is a file in xtask/src/rules.";

const BENCH: &str = "\
Measure the workloads against hand-written loops

Usage: cargo xtask bench [--filter REGEX] [--json FILE] [OPTIONS]
       cargo xtask bench compile [--json] [--rounds N]

  --filter REGEX   only workloads whose name matches (for example 'saxpy|jacobi', '^mpm')
  --json FILE      also write one JSON object a line: workload, size, backend, metric, value,
                   reference, ratio, compile_ms
  --guard          also compare guarded with unchecked accesses (rows with metric guard_ratio)
  --cpp            also compare the references with the same loops in C++ (needs g++)
  --pairs N        interleaved pairs per row (default 15); a row shows the median
  --threads N      worker threads (default: all cores)
  --cpu-time       for a busy machine: one thread, and only the time that it was running
  --without NAMES  leave out optimizations, by the names of passes and their parts: what are they worth?
  --list           the workloads, without running them
  --peers          instead: the dense workloads in Taichi 1.7.4 and numba, too, in turn (needs python3 with venv,
                   and the network at the first run; with --filter, --json, --threads and --rounds)
  --python         instead: Julia, Jacobi, n-body and MPM from Python and from Rust, in turn (with names of workloads,
                   --threads, --rounds, --pairs and --cpu-time); `--python starts`: how long programs take to
                   start, and launches

`bench compile` compiles a fixed set of kernels instead, and prints where the time goes.

A ratio above 1 means faster than the reference. References are hand-written threaded Rust,
compiled for the features of this CPU.";

const PEERS: &str = "\
The sparse applications, here and in Taichi 1.7.4 on the CPU: same programs, layouts and sizes

Usage: cargo xtask peers [NAME...] [OPTIONS]

  --small        sizes for a quick look
  --steps N      steps of each measurement
  --rounds N     how often each is run (default 1); the fastest median counts
  --threads N    worker threads of both (default: all cores)
  --cpu-time     for a busy machine: one thread, and only the time that it was running
  --python FILE  an interpreter that has Taichi (default ~/.cache/wuji-peers/bin/python)
  --program FILE the program `apps`, built already
  --json FILE    also write one JSON object a line

A ratio above 1 means faster than Taichi. AffineAnalysis of both results are compared, and an error is given
when they differ. To get Taichi:

    python3 -m venv ~/.cache/wuji-peers
    ~/.cache/wuji-peers/bin/pip install taichi==1.7.4";

const FUZZ: &str = "\
Random kernels over random layouts: the interpreter against compiled code

Usage: cargo xtask fuzz [--seconds N] [--seed S]

  --seconds N   how long to run (default 60)
  --seed S      where to start (default: from the clock; always printed)

Prints the number of programs tried and of mismatches, and ends with an error when there is one.
Further options go to the fuzzer as they are.";

const BUNDLE: &str = "\
A build that runs on another machine of the same kind, without LLVM and without Rust

Usage: cargo xtask bundle [--out DIR] [--dev] [--no-pack] [--only NAMES]

  --out DIR      where to put it (default bundle)
  --dev          what daily builds make, which is quicker to have (default: release builds)
  --no-pack      no archive, but a folder of packed files, of which only those are written that have changed;
                 DIR/unpack.sh [FOLDER] unpacks them there
  --only NAMES   only these parts, with commas between them

Collects the command `wuji`, which has the examples, the benchmarks, test programs with their files
and the Python package in one folder, with one LLVM that needs only the C library. They are tried out in an
empty folder without an environment, and packed as DIR.tar.xz. Further build dependencies
(a C++ standard library, zlib, zstd, libxml2, libffi) are part of `setup`.";

const PYTHON: &str = "\
Build the extension module of the Python package, and put it to python/wuji

Usage: cargo xtask python [--release]

  --release   optimized; what measurements need

`PYTHONPATH=python python3` then finds the package.";

const WHEEL: &str = "\
The Python package in one file, with LLVM inside

Usage: cargo xtask wheel [--out DIR]

  --out DIR   where to put it (default target/wheel)

`pip install DIR/*.whl` installs it on any machine with Python 3.11 or newer and a C library that is not older than the name of the
file says. `pip install .` calls this command.";

const SETUP: &str = "\
Install or ask for what the build needs: LLVM 22.1 with headers, and a linker

Usage: cargo xtask setup [--dry-run]

  --dry-run   say what would be done, and do nothing

LLVM is looked for in $LLVM_SYS_221_PREFIX, in the usual places of apt, dnf and brew, and as
llvm-config-22 or llvm-config on the path.";

const TOPICS: [(&str, &str); 11] = [
    ("demo", DEMO),
    ("test", TEST),
    ("rules", RULES),
    ("bench", BENCH),
    ("peers", PEERS),
    ("fuzz", FUZZ),
    ("bundle", BUNDLE),
    ("python", PYTHON),
    ("wheel", WHEEL),
    ("setup", SETUP),
    ("help", OVERVIEW),
];

/// The help text of one command.
pub(crate) fn of(command: &str) -> Option<&'static str> {
    TOPICS
        .iter()
        .find(|(name, _)| *name == command)
        .map(|(_, text)| *text)
}

/// The command that was probably meant.
pub(crate) fn nearest(word: &str) -> Option<&'static str> {
    TOPICS
        .iter()
        .map(|(name, _)| (distance(word, name), *name))
        .min()
        .filter(|(distance, _)| *distance <= 2)
        .map(|(_, name)| name)
}

/// Number of single-letter edits between two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_named() {
        assert_eq!(nearest("tset"), Some("test"));
        assert_eq!(nearest("benhc"), Some("bench"));
        assert_eq!(nearest("deploy"), None);
        assert_eq!(distance("", "fuzz"), 4);
        assert_eq!(distance("fuzz", "fuzz"), 0);
    }
}
