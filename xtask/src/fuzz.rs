//! `cargo xtask fuzz`: runs random programs in the interpreter and as compiled code.

use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Outcome;
use crate::args::Args;
use crate::setup;
use crate::workspace::{program, run};

/// The fuzzer, without options.
fn command(llvm: &Path) -> Command {
    program(llvm, "fuzz", "dev")
}

pub(crate) fn fuzz(words: &[String]) -> Outcome {
    let mut args = Args::new(words);
    let seconds = args.number("--seconds")?.unwrap_or(60);
    let seed = args.number("--seed")?.unwrap_or_else(clock_seed);
    let rest = args.rest();
    let llvm = setup::setup()?;
    println!("seed {seed}, {seconds} seconds");
    run(command(&llvm)
        .args([
            "--seconds",
            &seconds.to_string(),
            "--seed",
            &seed.to_string(),
        ])
        .args(rest))
}

/// A six-digit seed from the clock.
fn clock_seed() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |time| u64::from(time.subsec_micros()))
}
