//! NVIDIA devices, by the driver's own interface.
//!
//! Wuji neither needs CUDA to be built nor a device to run: the driver's library is opened when the first CUDA world is
//! made. The lower half is thin: handles that free what they hold, and calls that translate errors.
//!
//! - `library`: the functions of the driver, and where its library is looked for
//! - `error`: W0520 to W0524; after a fault of the device nothing is called any more
//! - `context`: devices; every call makes its context the thread's current one, and puts back what was there
//! - `memory`, `module`, `stream`, `staging`, `graph`: what a device has
//! - `functions`: where NVIDIA's library of mathematical functions is looked for
//! - `engine`, `pending`: the stream of a device and its pending launches
//! - `backend`, `load`, `program`, `tree`, `launch`, `captured`: the backend
//! - `driver`: the lower half for tools

mod backend;
mod captured;
mod context;
pub mod driver;
mod engine;
mod error;
mod functions;
mod graph;
pub(crate) mod launch;
mod library;
pub(crate) mod load;
mod memory;
mod module;
mod pending;
mod program;
mod staging;
mod stream;
mod tree;

pub(crate) use backend::CudaBackend;
pub use context::{DeviceInfo, devices};
pub use functions::LibdeviceChoice;
pub use library::Driver;
