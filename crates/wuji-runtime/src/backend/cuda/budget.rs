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

/// What limits the cells of all trees.
#[derive(Debug, Default)]
struct State {
    trees: u64,
    /// The memory for cells: what was free before the first tree was created, and what was freed since then, less what was
    /// allocated. Not what is free now, because kernels access new pages at any time.
    usable: i64,
    /// Bytes of cells that do not exist any more.
    returned: i64,
    /// How often one of these has changed. A new tree knows version 0.
    version: u64,
}

/// The fraction of free memory that cells cannot use: the driver needs some for itself.
const KEPT_PART: u64 = 32;

impl State {
    fn created(&mut self, free: u64, fixed: u64) {
        if self.trees == 0 {
            self.usable = (free - free / KEPT_PART) as i64;
        }
        self.trees += 1;
        self.usable -= fixed as i64;
        self.version += 1;
    }

    fn dropped(&mut self, fixed: u64, cells: u64) {
        self.trees -= 1;
        self.usable += fixed as i64;
        self.cleared(cells);
    }

    fn cleared(&mut self, cells: u64) {
        self.returned += cells as i64;
        self.version += 1;
    }

    fn allocated(&mut self, bytes: i64) {
        self.usable -= bytes;
        self.version += 1;
    }

    /// How many bytes of cells can be allocated in all.
    fn limit(&self) -> u64 {
        (self.returned + self.usable.max(0)) as u64
    }
}

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

    /// A tree is created, which needs this many bytes beside its cells.
    pub(super) fn created(&self, context: &CudaContext, fixed: u64) -> Result<()> {
        let (free, _) = context.free_memory()?;
        self.state().created(free, fixed);
        Ok(())
    }

    /// A tree with this many bytes of cells is dropped.
    pub(super) fn dropped(&self, fixed: u64, cells: u64) {
        self.state().dropped(fixed, cells);
    }

    /// This many bytes of cells were cleared.
    pub(super) fn cleared(&self, cells: u64) {
        self.state().cleared(cells);
    }

    /// Other memory of the device was allocated.
    pub(super) fn allocated(&self, bytes: u64) {
        self.state().allocated(bytes as i64);
    }

    /// Other memory of the device was freed.
    pub(super) fn freed(&self, bytes: u64) {
        self.state().allocated(-(bytes as i64));
    }

    /// Updates the limit if something has changed since the version that a tree knows. Returns the new version.
    pub(super) fn update(&self, engine: &CudaEngine, known: u64) -> Result<u64> {
        let (limit, version) = {
            let state = self.state();
            (state.limit(), state.version)
        };
        if version != known {
            engine.send(self.address() + budget::LIMIT, &limit.to_le_bytes())?;
        }
        Ok(version)
    }
}

#[cfg(test)]
mod tests {
    use super::State;

    #[test]
    fn cells_share_what_was_free_before_the_first_tree() {
        let mut state = State::default();
        state.created(3200, 100);
        assert_eq!(state.limit(), 3000);
        // The free memory includes no pages of the first tree any more.
        state.created(50, 100);
        assert_eq!(state.limit(), 2900);
    }

    #[test]
    fn memory_of_other_fields_changes_the_limit() {
        let mut state = State::default();
        state.created(3200, 0);
        state.allocated(-500);
        assert_eq!(state.limit(), 3600);
        state.allocated(4000);
        assert_eq!(state.limit(), 0);
        assert_eq!(state.version, 3);
    }

    #[test]
    fn cells_that_do_not_exist_any_more_raise_the_limit() {
        let mut state = State::default();
        state.created(3200, 100);
        state.cleared(700);
        assert_eq!(state.limit(), 3700);
        state.dropped(100, 300);
        // Its pages are free again, but the device still counts 1000 bytes.
        state.created(1600, 50);
        assert_eq!(state.limit(), 1000 + 1500);
    }
}
