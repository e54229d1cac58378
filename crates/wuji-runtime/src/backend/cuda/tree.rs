//! The memory of trees on a GPU.
//!
//! A dense tree is a plain allocation. A sparse tree is a reserved range of addresses: its fixed part is mapped, and so
//! are the expected number of cells of each node (`header::ROOM`). After each launch that may activate cells, the
//! numbers of allocated cells are copied to the host asynchronously. Before the next one, nodes that have used half of
//! their room get more. A launch waits for the numbers only if the launches in flight might exhaust the room, judging
//! by their previous allocations.

use super::engine::CudaEngine;
use super::memory::{DeviceBuffer, Pinned, Reserved};
use super::stream::CudaEvent;
use crate::array::Owner;
use crate::memory::{DeviceMemory, Storage};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use wuji_ir::Result;
use wuji_ir::entities::Node;
use wuji_ir::layout::{TreeData, TreeMemory, header, tree_header};

#[derive(Debug)]
pub(crate) struct DeviceTree {
    engine: Arc<CudaEngine>,
    store: Mutex<Store>,
}

#[derive(Debug)]
enum Store {
    Dense(DeviceBuffer),
    Sparse(Box<Sparse>),
    Gone,
}

#[derive(Debug)]
struct Sparse {
    reserved: Reserved,
    tree: TreeData,
    layout: TreeMemory,
    rooms: Vec<Room>,
    /// The memory limit of its cells in bytes.
    limit: u64,
    /// The allocated cells of each node after a launch, and the bytes of all cells.
    seen: Pinned,
    /// The event after the last copy of the numbers, and the launches since the known ones.
    asked: Option<CudaEvent>,
    unknown: u64,
}

/// How many cells of a node are mapped.
#[derive(Copy, Clone, Debug)]
struct Room {
    node: Node,
    header: u64,
    cells: u64,
    capacity: u64,
    /// Bytes per cell, including its list entries.
    each: u64,
    /// The allocated cells when the host last looked, and the largest increase between two looks.
    high: u64,
    stride: u64,
}

/// The fraction of free memory that all nodes of a tree together map initially.
const FIRST_PART: u64 = 16;
/// Bytes that are sent to the GPU, which then repeats them.
const FIRST_BYTES: usize = 1 << 12;
/// The least number of cells that are mapped initially.
const FIRST_CELLS: u64 = 1 << 10;

impl DeviceTree {
    pub(crate) fn new(
        engine: &Arc<CudaEngine>,
        tree: &TreeData,
        layout: &TreeMemory,
        limit: u64,
    ) -> Result<DeviceTree> {
        let store = if tree.is_sparse() {
            engine.reclaim()?;
            Store::Sparse(Box::new(Sparse::new(engine, tree, layout, limit)?))
        } else {
            return DeviceTree::plain(engine, layout.size);
        };
        Ok(DeviceTree {
            engine: engine.clone(),
            store: Mutex::new(store),
        })
    }

    /// Memory that is fully allocated and zero.
    pub(crate) fn plain(engine: &Arc<CudaEngine>, size: u64) -> Result<DeviceTree> {
        engine.reclaim()?;
        let buffer = engine.context().alloc(size.max(1))?;
        engine.zero(buffer.address(), buffer.bytes())?;
        Ok(DeviceTree {
            engine: engine.clone(),
            store: Mutex::new(Store::Dense(buffer)),
        })
    }

    fn store(&self) -> std::sync::MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its device address.
    pub(super) fn base(&self) -> u64 {
        match &*self.store() {
            Store::Dense(buffer) => buffer.address(),
            Store::Sparse(sparse) => sparse.reserved.base(),
            Store::Gone => 0,
        }
    }

    /// Repeats the first bytes at an offset, up to `bytes`.
    fn repeat(&self, at: usize, first: usize, bytes: usize) -> Result<()> {
        let start = self.base() + at as u64;
        let mut done = first as u64;
        while done > 0 && done < bytes as u64 {
            let more = done.min(bytes as u64 - done);
            self.engine.copy(start + done, start, more)?;
            done += more;
        }
        Ok(())
    }

    /// Maps room for the cells that a launch may activate.
    pub(crate) fn before_launch(&self) -> Result<()> {
        match &mut *self.store() {
            Store::Sparse(sparse) => sparse.grow(&self.engine),
            Store::Dense(_) | Store::Gone => Ok(()),
        }
    }

    /// Requests the numbers of allocated cells.
    pub(crate) fn after_launch(&self) -> Result<()> {
        match &mut *self.store() {
            Store::Sparse(sparse) => sparse.ask(&self.engine),
            Store::Dense(_) | Store::Gone => Ok(()),
        }
    }

