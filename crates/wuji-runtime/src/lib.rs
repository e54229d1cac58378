//! Devices, memory, launches and the kernel cache of Wuji.
//!
//! A [`Device`](device::Device) owns nothing global: two of them live side by side in one process.

#![allow(unsafe_code)]

pub mod callable;
pub mod components;
pub mod device;
pub mod memory;
pub mod pool;

pub use device::{Backend, Device, DeviceOptions};
pub use memory::{Memory, MemoryGuard};
pub use pool::Pool;
