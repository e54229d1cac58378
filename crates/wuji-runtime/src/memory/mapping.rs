//! Host memory: addresses reserved in advance, zeroed, and allocated by the system page by page on first use.

use super::limit::Bytes;
use std::ptr::NonNull;
use wuji_ir::layout::TreeMemory;
use wuji_ir::{Error, Result};

/// Alignment of every mapping, enough for any element and for vector loads.
const ALIGN: usize = 4096;
/// From this size on, huge pages save more page faults than their rounding costs.
const LARGE: usize = 4 << 20;
/// Beyond this size, trees are mostly untouched, and small pages are better.
const SPARSE: usize = 8 << 30;

/// A private mapping of zeroed bytes; unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    size: usize,
}

// SAFETY: a mapping is not tied to a thread; access to its bytes is `unsafe` and exclusive, as guaranteed by the
// caller.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` alone gives no access to the bytes.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(crate) fn new(size: u64) -> Result<Mapping> {
        let too_much = || {
            Error::new("W0110", format!("cannot reserve {} of memory", Bytes(size)))
                .help("make the extents smaller, or the elements narrower")
        };
        let size = usize::try_from(size).map_err(|_| too_much())?;
        let mapped = size.max(1).checked_next_multiple_of(ALIGN);
        let mapped = mapped
            .filter(|s| *s <= isize::MAX as usize)
            .ok_or_else(too_much)?;
        // SAFETY: a fresh private mapping; no existing memory is touched.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            let why = std::io::Error::last_os_error();
            let error = too_much().note(format!("the system says: {why}"));
            return Err(match address_space_limit() {
                None => error,
                Some(limit) => error.note(format!(
                    "`ulimit -v` limits the addresses of this process to {}; a sparse tree reserves those of all its cells",
                    Bytes(limit)
                )),
            });
        }
        #[cfg(target_os = "linux")]
        if (LARGE..=SPARSE).contains(&size) {
            // SAFETY: the range is the mapping above. The advice may fail, which is harmless.
            unsafe { libc::madvise(base, mapped, libc::MADV_HUGEPAGE) };
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(too_much)?;
        Ok(Mapping { base, size })
    }

    /// Requests huge pages for the cells of a sparse tree in this mapping.
    pub(super) fn advise_arenas(&self, layout: &TreeMemory) {
        #[cfg(target_os = "linux")]
        for node in layout.nodes.values().flatten() {
            let Some(arena) = &node.arena else { continue };
            let bytes = (arena.capacity * arena.cell) as usize;
            let inside = (arena.data as usize).checked_add(bytes);
            if bytes >= LARGE && inside.is_some_and(|end| end <= self.size) {
                // SAFETY: the arena lies inside the mapping. The advice may fail, which is harmless.
                unsafe {
                    let at = self.base.as_ptr().add(arena.data as usize);
                    libc::madvise(at.cast(), bytes, libc::MADV_HUGEPAGE);
                }
            }
        }
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The bytes.
    ///
    /// # Safety
    /// No other code accesses the bytes while the slice lives.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn bytes(&self) -> &mut [u8] {
        // SAFETY: the mapping has `size` initialised bytes; exclusive access is guaranteed by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.size) }
    }

    /// Returns all pages to the system, so that the bytes read as zero. `false` if the system does not support that.
    ///
    /// # Safety
    /// No code accesses the bytes during the call.
    pub(super) unsafe fn discard(&self) -> bool {
        #[cfg(target_os = "linux")]
        // SAFETY: the range is our own private anonymous mapping, which reads as zero after this.
        unsafe {
            libc::madvise(
                self.base.as_ptr().cast(),
                self.mapped(),
                libc::MADV_DONTNEED,
            ) == 0
        }
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Clears all bytes. Large mappings return their pages instead of being written to.
    ///
    /// # Safety
    /// No code accesses the bytes during the call.
    pub(super) unsafe fn zero(&self) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            if self.size < LARGE || !self.discard() {
                self.bytes().fill(0);
            }
        }
    }

    fn mapped(&self) -> usize {
        self.size.max(1).next_multiple_of(ALIGN)
    }
}

/// The most addresses that the process may have, if they are limited.
fn address_space_limit() -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: it writes to our own structure.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) } == 0;
    (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this size, and nothing borrows it any more.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.mapped());
        }
    }
}
