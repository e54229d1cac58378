//! Memory of trees: reserved at once, zero, and taken from the system page by page when touched.

use crate::array::{ArrayArg, Owner};
use crate::backend::cpu::copies::Neutral;
use crate::backend::cuda::engine::Engine;
use crate::backend::cuda::tree::DeviceTree;
use crate::print_sink::PrintSink;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use wuji_ir::interp::TreeState;
use wuji_ir::layout::{TreeData, TreeMemory};
use wuji_ir::{Error, Result};

/// The order of everything that happens to the memory of one device: a launch holds it from start
/// to end, host access for as long as it looks at bytes.
#[derive(Debug, Default)]
pub(crate) struct DeviceLock {
    launches: Mutex<u64>,
    used: AtomicU64,
    /// Where lines go that kernels print.
    pub(crate) print_sink: Arc<PrintSink>,
}

impl DeviceLock {
    /// Waits for its turn. The guarded number counts the launches so far.
    pub(crate) fn take(&self) -> MutexGuard<'_, u64> {
        // Nothing that runs under the lock leaves memory in a state that others may not see.
        self.launches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of all live memory.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// Zeroed bytes of a device; freed on drop.
#[derive(Debug)]
pub struct Memory {
    base: NonNull<u8>,
    size: usize,
    /// Bytes that count as used: of a sparse tree, only what it has taken.
    counted: AtomicU64,
    /// How many of those were there from the start.
    fixed: u64,
    lock: Arc<DeviceLock>,
    /// Given back before its time: the addresses stay, but nobody uses them.
    released: AtomicBool,
    /// What a sparse tree holds when it is interpreted, which leaves the bytes alone.
    abstracted: Mutex<Option<TreeState>>,
    /// What workers from 1 on have for themselves.
    copies: Mutex<Vec<TreeCopy>>,
    /// Where kernels find it, if that is on a device. Then the bytes here are what the host has fetched of it.
    device: Option<Box<DeviceTree>>,
    /// Names of the fields of the tree, in order, for reports of launches that nobody waits for.
    names: OnceLock<Arc<[String]>>,
}

/// A copy of a tree that one worker has for itself.
#[derive(Debug)]
pub(crate) struct TreeCopy {
    pub(crate) memory: Memory,
    /// Fields all of whose elements are neutral.
    pub(crate) neutral: Neutral,
}

// SAFETY: the bytes are only reached through `DeviceLock`, by one thread at a time, or by the tasks of the
// launch that holds it, whose accesses to them race at most as `docs/ir.md` allows.
unsafe impl Send for Memory {}
// SAFETY: as above; `&Memory` alone gives no access to the bytes.
unsafe impl Sync for Memory {}

/// Alignment of every piece of memory, enough for any element and for vector loads.
pub const ALIGN: usize = 4096;
/// From here on, large pages save more on page faults than their rounding costs.
const LARGE: usize = 4 << 20;
/// Beyond this, a tree is reserved to be touched here and there, and small pages keep that cheap.
const SPARSE: usize = 8 << 30;

/// Fills bytes with a pattern, again and again: with what is there already, which is more each time.
pub fn repeat(bytes: &mut [u8], pattern: &[u8]) {
    // What is copied stays in a cache.
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

/// Which way bytes go between memory and an array.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Way {
    ToArray,
    FromArray,
}

/// Bytes that are sent to a GPU which then repeats them.
const FIRST_BYTES: usize = 1 << 12;

impl Memory {
    /// Memory for a tree. One with sparse nodes is a long range of addresses of which little is touched.
    pub(crate) fn for_tree(
        lock: &Arc<DeviceLock>,
        tree: &TreeData,
        layout: &TreeMemory,
    ) -> Result<Memory> {
        if !tree.is_sparse() {
            return Memory::reserve(lock, layout.size);
        }
        let counted = layout.cell_size[tree.root()];
        let memory = Memory::map(lock, layout.size, counted)?;
        #[cfg(target_os = "linux")]
        for arena in layout
            .nodes
            .values()
            .flatten()
            .filter_map(|n| n.arena.as_ref())
        {
            let bytes = arena.capacity * arena.cell;
            if bytes as usize >= LARGE {
                // SAFETY: arenas lie inside of the mapping. The advice may be refused; that is fine.
                unsafe {
                    let at = memory.base.as_ptr().add(arena.data as usize);
                    libc::madvise(at.cast(), bytes as usize, libc::MADV_HUGEPAGE);
                }
            }
        }
        Ok(memory)
    }

