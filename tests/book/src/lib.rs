//! Parses the pages of the book.
//!
//! | block | what the tests do |
//! |---|---|
//! | `rust` | compile and run it; it must succeed |
//! | `rust,no_run` | compile it |
//! | `rust,error` | run it; it must fail with the error in the following `text` block |
//! | `rust,refused` | nothing: rustc rejects it, as `tests/ui` checks; only the page generated from there has such blocks |
//! | `wir` | parse and verify it |
//! | `wir,run` | also compile and launch it, with zeros for parameters |
//! | `wir,interpret` | also run it in the interpreter |
//! | `wir,lowered` | run it in the interpreter for lowered modules |
//! | `wir,pass=a+b` | run these passes |
//! | `wir,gradient` | differentiate it in reverse mode |
//! | `wir,tangent` | differentiate it in forward mode |
//! | `python` | `python/tests/test_book.py` runs it; it must succeed |
//! | `python,no_run` | compile it |
//! | `python,error` | run it; it must fail with the error in the following `text` block |
//! | `text`, `sh`, `console`, `toml`, `json` | nothing, unless it follows one of the above |
//!
//! A `rust` block without `fn main` is the body of a `main` that returns `wuji::Result<()>`, with the prelude in scope.
//! Lines that start with `# ` are compiled but not shown. A `wir` block that is followed by a `text` block with an error must fail with it.

#![allow(missing_docs, reason = "no crate depends on this one")]

mod pages;

pub use pages::{Block, Page, pages, root};
