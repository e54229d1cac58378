//! Devices, memory, launches and the kernel cache of Wuji.
//!
//! A [`Device`] owns nothing global: two of them live side by side in one process.

#![allow(unsafe_code)]

pub mod address;
pub mod array;
pub mod cache;
pub mod callable;
pub mod components;
mod copies;
pub mod cuda;
pub mod device;

pub mod instance;
mod interpreted;
pub mod launch;
mod load;
pub mod log;
mod machine;
pub mod memory;
pub mod pool;
mod print_sink;
pub mod profile;
pub mod program;
mod progress;
mod replay;
pub mod report;
pub mod script;
mod sparse;
mod stop;
pub mod tier;

pub use device::{Backend, Device, DeviceOptions};
pub use instance::Instance;
pub use launch::{Bindings, Outcome};
pub use memory::{Memory, MemoryGuard};
pub use pool::Pool;
pub use program::Program;
pub use progress::Progress;
pub use report::{Collected, Telling};
pub use stop::{Foreground, Interrupter};
pub use tier::{Tier, before_exit};