    pub(crate) fn reserve(lock: &Arc<DeviceLock>, size: u64) -> Result<Memory> {
        Memory::map(lock, size, size)
    }

    /// Says how many bytes the tree has taken beyond its root.
    pub(crate) fn count(&self, bytes: u64) {
        let now = self.fixed.saturating_add(bytes);
        let before = self.counted.swap(now, Ordering::Relaxed);
        self.lock
            .used
            .fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }

    fn map(lock: &Arc<DeviceLock>, size: u64, counted: u64) -> Result<Memory> {
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
            return Err(too_much().note(format!("the system says: {why}")));
        }
        #[cfg(target_os = "linux")]
        if (LARGE..=SPARSE).contains(&size) {
            // SAFETY: the range is the mapping made above. The advice may be refused; that is fine.
            unsafe { libc::madvise(base, mapped, libc::MADV_HUGEPAGE) };
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(too_much)?;
        lock.used.fetch_add(counted, Ordering::Relaxed);
        Ok(Memory {
            base,
            size,
            counted: AtomicU64::new(counted),
            fixed: counted,
            lock: lock.clone(),
            released: AtomicBool::new(false),
            abstracted: Mutex::default(),
            copies: Mutex::default(),
            device: None,
            names: OnceLock::new(),
        })
    }

    /// Memory for a tree on a device.
    pub(crate) fn for_device_tree(
        lock: &Arc<DeviceLock>,
        engine: &Arc<Engine>,
        tree: &TreeData,
        layout: &TreeMemory,
        limit: u64,
    ) -> Result<Memory> {
        let counted = match tree.is_sparse() {
            true => layout.cell_size[tree.root()],
            false => layout.size,
        };
        let device = DeviceTree::new(engine, tree, layout, limit)?;
        let mut memory = Memory::map(lock, layout.size, counted)?;
        memory.device = Some(Box::new(device));
        Ok(memory)
    }

    /// Memory on a device that is all there.
    pub(crate) fn on_device_plain(
        lock: &Arc<DeviceLock>,
        engine: &Arc<Engine>,
        size: u64,
    ) -> Result<Memory> {
        let device = DeviceTree::plain(engine, size)?;
        let mut memory = Memory::reserve(lock, size)?;
        memory.device = Some(Box::new(device));
        Ok(memory)
    }

    /// Whether kernels find it on a device, and the host has to fetch what it wants to see.
    pub fn is_on_device(&self) -> bool {
        self.device.is_some()
    }

