//! Bytes that count as used by a device.

use super::DeviceLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The share of one piece of memory in what its device uses. It ends with its owner.
#[derive(Debug)]
pub(crate) struct Usage {
    pub(super) lock: Arc<DeviceLock>,
    /// Of a sparse tree: what its cells have taken, and its root.
    counted: AtomicU64,
    /// What was there from the start.
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

    /// Sets how many bytes were taken beyond those from the start.
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
