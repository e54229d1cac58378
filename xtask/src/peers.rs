//! `cargo xtask peers`: benchmarks the applications against Taichi.

use std::process::Command;

use crate::Outcome;
use crate::setup;
use crate::workspace::{on_path, root, run};

pub(crate) fn peers(words: &[String]) -> Outcome {
    if !on_path("python3") {
        return Err("`peers` needs python3".to_string());
    }
    let llvm = setup::setup()?;
    let script = root().join("benches/peers/run.py");
    run(Command::new("python3")
        .arg(script)
        .args(words)
        .env("LLVM_SYS_221_PREFIX", llvm))
}