    /// Bytes of cells that were ever allocated, as far as the host knows.
    pub(crate) fn used(&self) -> u64 {
        match &*self.store() {
            Store::Sparse(sparse) => sparse.seen(sparse.rooms.len()),
            Store::Dense(_) | Store::Gone => 0,
        }
    }
}

impl Storage for DeviceTree {
    fn device(&self) -> Option<&dyn DeviceMemory> {
        Some(self)
    }

    /// The host sends the first few bytes; the GPU repeats them.
    fn fill(&self, host: &mut [u8], at: usize, pattern: &[u8]) -> Result<()> {
        let bytes = host.len();
        if pattern.iter().all(|byte| *byte == 0) {
            return self.engine.zero(self.base() + at as u64, bytes as u64);
        }
        let first = pattern.repeat((FIRST_BYTES / pattern.len()).max(1));
        let first = &first[..first.len().min(bytes)];
        self.send(first, at)?;
        self.repeat(at, first.len(), bytes)
    }

    fn clear(&self) -> Result<()> {
        match &mut *self.store() {
            Store::Dense(buffer) => self.engine.zero(buffer.address(), buffer.bytes()),
            Store::Sparse(sparse) => sparse.clear(&self.engine),
            Store::Gone => Ok(()),
        }
    }

    fn release(&self) -> Result<()> {
        self.engine.wait()?;
        *self.store() = Store::Gone;
        Ok(())
    }
}

impl DeviceMemory for DeviceTree {
    fn owner(&self) -> Owner {
        Owner::Cuda(self.engine.context().info().ordinal as u32)
    }

    fn address(&self) -> u64 {
        self.base()
    }

    fn fetch(&self, bytes: &mut [u8], at: usize) -> Result<()> {
        self.engine.finish()?;
        self.engine.fetch(bytes, self.base() + at as u64)
    }

    fn send(&self, bytes: &[u8], at: usize) -> Result<()> {
        self.engine.send(self.base() + at as u64, bytes)
    }

    fn copy_out(&self, range: Range<usize>, to: u64) -> Result<()> {
        let from = self.base() + range.start as u64;
        self.engine.copy(to, from, range.len() as u64)
    }

    fn copy_in(&self, from: u64, range: Range<usize>) -> Result<()> {
        let to = self.base() + range.start as u64;
        self.engine.copy(to, from, range.len() as u64)
    }
}

impl Drop for DeviceTree {
    fn drop(&mut self) {
        // Kernels may still use it.
        let store = std::mem::replace(&mut *self.store(), Store::Gone);
        self.engine.free(store, Vec::new());
    }
}

impl Sparse {
    fn new(
        engine: &Arc<CudaEngine>,
        tree: &TreeData,
        layout: &TreeMemory,
        limit: u64,
    ) -> Result<Sparse> {
        let context = engine.context();
        let mut rooms = Vec::new();
        for (node, memory) in layout.nodes.iter() {
            let Some(memory) = memory else { continue };
            let Some(arena) = &memory.arena else { continue };
            let each: u64 = layout
                .ranges_for(tree, node, 1 << 20)
                .iter()
                .map(|r| (r.end - r.start) >> 20)
                .sum();
            rooms.push(Room {
                node,
                header: memory.header,
                cells: 0,
                capacity: arena.capacity,
                each: each.max(arena.cell).max(1),
                high: 0,
                stride: 0,
            });
        }
        let mut sparse = Sparse {
            reserved: context.reserve(layout.size)?,
            tree: tree.clone(),
            layout: layout.clone(),
            limit: limit.min(i64::MAX as u64),
            seen: context.pinned(8 * (rooms.len() + 1))?,
            asked: None,
            unknown: 0,
            rooms,
        };
        for range in layout.fixed_ranges(tree) {
            sparse.map(engine, range)?;
        }
        let (free, _) = context.free_memory()?;
        let part = free / FIRST_PART / (sparse.rooms.len() as u64).max(1);
        for k in 0..sparse.rooms.len() {
            let room = sparse.rooms[k];
            let cells = (part / room.each).max(FIRST_CELLS).min(room.capacity);
            sparse.make_room(engine, k, cells)?;
        }
        sparse.set_limit(engine)?;
        Ok(sparse)
    }

    /// Maps zeroed memory to a range of addresses.
    fn map(&mut self, engine: &CudaEngine, range: Range<u64>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let end = range.end.min(self.reserved.size());
        for new in self.reserved.ensure(range.start..end)? {
            engine.zero(self.reserved.base() + new.start, new.end - new.start)?;
        }
        Ok(())
    }

