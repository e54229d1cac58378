//! Runs the examples: `gallery` lists them, `gallery julia` runs one. Same as `wuji example`.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use wuji_examples::gallery::{Choice, Outcome, book};

/// Wuji examples: small programs that render pictures. Lists them without a name.
#[derive(Parser, Debug)]
#[command(name = "gallery", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    choice: Choice,
    /// Write the pictures of the book to this directory (docs/pictures).
    #[arg(long, value_name = "FOLDER")]
    book: Option<PathBuf>,
}

fn run(cli: &Cli) -> Outcome {
    let Some(folder) = &cli.book else {
        return cli.choice.run();
    };
    for file in book::pictures(folder)? {
        println!(
            "{} bytes  {}",
            std::fs::metadata(&file)?.len(),
            file.display()
        );
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
