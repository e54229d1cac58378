//! The language of `; run:` lines: what a launch of textual IR starts from, and what it leaves.
//!
//! `docs/ir.md` describes it under "Runs". A file lists its runs ([`runs`]); [`Start`] is the left side made ready for a
//! module, [`Subject`] a kernel on a device that is run from one, [`check`] compares what is [`Left`] with the right side, and
//! [`tell`] writes it down in the same language.

mod check;
pub mod elements;
mod items;
mod read;
mod start;
mod subject;
mod tell;

pub use check::{Left, check, site_name};
pub use items::Items;
pub use read::{Entry, Run, ScriptTarget, Source, View, runs};
pub use start::{Bound, Start};
pub use subject::Subject;
pub use tell::tell;
