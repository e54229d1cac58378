//! What passes know about a function without changing it.

pub mod affine;
pub mod cost;
pub mod effects;
pub mod entries;
pub mod uniformity;
