//! The backend's data of a piece of memory.

use super::transfer::repeat;
use crate::array::Owner;
use std::any::Any;
use std::fmt;
use std::ops::Range;
use wuji_ir::Result;

/// The backend's data of one [`Memory`](super::Memory), besides the bytes on the host.
///
/// Kernels of most backends access the bytes on the host, and the defaults suffice. A backend with its own memory
/// returns a [`DeviceMemory`], and the bytes on the host are a copy of it. All calls hold the device lock.
pub trait Storage: Any + fmt::Debug + Send + Sync {
    /// The memory that kernels access, if it is not the host's.
    fn device(&self) -> Option<&dyn DeviceMemory> {
        None
    }

    /// Repeats a pattern from an offset on. `host` are the corresponding bytes on the host.
    fn fill(&self, host: &mut [u8], at: usize, pattern: &[u8]) -> Result<()> {
        let _ = at;
        repeat(host, pattern);
        Ok(())
    }

    /// Clears all bytes. Those on the host are cleared already, if kernels access them.
    fn clear(&self) -> Result<()> {
        Ok(())
    }

    /// Frees its resources. No launch uses the memory afterwards.
    fn release(&self) -> Result<()> {
        Ok(())
    }
}

/// Memory on a device.
pub trait DeviceMemory: fmt::Debug + Send + Sync {
    /// Which device has allocated it.
    fn owner(&self) -> Owner;

    /// Its address for kernels.
    fn address(&self) -> u64;

    /// Copies bytes from an offset to the host, after all pending launches. Returns their errors.
    fn fetch(&self, bytes: &mut [u8], at: usize) -> Result<()>;

    /// Copies bytes from the host to an offset.
    fn send(&self, bytes: &[u8], at: usize) -> Result<()>;

    /// Copies a range to another address of the same device.
    fn copy_out(&self, range: Range<usize>, to: u64) -> Result<()>;

    /// Copies from another address of the same device to a range.
    fn copy_in(&self, from: u64, range: Range<usize>) -> Result<()>;
}

/// Storage of a backend that only needs the bytes on the host.
#[derive(Copy, Clone, Debug, Default)]
pub struct HostStorage;

impl Storage for HostStorage {}
