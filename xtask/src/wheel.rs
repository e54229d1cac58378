//! `cargo xtask wheel`: the Python package with everything it needs, LLVM too, in one file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::args::Args;
use crate::demo::absolute;
use crate::setup;
use crate::workspace::{cargo, output, root, run, target};

/// What the module would load from the system, though not every system has it, or has one that is new enough.
const INSIDE: [&str; 5] = ["stdc++", "z", "zstd", "xml2", "ffi"];

/// Calls the usual linker, with the folder of archives before all others: libraries come from the first one that has them.
const LINKER: &str = "link-with-archives";

pub(crate) fn wheel(words: &[String]) -> Outcome {
    let mut args = Args::new(words);
    let out = args
        .value("--out")?
        .map_or_else(|| target().join("wheel"), absolute);
    args.finish("wheel")?;
    let llvm = setup::setup()?;

    // The folder of `bundle`: the same features, so most of it is built once for both.
    let folder = target().join("bundle");
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

/// A folder with the static libraries and nothing else: where a linker finds both kinds, it takes the shared one.
fn collect(folder: &Path) -> std::io::Result<()> {
    // Anew: what is there may be a link to what would be copied.
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    for name in INSIDE {
        let file = format!("lib{name}.a");
        let found = output("cc", &[&format!("-print-file-name={file}")]);
        // A compiler that knows none gives the name back.
        if let Some(path) = found.filter(|path| Path::new(path).is_absolute()) {
            fs::copy(path, folder.join(&file))?;
        }
    }
    let linker = folder.join(LINKER);
    let call = format!("#!/bin/sh\nexec cc '-L{}' \"$@\"\n", folder.display());
    fs::write(&linker, call)?;
    fs::set_permissions(&linker, fs::Permissions::from_mode(0o755))
}
