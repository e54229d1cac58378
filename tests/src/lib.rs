//! The test suite of Wuji.

pub mod filetest;
pub mod fuzz;
mod seen;
pub mod semantics;
