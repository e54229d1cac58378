//! `cargo xtask bench`: workloads against hand-written loops.

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
    let mut args = Args::new(words);
    let json = args.value("--json")?.map(absolute);
    let cpp = args.flag("--cpp");
    if args.flag("--peers") {
        return peers(&args.rest());
    }
    if args.flag("--python") {
        return faces(&args.rest());
    }
    let rest = args.rest();
    let llvm = setup::setup()?;

    // No RUSTFLAGS: the references choose their instructions at run time (`#[target_feature]`), so that a
    // bundle measures the same code as this command.
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

/// `cargo xtask bench --peers`: the dense workloads here and in Taichi and numba, in an environment that is
/// made for it below `target`.
fn peers(words: &[String]) -> Outcome {
    if !on_path("python3") {
        return Err("`--peers` needs python3 with venv".to_string());
    }
    let llvm = setup::setup()?;
    let place = target().join("peers");
    let python = place.join("bin/python");
    if !python.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
        let packages = ["taichi==1.7.4", "numba", "numpy"];
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet"])
            .args(packages))?;
    }
    run(Command::new("cargo")
        .current_dir(root())
        .args(["build", "--release", "-p", "wuji-bench"])
        .env("LLVM_SYS_221_PREFIX", &llvm))?;
    run(Command::new(&python)
        .arg(root().join("benches/peers/dense.py"))
        .arg("--program")
        .arg(target().join("release/wuji-bench"))
        .args(words)
        .env("LLVM_SYS_221_PREFIX", llvm))
}

/// `cargo xtask bench --python`: the same kernels from Python and from Rust, in turn.
fn faces(words: &[String]) -> Outcome {
    let llvm = setup::setup()?;
    crate::python::build(&llvm, true)?;
    let python = crate::python::environment(&["numpy"])?;
    run(cargo(&llvm).args(["build", "--release", "--bin", "wuji-bench"]))?;
    run(Command::new(python)
        .arg(root().join("benches/python/faces.py"))
        .arg("--program")
        .arg(target().join("release/wuji-bench"))
        .args(words)
        .env("PYTHONPATH", root().join("python")))
}

/// `cargo xtask bench compile`: where the time goes when kernels are compiled.
fn compile(words: &[String]) -> Outcome {
    let llvm = setup::setup()?;
    let mut command = program(&llvm, "wuji", "release");
    run(command.args(["doctor", "--bench-compile"]).args(words))
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
