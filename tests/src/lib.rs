//! The test suite of Wuji.

#![allow(missing_docs, reason = "no crate depends on this one")]

pub mod filetest;
pub mod fuzz;
mod seen;
pub mod semantics;
