//! Every Rust block of the book is compiled, and runs as the book says.

use crate::bless;
use std::fmt::Display;

/// How a block is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(dead_code)] // The book may do without some of them.
enum Kind {
    Run,
    Compile,
    Fail,
}

/// What a `main` ends with.
trait Ending {
    fn ending(self) -> Result<(), String>;
}

impl Ending for () {
    fn ending(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: Display> Ending for Result<(), E> {
    fn ending(self) -> Result<(), String> {
        self.map_err(|e| e.to_string())
    }
}

fn ending(end: impl Ending) -> Result<(), String> {
    end.ending()
}

/// Runs one block. `number` counts the blocks of its page; `source` is the file it was compiled from.
fn check_rust(
    page: &str,
    number: usize,
    source: &str,
    kind: Kind,
    run: fn() -> Result<(), String>,
) {
    let outcome = match kind {
        Kind::Compile => return,
        Kind::Run | Kind::Fail => run(),
    };
    match (kind, outcome) {
        (Kind::Fail, Ok(())) => panic!("{page}: nothing is wrong with block {number}\n{source}"),
        (Kind::Fail, Err(message)) => {
            bless::compare(page, number, &message.replace(source, "src/main.rs"));
        }
        (_, Ok(())) => {}
        (_, Err(message)) => panic!("{page}: block {number} fails\n{source}\n{message}"),
    }
}

include!(concat!(env!("OUT_DIR"), "/snippets.rs"));
