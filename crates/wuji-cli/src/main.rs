//! The Wuji command-line tool.

mod cache;
mod completions;
mod doctor;
mod example;
mod explain;
mod failure;
mod flow;
mod growing;
mod input;
mod markdown;
mod new;
mod opt;
mod options;
mod paint;
mod profile;
mod run;
mod tune;
mod tune_layout;

use clap::{Parser, Subcommand};
use failure::Done;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

/// Wuji: parallel kernels over dense and sparse fields, compiled at run time.
#[derive(Parser, Debug)]
#[command(
    name = "wuji",
    version,
    after_help = "\
Examples:
  wuji new waves                  create a project
  wuji doctor                     show what Wuji found on this machine
  wuji explain W0401              explain an error code
  wuji opt KERNEL.wir             compile a kernel in textual IR and print the result
  wuji run KERNEL.wir             launch it
  wuji flow A.wir B.wir           show how launches are optimized together
  wuji tune quant KERNEL.wir      choose the bits of its fields
  wuji example                    list the examples
  wuji example julia --open       run one and open its picture
  wuji cache clear                remove compiled kernels from disk

See `wuji COMMAND --help` for details. The exit code is 1 if a command fails and 2 for wrong usage.
Output is coloured on terminals; NO_COLOR=1 disables it.
"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Create a project that builds, runs and shows a picture.
    ///
    /// The project is a wave simulation: change it, or take its manifest for a program of your own.
    New(new::New),
    /// Show what Wuji found on this machine, and measure compile times.
    ///
    /// Without options: the processor, its vector width, the number of threads, the LLVM version, GPUs and the kernel
    /// cache. Include this output in bug reports.
    Doctor(doctor::Doctor),
    /// Run compiler passes on a kernel in textual IR and print the result.
    ///
    /// The result goes to standard output and can be parsed again; times and counts go to standard error.
    Opt(opt::Opt),
    /// Launch a kernel in textual IR and print its outputs.
    ///
    /// The `; run:` lines of the file contain inputs and expected outputs; a mismatch is an error.
    Run(run::Run),
    /// Show how a sequence of launches is optimized together, as in a lazy world.
    ///
    /// Kernels are split into tasks; the graph has an edge for each state that one task leaves to another. Tasks that were not
    /// fused come with the reason.
    Flow(flow::Flow),
    /// Choose the types of fields.
    ///
    /// Runs a kernel with other types of its fields, and finds those that need the least memory for an error.
    Tune(tune::Tune),
    /// Explain an error code.
    ///
    /// Every error has a code, such as `W0401`; the pages are those of the book.
    Explain(explain::Explain),
    /// Inspect or clear the kernel cache.
    ///
    /// Programs cache compiled kernels on disk, so that they do not compile them again at the next start.
    Cache(cache::Cache),
    /// Run an example, which writes an image or animation; list all without a name.
    ///
    /// Each example is a small program that is written to be read. `wuji example NAME --help` describes it and names
    /// its source file, `--view` shows it live in a window.
    Example(example::Example),
    /// Print a shell completion script.
    Completions(completions::Completions),
}

impl Command {
    fn run(&self, out: &mut dyn Write) -> Done {
        match self {
            Command::New(new) => new.run(out),
            Command::Doctor(doctor) => doctor.run(out),
            Command::Opt(opt) => opt.run(out),
            Command::Run(run) => run.run(out),
            Command::Flow(flow) => flow.run(out),
            Command::Tune(tune) => tune.run(out),
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
    // Flush the output before the error is printed.
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
    fn every_subcommand_has_examples_in_its_help() {
        let mut cli = Cli::command();
        for command in cli.get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Examples"), "{help}");
        }
    }
}
