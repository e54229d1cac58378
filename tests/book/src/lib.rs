//! The pages of the book, taken apart.
//!
//! | block | what the tests do with it |
//! |---|---|
//! | `rust` | compile and run it; it has to end well |
//! | `rust,no_run` | compile it |
//! | `rust,error` | run it; it ends with the error in the `text` block that follows |
//! | `rust,refused` | nothing: rustc refuses it, as `crates/wuji/tests/ui` says; only the page made from that has such blocks |
//! | `wir` | read and verify it |
//! | `wir,run` | also compile and launch it, with zeros for parameters |
//! | `wir,interpret` | also run it on the interpreter |
//! | `wir,lowered` | run it on the interpreter for lowered modules |
//! | `wir,pass=a+b` | have these passes change it |
//! | `python` | run by `python/tests/test_book.py`; it has to end well |
//! | `python,no_run` | compile it |
//! | `python,error` | run it; it ends with the error in the `text` block that follows |
//! | `text`, `sh`, `console`, `toml`, `json` | nothing, unless it follows one of those above |
//!
//! A `rust` block without `fn main` is the body of one that returns `wuji::Result<()>`, with the prelude
//! in scope. Lines that begin with `# ` are part of it and not shown. A `wir` block that a `text` block with an error follows ends with that error.

mod pages;

pub use pages::{Block, Page, pages, root};
