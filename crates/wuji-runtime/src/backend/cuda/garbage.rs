//! Memory and code whose owners were dropped while kernels may still use them.
//!
//! Dropping never waits: a destructor cannot be interrupted. What is dropped during a launch is freed after it.

use std::any::Any;
use std::sync::{Mutex, PoisonError};

/// Something to free, and the report slots that are free with it.
#[derive(Debug)]
struct Dropped {
    resource: Box<dyn Resource>,
    slots: Vec<u64>,
}

/// Anything that frees itself when it is dropped.
pub(super) trait Resource: Any + Send + std::fmt::Debug {}

impl<T: Any + Send + std::fmt::Debug> Resource for T {}

#[derive(Debug, Default)]
pub(super) struct Garbage(Mutex<Vec<Dropped>>);

impl Garbage {
    pub(super) fn put(&self, resource: impl Resource, slots: Vec<u64>) {
        let resource = Box::new(resource);
        self.list().push(Dropped { resource, slots });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list().is_empty()
    }

    /// Frees what was dropped before this call if `is_idle` says that no kernel uses it. Returns the slots of that.
    pub(super) fn collect(&self, is_idle: impl FnOnce() -> bool) -> Vec<u64> {
        // Taken first: launches that use something came before its drop, so `is_idle` sees all of them.
        let mut dropped = std::mem::take(&mut *self.list());
        if dropped.is_empty() {
            return Vec::new();
        }
        if !is_idle() {
            self.list().append(&mut dropped);
            return Vec::new();
        }
        let mut slots = Vec::new();
        for Dropped {
            resource,
            slots: its,
        } in dropped
        {
            drop(resource);
            slots.extend(its);
        }
        slots
    }

    fn list(&self) -> std::sync::MutexGuard<'_, Vec<Dropped>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn nothing_is_freed_before_the_device_is_idle() {
        let (garbage, resource) = (Garbage::default(), Arc::new(()));
        garbage.put(resource.clone(), vec![7]);
        assert_eq!(garbage.collect(|| false), [0; 0]);
        assert_eq!(Arc::strong_count(&resource), 2);
        assert_eq!(garbage.collect(|| true), [7]);
        assert_eq!(Arc::strong_count(&resource), 1);
        assert!(garbage.is_empty());
    }
}
