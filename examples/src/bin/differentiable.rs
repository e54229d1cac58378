//! Runs the differentiable simulators: `differentiable` lists them, `differentiable wave` runs one.

use clap::Parser;
use std::process::ExitCode;
use wuji_examples::differentiable::Choice;

/// Differentiable simulators: programs that reach a goal by the gradients of a simulation. Lists them without a name.
#[derive(Parser, Debug)]
#[command(
    name = "differentiable",
    after_help = "\
Examples:
  differentiable                          list the simulators
  differentiable wave                     optimize; writes wave.gif and wave.png, with a plot of the losses
  differentiable wave --iterations 10     ... for a shorter time
  differentiable wave --help              describe it, its goal and its options
"
)]
struct Cli {
    #[command(flatten)]
    choice: Choice,
}

fn main() -> ExitCode {
    match Cli::parse().choice.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
