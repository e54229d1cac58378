//! The test suite of Wuji.

pub mod filetest;
pub mod fuzz;
pub mod semantics;
