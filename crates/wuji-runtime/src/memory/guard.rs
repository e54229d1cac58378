//! Access of the host to memory.

use super::{DeviceGuard, Memory};
use std::ops::Range;
use wuji_ir::Result;

/// The bytes of one [`Memory`], between launches.
#[derive(Debug)]
pub struct MemoryGuard<'a> {
    pub(super) memory: &'a Memory,
    /// Set until it is dropped.
    pub(super) held: Option<DeviceGuard<'a>>,
}

impl Drop for MemoryGuard<'_> {
    fn drop(&mut self) {
        // The receiver of a printed line may launch kernels.
        drop(self.held.take());
        self.memory.device_lock().print_sink.flush_later();
    }
}

impl MemoryGuard<'_> {
    /// Copies some of the bytes from the device to the host, if they are on a device. Returns errors of pending
    /// launches.
    pub fn fetch(&mut self, range: Range<usize>) -> Result<()> {
        match self.memory.storage.device() {
            Some(device) if !range.is_empty() => {
                device.fetch(&mut self.bytes_mut()[range.clone()], range.start)
            }
            _ => Ok(()),
        }
    }

    /// Copies some of the bytes from the host to the device, if they are on a device.
    pub fn send(&mut self, range: Range<usize>) -> Result<()> {
        match self.memory.storage.device() {
            Some(device) if !range.is_empty() => {
                device.send(&self.bytes()[range.clone()], range.start)
            }
            _ => Ok(()),
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: we hold the lock, and `&mut` access needs `&mut self`.
        unsafe { self.memory.bytes_locked() }
    }

    /// The bytes, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: we hold the lock, and `&mut self` makes this the only slice.
        unsafe { self.memory.bytes_locked() }
    }

    /// Clears all bytes. Large memory returns its pages to the system instead of being written to.
    pub fn clear(&mut self) -> Result<()> {
        self.memory.usage.count(0);
        if self.memory.storage.device().is_none() {
            // SAFETY: we hold the lock, and `&mut self` means that no slice lives.
            unsafe { self.memory.mapping.zero() };
        }
        self.memory.storage.clear()
    }
}
