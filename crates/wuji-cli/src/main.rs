//! The command `wuji`.

mod doctor;
mod example;
mod growing;
mod json;
mod profile;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Wuji: parallel kernels over sparse data, compiled while your program runs.
#[derive(Parser, Debug)]
#[command(
    name = "wuji",
    version,
    after_help = "\
Examples:
  wuji doctor                        what Wuji found on this machine
  wuji doctor --bench-compile        where the time goes when kernels are compiled
  wuji doctor --bench-compile --json the same for programs, one object a line
  wuji example                       the examples, one line each
  wuji example julia --open          runs one and opens its picture
"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Says what Wuji found on this machine, and how long it takes to compile here.
    ///
    /// Without options: the processor, its vectors, the number of threads and the version of LLVM. When a
    /// kernel is slow or does not compile, this is what to put into a report.
    Doctor(doctor::Doctor),
    /// Runs an example, which leaves a picture; without a name it lists them.
    ///
    /// Each example is a small program that is made to be read. `wuji example NAME --help` says what it is about and
    /// where its code is, `--view` shows it live in a window.
    Example(example::Example),
}

fn main() -> ExitCode {
    let done: Result<(), Box<dyn std::error::Error>> = match Cli::parse().command {
        Command::Doctor(doctor) => doctor.run().map_err(Into::into),
        Command::Example(example) => example.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn commands_are_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_teaches() {
        let help = Cli::command().render_long_help().to_string();
        assert!(help.contains("wuji doctor --bench-compile"), "{help}");
        let mut doctor = Cli::command();
        let doctor = doctor.find_subcommand_mut("doctor").unwrap();
        let help = doctor.render_long_help().to_string();
        assert!(
            help.contains("--bench-compile") && help.contains("--json"),
            "{help}"
        );
    }
}
