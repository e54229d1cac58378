//! `cargo xtask python`: builds the extension module into the Python package of the checkout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::args::Args;
use crate::setup;
use crate::workspace::{cargo, on_path, output, root, run, target};

/// The file name of the extension module.
const MODULE: &str = "_native.abi3.so";

pub(crate) fn python(words: &[String]) -> Outcome {
    let mut args = Args::new(words);
    let release = args.flag("--release");
    args.finish("python")?;
    let llvm = setup::setup()?;
    let placed = build(cargo(&llvm), &PACKAGE, release)?;
    println!("built {}", placed.display());
    println!(
        "use it with `PYTHONPATH=python python3` in {}",
        root().display()
    );
    Ok(())
}

/// What cargo builds for the module alone.
pub(crate) const PACKAGE: [&str; 2] = ["--package", "wuji-py"];

/// What cargo builds for a run of all tests: the module too, with the features that dependencies have in the tests. Alone, half of
/// the workspace would be compiled once more.
pub(crate) const WITH_TESTS: [&str; 4] = ["--workspace", "--lib", "--bins", "--tests"];

/// Builds the module with this `cargo` and copies it into the package.
pub(crate) fn build(
    mut command: Command,
    targets: &[&str],
    release: bool,
) -> Result<PathBuf, String> {
    command.arg("build").args(targets);
    if release {
        command.arg("--release");
    }
    run(&mut command)?;
    let folder = target().join(if release { "release" } else { "debug" });
    let placed = root().join("python/wuji").join(MODULE);
    // Copies and renames: a running Python keeps the old file.
    let fresh = placed.with_extension("fresh");
    fs::copy(folder.join("lib_native.so"), &fresh)
        .and_then(|_| fs::rename(&fresh, &placed))
        .map_err(|e| format!("cannot copy the module to {}: {e}", placed.display()))?;
    Ok(placed)
}

/// The packages that the tests need.
const TEST_PACKAGES: [&str; 6] = [
    "numpy",
    "pytest",
    "pytest-xdist",
    "mypy",
    "nbclient",
    "ipykernel",
];

/// Downloads what tests need, so that it is there when they start. They report what could not be had.
pub(crate) fn download() {
    let _ = environment(&TEST_PACKAGES);
    let _ = ptxas();
}

/// A command that runs the tests of the package in a virtual environment, with the module that this `cargo` builds.
pub(crate) fn tests(cargo: Command) -> Result<Command, String> {
    build(cargo, &WITH_TESTS, false)?;
    let python = environment(&TEST_PACKAGES)?;
    let mut command = Command::new(python);
    command
        // Most tests wait for a compiler that has one thread.
        .args(["-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal"])
        .arg("python/tests")
        .current_dir(root())
        .env("PYTHONPATH", root().join("python"))
        .env("WUJI_CACHE", "off");
    Ok(command)
}

/// A command that runs a fuzzer of the Python package, with an optimized extension module.
pub(crate) fn fuzzer(llvm: &Path, name: &str) -> Result<Command, String> {
    build(cargo(llvm), &PACKAGE, true)?;
    let python = environment(&["numpy"])?;
    let mut command = Command::new(python);
    command
        .args(["-m", &format!("fuzz.{name}")])
        .current_dir(root())
        .env(
            "PYTHONPATH",
            std::env::join_paths([root().join("python"), root().join("python/tests")])
                .map_err(|e| e.to_string())?,
        );
    Ok(command)
}

/// A virtual environment in the target directory with these packages.
pub(crate) fn environment(packages: &[&str]) -> Result<PathBuf, String> {
    let folder = target().join("python");
    let python = folder.join("bin/python");
    let make = || run(Command::new("python3").args(["-m", "venv"]).arg(&folder));
    if !python.exists() && make().is_err() {
        // On Debian, `venv` is a separate package, and a failed attempt leaves a partial environment.
        let _ = fs::remove_dir_all(&folder);
        setup::install_missing(&["python3-venv"])?;
        make()?;
    }
    let names =
        format!("from importlib.metadata import version; [version(p) for p in {packages:?}]");
    let known = Command::new(&python).args(["-c", &names]).output();
    if !known.is_ok_and(|o| o.status.success()) {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet"]).args(packages);
        run(&mut pip)?;
    }
    Ok(python)
}

/// NVIDIA's assembler: from the environment, from the path, or from a package in the target directory. The version is the
/// last that supports the oldest GPUs.
pub(crate) fn ptxas() -> Result<PathBuf, String> {
    const PACKAGE: &str = "nvidia-cuda-nvcc-cu12==12.9.*";
    if let Some(path) = std::env::var_os("WUJI_PTXAS").filter(|v| !v.is_empty()) {
        return Ok(path.into());
    }
    if on_path("ptxas") {
        return Ok("ptxas".into());
    }
    let python = environment(&["pip"])?;
    let installed = || {
        let find = "import sysconfig; print(sysconfig.get_path('purelib'))";
        let packages = output(&python, &["-c", find])?;
        let path = Path::new(&packages).join("nvidia/cuda_nvcc/bin/ptxas");
        path.exists().then_some(path)
    };
    if let Some(path) = installed() {
        return Ok(path);
    }
    let mut pip = Command::new(&python);
    run(pip.args(["-m", "pip", "install", "--quiet", "--no-deps", PACKAGE]))?;
    installed().ok_or_else(|| format!("{PACKAGE} has no ptxas"))
}
