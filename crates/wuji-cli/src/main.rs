//! The command `wuji`.

mod cache;
mod completions;
mod doctor;
mod example;
mod explain;
mod failure;
mod growing;
mod input;
mod markdown;
mod opt;
mod options;
mod paint;
mod profile;
mod run;

use clap::{Parser, Subcommand};
use failure::Done;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

/// Wuji: parallel kernels over sparse data, compiled while your program runs.
#[derive(Parser, Debug)]
#[command(
    name = "wuji",
    version,
    after_help = "\
Examples:
  wuji doctor                     what Wuji found on this machine
  wuji explain W0401              what an error means
  wuji opt KERNEL.wir             what the compiler makes of a kernel in textual IR
  wuji run KERNEL.wir             launches it
  wuji example                    the examples, one line each
  wuji example julia --open       runs one and opens its picture
  wuji cache clear                removes compiled kernels from the disk

`wuji COMMAND --help` has more. A command that fails ends with 1, wrong usage with 2.
Colours are for terminals; NO_COLOR=1 switches them off.
"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Says what Wuji found on this machine, and how long it takes to compile here.
    ///
    /// Without options: the processor, its vectors, the number of threads, the version of LLVM, a GPU driver and the
    /// cache of kernels. When a kernel is slow or does not compile, this is what to put into a report.
    Doctor(doctor::Doctor),
    /// Takes a kernel in textual IR through the passes of the compiler, and prints what comes out.
    ///
    /// The result goes to the standard output and can be read again; times and counts go to the standard error
    /// output.
    Opt(opt::Opt),
    /// Launches a kernel in textual IR, and prints what it leaves.
    ///
    /// A file's own `; run:` lines say what to start from, and what has to be left; a difference is an error.
    Run(run::Run),
    /// Explains an error by its code.
    ///
    /// Every error has one, like `W0401`; the pages are those of the book.
    Explain(explain::Explain),
    /// Shows the cache of compiled kernels, or empties it.
    ///
    /// Programs keep machine code on disk, so that they need not compile again when they start again.
    Cache(cache::Cache),
    /// Runs an example, which leaves a picture; without a name it lists them.
    ///
    /// Each example is a small program that is made to be read. `wuji example NAME --help` says what it is about and
    /// where its code is, `--view` shows it live in a window.
    Example(example::Example),
    /// Prints a script that completes commands and options in a shell.
    Completions(completions::Completions),
}

impl Command {
    fn run(&self, out: &mut dyn Write) -> Done {
        match self {
            Command::Doctor(doctor) => doctor.run(out),
            Command::Opt(opt) => opt.run(out),
            Command::Run(run) => run.run(out),
            Command::Explain(explain) => explain.run(out),
            Command::Cache(cache) => cache.run(out),
            Command::Example(example) => example.run(),
            Command::Completions(completions) => completions.run(out),
        }
    }
}

fn main() -> ExitCode {
    let mut out = BufWriter::new(std::io::stdout());
    let done = Cli::parse().command.run(&mut out);
    // What there is of the output comes before the error.
    let written = out.flush();
    match done.and_then(|()| Ok(written?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.exit(),
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
        let mut cli = Cli::command();
        for command in cli.get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Examples"), "{help}");
        }
    }
}
