//! Code that the tools and tests of Wuji share.
//!
//! - [`script`]: the language of `; run:` lines in textual IR
//! - [`gpu_check`]: tests the CUDA driver on a GPU (`wuji doctor --gpu-check`)
//! - [`gpu_measure`]: copies and hand-written kernels as references for benchmarks

// They call the CUDA driver.
#[allow(unsafe_code)]
pub mod gpu_check;
#[allow(unsafe_code)]
pub mod gpu_measure;
pub mod script;