    pub(crate) fn on_device(&self) -> Option<&DeviceTree> {
        self.device.as_deref()
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes that count as used: of a sparse tree, only what it has taken.
    pub fn used(&self) -> u64 {
        self.counted.load(Ordering::Relaxed)
    }

    /// Gives the memory back to the system now, after the launches that use it. Those that come later are refused.
    pub fn release(&self) {
        let mut guard = self.lock();
        if self.released.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(device) = &self.device {
            // A device that has failed gives nothing back any more.
            let _ = device.release();
        } else {
            let _ = guard.clear();
        }
        self.copies().clear();
        #[cfg(target_os = "linux")]
        // SAFETY: the range is our own private anonymous mapping, which reads as zero after this.
        unsafe {
            let mapped = self.size.max(1).next_multiple_of(ALIGN);
            libc::madvise(self.base.as_ptr().cast(), mapped, libc::MADV_DONTNEED);
        }
        let before = self.counted.swap(0, Ordering::Relaxed);
        self.lock.used.fetch_sub(before, Ordering::Relaxed);
    }

    /// Whether the memory was given back.
    pub fn is_released(&self) -> bool {
        self.released.load(Ordering::Relaxed)
    }

    /// Where kernels find it.
    pub fn place(&self) -> (Owner, *mut u8) {
        match &self.device {
            None => (Owner::Host, self.base()),
            Some(device) => (
                Owner::Cuda(device.ordinal()),
                device.address() as usize as *mut u8,
            ),
        }
    }

    /// Takes all bytes from other memory of the same device and size.
    pub fn copy_from(&self, other: &Memory) -> Result<()> {
        if !Arc::ptr_eq(&self.lock, &other.lock) || self.size != other.size {
            return Err(Error::new(
                "W0118",
                "memory is copied to that of another device",
            ));
        }
        if std::ptr::eq(self, other) {
            return Ok(());
        }
        let mut guard = self.lock();
        match (self.on_device(), other.on_device()) {
            (Some(to), Some(from)) => to.copy_in(from.address(), 0..self.size),
            _ => {
                // SAFETY: the turn of both is ours, and they are different memory.
                let from = unsafe { other.bytes_in_turn() };
                guard.bytes_mut().copy_from_slice(from);
                Ok(())
            }
        }
    }

    /// Whether other memory belongs to the same device.
    pub fn is_near(&self, other: &Memory) -> bool {
        Arc::ptr_eq(&self.lock, &other.lock)
    }

    /// On a GPU: takes some bytes from other memory of the same device.
    pub fn copy_part(&self, at: usize, other: &Memory, range: Range<usize>) -> Result<()> {
        let inside = range.end <= other.size && at.saturating_add(range.len()) <= self.size;
        let (Some(to), Some(from)) = (self.on_device(), other.on_device()) else {
            return Err(Error::new("W0118", "memory is not that of a GPU"));
        };
        if !self.is_near(other) || !inside {
            let what = "memory is copied to that of another device, or beyond its end";
            return Err(Error::new("W0118", what));
        }
        let _guard = self.lock();
        let (start, end) = (from.address() + range.start as u64, at + range.len());
        to.copy_in(start, at..end)
    }

    /// On a GPU: copies bytes from here to an array without gaps on the same one, or the other way round. Gives whether that is done, which
    /// it is not if either is elsewhere, or they have different numbers of bytes.
    pub fn exchange(&self, range: Range<usize>, array: &ArrayArg<'_>, way: Way) -> Result<bool> {
        let Some(here) = self.on_device().filter(|_| range.end <= self.size) else {
            return Ok(false);
        };
        let span = array.span().filter(|_| array.is_contiguous());
        let same = span.is_some_and(|(low, high)| high - low == range.len());
        let Some((there, _)) = span.filter(|_| same && array.owner() == self.place().0) else {
            return Ok(false);
        };
        let _guard = self.lock();
        match way {
            Way::ToArray if !array.is_writable() => return Ok(false),
            Way::ToArray => here.copy_out(range, there as u64)?,
            Way::FromArray => here.copy_in(there as u64, range)?,
        }
        Ok(true)
    }

    /// Puts a pattern into a range of bytes, as often as it has room there; on a GPU without the host, but for the first few.
    pub fn fill(&self, range: Range<usize>, pattern: &[u8]) -> Result<()> {
        let Some(room) = self.size.checked_sub(range.start) else {
            return Ok(());
        };
        let bytes = range.len().min(room);
        if bytes == 0 || pattern.is_empty() {
            return Ok(());
        }
        let mut guard = self.lock();
        let Some(there) = self.on_device() else {
            let all = &mut guard.bytes_mut()[range.start..range.start + bytes];
            repeat(all, pattern);
            return Ok(());
        };
        if pattern.iter().all(|byte| *byte == 0) {
            return there.zero(range.start, bytes);
        }
        let first = pattern.repeat((FIRST_BYTES / pattern.len()).max(1));
        let first = &first[..first.len().min(bytes)];
        there.send(first, range.start)?;
        there.repeat(range.start, first.len(), bytes)
    }

    /// Waits for launches to finish and keeps new ones waiting while the bytes are looked at.
    pub fn lock(&self) -> MemoryGuard<'_> {
        MemoryGuard {
            memory: self,
            held: Some(self.lock.take()),
        }
    }

