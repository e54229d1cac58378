//! `wuji example`: the gallery of examples.

use clap::Args;
use std::error::Error;
use wuji_examples::gallery::Choice;

/// Which example, and how to run it; none lists them.
#[derive(Args, Debug)]
pub(crate) struct Example {
    #[command(flatten)]
    choice: Choice,
}

impl Example {
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        self.choice.run()
    }
}
