//! Closing a world, and the arrays that are freed with it.

use super::{World, lock};
use crate::dynamic::FreedWithWorld;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use wuji_ir::Result;

impl World {
    pub(crate) fn enter_array(&self, memory: &Arc<dyn FreedWithWorld>) {
        let mut arrays = lock(&self.inner.arrays);
        // Half of them at least are alive, so this costs little.
        if arrays.len() == arrays.capacity() {
            arrays.retain(|a| a.strong_count() > 0);
        }
        arrays.push(Arc::downgrade(memory));
    }

    /// The arrays that are alive.
    fn arrays(&self) -> Vec<Arc<dyn FreedWithWorld>> {
        let arrays = lock(&self.inner.arrays);
        arrays.iter().filter_map(Weak::upgrade).collect()
    }

    /// Closes the world, unless this thread gives up waiting for a launch that is under way. Then it can be called again.
    pub(crate) fn try_close(&self) -> Result<()> {
        // The results of launches that wait are unused.
        if let Some(lazy) = self.lazy() {
            lazy.discard();
        }
        // Launches and accesses that begin after this find it closed.
        self.inner.device.wait_for_launch()?;
        self.inner.closed.store(true, Ordering::Relaxed);
        self.inner.device.settle();
        for tree in self.trees() {
            tree.destroy()?;
        }
        for array in self.arrays() {
            array.release()?;
        }
        self.inner.device.close()?;
        let kernels = self.inner.kernels.write();
        kernels.unwrap_or_else(PoisonError::into_inner).clear();
        let services = self.inner.services.write();
        services.unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }
}
