//! `wuji example`: the example gallery.

use crate::failure::Done;
use clap::Args;
use wuji_examples::gallery::Choice;

/// The example to run, and its options; lists all examples without a name.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wuji example                    list the examples
  wuji example julia              run one, which writes an image or animation
  wuji example julia --open       ... and open it
  wuji example julia --help       describe it and its options
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
