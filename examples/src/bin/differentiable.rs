//! Runs the differentiable simulators: `differentiable` lists them, `differentiable wave` runs one.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use wuji_examples::differentiable::{Choice, Outcome, book};

/// Differentiable simulators: programs that reach a goal by the gradients of a simulation. Lists them without a name.
#[derive(Parser, Debug)]
#[command(
    name = "differentiable",
    args_conflicts_with_subcommands = true,
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
    /// Write the pictures of the book that are missing to this directory (docs/pictures/differentiable).
    #[arg(long, value_name = "FOLDER")]
    book: Option<PathBuf>,
}

fn run(cli: &Cli) -> Outcome {
    let Some(folder) = &cli.book else {
        return cli.choice.run();
    };
    for file in book::pictures(folder)? {
        println!("wrote {}", file.display());
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
