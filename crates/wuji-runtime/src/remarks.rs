//! Remarks about the parallel loops of kernels.

use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};
use wuji_compile::Remark;

/// The remarks of one kernel, computed lazily.
pub(crate) struct Remarks {
    known: OnceLock<Vec<Remark>>,
    /// Computes them, unless that has become impossible.
    find: Option<Box<dyn Fn() -> Option<Vec<Remark>> + Send + Sync>>,
    /// Remarks about measurements, at most one for each task.
    measured: Mutex<Vec<Remark>>,
}

impl fmt::Debug for Remarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Remarks").field(&self.known).finish()
    }
}

impl Remarks {
    pub(crate) fn known(remarks: Vec<Remark>) -> Remarks {
        Remarks {
            known: OnceLock::from(remarks),
            find: None,
            measured: Mutex::default(),
        }
    }

    /// For code that may never be compiled: they are computed on demand.
    pub(crate) fn later(find: impl Fn() -> Option<Vec<Remark>> + Send + Sync + 'static) -> Remarks {
        Remarks {
            known: OnceLock::new(),
            find: Some(Box::new(find)),
            measured: Mutex::default(),
        }
    }

    /// The remarks. Runs the passes that produce them if necessary.
    pub(crate) fn get(&self) -> Vec<Remark> {
        if self.known.get().is_none()
            && let Some(found) = self.find.as_ref().and_then(|find| find())
        {
            self.set(&found);
        }
        let mut all = self.known.get().cloned().unwrap_or_default();
        let measured = self.measured.lock();
        all.extend_from_slice(&measured.unwrap_or_else(PoisonError::into_inner));
        all
    }

    /// Adds a remark about a measurement, in place of an earlier one about the same task.
    pub(crate) fn add_measured(&self, remark: Remark) {
        let mut all = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|r| r.task != remark.task);
        all.push(remark);
    }

    pub(crate) fn set(&self, remarks: &[Remark]) {
        // A second caller has computed the same.
        let _ = self.known.set(remarks.to_vec());
    }
}
