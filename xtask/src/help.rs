//! Help texts.

pub(crate) const OVERVIEW: &str = "\
Commands of the Wuji workspace

Usage: cargo xtask COMMAND [OPTIONS]

  demo      simulate three materials and write target/demo/mpm88.gif
  test      run all checks: rules, format, build with lints, tests, doc tests, filetests, fuzzing, Python
  rules     check only the rules of this repository that neither rustc nor clippy checks
  bench     benchmark the workloads against hand-written loops
  peers     benchmark the sparse applications against the same programs in Taichi
  fuzz      random inputs, in search of crashes and wrong results
  bundle    create a self-contained build for another machine
  publish   package every crate, and build the packages
  python    build the extension module into the Python package of this checkout
  wheel     build the Python package with LLVM included
  setup     install LLVM 22, or print how (every other command does this first)
  help      print this text; `cargo xtask help COMMAND` describes one command

On Debian and Ubuntu, the first command installs LLVM 22 with apt (as root, or with sudo without a
password); on other systems it prints the command to run.";

const DEMO: &str = "\
Simulate jelly, snow and water falling into a box (MLS-MPM), and render it

Usage: cargo xtask demo [--frames N] [--out PATH] [--view]

  --frames N   frames of the animation (default 160)
  --out PATH   a directory, or a file that ends in .gif, .png or .mp4 (default target/demo)
  --view       also show it live in a window

Writes mpm88.gif and prints the number of particles, substeps per second and compile time.
This is one of the examples: `cargo run --release --bin gallery` lists all of them.";

const TEST: &str = "\
Run all checks that a change must pass

Usage: cargo xtask test [--quick] [--fuzz-seconds N]
       cargo xtask test --backend cuda
       cargo xtask test --lazy

  --quick            run only the rules, `cargo test` (with the filetests) and the Python tests; no lints or doc tests
  --fuzz-seconds N   fuzz for so long, beyond the fixed number of programs that the tests try
  --backend cuda     instead, run the tests that support it on the first GPU, including those in Python;
                     for a GPU machine without Rust, use `bundle` and WUJI_TEST_BACKEND=cuda sh test.sh
  --lazy             instead, run the tests of the public API and those in Python with lazy worlds (WUJI_LAZY=1)

The Python tests run in a virtual environment, target/python, with NumPy, pytest, mypy and Jupyter packages.
It also contains NVIDIA's ptxas, which assembles the PTX of kernels (unless WUJI_PTXAS or the path provides one).
Steps that need rustfmt or clippy are skipped, with a note, if those are not installed
(`rustup component add rustfmt clippy`). All steps run even if one fails; a table at the end shows
the time of each. WUJI_BLESS=1 cargo xtask test --quick rewrites the golden files.";

const RULES: &str = "\
Check the rules of this repository that neither rustc nor clippy checks

Usage: cargo xtask rules [NAME...]

Without names it checks all rules, which takes less than a second. docs/contributing.md explains them;
each is a file in xtask/src/rules.";

const BENCH: &str = "\
Benchmark the workloads against hand-written loops

Usage: cargo xtask bench [--filter REGEX] [--json FILE] [OPTIONS]
       cargo xtask bench compile [--json] [--rounds N]
       cargo xtask bench flow [--filter REGEX] [--paper-size] [--gpu] [--jax PYTHON] [OPTIONS]
       cargo xtask bench paper [--filter REGEX] [--paper-size] [--gpu] [OPTIONS]

  --filter REGEX   run only workloads whose name matches (for example 'saxpy|jacobi', '^mpm')
  --json FILE      also write one JSON object per line: workload, size, backend, metric, value,
                   reference, ratio, compile_ms
  --guard          also compare bounds-checked with unchecked accesses (rows with metric guard_ratio)
  --cpp            also compare the references with the same loops in C++ (needs g++)
  --pairs N        interleaved pairs per row (default 15); a row shows the median
  --threads N      number of worker threads (default: all cores)
  --cpu-time       for a busy machine: use one thread and measure CPU time
  --without NAMES  disable optimizations (passes or parts of them), to measure their effect
  --list           list the workloads
  --peers          instead, run the dense workloads also in Taichi 1.7.4 and numba, in turn (needs python3 with venv,
                   and the network for the first run; accepts --filter, --json, --threads and --rounds)
  --python         instead, run Julia, Jacobi, n-body and MPM from Python and from Rust, in turn (accepts names of
                   workloads, --threads, --rounds, --pairs and --cpu-time); `--python starts` measures startup
                   and launch times

`bench compile` compiles a fixed set of kernels instead, and prints compile times pass by pass.

`bench flow` prints tables of inter-kernel optimization, in Markdown: eager worlds, lazy ones, and lazy ones without each rule.
  --paper-size     large programs in the size of the paper (minutes) instead of a small one
  --tasks          also list the tasks of a run, with their launches and times
  --gpu            on the first GPU
  --jax PYTHON     also run the texture program in JAX, with an interpreter that has it

`bench paper` prints the tables of the paper on sparse data structures, in Markdown: five applications against hand-written
references, with times, lines of code and ablations.
  --paper-size     problems in the size of the paper (minutes) instead of small ones
  --gpu            on the first GPU

A ratio above 1 means faster than the reference. References are hand-written threaded Rust,
compiled for the features of this CPU.";

