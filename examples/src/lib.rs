//! What the examples share: the applications of the paper, a canvas for particles, pictures and animations on disk, and a progress bar.

pub mod animation;
pub mod apps;
pub mod canvas;
pub mod picture;
pub mod plain;
pub mod progress;

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
