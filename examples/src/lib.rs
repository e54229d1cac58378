//! The gallery of examples, the sparse applications of the 2019 paper, and what they share.

pub mod apps;
pub mod gallery;
pub mod plain;
pub mod progress;

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
