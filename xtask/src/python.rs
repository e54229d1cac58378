//! `cargo xtask python`: the extension module, where the Python package of the checkout finds it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::args::Args;
use crate::setup;
use crate::workspace::{cargo, root, run, target};

/// What Python looks for beside `__init__.py`.
const MODULE: &str = "_native.abi3.so";

pub(crate) fn python(words: &[String]) -> Outcome {
    let mut args = Args::new(words);
    let release = args.flag("--release");
    args.finish("python")?;
    let llvm = setup::setup()?;
    let placed = build(&llvm, release)?;
    println!("built {}", placed.display());
    println!(
        "`PYTHONPATH=python python3` finds it from {}",
        root().display()
    );
    Ok(())
}

/// Builds the module and puts it into the package.
pub(crate) fn build(llvm: &Path, release: bool) -> Result<PathBuf, String> {
    let mut command = cargo(llvm);
    command.args(["build", "--package", "wuji-py"]);
    if release {
        command.arg("--release");
    }
    run(&mut command)?;
    let folder = target().join(if release { "release" } else { "debug" });
    let placed = root().join("python/wuji").join(MODULE);
    // Under another name first: a Python that has the old one loaded keeps it.
    let fresh = placed.with_extension("fresh");
    fs::copy(folder.join("lib_native.so"), &fresh)
        .and_then(|_| fs::rename(&fresh, &placed))
        .map_err(|e| format!("cannot put the module to {}: {e}", placed.display()))?;
    Ok(placed)
}
