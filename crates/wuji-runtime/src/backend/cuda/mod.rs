//! NVIDIA GPUs, through the CUDA driver API.
//!
//! Wuji needs neither CUDA to be built nor a device to run: the driver's library is opened when the first CUDA world is
//! created. The lower half is thin: handles that free their resources, and calls that translate errors.
//!
//! - `library`: the functions of the driver, and loading of its library
//! - `error`: W0520 to W0524; after a fatal failure the driver is not called any more
//! - `context`: devices; every call makes its context current, and restores the previous one
//! - `memory`, `managed`, `module`, `stream`, `staging`, `graph`: resources of a device
//! - `functions`: finds NVIDIA's `libdevice`
//! - `engine`, `pending`, `queue`: the stream of a device and its pending launches
//! - `garbage`: what was dropped while kernels may use it
//! - `backend`, `load`, `program`, `tree`, `sparse`, `budget`, `launch`, `captured`: the backend
//! - `driver`: the lower half for tools

mod backend;
mod budget;
mod captured;
mod context;
pub mod driver;
mod engine;
mod error;
mod functions;
mod garbage;
mod graph;
pub(crate) mod launch;
mod library;
pub(crate) mod load;
mod managed;
mod memory;
mod module;
mod pending;
mod program;
mod queue;
mod sparse;
mod staging;
mod stream;
mod tree;

pub(crate) use backend::CudaBackend;
pub use context::{DeviceInfo, devices};
pub use functions::LibdeviceChoice;
pub use library::Driver;