const PEERS: &str = "\
Benchmark the sparse applications against Taichi 1.7.4 on the CPU: same programs, layouts and sizes

Usage: cargo xtask peers [NAME...] [OPTIONS]

  --small        use small problem sizes
  --steps N      steps per measurement
  --rounds N     number of runs (default 1); the fastest median counts
  --threads N    number of worker threads of both (default: all cores)
  --cpu-time     for a busy machine: use one thread and measure CPU time
  --python FILE  an interpreter that has Taichi (default ~/.cache/wuji-peers/bin/python)
  --program FILE the program `apps`, if already built
  --json FILE    also write one JSON object per line

A ratio above 1 means faster than Taichi. Checksums of both results are compared; a difference is an
error. To install Taichi:

    python3 -m venv ~/.cache/wuji-peers
    ~/.cache/wuji-peers/bin/pip install taichi==1.7.4";

const PUBLISH: &str = "\
Package every crate as crates.io would get it, and build the packages

Usage: cargo xtask publish [--dry-run] [--no-verify] [--network]

  --dry-run     stop there; without it, all crates are uploaded, in the order of their dependencies
  --no-verify   do not build the packages
  --network     look up dependencies in the registry; otherwise those that were downloaded before are used

Packages are built against each other, not against this checkout, so that files and versions that are missing
in a package are found.";

const FUZZ: &str = "\
Random inputs, in search of crashes and wrong results

Usage: cargo xtask fuzz [--wir | --grad | --python | --hosts | --lazy] [--backend cuda] [--seconds N] [--seed S]

Without a choice: random kernels over random layouts, in IR; the interpreter against compiled code.

  --grad        derivatives of random kernels: in reverse mode, in forward mode, by finite differences, as machine code
  --wir         mutated files of textual IR: refused with an error, or compiled to the same results
  --python      random kernels in Python: NumPy, the interpreter, compiled code, constants against variables
  --lazy        random kernels, launched several times in a lazy world and in an eager one, on the interpreter
  --hosts       random calls of the Python API with injected faults: out of memory, disk full, signals, kill
  --backend cuda
                random kernels, or with --grad their derivatives, on the first GPU against the interpreter;
                for a GPU machine without Rust, use `bundle` and WUJI_TEST_BACKEND=cuda ./fuzz --native 100
  --seconds N   duration (default 60)
  --seed S      first seed (default: from the clock; always printed)

A failure is shrunk, written to target/fuzz and ends the run with an error.
Further options are passed to the fuzzer: `--keep-going`, `--programs N`, and for IR `--threads N`, `--native PERCENT`,
`--show` (print the program of the seed).";

const BUNDLE: &str = "\
Create a build that runs on another machine of the same kind, without LLVM and Rust

Usage: cargo xtask bundle [--out DIR] [--dev] [--no-pack] [--only NAMES]

  --out DIR      output directory (default bundle)
  --dev          use development builds, which are faster to compile (default: release builds)
  --no-pack      write a directory of compressed files instead of an archive, and only those that have changed;
                 DIR/unpack.sh [DIRECTORY] unpacks them
  --only NAMES   only these parts, separated by commas

Collects the command `wuji` with the examples, the benchmarks, test programs with their files
and the Python package, with one LLVM that needs only the C library. They are tested in an
empty directory without an environment, and packed as DIR.tar.xz. `setup` installs additional build dependencies
(a C++ standard library, zlib, zstd, libxml2, libffi).";

const PYTHON: &str = "\
Build the extension module of the Python package into python/wuji

Usage: cargo xtask python [--release]

  --release   optimized, for benchmarks

`PYTHONPATH=python python3` then finds the package.";

const WHEEL: &str = "\
Build the Python package as a wheel with LLVM included

Usage: cargo xtask wheel [--out DIR]

  --out DIR   output directory (default target/wheel)

`pip install DIR/*.whl` installs it on any machine with Python 3.11 or newer and a C library that is at least as new as the
file name states. `pip install .` calls this command.";

const SETUP: &str = "\
Install what the build needs, or print how: LLVM 22.1 with headers, and a linker

Usage: cargo xtask setup [--dry-run]

  --dry-run   print what would be done, and do nothing

LLVM is searched for in $LLVM_SYS_221_PREFIX, in the usual directories of apt, dnf and brew, and as
llvm-config-22 or llvm-config on the path.";

const TOPICS: [(&str, &str); 12] = [
    ("demo", DEMO),
    ("test", TEST),
    ("rules", RULES),
    ("bench", BENCH),
    ("peers", PEERS),
    ("fuzz", FUZZ),
    ("bundle", BUNDLE),
    ("publish", PUBLISH),
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

/// The most similar command.
pub(crate) fn nearest(word: &str) -> Option<&'static str> {
    TOPICS
        .iter()
        .map(|(name, _)| (distance(word, name), *name))
        .min()
        .filter(|(distance, _)| *distance <= 2)
        .map(|(_, name)| name)
}

/// Edit distance between two words.
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
    fn typos_suggest_a_command() {
        assert_eq!(nearest("tset"), Some("test"));
        assert_eq!(nearest("benhc"), Some("bench"));
        assert_eq!(nearest("deploy"), None);
        assert_eq!(distance("", "fuzz"), 4);
        assert_eq!(distance("fuzz", "fuzz"), 0);
    }
}
