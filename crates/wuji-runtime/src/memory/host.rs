//! Arrays on the host that count as memory of a device.

use super::{Mapping, Usage};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use wuji_ir::{Error, Result};

/// Sufficient for any vector load of a kernel.
const ALIGN: usize = 64;
/// From this size on, bytes are mapped: the system zeroes and allocates their pages at first touch.
const MAPPED: u64 = 1 << 20;

/// Zeroed bytes of the host; freed on drop.
#[derive(Debug)]
pub struct HostBytes {
    allocation: Allocation,
    size: usize,
    /// Counts as long as the bytes live.
    usage: Option<Usage>,
}

#[derive(Debug)]
enum Allocation {
    Empty,
    Heap(NonNull<u8>, Layout),
    Mapped(Mapping),
}

#[repr(align(64))]
struct Aligned;

// SAFETY: the bytes are not tied to a thread; access to them is `unsafe`, and guaranteed by the caller.
unsafe impl Send for HostBytes {}
// SAFETY: as above; `&HostBytes` alone gives no access to the bytes.
unsafe impl Sync for HostBytes {}

impl HostBytes {
    /// Bytes that count for no device.
    pub fn uncounted(size: u64) -> Result<HostBytes> {
        HostBytes::new(size, None)
    }

    pub(crate) fn new(size: u64, usage: Option<Usage>) -> Result<HostBytes> {
        let allocation = match size {
            0 => Allocation::Empty,
            1..MAPPED => HostBytes::on_heap(size)?,
            MAPPED.. => Allocation::Mapped(Mapping::new(size)?),
        };
        Ok(HostBytes {
            allocation,
            size: size as usize,
            usage,
        })
    }

    fn on_heap(size: u64) -> Result<Allocation> {
        let too_much = || Error::new("W0110", format!("cannot allocate {size} bytes of memory"));
        let layout = Layout::from_size_align(size as usize, ALIGN).map_err(|_| too_much())?;
        // SAFETY: the size is not zero.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(too_much)?;
        Ok(Allocation::Heap(memory, layout))
    }

    /// Aligned to 64 bytes, also if there are none.
    pub fn base(&self) -> *mut u8 {
        match &self.allocation {
            Allocation::Empty => NonNull::<Aligned>::dangling().as_ptr().cast(),
            Allocation::Heap(memory, _) => memory.as_ptr(),
            Allocation::Mapped(mapping) => mapping.base(),
        }
    }

    /// Frees large memory before its time: the bytes read as zero, and count no longer. Their addresses stay reserved.
    pub fn release(&self) {
        if let Allocation::Mapped(mapping) = &self.allocation {
            // SAFETY: the bytes are accessed by raw pointers only, which stay valid; zeros are valid bytes.
            unsafe { mapping.discard() };
        }
        if let Some(usage) = &self.usage {
            usage.end();
        }
    }

    /// Whether they count for a device.
    pub(crate) fn belongs_to_device(&self) -> bool {
        self.usage.is_some()
    }

    /// The size in bytes.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl Drop for HostBytes {
    fn drop(&mut self) {
        match &self.allocation {
            Allocation::Heap(memory, layout) => {
                // SAFETY: allocated with this layout; nothing borrows the bytes any more.
                unsafe { dealloc(memory.as_ptr(), *layout) };
            }
            Allocation::Empty | Allocation::Mapped(_) => {}
        }
    }
}
