//! The memory of trees on a GPU: a plain allocation for a dense tree, [`SparseMemory`] for a sparse one.

use super::engine::CudaEngine;
use super::memory::DeviceBuffer;
use super::sparse::SparseMemory;
use crate::array::Owner;
use crate::memory::{DeviceMemory, Storage};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use wuji_ir::Result;
use wuji_ir::layout::{TreeData, TreeMemory};

#[derive(Debug)]
pub(crate) struct DeviceTree {
    engine: Arc<CudaEngine>,
    store: Mutex<Store>,
}

#[derive(Debug)]
enum Store {
    Dense(DeviceBuffer),
    Sparse(Box<SparseMemory>),
    Gone,
}

/// Bytes that are sent to the GPU, which then repeats them.
const FIRST_BYTES: usize = 1 << 12;

impl DeviceTree {
    pub(crate) fn new(
        engine: &Arc<CudaEngine>,
        tree: &TreeData,
        layout: &TreeMemory,
        limit: u64,
    ) -> Result<DeviceTree> {
        let store = if tree.is_sparse() {
            engine.reclaim()?;
            Store::Sparse(Box::new(SparseMemory::new(engine, tree, layout, limit)?))
        } else {
            return DeviceTree::plain(engine, layout.size);
        };
        Ok(DeviceTree {
            engine: engine.clone(),
            store: Mutex::new(store),
        })
    }

    /// Memory that is fully allocated and zero.
    pub(crate) fn plain(engine: &Arc<CudaEngine>, size: u64) -> Result<DeviceTree> {
        engine.reclaim()?;
        let buffer = engine.context().alloc(size.max(1))?;
        engine.zero(buffer.address(), buffer.bytes())?;
        Ok(DeviceTree {
            engine: engine.clone(),
            store: Mutex::new(Store::Dense(buffer)),
        })
    }

    fn store(&self) -> std::sync::MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its device address.
    pub(super) fn base(&self) -> u64 {
        match &*self.store() {
            Store::Dense(buffer) => buffer.address(),
            Store::Sparse(sparse) => sparse.base(),
            Store::Gone => 0,
        }
    }

    /// Repeats the first bytes at an offset, up to `bytes`.
    fn repeat(&self, at: usize, first: usize, bytes: usize) -> Result<()> {
        let start = self.base() + at as u64;
        let mut done = first as u64;
        while done > 0 && done < bytes as u64 {
            let more = done.min(bytes as u64 - done);
            self.engine.copy(start + done, start, more)?;
            done += more;
        }
        Ok(())
    }

    /// Provides pages for the cells that a launch may activate.
    pub(crate) fn before_launch(&self) -> Result<()> {
        match &mut *self.store() {
            Store::Sparse(sparse) => sparse.before_launch(&self.engine),
            Store::Dense(_) | Store::Gone => Ok(()),
        }
    }

    /// Requests the numbers of allocated cells.
    pub(crate) fn after_launch(&self) -> Result<()> {
        match &mut *self.store() {
            Store::Sparse(sparse) => sparse.after_launch(&self.engine),
            Store::Dense(_) | Store::Gone => Ok(()),
        }
    }

    /// Bytes of cells that were ever allocated, as far as the host knows.
    pub(crate) fn used(&self) -> u64 {
        match &*self.store() {
            Store::Sparse(sparse) => sparse.used(),
            Store::Dense(_) | Store::Gone => 0,
        }
    }
}

impl Storage for DeviceTree {
    fn device(&self) -> Option<&dyn DeviceMemory> {
        Some(self)
    }

    /// The host sends the first few bytes; the GPU repeats them.
    fn fill(&self, host: &mut [u8], at: usize, pattern: &[u8]) -> Result<()> {
        let bytes = host.len();
        if pattern.iter().all(|byte| *byte == 0) {
            return self.engine.zero(self.base() + at as u64, bytes as u64);
        }
        let first = pattern.repeat((FIRST_BYTES / pattern.len()).max(1));
        let first = &first[..first.len().min(bytes)];
        self.send(first, at)?;
        self.repeat(at, first.len(), bytes)
    }

    fn clear(&self) -> Result<()> {
        match &mut *self.store() {
            Store::Dense(buffer) => self.engine.zero(buffer.address(), buffer.bytes()),
            Store::Sparse(sparse) => sparse.clear(&self.engine),
            Store::Gone => Ok(()),
        }
    }

    fn release(&self) -> Result<()> {
        self.engine.wait()?;
        *self.store() = Store::Gone;
        Ok(())
    }
}

impl DeviceMemory for DeviceTree {
    fn owner(&self) -> Owner {
        Owner::Cuda(self.engine.context().info().ordinal as u32)
    }

    fn address(&self) -> u64 {
        self.base()
    }

    fn fetch(&self, bytes: &mut [u8], at: usize) -> Result<()> {
        self.engine.finish()?;
        self.engine.fetch(bytes, self.base() + at as u64)
    }

    fn send(&self, bytes: &[u8], at: usize) -> Result<()> {
        self.engine.send(self.base() + at as u64, bytes)
    }

    fn copy_out(&self, range: Range<usize>, to: u64) -> Result<()> {
        let from = self.base() + range.start as u64;
        self.engine.copy(to, from, range.len() as u64)
    }

    fn copy_in(&self, from: u64, range: Range<usize>) -> Result<()> {
        let to = self.base() + range.start as u64;
        self.engine.copy(to, from, range.len() as u64)
    }
}

impl Drop for DeviceTree {
    fn drop(&mut self) {
        // Kernels may still use it.
        let store = std::mem::replace(&mut *self.store(), Store::Gone);
        self.engine.free(store, Vec::new());
    }
}
