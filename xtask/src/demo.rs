//! `cargo xtask demo`: runs a simulation of the gallery.

use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::args::Args;
use crate::setup;
use crate::workspace::{program, run, target};

pub(crate) fn demo(words: &[String]) -> Outcome {
    let mut args = Args::new(words);
    let frames = args.number("--frames")?;
    let view = args.flag("--view");
    let out = args
        .value("--out")?
        .map_or_else(|| target().join("demo"), absolute);
    args.finish("demo")?;
    let llvm = setup::setup()?;

    let mut command = program(&llvm, "gallery", "release");
    command.arg("mpm88").arg("--out").arg(&out);
    if let Some(frames) = frames {
        command.args(["--frames", &frames.to_string()]);
    }
    if view {
        command.arg("--view");
    }
    run(&mut command)
}

/// Resolves a path relative to the current directory, not to the workspace.
pub(crate) fn absolute(path: String) -> PathBuf {
    match std::env::current_dir() {
        Ok(here) => here.join(path),
        Err(_) => Path::new(&path).to_path_buf(),
    }
}
