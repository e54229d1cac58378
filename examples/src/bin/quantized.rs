//! Runs the simulations with quantized storage: `quantized` lists them, `quantized mpm` runs one.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use wuji_examples::quantized::{ALL, Options, Outcome, book, list, perform, tune};

/// Simulations with fields of machine types and with packed fields: the same kernels, memory and time of both. Lists them without a name.
#[derive(Parser, Debug)]
#[command(
    name = "quantized",
    after_help = "\
Examples:
  quantized                               list the simulations, with their sizes
  quantized mpm                           run one; writes mpm.png
  quantized mpm --size 512 --cuda         ... at a large size, on a GPU
  quantized mpm --tune 1e-2 --size 16     choose the bits of its fields, for an error of the energies and the volume
"
)]
struct Cli {
    /// The simulation.
    name: Option<String>,
    #[command(flatten)]
    options: Options,
    /// Search the types with the least memory for this error; prints the Pareto front, and code.
    #[arg(long, value_name = "ERROR", requires = "name")]
    tune: Option<f64>,
    /// Write the pictures of the book that are missing to this directory (docs/pictures/quantized).
    #[arg(long, value_name = "FOLDER", conflicts_with = "name")]
    book: Option<PathBuf>,
}

fn run(cli: &Cli) -> Outcome {
    if let Some(folder) = &cli.book {
        for file in book::pictures(folder)? {
            println!("wrote {}", file.display());
        }
        return Ok(());
    }
    let Some(name) = &cli.name else {
        print!("{}", list());
        return Ok(());
    };
    let Some(simulation) = ALL.iter().find(|s| s.name == name) else {
        return Err(format!("there is no simulation `{name}`; there are:\n{}", list()).into());
    };
    if let Some(error) = cli.tune {
        print!("{}", tune(simulation, &cli.options, error)?);
        return Ok(());
    }
    let (report, file) = perform(simulation, &cli.options)?;
    print!("{}", report.text());
    println!("wrote {}", file.display());
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
