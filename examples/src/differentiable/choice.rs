//! The simulators as a command: each is a subcommand with its own help.

use super::{ALL, Options, Outcome, Simulator, list, perform};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use std::io::{self, Write};

/// The selected simulator and its options; `None` lists all simulators.
#[derive(Clone, Debug)]
pub struct Choice(Option<(&'static Simulator, Options)>);

impl Choice {
    /// Runs the simulator, or lists them all.
    pub fn run(&self) -> Outcome {
        let Some((simulator, options)) = &self.0 else {
            write!(io::stdout(), "{}", list())?;
            return Ok(());
        };
        let results = perform(simulator, options)?;
        for file in &results.files {
            writeln!(io::stdout(), "wrote {}", file.display())?;
        }
        writeln!(io::stdout(), "{}", results.summary)?;
        Ok(())
    }
}

impl FromArgMatches for Choice {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Choice, clap::Error> {
        let Some((name, matches)) = matches.subcommand() else {
            return Ok(Choice(None));
        };
        let simulator = ALL.iter().find(|simulator| simulator.name == name);
        let options = Options::from_arg_matches(matches)?;
        Ok(Choice(simulator.map(|simulator| (*simulator, options))))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Choice::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Choice {
    fn augment_args(command: Command) -> Command {
        let subcommand = |simulator: &&'static Simulator| {
            // The options come first: they set a description, which is overridden here.
            Options::augment_args(Command::new(simulator.name))
                .about(simulator.about)
                .long_about(format!("{}\n\n{}", simulator.about, simulator.long))
                .after_help(simulator.details())
        };
        command
            .subcommand_value_name("NAME")
            .subcommand_help_heading("Simulators")
            .disable_help_subcommand(true)
            .subcommands(ALL.iter().map(subcommand))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Choice::augment_args(command)
    }
}
