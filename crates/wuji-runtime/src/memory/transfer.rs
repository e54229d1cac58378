//! Copies between memory, and between memory and arrays.

use super::Memory;
use crate::array::ArrayArg;
use std::ops::Range;
use wuji_ir::{Error, Result};

/// Fills bytes with a repeated pattern, by doubling.
pub fn repeat(bytes: &mut [u8], pattern: &[u8]) {
    // The copied part stays in the cache.
    const MOST: usize = 1 << 15;
    let mut done = pattern.len().min(bytes.len());
    bytes[..done].copy_from_slice(&pattern[..done]);
    let most = (MOST / pattern.len().max(1)).max(1) * pattern.len();
    while done > 0 && done < bytes.len() {
        let more = done.min(most).min(bytes.len() - done);
        bytes.copy_within(..more, done);
        done += more;
    }
}

/// The direction of a copy between memory and an array.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Way {
    /// From a field to an array.
    ToArray,
    /// From an array to a field.
    FromArray,
}

impl Memory {
    /// Copies all bytes from other memory of the same device and size.
    pub fn copy_from(&self, other: &Memory) -> Result<()> {
        if !self.is_near(other) || self.size() != other.size() {
            return Err(Error::new(
                "W0118",
                "memory is copied to that of another device",
            ));
        }
        if std::ptr::eq(self, other) {
            return Ok(());
        }
        let mut guard = self.lock()?;
        if let (Some(to), Some(from)) = (self.storage.device(), other.storage.device()) {
            return to.copy_in(from.address(), 0..self.size());
        }
        // SAFETY: both have the lock that we hold, and they are different memory.
        let from = unsafe { other.bytes_locked() };
        guard.bytes_mut().copy_from_slice(from);
        Ok(())
    }

    /// Whether other memory is on the same device.
    pub fn is_near(&self, other: &Memory) -> bool {
        self.belongs_to(other.device_lock())
    }

    /// Copies some bytes from other memory of the same device. Both are on a GPU, not on the host.
    pub fn copy_part(&self, at: usize, other: &Memory, range: Range<usize>) -> Result<()> {
        let inside = range.end <= other.size() && at.saturating_add(range.len()) <= self.size();
        let (Some(to), Some(from)) = (self.storage.device(), other.storage.device()) else {
            return Err(Error::new("W0118", "memory is not that of a GPU"));
        };
        if !self.is_near(other) || !inside {
            let what = "memory is copied to that of another device, or beyond its end";
            return Err(Error::new("W0118", what));
        }
        let _guard = self.lock()?;
        let (start, end) = (from.address() + range.start as u64, at + range.len());
        to.copy_in(start, at..end)
    }

    /// Copies bytes on a device to or from a contiguous array there. Returns `false` if it cannot: if either is
    /// elsewhere, or if their sizes differ.
    pub fn exchange(&self, range: Range<usize>, array: &ArrayArg<'_>, way: Way) -> Result<bool> {
        let here = self.storage.device();
        let Some(here) = here.filter(|_| range.end <= self.size()) else {
            return Ok(false);
        };
        let span = array.span().filter(|_| array.is_contiguous());
        let same = span.is_some_and(|(low, high)| high - low == range.len());
        let Some((there, _)) = span.filter(|_| same && array.owner() == here.owner()) else {
            return Ok(false);
        };
        let _guard = self.lock()?;
        match way {
            Way::ToArray if !array.is_writable() => return Ok(false),
            Way::ToArray => here.copy_out(range, there as u64)?,
            Way::FromArray => here.copy_in(there as u64, range)?,
        }
        Ok(true)
    }

    /// Fills a range of bytes with a repeated pattern.
    pub fn fill(&self, range: Range<usize>, pattern: &[u8]) -> Result<()> {
        let Some(room) = self.size().checked_sub(range.start) else {
            return Ok(());
        };
        let bytes = range.len().min(room);
        if bytes == 0 || pattern.is_empty() {
            return Ok(());
        }
        let mut guard = self.lock()?;
        let host = &mut guard.bytes_mut()[range.start..range.start + bytes];
        self.storage.fill(host, range.start, pattern)
    }
}
