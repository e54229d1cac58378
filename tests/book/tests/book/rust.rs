//! Compiles and runs every Rust block of the book, according to its attributes.

use crate::bless;
use std::fmt::Display;

/// The expected behaviour of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(dead_code)] // The book need not use all of them.
enum Kind {
    Run,
    Compile,
    Fail,
}

/// The result of a `main` function.
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
        (Kind::Fail, Ok(())) => panic!("{page}: block {number} should fail\n{source}"),
        (Kind::Fail, Err(message)) => {
            bless::compare(page, number, &message.replace(source, "src/main.rs"));
        }
        (_, Ok(())) => {}
        (_, Err(message)) => panic!("{page}: block {number} fails\n{source}\n{message}"),
    }
}

include!(concat!(env!("OUT_DIR"), "/snippets.rs"));