    /// Says what the fields of the tree are called.
    pub fn set_names(&self, names: &[String]) {
        // They do not change, so the first are as good as any.
        let _ = self.names.set(names.into());
    }

    /// Whether its fields are called so.
    pub(crate) fn has_names(&self, names: &Option<Arc<[String]>>) -> bool {
        match (self.names.get(), names) {
            (None, None) => true,
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }

    pub(crate) fn names(&self) -> Option<Arc<[String]>> {
        self.names.get().cloned()
    }

    /// Whether this is memory of the device that `turn` belongs to.
    pub(crate) fn belongs_to(&self, lock: &Arc<DeviceLock>) -> bool {
        Arc::ptr_eq(&self.lock, lock)
    }

    /// A word, for whoever holds the turn and has seen that the tree is this large.
    pub(crate) fn word(&self, offset: u64) -> u64 {
        // SAFETY: callers hold the turn and run no task meanwhile.
        let bytes = unsafe { self.bytes_in_turn() };
        let at = offset as usize;
        let word = bytes.get(at..at.saturating_add(8));
        word.and_then(|w| w.try_into().ok())
            .map_or(0, u64::from_le_bytes)
    }

    pub(crate) fn set_word(&self, offset: u64, value: u64) {
        // SAFETY: as above.
        let bytes = unsafe { self.bytes_in_turn() };
        let at = offset as usize;
        if let Some(word) = bytes.get_mut(at..at.saturating_add(8)) {
            word.copy_from_slice(&value.to_le_bytes());
        }
    }

    /// What the interpreter has left here, if the tree is sparse and was interpreted before; for whoever
    /// holds the turn.
    pub(crate) fn take_state(&self) -> Option<TreeState> {
        self.state().take()
    }

    pub(crate) fn put_state(&self, state: TreeState) {
        *self.state() = Some(state);
    }

    fn state(&self) -> MutexGuard<'_, Option<TreeState>> {
        let state = self.abstracted.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// The copies that workers have, for whoever holds the turn.
    pub(crate) fn copies(&self) -> MutexGuard<'_, Vec<TreeCopy>> {
        let copies = self.copies.lock();
        copies.unwrap_or_else(PoisonError::into_inner)
    }

    /// More memory of the same device, of which so many bytes will be touched.
    pub(crate) fn sibling(&self, size: u64, counted: u64) -> Result<Memory> {
        Memory::map(&self.lock, size, counted)
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The bytes, for whoever holds the turn of the device already.
    ///
    /// # Safety
    /// The caller holds the turn and nobody else touches the bytes while the slice lives.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn bytes_in_turn(&self) -> &mut [u8] {
        // SAFETY: the mapping has `size` initialised bytes; exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.size) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let counted = self.counted.load(Ordering::Relaxed);
        self.lock.used.fetch_sub(counted, Ordering::Relaxed);
        // SAFETY: the mapping was made in `reserve` with this size, and nothing borrows it any more.
        unsafe {
            libc::munmap(
                self.base.as_ptr().cast(),
                self.size.max(1).next_multiple_of(ALIGN),
            );
        }
    }
}

/// The bytes of one [`Memory`], between launches.
#[derive(Debug)]
pub struct MemoryGuard<'a> {
    memory: &'a Memory,
    /// There until it is dropped.
    held: Option<MutexGuard<'a, u64>>,
}

impl Drop for MemoryGuard<'_> {
    fn drop(&mut self) {
        // Whoever takes a line may launch.
        drop(self.held.take());
        self.memory.lock.print_sink.flush();
    }
}

