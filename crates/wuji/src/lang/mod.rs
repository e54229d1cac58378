//! The kernel language: its types, and how a `#[kernel]` becomes IR.
//!
//! A call of a kernel goes through these steps:
//!
//! 1. The expansion binds each argument: `let mut call = launch::Call::new(name, key); call.arg(x); ...`,
//!    where `key` is a `TypeId` that tells instances of kernels apart (their type and const arguments
//!    included; captured constants follow from those), and `call.arg(impl KernelArg)`.
//! 2. `call.run::<R>(&|| -> Recording)` looks for code by the key and by what the arguments are
//!    specialised for. Only when there is none, it makes the [`Recording`](recording::Recording), fills a
//!    module with structs, trees, fields and arrays, and calls
//!    `lang::lower(&recording, &bounds, module)` for the unlowered kernel.

#[doc(hidden)]
pub mod ast;
mod builtin;
mod library;
pub mod lower;
mod math;
mod matrix;
mod num;
#[doc(hidden)]
pub mod private;
mod record;
#[doc(hidden)]
pub mod recording;
mod shadow;
mod vector;

pub use half::f16;
pub use library::random_normal;
pub use lower::lower;
pub use math::{
    Mix, Ordered, Random, RandomRange, clamp, max, min, mix, random, random_range, select,
};
pub use matrix::*;
pub use num::{Float, Int, Num, Signed};
pub use shadow::{Grid, block_size, grid, serial, unroll};
pub use vector::*;
