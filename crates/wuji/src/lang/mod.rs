//! The kernel language: its types, and how a `#[kernel]` becomes IR.

pub mod matrix;
pub mod num;
pub mod vector;

pub use half::f16;
pub use matrix::*;
pub use num::{Float, Int, Num, Signed};
pub use vector::*;
