//! Memory usage of a device.

use super::DeviceLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The share of one piece of memory in the usage of its device. It ends with its owner.
#[derive(Debug)]
pub(crate) struct Usage {
    pub(super) lock: Arc<DeviceLock>,
    /// Of a sparse tree: its root and its allocated cells.
    counted: AtomicU64,
    /// The initial size.
    fixed: u64,
}

impl Usage {
    pub(crate) fn new(lock: &Arc<DeviceLock>, bytes: u64) -> Usage {
        lock.used.fetch_add(bytes, Ordering::Relaxed);
        Usage {
            lock: lock.clone(),
            counted: AtomicU64::new(bytes),
            fixed: bytes,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.counted.load(Ordering::Relaxed)
    }

    /// Sets the bytes allocated beyond the initial size.
    pub(crate) fn count(&self, bytes: u64) {
        let now = self.fixed.saturating_add(bytes);
        let before = self.counted.swap(now, Ordering::Relaxed);
        self.lock
            .used
            .fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }

    /// The memory was freed.
    pub(crate) fn end(&self) {
        let before = self.counted.swap(0, Ordering::Relaxed);
        self.lock.used.fetch_sub(before, Ordering::Relaxed);
    }
}

impl Drop for Usage {
    fn drop(&mut self) {
        self.end();
    }
}
