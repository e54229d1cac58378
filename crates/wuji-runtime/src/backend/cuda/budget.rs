//! The memory that the cells of all sparse trees of a device share.
//!
//! Kernels count the bytes of the cells that they allocate in one word of the device, and allocate no cells beyond the limit
//! in the other one. So several trees that grow at the same time, in kernels of several worlds, cannot exceed the memory of
//! the device, which the driver would hide by moving pages to the host.
//!
//! Only kernels write to the first word. The bytes of trees that were dropped or cleared stay in it, and are added to the
//! limit instead.

use super::context::CudaContext;
use super::engine::CudaEngine;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wuji_ir::Result;
use wuji_ir::layout::budget;

#[derive(Debug)]
pub(super) struct Budget {
    /// The address of the words.
    address: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    trees: u64,
    /// The free memory when there was no tree.
    usable: u64,
    /// Bytes of the trees' pages, as far as the host knows.
    resident: u64,
    /// Bytes of cells that do not exist any more.
    returned: u64,
    /// How often one of these has changed.
    version: u64,
}

/// The fraction of free memory that cells cannot use: the driver needs some for itself.
const KEPT_PART: u64 = 32;

impl Budget {
    pub(super) fn new(context: &Arc<CudaContext>) -> Result<Budget> {
        let words = context.alloc(budget::SIZE)?;
        let stream = context.stream()?;
        // SAFETY: the buffer is our own, and has this size.
        unsafe { stream.fill(words.address(), budget::SIZE, 0)? };
        stream.synchronize()?;
        let address = words.address();
        // As the context, it is kept until the process ends.
        std::mem::forget(words);
        Ok(Budget {
            address,
            state: Mutex::default(),
        })
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changing(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        state.version += 1;
        state
    }

    /// A tree is created.
    pub(super) fn enter(&self, context: &CudaContext) -> Result<()> {
        let (free, _) = context.free_memory()?;
        let mut state = self.changing();
        if state.trees == 0 {
            state.usable = free;
        }
        state.trees += 1;
        Ok(())
    }

    /// A tree with this many bytes of pages and of cells is dropped.
    pub(super) fn leave(&self, resident: u64, cells: u64) {
        let mut state = self.changing();
        state.trees = state.trees.saturating_sub(1);
        state.resident = state.resident.saturating_sub(resident);
        state.returned += cells;
    }

    /// A tree has more pages than before.
    pub(super) fn grown(&self, more: u64) {
        if more > 0 {
            self.changing().resident += more;
        }
    }

    /// This many bytes of cells were cleared.
    pub(super) fn cleared(&self, cells: u64) {
        self.changing().returned += cells;
    }

    /// Updates the limit if something has changed since the version that a tree knows. Returns the new version.
    pub(super) fn update(&self, engine: &CudaEngine, known: u64) -> Result<u64> {
        let state = self.state();
        if state.version == known {
            return Ok(known);
        }
        let (free, _) = engine.context().free_memory()?;
        // Some cells may have no pages yet; other libraries may have allocated memory since then.
        let bytes = (state.resident + free - free / KEPT_PART).min(state.usable);
        let limit = state.returned + bytes;
        engine.send(self.address() + budget::LIMIT, &limit.to_le_bytes())?;
        Ok(state.version)
    }
}
