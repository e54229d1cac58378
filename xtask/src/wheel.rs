//! `cargo xtask wheel`: builds the Python package as a self-contained wheel, including LLVM.

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

/// Replaces `arc4random` for older C libraries: without it the wheel would require glibc 2.36 instead of 2.34. LLVM uses it to name
/// temporary files, and retries if a name exists.
const FOR_OLDER: &str = "\
#include <stdint.h>
#include <sys/random.h>
#include <time.h>

__attribute__((visibility(\"hidden\"))) uint32_t arc4random(void) {
    uint32_t number;
    if (getrandom(&number, sizeof number, 0) == sizeof number) return number;
    return (uint32_t)clock();
}
";

/// A wrapper of the linker that searches the directory of static archives first.
const LINKER: &str = "link-with-archives";

pub(crate) fn wheel(words: &[String]) -> Outcome {
    let mut args = Args::new(words);
    let out = args
        .value("--out")?
        .map_or_else(|| target().join("wheel"), absolute);
    args.finish("wheel")?;
    let llvm = setup::setup()?;

    // A separate target directory: other features would invalidate the regular build.
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
        // No debug information in a wheel.
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

/// Collects the static libraries and writes the linker wrapper.
fn collect(folder: &Path) -> std::io::Result<()> {
    collect_archives(folder)?;
    let (source, object) = (folder.join("for_older.c"), folder.join("for_older.o"));
    fs::write(&source, FOR_OLDER)?;
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-fPIC", "-c"]).arg(&source).arg("-o");
    run(compile.arg(&object)).map_err(std::io::Error::other)?;
    let linker = folder.join(LINKER);
    let (there, object) = (folder.display(), object.display());
    let call = format!("#!/bin/sh\nexec cc '-L{there}' '{object}' \"$@\"\n");
    fs::write(&linker, call)?;
    fs::set_permissions(&linker, fs::Permissions::from_mode(0o755))
}
