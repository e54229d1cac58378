//! The example gallery, the sparse applications of the 2019 paper, the differentiable simulators, the simulations with quantized storage, and their shared code.

pub mod apps;
pub mod differentiable;
pub mod gallery;
pub mod plain;
pub mod progress;
pub mod quantized;

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
