//! The CUDA driver, for tools that check or measure a GPU.
//!
//! Handles free their resources when dropped. Calls that could access invalid memory are `unsafe`. Kernels of worlds do
//! not need this module.

pub use super::context::{CudaContext, Entered};
pub use super::error::amount;
pub use super::graph::CudaGraph;
pub use super::library::Side;
pub use super::managed::Managed;
pub use super::memory::{DeviceBuffer, Pinned, Reserved};
pub use super::module::{CudaModule, Function, FunctionAttributes};
pub use super::stream::{CudaEvent, CudaStream, Rows};
