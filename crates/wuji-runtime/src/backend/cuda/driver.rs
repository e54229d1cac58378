//! The CUDA driver, for tools that check or measure a GPU.
//!
//! Handles free what they hold when they are dropped. Calls that could touch memory which is not there are `unsafe`. Kernels of worlds need none of
//! this.

pub use super::context::{CudaContext, Entered};
pub use super::error::amount;
pub use super::graph::CudaGraph;
pub use super::library::Side;
pub use super::memory::{DeviceBuffer, Pinned, Reserved};
pub use super::module::{CudaModule, Function, FunctionAttributes};
pub use super::stream::{CudaEvent, CudaStream, Rows};
