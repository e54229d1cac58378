//! Failures of commands and their exit codes.

use crate::paint::Paint;
use clap::CommandFactory;
use clap::error::ErrorKind;
use std::io::{self, Write};
use std::process::ExitCode;
use wuji_ir::Error;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The operation failed: exit code 1.
    Failed(Error),
    /// The request is invalid: exit code 2.
    Usage(Error),
    /// Wrong usage, reported by clap: exit code 2.
    Arguments(clap::Error),
    /// The output cannot be written. A closed pipe (`| head`) is not a failure.
    Output(io::Error),
    /// The operation failed and the error was already printed: exit code 1.
    Reported,
}

pub(crate) type Done<T = ()> = Result<T, Failure>;

impl From<Error> for Failure {
    /// Unknown passes, unsupported vector widths and searches that cannot start are usage errors; all other errors are failures.
    fn from(error: Error) -> Failure {
        match error.code {
            "W0115" | "W0160" | "W0300" | "W0301" | "W0303" => Failure::Usage(error),
            _ => Failure::Failed(error),
        }
    }
}

impl From<Box<dyn std::error::Error>> for Failure {
    /// Errors of examples.
    fn from(error: Box<dyn std::error::Error>) -> Failure {
        let error = match error.downcast::<Error>() {
            Ok(error) => return Failure::from(*error),
            Err(error) => error,
        };
        match error.downcast::<io::Error>() {
            Ok(error) => Failure::Output(*error),
            Err(error) => {
                print_line(&format!("error: {error}"));
                Failure::Reported
            }
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

impl Failure {
    /// Wrong usage of a command.
    pub(crate) fn usage(command: &str, kind: ErrorKind, why: &str) -> Failure {
        let mut cli = crate::Cli::command();
        // Completes the names of subcommands (`wuji opt`).
        cli.build();
        let error = match cli.find_subcommand_mut(command) {
            Some(command) => command.error(kind, why),
            None => cli.error(kind, why),
        };
        Failure::Arguments(error)
    }

    /// Prints the error and returns the exit code of the process.
    pub(crate) fn exit(self) -> ExitCode {
        match self {
            Failure::Failed(error) => {
                print_error(&error);
                ExitCode::from(1)
            }
            Failure::Usage(error) => {
                print_error(&error);
                ExitCode::from(2)
            }
            Failure::Arguments(error) => {
                // If standard error is closed, there is nowhere to report it.
                let _ = error.print();
                ExitCode::from(2)
            }
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                ExitCode::SUCCESS
            }
            Failure::Output(error) => {
                let error = Error::new("W0515", "cannot write the output").note(error.to_string());
                print_error(&error);
                ExitCode::from(1)
            }
            Failure::Reported => ExitCode::from(1),
        }
    }
}

/// Prints an error to standard error.
pub(crate) fn print_error(error: &Error) {
    print_line(&Paint::for_errors().error(&error.to_string()));
}

/// Prints a line to standard error.
pub(crate) fn print_line(text: &str) {
    // As above, there is nowhere to report a failure.
    let _ = writeln!(io::stderr(), "{text}");
}
