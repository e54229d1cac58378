//! `wuji completions`: shell completion scripts.

use crate::failure::Done;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::io::Write;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wuji completions bash > ~/.local/share/bash-completion/completions/wuji
  wuji completions zsh > ~/.zfunc/_wuji
  wuji completions fish > ~/.config/fish/completions/wuji.fish
")]
pub(crate) struct Completions {
    /// The shell to complete for.
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Done {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::Cli::command(), "wuji", &mut script);
        Ok(out.write_all(&script)?)
    }
}