impl MemoryGuard<'_> {
    /// Copies some of the bytes to the host, if they are on a device; the others are not touched. Returns the errors of pending
    /// launches.
    pub fn fetch(&mut self, range: Range<usize>) -> Result<()> {
        let memory = self.memory;
        match memory.on_device() {
            Some(device) if !range.is_empty() => {
                device.fetch(&mut self.bytes_mut()[range.clone()], range.start)
            }
            _ => Ok(()),
        }
    }

    /// Takes some of the bytes to the device, if they belong there.
    pub fn send(&mut self, range: Range<usize>) -> Result<()> {
        match self.memory.on_device() {
            Some(device) if !range.is_empty() => {
                device.send(&self.bytes()[range.clone()], range.start)
            }
            _ => Ok(()),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the turn is ours, and `&mut` access needs `&mut self`.
        unsafe { self.memory.bytes_in_turn() }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the turn is ours, and `&mut self` makes this the only slice.
        unsafe { self.memory.bytes_in_turn() }
    }

    /// Makes all bytes zero; large memory goes back to the system instead of being written to.
    pub fn clear(&mut self) -> Result<()> {
        self.memory.take_state();
        self.memory.count(0);
        if let Some(device) = self.memory.on_device() {
            return device.clear();
        }
        #[cfg(target_os = "linux")]
        if self.memory.size >= LARGE {
            let mapped = self.memory.size.next_multiple_of(ALIGN);
            // SAFETY: the range is our own private anonymous mapping, which reads as zero after this.
            let done = unsafe {
                libc::madvise(
                    self.memory.base.as_ptr().cast(),
                    mapped,
                    libc::MADV_DONTNEED,
                )
            };
            if done == 0 {
                return Ok(());
            }
        }
        self.bytes_mut().fill(0);
        Ok(())
    }
}

/// A number of bytes as people read it.
pub(crate) struct Bytes(pub(crate) u64);

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        let mut value = self.0 as f64;
        let mut unit = "bytes";
        for next in UNITS {
            if value < 1024.0 {
                break;
            }
            value /= 1024.0;
            unit = next;
        }
        if unit == "bytes" {
            write!(f, "{} bytes", self.0)
        } else {
            write!(f, "{value:.1} {unit}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_counted_and_freed() {
        let lock = Arc::new(DeviceLock::default());
        let memory = Memory::reserve(&lock, 10_000_000).unwrap();
        assert_eq!(lock.used(), 10_000_000);
        let mut guard = memory.lock();
        assert!(guard.bytes().iter().all(|b| *b == 0));
        guard.bytes_mut()[9_999_999] = 7;
        guard.clear().unwrap();
        assert_eq!(guard.bytes()[9_999_999], 0);
        drop(guard);
        drop(memory);
        assert_eq!(lock.used(), 0);
    }

    #[test]
    fn released_memory_counts_no_longer() {
        let lock = Arc::new(DeviceLock::default());
        let memory = Memory::reserve(&lock, 10_000).unwrap();
        memory.lock().bytes_mut()[17] = 7;
        assert!(!memory.is_released());
        memory.release();
        memory.release();
        assert!(memory.is_released());
        assert_eq!((lock.used(), memory.used()), (0, 0));
        assert_eq!(memory.lock().bytes()[17], 0);
        drop(memory);
        assert_eq!(lock.used(), 0);
    }

    #[test]
    fn far_too_much_is_an_error() {
        let lock = Arc::new(DeviceLock::default());
        let error = Memory::reserve(&lock, 1 << 61).unwrap_err();
        assert_eq!(error.code, "W0110");
        assert_eq!(error.message, "cannot reserve 2048.0 PiB of memory");
        assert_eq!(lock.used(), 0);
    }

    #[test]
    fn reserving_is_not_touching() {
        let lock = Arc::new(DeviceLock::default());
        let memory = Memory::reserve(&lock, 1 << 40).unwrap();
        let mut guard = memory.lock();
        guard.bytes_mut()[(1 << 40) - 1] = 1;
        assert_eq!(guard.bytes()[(1 << 40) - 1], 1);
    }
}
