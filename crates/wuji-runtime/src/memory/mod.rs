//! Memory of a device.
//!
//! [`Memory`] is the handle that the host and launches share. Its parts:
//!
//! - `mapping`: the bytes on the host
//! - `storage`: data of the backend, such as the memory of a GPU
//! - `usage`, `limit`: used memory, and the limit
//! - `lock`: the lock that serializes launches and accesses of the host
//! - `guard`, `transfer`, `fields`: accesses of the host

mod fields;
mod guard;
mod host;
mod limit;
mod lock;
mod mapping;
pub(crate) mod packed;
mod storage;
mod transfer;
mod usage;

pub(crate) use fields::{read_field, read_scalar, write_field};
pub use guard::MemoryGuard;
pub use host::HostBytes;
pub(crate) use limit::MemoryLimit;
pub(crate) use lock::{DeviceGuard, DeviceLock};
pub(crate) use mapping::Mapping;
pub use storage::{DeviceMemory, HostStorage, Storage};
pub use transfer::{Way, repeat};
pub(crate) use usage::Usage;

use crate::array::Owner;
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use wuji_ir::layout::{TreeData, TreeMemory};
use wuji_ir::{Error, Result};

/// Zeroed bytes of a device; freed on drop.
///
/// Access to the bytes needs the device lock: one thread holds it at a time, or the tasks of a launch, whose accesses
/// race only as `docs/ir.md` allows.
#[derive(Debug)]
pub struct Memory {
    usage: Usage,
    mapping: Mapping,
    /// Freed early: the addresses stay reserved, but no launch uses them.
    released: AtomicBool,
    /// Names of the fields of the tree, in order, for reports of pending launches.
    names: OnceLock<Arc<[String]>>,
    storage: Box<dyn Storage>,
}

impl Memory {
    /// Memory for a tree. A sparse tree reserves a large range of addresses, most of it untouched.
    pub(crate) fn for_tree(
        lock: &Arc<DeviceLock>,
        tree: &TreeData,
        layout: &TreeMemory,
        storage: Box<dyn Storage>,
    ) -> Result<Memory> {
        if !tree.is_sparse() {
            return Memory::plain(lock, layout.size, storage);
        }
        let root = layout.cell_size[tree.root()];
        let memory = Memory::new(lock, layout.size, root, storage)?;
        if !memory.is_on_device() {
            memory.mapping.advise_arenas(layout);
        }
        Ok(memory)
    }

    /// Memory whose bytes all count as used.
    pub(crate) fn plain(
        lock: &Arc<DeviceLock>,
        size: u64,
        storage: Box<dyn Storage>,
    ) -> Result<Memory> {
        Memory::new(lock, size, size, storage)
    }

    fn new(
        lock: &Arc<DeviceLock>,
        size: u64,
        used: u64,
        storage: Box<dyn Storage>,
    ) -> Result<Memory> {
        let mapping = Mapping::new(size)?;
        Ok(Memory {
            usage: Usage::new(lock, used),
            mapping,
            released: AtomicBool::new(false),
            names: OnceLock::new(),
            storage,
        })
    }

    /// The backend's data. An error if another backend has allocated it.
    pub fn storage<S: Storage>(&self) -> Result<&S> {
        self.storage_if()
            .ok_or_else(|| Error::new("W0118", "memory of another backend is used"))
    }

    /// The same; `None` if another backend has allocated it.
    pub(crate) fn storage_if<S: Storage>(&self) -> Option<&S> {
        (&*self.storage as &dyn Any).downcast_ref()
    }

    /// Whether kernels access it on a device, so that the host has to fetch bytes before it reads them.
    pub fn is_on_device(&self) -> bool {
        self.storage.device().is_some()
    }

    /// The size in bytes.
    pub fn size(&self) -> usize {
        self.mapping.size()
    }

    /// Bytes that count as used: of a sparse tree, only the allocated cells.
    pub fn used(&self) -> u64 {
        self.usage.bytes()
    }

    /// Sets the bytes that a sparse tree has allocated beyond its root.
    pub fn count(&self, bytes: u64) {
        self.usage.count(bytes);
    }

    /// Frees the memory now, after the launches that use it. Later launches are refused.
    pub fn release(&self) -> Result<()> {
        let mut guard = self.lock()?;
        if self.released.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        if !self.is_on_device() {
            let _ = guard.clear();
        }
        // A failed device frees nothing any more.
        let _ = self.storage.release();
        // SAFETY: the guard holds the lock, and there is no slice of its bytes.
        unsafe { self.mapping.discard() };
        self.usage.end();
        Ok(())
    }

