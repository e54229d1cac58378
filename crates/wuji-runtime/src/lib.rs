//! Devices, memory, launches and the kernel cache of Wuji.
//!
//! There is no global state: two [`Device`]s are independent of each other.

#![allow(unsafe_code)]

pub mod address;
pub mod array;
pub mod backend;
pub mod cache;
pub mod callable;
pub mod components;
mod device;
mod flush;
mod guards;
pub mod instance;
mod interrupt;
pub mod launch;
pub mod log;
mod machine;
pub mod memory;
mod options;
mod overlap;
mod print_sink;
pub mod profile;
pub mod program;
mod progress;
mod remarks;
mod replay;
pub mod report;
mod sparse;
mod stack;
mod stop;
mod tier;

pub use backend::cpu::pool::{self, Pool};
pub use backend::{Backend, BackendKind, CodeTime, cuda};
pub use device::Device;
pub use instance::Instance;
pub use interrupt::{check as check_interrupt, compile_aside, compute_aside, with_poll};
pub use launch::{Bindings, Outcome};
pub use memory::{HostBytes, Memory, MemoryGuard};
pub use options::DeviceOptions;
pub use program::Program;
pub use progress::Progress;
pub use replay::Captured;
pub use report::{Collected, ReportContext};
pub use stop::{Interrupter, StopFlag};
pub use tier::Tier;
pub use wuji_llvm::before_exit;
