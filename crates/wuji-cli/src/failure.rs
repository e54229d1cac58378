//! How commands fail, and what the shell is told.

use crate::paint::Paint;
use clap::CommandFactory;
use clap::error::ErrorKind;
use std::io::{self, Write};
use std::process::ExitCode;
use wuji_ir::Error;

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The thing has failed: exit code 1.
    Failed(Error),
    /// Nobody can do what was asked: exit code 2.
    Usage(Error),
    /// Wrong usage that clap tells: exit code 2.
    Arguments(clap::Error),
    /// The output cannot be written. Somebody who has read enough (`| head`) is no failure.
    Output(io::Error),
    /// The thing has failed, and everything about it was said.
    Told,
}

pub(crate) type Done<T = ()> = Result<T, Failure>;

impl From<Error> for Failure {
    /// Passes and vectors that do not exist were asked for, everything else was tried.
    fn from(error: Error) -> Failure {
        match error.code {
            "W0115" | "W0300" | "W0301" | "W0303" => Failure::Usage(error),
            _ => Failure::Failed(error),
        }
    }
}

impl From<Box<dyn std::error::Error>> for Failure {
    /// What examples fail with, as programs do.
    fn from(error: Box<dyn std::error::Error>) -> Failure {
        let error = match error.downcast::<Error>() {
            Ok(error) => return Failure::from(*error),
            Err(error) => error,
        };
        match error.downcast::<io::Error>() {
            Ok(error) => Failure::Output(*error),
            Err(error) => {
                say(&format!("error: {error}"));
                Failure::Told
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
        // So that it knows its whole name.
        cli.build();
        let error = match cli.find_subcommand_mut(command) {
            Some(command) => command.error(kind, why),
            None => cli.error(kind, why),
        };
        Failure::Arguments(error)
    }

    /// Says it, and what the process ends with.
    pub(crate) fn exit(self) -> ExitCode {
        match self {
            Failure::Failed(error) => {
                tell(&error);
                ExitCode::from(1)
            }
            Failure::Usage(error) => {
                tell(&error);
                ExitCode::from(2)
            }
            Failure::Arguments(error) => {
                // Nobody is left to hear that the error could not be told.
                let _ = error.print();
                ExitCode::from(2)
            }
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                ExitCode::SUCCESS
            }
            Failure::Output(error) => {
                let error = Error::new("W0515", "cannot write the output").note(error.to_string());
                tell(&error);
                ExitCode::from(1)
            }
            Failure::Told => ExitCode::from(1),
        }
    }
}

/// Puts an error on the standard error output.
pub(crate) fn tell(error: &Error) {
    say(&Paint::for_errors().error(&error.to_string()));
}

/// Puts a line on the standard error output.
pub(crate) fn say(text: &str) {
    // As above.
    let _ = writeln!(io::stderr(), "{text}");
}
