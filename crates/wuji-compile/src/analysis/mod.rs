//! Analyses, which do not change the function.

pub mod accumulators;
pub mod affine;
pub mod boundaries;
pub mod calls;
pub mod cost;
pub mod dependence;
pub mod effects;
pub mod entries;
pub mod independence;
pub mod launch_bound;
pub mod loop_ranges;
pub mod merging;
pub mod ownership;
pub mod serial_loops;
pub(crate) mod sums;
pub mod uniformity;
pub mod uses;
