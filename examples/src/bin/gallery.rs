//! Runs the examples: `gallery` lists them, `gallery julia` runs one. The command `wuji example` does the same.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use wuji_examples::gallery::{Choice, Outcome, book};

/// Examples of Wuji: small programs, each with a picture. Without a name they are listed.
#[derive(Parser, Debug)]
#[command(name = "gallery", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    choice: Choice,
    /// Makes the pictures of the book, in this folder: docs/pictures.
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
