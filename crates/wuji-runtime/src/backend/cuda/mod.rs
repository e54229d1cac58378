//! NVIDIA devices, by the driver's own interface.
//!
//! Wuji neither needs CUDA to be built nor a device to run: the driver's library is opened when the first CUDA world is
//! made. What is here is thin: handles that give back what they hold, calls that say in our words what went wrong.
//!
//! - `library`: the functions of the driver, and where its library is looked for
//! - `error`: W0520 to W0524; after a fault of the device nothing is called any more
//! - `context`: devices; every call makes its context the thread's current one, and puts back what was there
//! - `memory`, `module`, `stream`, `staging`, `graph`: what a device has
//! - `functions`: where NVIDIA's library of mathematical functions is looked for
//! - `engine`, `backlog`, `tree`, `code`, `launch`, `captured`: what a world makes of them
//! - `check`: tries all of it on a device (`wuji doctor --gpu-check`)

pub mod captured;
mod check;
pub(crate) mod code;
pub(crate) mod context;
pub(crate) mod engine;
mod error;
mod functions;
pub(crate) mod graph;
pub(crate) mod launch;
mod library;
pub(crate) mod load;
pub mod measure;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod pending;
mod staging;
pub(crate) mod stream;
pub(crate) mod tree;

pub use check::check;
pub use context::{DeviceInfo, devices};
pub use functions::LibdeviceChoice;
pub use library::Driver;
