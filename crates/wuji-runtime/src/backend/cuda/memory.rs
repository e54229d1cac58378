//! Memory of the device, pinned host memory, and reserved addresses that are mapped on demand.

use super::context::CudaContext;
use super::error::{Failed, OUT_OF_MEMORY, out_of_memory};
use super::library::{AccessDescription, Address, AllocationProperties, ask, call};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;
use wuji_ir::Result;

impl CudaContext {
    /// Uninitialized device memory.
    pub fn alloc(self: &Arc<Self>, bytes: u64) -> Result<DeviceBuffer> {
        let _entered = self.enter()?;
        let mut at = 0;
        if bytes > 0 {
            // SAFETY: it writes one address; the context is current.
            unsafe { ask!(self.driver, cuMemAlloc(&mut at, bytes as usize)) }
                .map_err(|failed| failed.allocating(bytes))?;
            if let Some(budget) = self.known_budget() {
                budget.allocated(bytes);
            }
        }
        Ok(DeviceBuffer {
            context: self.clone(),
            at,
            bytes,
        })
    }

    /// An error if the device has less free memory.
    pub(super) fn check_free(&self, bytes: u64) -> Result<()> {
        let (free, _) = self.free_memory()?;
        if bytes <= free {
            return Ok(());
        }
        let _entered = self.enter()?;
        Err(out_of_memory(self.driver, bytes, None))
    }

    /// Pinned host memory, which the device can access too, but slowly.
    pub fn pinned(self: &Arc<Self>, bytes: usize) -> Result<Pinned> {
        /// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`.
        const FLAGS: u32 = 1 | 2;
        let _entered = self.enter()?;
        let mut host = std::ptr::null_mut();
        // SAFETY: it writes one address; the context is current. Zero bytes are not allowed.
        unsafe { ask!(self.driver, cuMemHostAlloc(&mut host, bytes.max(1), FLAGS)) }
            .map_err(|failed| failed.allocating(bytes as u64))?;
        // From here on it is freed on an error.
        let mut pinned = Pinned {
            context: self.clone(),
            host: host.cast(),
            device: 0,
            bytes,
        };
        // SAFETY: the memory was just allocated, mapped.
        unsafe {
            call!(
                self.driver,
                cuMemHostGetDevicePointer(&mut pinned.device, host, 0)
            )
        }?;
        // SAFETY: there are that many bytes, and no other code has access.
        unsafe { pinned.host.write_bytes(0, bytes.max(1)) };
        Ok(pinned)
    }

    /// Reserves addresses without memory; [`Reserved::ensure`] maps it.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reserved> {
        let _entered = self.enter()?;
        let properties = AllocationProperties::of(self.device);
        let mut granule = 0;
        // SAFETY: it reads the properties and writes one number; zero selects the minimal granularity.
        unsafe {
            call!(
                self.driver,
                cuMemGetAllocationGranularity(&mut granule, &properties, 0)
            )
        }?;
        let granule = (granule as u64).max(1);
        let size = bytes.max(1).next_multiple_of(granule);
        let mut base = 0;
        // SAFETY: it writes one address; the context is current.
        unsafe {
            ask!(
                self.driver,
                cuMemAddressReserve(&mut base, size as usize, 0, 0, 0)
            )
        }
        .map_err(|failed| failed.allocating(size))?;
        Ok(Reserved {
            context: self.clone(),
            base,
            size,
            granule,
            pieces: BTreeMap::new(),
            mapped: 0,
        })
    }
}

/// Device memory; freed when dropped, after all pending work of the device.
#[derive(Debug)]
pub struct DeviceBuffer {
    context: Arc<CudaContext>,
    at: Address,
    bytes: u64,
}

impl DeviceBuffer {
    /// The device address; zero if the buffer is empty.
    pub fn address(&self) -> u64 {
        self.at
    }

    /// The size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.at == 0 {
            return;
        }
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: it was allocated in this context and no other code frees it. The driver waits for pending users.
            let _ = unsafe { call!(self.context.driver, cuMemFree(self.at)) };
            if let Some(budget) = self.context.known_budget() {
                budget.freed(self.bytes);
            }
        }
    }
}

/// Pinned host memory that the device can access. Initially zero.
#[derive(Debug)]
pub struct Pinned {
    context: Arc<CudaContext>,
    host: *mut u8,
    device: Address,
    bytes: usize,
}

// SAFETY: the value owns the memory; the rules for access are stated where pointers are used.
unsafe impl Send for Pinned {}
// SAFETY: as above: shared references only return addresses.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// The host address.
    pub fn host(&self) -> *mut u8 {
        self.host
    }

    /// The device address.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: it was allocated by this function, and no other code frees it. The driver waits for pending
            // users.
            let _ = unsafe {
                call!(
                    self.context.driver,
                    cuMemFreeHost(self.host.cast::<c_void>())
                )
            };
        }
    }
}

/// A range of device addresses, partly mapped to memory.
#[derive(Debug)]
pub struct Reserved {
    context: Arc<CudaContext>,
    base: Address,
    size: u64,
    granule: u64,
    /// Mapped pieces: start and length of each, relative to the base.
    pieces: BTreeMap<u64, u64>,
    mapped: u64,
}