    fn make_room(&mut self, engine: &CudaEngine, k: usize, cells: u64) -> Result<()> {
        let room = self.rooms[k];
        if cells <= room.cells {
            return Ok(());
        }
        for range in self.layout.ranges_for(&self.tree, room.node, cells) {
            self.map(engine, range)?;
        }
        self.rooms[k].cells = cells;
        self.set_word(engine, room.header + header::ROOM, cells)
    }

    fn set_word(&self, engine: &CudaEngine, at: u64, word: u64) -> Result<()> {
        engine.send(self.reserved.base() + at, &word.to_le_bytes())
    }

    /// The room, and the limit of the user, limit a tree.
    fn set_limit(&self, engine: &CudaEngine) -> Result<()> {
        match self.layout.tree_header(&self.tree) {
            Some(at) => self.set_word(engine, at + tree_header::LIMIT, self.limit),
            None => Ok(()),
        }
    }

    /// A number that was copied to the host.
    fn seen(&self, k: usize) -> u64 {
        // SAFETY: there are as many words, aligned; the device writes whole words.
        unsafe { self.seen.host().cast::<u64>().add(k).read_volatile() }
    }

    /// Reads the numbers that have arrived; waits for them if the room might be exhausted otherwise.
    fn look(&mut self, engine: &CudaEngine) -> Result<()> {
        let Some(asked) = &self.asked else {
            return Ok(());
        };
        if !asked.done()? {
            // Before the first numbers arrive, launches may have allocated everything.
            let first = self.rooms.iter().all(|r| r.stride == 0);
            let launches = self.unknown + 1;
            let scarce = |r: &Room| {
                let more = r.stride.saturating_mul(2).saturating_mul(launches);
                r.cells < r.capacity && r.high.saturating_add(more) > r.cells
            };
            if !first && !self.rooms.iter().any(scarce) {
                return Ok(());
            }
            engine.wait()?;
        }
        for k in 0..self.rooms.len() {
            let high = self.seen(k);
            let room = &mut self.rooms[k];
            // Assume at least one, so that the estimate is never zero.
            room.stride = room.stride.max(high.saturating_sub(room.high)).max(1);
            room.high = high;
        }
        (self.asked, self.unknown) = (None, 0);
        Ok(())
    }

    fn grow(&mut self, engine: &CudaEngine) -> Result<()> {
        self.look(engine)?;
        for k in 0..self.rooms.len() {
            let room = self.rooms[k];
            let high = room.high;
            if high.saturating_mul(2) > room.cells && room.cells < room.capacity {
                let wanted = high.saturating_mul(4).min(room.capacity);
                // Less than planned is better than nothing.
                let least = room.cells + room.cells / 4;
                if self.make_room(engine, k, wanted).is_err()
                    && let Err(error) = self.make_room(engine, k, least.min(room.capacity))
                {
                    // The room suffices for now. The launch that exhausts it reports why.
                    if error.code != "W0522" {
                        return Err(error);
                    }
                    engine.refused(error);
                }
            }
        }
        Ok(())
    }

    fn ask(&mut self, engine: &CudaEngine) -> Result<()> {
        let base = self.reserved.base();
        let mut from: Vec<u64> = Vec::new();
        from.extend(self.rooms.iter().map(|r| base + r.header + header::HIGH));
        from.extend(
            self.layout
                .tree_header(&self.tree)
                .map(|at| base + at + tree_header::USED),
        );
        for (k, from) in from.into_iter().enumerate() {
            // SAFETY: both are mapped for the lifetime of the tree; the host words are only read as words.
            unsafe {
                engine
                    .stream
                    .copy(self.seen.device() + 8 * k as u64, from, 8)?;
            }
        }
        let mark = match self.asked.take() {
            Some(mark) => mark,
            None => engine.context().untimed_event()?,
        };
        engine.stream.record(&mark)?;
        (self.asked, self.unknown) = (Some(mark), self.unknown + 1);
        Ok(())
    }

    fn clear(&mut self, engine: &CudaEngine) -> Result<()> {
        engine.wait()?;
        let mut ranges = self.layout.fixed_ranges(&self.tree);
        for room in &self.rooms {
            ranges.extend(self.layout.ranges_for(&self.tree, room.node, room.cells));
        }
        for range in ranges {
            let end = range.end.min(self.reserved.size());
            engine.zero(self.reserved.base() + range.start, end - range.start)?;
        }
        for room in self.rooms.clone() {
            self.set_word(engine, room.header + header::ROOM, room.cells)?;
        }
        self.set_limit(engine)?;
        for room in &mut self.rooms {
            (room.high, room.stride) = (0, 0);
        }
        self.ask(engine)
    }
}
