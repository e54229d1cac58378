//! The gallery as a command: each example is a subcommand with its own help.

use super::{ALL, Example, Options, Outcome, list, perform};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use std::io::{self, Write};
use std::path::Path;
use std::process::Stdio;

/// The selected example and its options; `None` lists all examples.
#[derive(Clone, Debug)]
pub struct Choice(Option<(&'static Example, Options)>);

impl Choice {
    /// Runs the example, or lists them all.
    pub fn run(&self) -> Outcome {
        let Some((example, options)) = &self.0 else {
            write!(io::stdout(), "{}", list())?;
            return Ok(());
        };
        let report = perform(example, options)?;
        for file in &report.files {
            writeln!(io::stdout(), "wrote {}", file.display())?;
        }
        writeln!(io::stdout(), "{}", report.summary)?;
        if options.open {
            let picture = report
                .files
                .last()
                .ok_or("nothing was recorded: --view records only with --out")?;
            open(picture)?;
        }
        Ok(())
    }
}

/// Opens a file in the default application of the desktop.
fn open(file: &Path) -> Outcome {
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let started = std::process::Command::new(opener)
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match started {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{opener} {}` failed ({status})", file.display()).into()),
        Err(error) => Err(format!("cannot open {}: `{opener}`: {error}", file.display()).into()),
    }
}

impl FromArgMatches for Choice {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Choice, clap::Error> {
        let Some((name, matches)) = matches.subcommand() else {
            return Ok(Choice(None));
        };
        let example = ALL.into_iter().find(|example| example.name == name);
        let options = Options::from_arg_matches(matches)?;
        Ok(Choice(example.map(|example| (example, options))))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Choice::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Choice {
    fn augment_args(command: Command) -> Command {
        let subcommand = |example: &'static Example| {
            // The options come first: they set a description, which is overridden here.
            Options::augment_args(Command::new(example.name))
                .about(example.about)
                .long_about(format!("{}\n\n{}", example.about, example.long))
                .after_help(example.details())
        };
        command
            .subcommand_value_name("NAME")
            .subcommand_help_heading("Examples")
            .disable_help_subcommand(true)
            .subcommands(ALL.map(subcommand))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Choice::augment_args(command)
    }
}