    /// Whether the memory was freed.
    pub fn is_released(&self) -> bool {
        self.released.load(Ordering::Relaxed)
    }

    /// Its owner and address for kernels.
    pub fn place(&self) -> (Owner, *mut u8) {
        match self.storage.device() {
            None => (Owner::Host, self.base()),
            Some(device) => (device.owner(), device.address() as usize as *mut u8),
        }
    }

    /// Waits for launches to finish, and blocks new ones while the guard lives.
    pub fn lock(&self) -> Result<MemoryGuard<'_>> {
        Ok(MemoryGuard {
            memory: self,
            held: Some(self.device_lock().take()?),
        })
    }

    /// Sets the names of the fields of the tree.
    pub fn set_names(&self, names: &[String]) {
        // The names do not change, so the first ones suffice.
        let _ = self.names.set(names.into());
    }

    /// Whether its fields have these names.
    pub(crate) fn has_names(&self, names: &Option<Arc<[String]>>) -> bool {
        match (self.names.get(), names) {
            (None, None) => true,
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }

    pub(crate) fn names(&self) -> Option<Arc<[String]>> {
        self.names.get().cloned()
    }

    pub(crate) fn device_lock(&self) -> &Arc<DeviceLock> {
        &self.usage.lock
    }

    /// Whether this is memory of the device with this lock.
    pub(crate) fn belongs_to(&self, lock: &Arc<DeviceLock>) -> bool {
        Arc::ptr_eq(self.device_lock(), lock)
    }

    /// Reads a word. The caller holds the device lock and has checked the size of the tree.
    pub(crate) fn word(&self, offset: u64) -> u64 {
        // SAFETY: callers hold the lock and run no task at the same time.
        let bytes = unsafe { self.bytes_locked() };
        let at = offset as usize;
        let word = bytes.get(at..at.saturating_add(8));
        word.and_then(|w| w.try_into().ok())
            .map_or(0, u64::from_le_bytes)
    }

    pub(crate) fn set_word(&self, offset: u64, value: u64) {
        // SAFETY: as above.
        let bytes = unsafe { self.bytes_locked() };
        let at = offset as usize;
        if let Some(word) = bytes.get_mut(at..at.saturating_add(8)) {
            word.copy_from_slice(&value.to_le_bytes());
        }
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.mapping.base()
    }

    /// The bytes on the host, for callers that already hold the device lock.
    ///
    /// # Safety
    /// The caller holds the lock, and no other code accesses the bytes while the slice lives.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn bytes_locked(&self) -> &mut [u8] {
        // SAFETY: exclusive access is guaranteed by the caller.
        unsafe { self.mapping.bytes() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(lock: &Arc<DeviceLock>, size: u64) -> Result<Memory> {
        Memory::plain(lock, size, Box::new(HostStorage))
    }

    #[test]
    fn memory_is_zero_counted_and_freed() {
        let lock = Arc::new(DeviceLock::default());
        let memory = plain(&lock, 10_000_000).unwrap();
        assert_eq!(lock.used(), 10_000_000);
        let mut guard = memory.lock().unwrap();
        assert!(guard.bytes().iter().all(|b| *b == 0));
        guard.bytes_mut()[9_999_999] = 7;
        guard.clear().unwrap();
        assert_eq!(guard.bytes()[9_999_999], 0);
        drop(guard);
        drop(memory);
        assert_eq!(lock.used(), 0);
    }

    #[test]
    fn released_memory_counts_no_longer() {
        let lock = Arc::new(DeviceLock::default());
        let memory = plain(&lock, 10_000).unwrap();
        memory.lock().unwrap().bytes_mut()[17] = 7;
        assert!(!memory.is_released());
        memory.release().unwrap();
        memory.release().unwrap();
        assert!(memory.is_released());
        assert_eq!((lock.used(), memory.used()), (0, 0));
        assert_eq!(memory.lock().unwrap().bytes()[17], 0);
        drop(memory);
        assert_eq!(lock.used(), 0);
    }

    #[test]
    fn far_too_much_is_an_error() {
        let lock = Arc::new(DeviceLock::default());
        let error = plain(&lock, 1 << 61).unwrap_err();
        assert_eq!(error.code, "W0110");
        assert_eq!(error.message, "cannot reserve 2048.0 PiB of memory");
        assert_eq!(lock.used(), 0);
    }

    #[test]
    fn reserving_is_not_touching() {
        let lock = Arc::new(DeviceLock::default());
        let memory = plain(&lock, 1 << 40).unwrap();
        let mut guard = memory.lock().unwrap();
        guard.bytes_mut()[(1 << 40) - 1] = 1;
        assert_eq!(guard.bytes()[(1 << 40) - 1], 1);
    }
}
