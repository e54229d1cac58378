//! `cargo xtask bundle`: programs for another machine, with LLVM inside.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::args::Args;
use crate::demo::absolute;
use crate::setup;
use crate::workspace::{cargo, on_path, root, run, spelled, target};

/// Each has LLVM inside, so there are few: `wuji` runs the examples as well.
const PROGRAMS: [&str; 2] = ["wuji", "wuji-bench"];

/// What people download. More than this would be a mistake in how LLVM is linked.
const MOST_BYTES: u64 = 40_000_000;

const README: &str = "\
These programs need neither LLVM nor Rust; they compile kernels for the CPU that they run on. Of the
system they use the C and C++ libraries, zlib, zstd and libffi, which most systems have.

  ./wuji doctor          what Wuji found on this machine
  ./wuji example         the examples: `./wuji example mpm88` writes mpm88.gif
  ./wuji --help          the rest
  ./wuji-bench           the benchmarks (`./wuji-bench --help`)
";

pub(crate) fn bundle(words: &[String]) -> Outcome {
    let mut args = Args::new(words);
    let out = args
        .value("--out")?
        .map_or_else(|| root().join("bundle"), absolute);
    args.finish("bundle")?;
    let llvm = setup::setup()?;

    // A target folder of its own: the features differ from the daily build, which would be rebuilt each time.
    let folder = target().join("bundle");
    let mut command = cargo(&llvm);
    command
        .args([
            "build",
            "--release",
            "--no-default-features",
            "--features",
            "static",
            "--target-dir",
        ])
        .arg(&folder);
    command.args(["--package", "wuji-cli", "--package", "wuji-bench"]);
    // The code is the same; what only debuggers read stays at home.
    command.env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    run(&mut command)?;

    let told = |what: &str, e: std::io::Error| format!("{what}: {e}");
    fs::create_dir_all(&out).map_err(|e| told("cannot make the bundle's folder", e))?;
    for program in PROGRAMS {
        let from = folder.join("release").join(program);
        let size =
            fs::copy(&from, out.join(program)).map_err(|e| told("cannot copy a program", e))?;
        println!("  {program}  {:.1} MB", size as f64 / 1e6);
    }
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(root().join(licence), out.join(licence))
            .map_err(|e| told("cannot copy a licence", e))?;
    }
    fs::write(out.join("README.txt"), README).map_err(|e| told("cannot write README.txt", e))?;
    try_out(&out)?;
    println!("the bundle is in {}", out.display());
    pack(&out)
}

/// The programs start where there is nothing but themselves: no environment, no folder of the workspace.
fn try_out(out: &Path) -> Outcome {
    let empty = target().join("bundle-try");
    let told = |e: std::io::Error| format!("cannot make an empty folder: {e}");
    fs::create_dir_all(&empty).map_err(told)?;
    for (program, words) in [
        ("wuji", &["doctor"][..]),
        ("wuji", &["example", "julia", "--frames", "2"]),
        ("wuji-bench", &["--help"]),
    ] {
        let mut command = Command::new(out.join(program));
        command.args(words).env_clear().current_dir(&empty);
        command.env("WUJI_CACHE", "off");
        let done = command.output();
        let done = done.map_err(|e| format!("`{}` does not start: {e}", spelled(&command)))?;
        if !done.status.success() {
            let why = String::from_utf8_lossy(&done.stderr);
            return Err(format!("`{}` has failed:\n{why}", spelled(&command)));
        }
    }
    fs::remove_dir_all(&empty).map_err(told)
}

/// One file of all, for those who have `tar` and `xz`.
fn pack(out: &Path) -> Outcome {
    if !on_path("tar") || !on_path("xz") {
        println!("there is no archive, for `tar` and `xz` are not both here");
        return Ok(());
    }
    let archive = out.with_extension("tar.xz");
    let (folder, name) = match (out.parent(), out.file_name()) {
        (Some(folder), Some(name)) => (folder, name),
        _ => return Err(format!("{} cannot be packed", out.display())),
    };
    let mut command = Command::new("tar");
    // LLVM is in both programs: a window that reaches from one to the other packs it once.
    let window = "--lzma2=preset=6,dict=192MiB";
    command.env("XZ_OPT", window).arg("-cJf").arg(&archive);
    run(command.arg("-C").arg(folder).arg(name))?;
    let bytes = fs::metadata(&archive)
        .map_err(|e| format!("cannot find the archive: {e}"))?
        .len();
    let shown = bytes as f64 / 1e6;
    println!("the archive is {} ({shown:.1} MB)", archive.display());
    if bytes > MOST_BYTES {
        let most = MOST_BYTES as f64 / 1e6;
        return Err(format!(
            "the archive has {shown:.1} MB, more than {most:.0} MB"
        ));
    }
    Ok(())
}
