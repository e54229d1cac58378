//! The language of `; run:` lines: inputs and expected outputs of a launch of textual IR.
//!
//! `docs/ir.md` describes it under "Runs". A file lists its runs ([`runs`]). [`Start`] is the left side, prepared for
//! a module. [`Subject`] is a kernel on a device that runs from a start. [`check`] compares the outputs ([`Left`])
//! with the right side, and [`print_outputs`] prints them in the same language.

mod check;
pub mod elements;
mod items;
mod print;
mod read;
mod start;
mod subject;

pub use check::{Left, check, site_name};
pub use items::Items;
pub use print::print_outputs;
pub use read::{Entry, Run, ScriptTarget, Source, View, runs};
pub use start::{Bound, Start};
pub use subject::Subject;
