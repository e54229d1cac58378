//! Sparsity-specific code from expression trees.
//!
//! Numeric code that is generic over its scalar runs once on [symbols](Sym). The [trace](Trace) has everything that it computes. What
//! repeats in the trace becomes parallel loops over tables, which are compiled for the device of a world.
//!
//! Architecture invariant: this crate uses the public API of `wuji` and the IR; no other crate of the compiler knows it.

pub mod applications;
pub mod arena;
mod arrays;
mod bytes;
mod cache;
mod construct;
mod definite;
mod derivatives;
mod explain;
#[cfg(feature = "faer")]
mod faer;
mod file;
pub mod hash;
mod index;
#[cfg(feature = "nalgebra")]
mod nalgebra;
mod num;
pub mod op;
mod operators;
mod parallel;
pub mod pipeline;
mod program;
mod real;
mod recording;
mod sparse;
#[cfg(feature = "sprs")]
mod sprs;
mod sym;
mod trace;

pub use arrays::{Inputs, Number, Outputs, Shape, Symbols, Traced, Values};
pub use definite::{local_hessian, project_definite};
pub use derivatives::{gradient, hessian, jacobian};
pub use explain::{Explanation, GroupInfo};
pub use pipeline::Options;
pub use pipeline::simplify::Simplify;
pub use program::Program;
pub use real::Real;
pub use recording::Recorder;
pub use sparse::{Csc, Csr};
pub use sym::{Mask, Sym, block};
pub use trace::{Statistics, Trace};
