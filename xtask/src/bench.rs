//! `cargo xtask bench`: benchmarks workloads against hand-written loops.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::args::Args;
use crate::demo::absolute;
use crate::setup;
use crate::workspace::{cargo, on_path, program, root, run, target};

pub(crate) fn bench(words: &[String]) -> Outcome {
    if words.first().is_some_and(|word| word == "compile") {
        return compile(&words[1..]);
    }
    if words.first().is_some_and(|word| word == "flow") {
        return flow(&words[1..]);
    }
    if words.first().is_some_and(|word| word == "paper") {
        return paper(&words[1..]);
    }
    let mut args = Args::new(words);
    let json = args.value("--json")?.map(absolute);
    let cpp = args.flag("--cpp");
    if args.flag("--peers") {
        return peers(&args.rest(), json.as_deref());
    }
    if args.flag("--python") {
        return frontends(&args.rest());
    }
    let rest = args.rest();
    let llvm = setup::setup()?;

    // No RUSTFLAGS: the references select instructions at run time (`#[target_feature]`), so that a bundle
    // measures the same code.
    let mut command = program(&llvm, "wuji-bench", "release");
    command.args(rest);
    if let Some(json) = json {
        command.arg("--json").arg(json);
    }
    if cpp {
        command.arg("--cpp").arg(build_cpp()?);
    }
    run(&mut command)
}

/// `cargo xtask bench --peers`: runs the dense workloads in Wuji, Taichi and numba, in turn, in a virtual environment below
/// `target`.
fn peers(words: &[String], json: Option<&Path>) -> Outcome {
    let llvm = setup::setup()?;
    let python = peers_environment()?;
    run(Command::new("cargo")
        .current_dir(root())
        .args(["build", "--release", "-p", "wuji-bench"])
        .env("LLVM_SYS_221_PREFIX", &llvm))?;
    let mut command = Command::new(&python);
    command
        .arg(root().join("benches/peers/dense.py"))
        .arg("--program")
        .arg(target().join("release/wuji-bench"))
        .args(words)
        .env("LLVM_SYS_221_PREFIX", llvm);
    if let Some(json) = json {
        command.arg("--json").arg(json);
    }
    run(&mut command)
}

/// A Python interpreter with Taichi and numba. Recreates a partial environment.
fn peers_environment() -> Result<PathBuf, String> {
    const PACKAGES: [&str; 3] = ["taichi==1.7.4", "numba", "numpy"];
    let place = target().join("peers");
    let python = place.join("bin/python");
    let complete = Command::new(&python)
        .args(["-c", "import importlib.util as u, sys; sys.exit(not (u.find_spec('taichi') and u.find_spec('numba')))"])
        .status()
        .is_ok_and(|status| status.success());
    if complete {
        return Ok(python);
    }
    if !on_path("python3") {
        return Err(
            "`--peers` needs python3 with venv; on Debian or Ubuntu: apt-get install python3-venv"
                .to_string(),
        );
    }
    run(Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(&place))
    .map_err(|why| {
        format!("cannot create a virtual environment in {}: {why}\n  on Debian or Ubuntu: apt-get install python3-venv", place.display())
    })?;
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet"])
        .args(PACKAGES))
    .map_err(|why| {
        format!(
            "cannot install {}: {why}\n  this needs the network, and a Python version that Taichi 1.7.4 supports (3.7 to 3.13)",
            PACKAGES.join(", ")
        )
    })?;
    Ok(python)
}

/// `cargo xtask bench --python`: runs the same kernels from Python and from Rust, in turn.
fn frontends(words: &[String]) -> Outcome {
    let llvm = setup::setup()?;
    crate::python::build(
        crate::workspace::cargo(&llvm),
        &crate::python::PACKAGE,
        true,
    )?;
    let python = crate::python::environment(&["numpy"])?;
    run(cargo(&llvm).args(["build", "--release", "--bin", "wuji-bench"]))?;
    run(Command::new(python)
        .arg(root().join("benches/python/frontends.py"))
        .arg("--program")
        .arg(target().join("release/wuji-bench"))
        .args(words)
        .env("PYTHONPATH", root().join("python")))
}

/// `cargo xtask bench compile`: measures compile times.
fn compile(words: &[String]) -> Outcome {
    let llvm = setup::setup()?;
    let mut command = program(&llvm, "wuji", "release");
    run(command.args(["doctor", "--bench-compile"]).args(words))
}

/// `cargo xtask bench flow`: prints the tables of inter-kernel optimization, and times the same texture program in JAX if there is
/// an interpreter that has it.
fn flow(words: &[String]) -> Outcome {
    let mut args = Args::new(words);
    let json = args.value("--json")?.map(absolute);
    let jax = args.value("--jax")?.map(absolute);
    let paper = words.iter().any(|word| word == "--paper-size");
    let llvm = setup::setup()?;
    let mut command = program(&llvm, "wuji-bench", "release");
    command.arg("--flow").args(args.rest());
    if let Some(json) = json {
        command.arg("--json").arg(json);
    }
    run(&mut command)?;
    let Some(python) = jax else {
        return Ok(());
    };
    let mut command = Command::new(python);
    command.arg(root().join("benches/python/texture_jax.py"));
    if paper {
        command.arg("--paper-size");
    }
    run(&mut command)
}

/// `cargo xtask bench paper`: prints the tables of the paper on sparse data structures.
fn paper(words: &[String]) -> Outcome {
    let mut args = Args::new(words);
    let json = args.value("--json")?.map(absolute);
    let llvm = setup::setup()?;
    let mut command = program(&llvm, "wuji-bench", "release");
    command.arg("--paper").args(args.rest());
    if let Some(json) = json {
        command.arg("--json").arg(json);
    }
    run(&mut command)
}

/// Compiles the C++ loops into one shared library.
fn build_cpp() -> Result<PathBuf, String> {
    if !on_path("g++") {
        return Err("`--cpp` needs g++; on Debian or Ubuntu: apt-get install g++".to_string());
    }
    let out = target().join("bench-cpp");
    std::fs::create_dir_all(&out).map_err(|e| format!("cannot make {}: {e}", out.display()))?;
    let library = out.join("libwuji_bench_cpp.so");
    let mut objects = Vec::new();
    for source in sources(&root().join("benches/cpp"))? {
        let object = out
            .join(source.file_stem().unwrap_or_default())
            .with_extension("o");
        let mut compile = Command::new("g++");
        compile.args([
            "-O3",
            "-march=native",
            "-fopenmp",
            "-fPIC",
            "-std=c++17",
            "-Wall",
            "-c",
        ]);
        // A sum in source order cannot use vectors; the reference reassociates, so may this.
        if source.file_stem().is_some_and(|name| name == "sum") {
            compile.arg("-ffast-math");
        }
        run(compile.arg(&source).arg("-o").arg(&object))?;
        objects.push(object);
    }
    run(Command::new("g++")
        .args(["-shared", "-fopenmp", "-o"])
        .arg(&library)
        .args(&objects))?;
    Ok(library)
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries =
        std::fs::read_dir(folder).map_err(|e| format!("cannot read {}: {e}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "cpp"))
        .collect();
    files.sort();
    Ok(files)
}
