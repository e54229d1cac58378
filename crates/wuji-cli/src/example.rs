//! `wuji example`: the gallery of examples.

use crate::failure::Done;
use clap::Args;
use wuji_examples::gallery::Choice;

/// Which example, and how to run it; none lists them.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wuji example                    the examples, one line each
  wuji example julia              runs one, which leaves a picture
  wuji example julia --open       ... and opens it
  wuji example julia --help       what it is about, and what it can be told
")]
pub(crate) struct Example {
    #[command(flatten)]
    choice: Choice,
}

impl Example {
    pub(crate) fn run(&self) -> Done {
        Ok(self.choice.run()?)
    }
}
