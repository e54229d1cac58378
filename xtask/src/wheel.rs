//! `cargo xtask wheel`: the Python package with everything it needs, LLVM too, in one file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::args::Args;
use crate::demo::absolute;
use crate::setup;
use crate::shared_llvm::collect_archives;
use crate::workspace::{cargo, root, run, target};

/// Calls the usual linker, with the folder of archives before all others: libraries come from the first one that has them.
const LINKER: &str = "link-with-archives";

pub(crate) fn wheel(words: &[String]) -> Outcome {
    let mut args = Args::new(words);
    let out = args
        .value("--out")?
        .map_or_else(|| target().join("wheel"), absolute);
    args.finish("wheel")?;
    let llvm = setup::setup()?;

    // A target folder of its own: the features differ from the daily build, which would be rebuilt each time.
    let folder = target().join("static");
    let archives = folder.join("archives");
    collect(&archives).map_err(|e| format!("cannot collect static libraries: {e}"))?;
    let mut command = cargo(&llvm);
    command
        .args([
            "rustc",
            "--release",
            "--no-default-features",
            "--features",
            "static",
            "--package",
            "wuji-py",
            "--lib",
            "--target-dir",
        ])
        .arg(&folder)
        .args(["--", "-C"])
        .arg(format!("linker={}", archives.join(LINKER).display()))
        // What travels has no tables for debuggers.
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "none");
    run(&mut command)?;
    run(Command::new("python3")
        .arg(root().join("python/build_backend/wuji_wheel.py"))
        .arg("--library")
        .arg(folder.join("release/lib_native.so"))
        .arg("--out")
        .arg(&out)
        .args(["--version", env!("CARGO_PKG_VERSION")]))
}

/// The static libraries, and a linker that takes them.
fn collect(folder: &Path) -> std::io::Result<()> {
    collect_archives(folder)?;
    let linker = folder.join(LINKER);
    let call = format!("#!/bin/sh\nexec cc '-L{}' \"$@\"\n", folder.display());
    fs::write(&linker, call)?;
    fs::set_permissions(&linker, fs::Permissions::from_mode(0o755))
}
