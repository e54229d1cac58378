//! The CPU backend's data of a piece of memory.

use super::copies::Neutral;
use crate::memory::{Mapping, Memory, Storage, Usage};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wuji_ir::Result;

/// Copies of a tree for the workers from 1 on.
#[derive(Debug, Default)]
pub(crate) struct CpuStorage {
    copies: Mutex<Vec<TreeCopy>>,
}

/// A copy of a tree that one worker updates.
#[derive(Debug)]
pub(crate) struct TreeCopy {
    mapping: Mapping,
    _usage: Usage,
    /// Fields whose elements are all identities.
    pub(crate) neutral: Neutral,
}

impl TreeCopy {
    /// A copy of some memory, of which `touched` bytes will be used.
    pub(crate) fn new(of: &Memory, size: u64, touched: u64) -> Result<TreeCopy> {
        Ok(TreeCopy {
            mapping: Mapping::new(size)?,
            _usage: Usage::new(of.device_lock(), touched),
            neutral: Neutral::new(),
        })
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.mapping.base()
    }
}

impl CpuStorage {
    /// The caller holds the device lock.
    pub(crate) fn copies(&self) -> MutexGuard<'_, Vec<TreeCopy>> {
        let copies = self.copies.lock();
        copies.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for CpuStorage {
    fn release(&self) -> Result<()> {
        self.copies().clear();
        Ok(())
    }
}
