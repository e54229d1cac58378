//! What runs kernels: one folder for each backend.

pub(crate) mod cpu;
pub mod cuda;
pub(crate) mod interpreter;
pub(crate) mod tasks;
