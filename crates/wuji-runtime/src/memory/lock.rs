//! The lock of a device.

use crate::print_sink::PrintSink;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Serializes all accesses to the memory of one device. A launch holds it from start to end; the host holds it while it
/// accesses bytes.
#[derive(Debug, Default)]
pub(crate) struct DeviceLock {
    launches: Mutex<u64>,
    /// Bytes of all live memory.
    pub(super) used: AtomicU64,
    /// Receives the lines that kernels print.
    pub(crate) print_sink: Arc<PrintSink>,
}

impl DeviceLock {
    pub(crate) fn new(print_sink: &Arc<PrintSink>) -> DeviceLock {
        DeviceLock {
            print_sink: print_sink.clone(),
            ..DeviceLock::default()
        }
    }

    /// Waits for the lock. The guarded number counts the launches so far.
    pub(crate) fn take(&self) -> MutexGuard<'_, u64> {
        // Memory is never left in an inconsistent state under the lock.
        self.launches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of all live memory.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}