/// Pieces are mapped in advance, so that a growing range has few of them: this fraction of the mapped size ...
const AHEAD: u64 = 8;
/// ... and at most this much.
const MOST_AHEAD: u64 = 256 << 20;

impl Reserved {
    /// The address of its first byte.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The number of addresses.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Mapped bytes.
    pub fn mapped(&self) -> u64 {
        self.mapped
    }

    /// The granularity of mappings.
    pub fn granule(&self) -> u64 {
        self.granule
    }

    /// Maps memory for a range (relative to the base). Returns the new ranges in order; their content is *undefined*.
    /// If memory runs out, nothing changes.
    pub fn ensure(&mut self, range: Range<u64>) -> Result<Vec<Range<u64>>> {
        let end = range.end.min(self.size).next_multiple_of(self.granule);
        let start = range.start / self.granule * self.granule;
        if start >= end {
            return Ok(Vec::new());
        }
        let gaps = self.gaps(start..end);
        if gaps.is_empty() {
            return Ok(gaps);
        }
        let context = self.context.clone();
        let _entered = context.enter()?;
        let mut fresh = Vec::with_capacity(gaps.len());
        for gap in gaps {
            match self.map_some(gap.clone()) {
                Ok(piece) => {
                    self.pieces.insert(piece.start, piece.end - piece.start);
                    self.mapped += piece.end - piece.start;
                    fresh.push(piece);
                }
                Err(failed) => {
                    for piece in fresh {
                        self.unmap(piece.start);
                    }
                    return Err(failed.allocating(gap.end - gap.start));
                }
            }
        }
        Ok(fresh)
    }

    /// The unmapped parts of a range.
    fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let before = self.pieces.range(..range.start).next_back();
        let mut at = before.map_or(range.start, |(start, size)| range.start.max(start + size));
        for (start, size) in self.pieces.range(range.start..range.end) {
            if *start > at {
                gaps.push(at..*start);
            }
            at = start + size;
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        gaps
    }

    /// Maps a gap and, if there is memory, some addresses after it.
    fn map_some(&self, gap: Range<u64>) -> std::result::Result<Range<u64>, Failed> {
        let ahead = (self.mapped / AHEAD).min(MOST_AHEAD) / self.granule * self.granule;
        let next = self.pieces.range(gap.end..).next();
        let room = next.map_or(self.size, |(start, _)| *start);
        let longer = gap.start..(gap.start + ahead).clamp(gap.end, room);
        match self.map(longer.clone()) {
            Err(failed) if failed.code == OUT_OF_MEMORY && longer != gap => {
                self.map(gap.clone()).map(|()| gap)
            }
            mapped => mapped.map(|()| longer),
        }
    }

    fn map(&self, range: Range<u64>) -> std::result::Result<(), Failed> {
        let driver = self.context.driver;
        let (at, bytes) = (self.base + range.start, (range.end - range.start) as usize);
        let properties = AllocationProperties::of(self.context.device);
        let access = AccessDescription::read_write(self.context.device);
        let mut memory = 0;
        // SAFETY: the size is a multiple of the granularity, which was queried for these properties.
        unsafe { ask!(driver, cuMemCreate(&mut memory, bytes, &properties, 0)) }?;
        // SAFETY: the addresses are reserved and unmapped; the memory has that size.
        let mapped = unsafe { ask!(driver, cuMemMap(at, bytes, 0, memory, 0)) };
        // SAFETY: the handle is not used again. Mapped memory stays until it is unmapped.
        let released = unsafe { ask!(driver, cuMemRelease(memory)) };
        mapped?;
        // SAFETY: the range was just mapped.
        let allowed =
            released.and_then(|()| unsafe { ask!(driver, cuMemSetAccess(at, bytes, &access, 1)) });
        if allowed.is_err() {
            // SAFETY: as above, as a whole; no other code uses it yet.
            let _ = unsafe { call!(driver, cuMemUnmap(at, bytes)) };
        }
        allowed
    }

    /// Unmaps a piece.
    fn unmap(&mut self, start: u64) {
        if let Some(size) = self.pieces.remove(&start) {
            self.mapped -= size;
            // SAFETY: a mapped piece that is not in use: callers have synchronized, or it is new.
            let _ = unsafe {
                call!(
                    self.context.driver,
                    cuMemUnmap(self.base + start, size as usize)
                )
            };
        }
    }

    /// Frees all memory, after all pending work of the device; the addresses stay reserved.
    pub fn release(&mut self) -> Result<()> {
        if self.pieces.is_empty() {
            return Ok(());
        }
        let context = self.context.clone();
        let _entered = context.enter()?;
        context.synchronize()?;
        while let Some((&start, _)) = self.pieces.first_key_value() {
            self.unmap(start);
        }
        Ok(())
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.release().is_err() {
            return;
        }
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: it was reserved with this size, and nothing is mapped there any more.
            let _ = unsafe {
                call!(
                    self.context.driver,
                    cuMemAddressFree(self.base, self.size as usize)
                )
            };
        }
    }
}
