//! The applications of the paper as an expert writes them by hand: threads, vector instructions, explicit blocks.

pub mod conv;
pub mod fem;
pub mod lanes;
pub mod mgpcg;
pub mod mpm;
pub mod volume;
