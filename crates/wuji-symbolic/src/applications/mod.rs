//! The applications of *Sparsity-specific code optimization using expression trees* (Herholz et al., 2022), for any scalar.
//!
//! Tests, benchmarks and examples share them: on numbers they are the reference, on symbols they are traced. Each is written as one
//! would write it without tracing in mind; [`Real::block`](crate::Real::block) marks what belongs together.

pub mod arap;
pub mod cloth;
pub mod dirichlet;
pub mod expressions;
pub mod laplacian;
pub mod mesh;
mod vectors;
