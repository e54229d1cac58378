//! What a backend keeps for a piece of memory.

use super::transfer::repeat;
use crate::array::Owner;
use std::any::Any;
use std::fmt;
use std::ops::Range;
use wuji_ir::Result;

/// What a backend keeps for one [`Memory`](super::Memory), beside the bytes of the host.
///
/// Kernels of most backends work on the bytes of the host: then the defaults do. A backend with memory of its own returns a
/// [`DeviceMemory`], and the bytes of the host are what the host has fetched of it. All calls hold the device lock.
pub trait Storage: Any + fmt::Debug + Send + Sync {
    /// The memory that kernels work on, if it is not that of the host.
    fn device(&self) -> Option<&dyn DeviceMemory> {
        None
    }

    /// Repeats a pattern from an offset on. `host` are the bytes of the host there.
    fn fill(&self, host: &mut [u8], at: usize, pattern: &[u8]) -> Result<()> {
        let _ = at;
        repeat(host, pattern);
        Ok(())
    }

    /// All bytes become zero. Those of the host already are, unless kernels do not work on them.
    fn clear(&self) -> Result<()> {
        Ok(())
    }

    /// Frees what it holds. No launch uses the memory afterwards.
    fn release(&self) -> Result<()> {
        Ok(())
    }
}

/// Memory that is not the host's.
pub trait DeviceMemory: fmt::Debug + Send + Sync {
    fn owner(&self) -> Owner;

    /// Its address for kernels.
    fn address(&self) -> u64;

    /// Copies bytes from an offset on to the host, after all pending launches. Their errors come out of this.
    fn fetch(&self, bytes: &mut [u8], at: usize) -> Result<()>;

    /// Copies bytes of the host to an offset.
    fn send(&self, bytes: &[u8], at: usize) -> Result<()>;

    /// Copies a range to another address of the same device.
    fn copy_out(&self, range: Range<usize>, to: u64) -> Result<()>;

    /// Copies from another address of the same device to a range.
    fn copy_in(&self, from: u64, range: Range<usize>) -> Result<()>;
}

/// Storage of a backend that needs nothing but the bytes of the host.
#[derive(Copy, Clone, Debug, Default)]
pub struct HostStorage;

impl Storage for HostStorage {}
