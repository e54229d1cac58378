//! The memory of a sparse tree on a GPU: a range of addresses, most of them never accessed.
//!
//! **Pages on demand.** The driver allocates pages when a kernel accesses them, so a launch can activate any number of
//! cells. To keep kernels from waiting for pages, some are prefetched: those of the first cells of each node, and, when
//! half of a node's cells are in use, those of four times as many. The memory of the device limits all trees together
//! (`budget`).
//!
//! **Mapped pages**, on devices that cannot do that (under Windows, and in some virtual machines): the host maps the pages
//! of some cells of each node before a launch (`header::ROOM`), which cannot activate more. A launch waits for the numbers
//! of the previous ones only if the launches in flight might exhaust the room, judging by their previous allocations.
//!
//! After each launch that may activate cells, the numbers of allocated cells are copied to the host asynchronously.

use super::budget::Budget;
use super::context::CudaContext;
use super::engine::CudaEngine;
use super::managed::Managed;
use super::memory::{Pinned, Reserved};
use super::stream::CudaEvent;
use std::ops::Range;
use std::sync::Arc;
use wuji_ir::Result;
use wuji_ir::entities::Node;
use wuji_ir::layout::{TreeData, TreeMemory, budget, header, tree_header};

#[derive(Debug)]
pub(super) struct SparseMemory {
    pages: Pages,
    tree: TreeData,
    layout: TreeMemory,
    rooms: Vec<Room>,
    /// The memory limit of its cells in bytes, and the known version of the limit of all trees.
    limit: u64,
    budget: u64,
    /// What the host has subtracted from the limit of all trees: the bytes beside cells, and those of cells that kernels do
    /// not count there.
    fixed: Option<u64>,
    uncounted: u64,
    /// The allocated cells of each node after a launch, and the bytes of all cells.
    seen: Pinned,
    /// The event after the last copy of the numbers, and the launches since the known ones.
    asked: Option<CudaEvent>,
    unknown: u64,
}

/// How the addresses get memory.
#[derive(Debug)]
enum Pages {
    OnDemand(Managed),
    Mapped(Reserved),
}

/// How many cells of a node are prefetched or mapped.
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

/// The fraction of free memory that all nodes of a tree together map initially, ...
const FIRST_PART: u64 = 16;
/// ... the least number of cells that are mapped initially, ...
const FIRST_CELLS: u64 = 1 << 10;
/// ... and the bytes of each node that are prefetched initially.
const FIRST_PAGES: u64 = 16 << 20;
/// At most this fraction of free memory is prefetched at once.
const MOST_PART: u64 = 4;

impl Pages {
    fn new(context: &Arc<CudaContext>, size: u64) -> Result<Pages> {
        Ok(if context.info().pages_on_demand {
            Pages::OnDemand(context.managed(size)?)
        } else {
            Pages::Mapped(context.reserve(size)?)
        })
    }

    fn base(&self) -> u64 {
        match self {
            Pages::OnDemand(managed) => managed.base(),
            Pages::Mapped(reserved) => reserved.base(),
        }
    }

    fn size(&self) -> u64 {
        match self {
            Pages::OnDemand(managed) => managed.size(),
            Pages::Mapped(reserved) => reserved.size(),
        }
    }

    /// Zeroed pages for a range of addresses.
    fn provide(&mut self, engine: &CudaEngine, range: Range<u64>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        match self {
            Pages::OnDemand(managed) => managed.prefetch(range, &engine.stream),
            Pages::Mapped(reserved) => {
                let end = range.end.min(reserved.size());
                for new in reserved.ensure(range.start..end)? {
                    engine.zero(reserved.base() + new.start, new.end - new.start)?;
                }
                Ok(())
            }
        }
    }
}

impl SparseMemory {
    pub(super) fn new(
        engine: &Arc<CudaEngine>,
        tree: &TreeData,
        layout: &TreeMemory,
        limit: u64,
    ) -> Result<SparseMemory> {
        let context = engine.context();
        let rooms = rooms(tree, layout);
        let mut sparse = SparseMemory {
            pages: Pages::new(context, layout.size)?,
            tree: tree.clone(),
            layout: layout.clone(),
            limit: limit.min(i64::MAX as u64),
            budget: 0,
            fixed: None,
            uncounted: 0,
            seen: context.pinned(8 * (rooms.len() + 1))?,
            asked: None,
            unknown: 0,
            rooms,
        };
        sparse.provide_fixed(engine)?;
        let (free, _) = context.free_memory()?;
        let part = free / FIRST_PART / (sparse.rooms.len() as u64).max(1);
        for k in 0..sparse.rooms.len() {
            let room = sparse.rooms[k];
            let cells = match sparse.pages {
                Pages::OnDemand(_) => part.min(FIRST_PAGES) / room.each,
                Pages::Mapped(_) => (part / room.each).max(FIRST_CELLS),
            };
            sparse.make_room(engine, k, cells.min(room.capacity))?;
        }
        sparse.set_limits(engine)?;
        Ok(sparse)
    }

    pub(super) fn base(&self) -> u64 {
        self.pages.base()
    }

    /// Bytes of cells that were ever allocated, as far as the host knows.
    pub(super) fn used(&self) -> u64 {
        self.seen(self.rooms.len())
    }

    /// The memory that does not depend on active cells. The driver would move managed pages to the host instead of
    /// refusing them.
    fn provide_fixed(&mut self, engine: &CudaEngine) -> Result<()> {
        let ranges = self.layout.fixed_ranges(&self.tree);
        let bytes = ranges.iter().map(|r| r.end - r.start).sum();
        engine.context().check_free(bytes)?;
        if let Some(shared) = self.shared_budget()? {
            shared.created(engine.context(), bytes)?;
            self.fixed = Some(bytes);
        }
        for range in ranges {
            self.pages.provide(engine, range)?;
        }
        Ok(())
    }

    /// Pages for a number of cells of a node.
    fn make_room(&mut self, engine: &CudaEngine, k: usize, cells: u64) -> Result<()> {
        let room = self.rooms[k];
        if cells <= room.cells {
            return Ok(());
        }
        let old = self.layout.ranges_for(&self.tree, room.node, room.cells);
        let new = self.layout.ranges_for(&self.tree, room.node, cells);
        for (old, new) in old.into_iter().zip(new) {
            self.pages.provide(engine, old.end.min(new.end)..new.end)?;
        }
        self.rooms[k].cells = cells;
        Ok(())
    }

    fn set_word(&self, engine: &CudaEngine, at: u64, word: u64) -> Result<()> {
        engine.send(self.base() + at, &word.to_le_bytes())
    }

    /// Tells the device how many cells each node can have.
    fn set_rooms(&self, engine: &CudaEngine) -> Result<()> {
        for room in &self.rooms {
            let cells = match self.pages {
                Pages::OnDemand(_) => room.capacity,
                Pages::Mapped(_) => room.cells,
            };
            self.set_word(engine, room.header + header::ROOM, cells)?;
        }
        Ok(())
    }

    /// Initializes the words of the headers that limit a tree.
    fn set_limits(&mut self, engine: &CudaEngine) -> Result<()> {
        self.set_rooms(engine)?;
        let Some(at) = self.layout.tree_header(&self.tree) else {
            return Ok(());
        };
        let own = at + tree_header::OWN_BUDGET;
        let budget = match self.shared_budget()? {
            Some(shared) => shared.address().wrapping_sub(self.base()),
            None => own,
        };
        self.set_word(engine, at + tree_header::LIMIT, self.limit)?;
        self.set_word(engine, own + budget::LIMIT, i64::MAX as u64)?;
        self.set_word(engine, at + tree_header::BUDGET, budget)?;
        self.update_budget(engine)
    }

    /// What limits all trees whose pages are allocated on demand.
    fn shared_budget(&self) -> Result<Option<&Budget>> {
        match &self.pages {
            Pages::OnDemand(managed) => managed.context().budget().map(Some),
            Pages::Mapped(_) => Ok(None),
        }
    }

    /// Updates the limit of all trees.
    fn update_budget(&mut self, engine: &CudaEngine) -> Result<()> {
        let Some(shared) = self.shared_budget()? else {
            return Ok(());
        };
        let uncounted = (self.used() - self.counted()).max(self.uncounted);
        if uncounted > self.uncounted {
            shared.allocated(uncounted - self.uncounted);
        }
        let known = shared.update(engine, self.budget)?;
        (self.budget, self.uncounted) = (known, uncounted);
        Ok(())
    }

    /// Bytes of cells that kernels count in the limit of all trees, as far as the host knows.
    fn counted(&self) -> u64 {
        if self.layout.has_short_offsets() {
            0
        } else {
            self.used()
        }
    }

    /// A number that was copied to the host.
    fn seen(&self, k: usize) -> u64 {
        // SAFETY: there are as many words, aligned; the device writes whole words.
        unsafe { self.seen.host().cast::<u64>().add(k).read_volatile() }
    }

    /// Whether the launches in flight might exhaust the mapped pages.
    fn is_scarce(&self) -> bool {
        match self.pages {
            Pages::OnDemand(_) => false,
            Pages::Mapped(_) => {
                // Before the first numbers arrive, launches may have allocated everything.
                let first = self.rooms.iter().all(|r| r.stride == 0);
                let launches = self.unknown + 1;
                first
                    || self.rooms.iter().any(|r| {
                        let more = r.stride.saturating_mul(2).saturating_mul(launches);
                        r.cells < r.capacity && r.high.saturating_add(more) > r.cells
                    })
            }
        }
    }

    /// Reads the numbers that have arrived; waits for them if the room might be exhausted otherwise.
    fn look(&mut self, engine: &CudaEngine) -> Result<()> {
        let Some(asked) = &self.asked else {
            return Ok(());
        };
        if !asked.done()? {
            if !self.is_scarce() {
                return Ok(());
            }
            engine.wait()?;
        }
        for k in 0..self.rooms.len() {
            let high = self.seen(k);
            let room = &mut self.rooms[k];
            if let Pages::OnDemand(_) = self.pages {
                // Kernels have accessed their pages.
                room.cells = high.clamp(room.cells, room.capacity);
            }
            // Assume at least one, so that the estimate is never zero.
            room.stride = room.stride.max(high.saturating_sub(room.high)).max(1);
            room.high = high;
        }
        (self.asked, self.unknown) = (None, 0);
        Ok(())
    }

    /// Provides pages for the cells that a launch may activate.
    pub(super) fn before_launch(&mut self, engine: &CudaEngine) -> Result<()> {
        self.look(engine)?;
        for k in 0..self.rooms.len() {
            let room = self.rooms[k];
            if room.high.saturating_mul(2) > room.cells && room.cells < room.capacity {
                let wanted = room.high.saturating_mul(4).min(room.capacity);
                self.grow(engine, k, wanted)?;
            }
        }
        self.update_budget(engine)
    }

    fn grow(&mut self, engine: &CudaEngine, k: usize, wanted: u64) -> Result<()> {
        let room = self.rooms[k];
        match self.pages {
            Pages::OnDemand(_) => {
                let (free, _) = engine.context().free_memory()?;
                let most = free / MOST_PART / room.each;
                self.make_room(engine, k, wanted.min(room.cells.saturating_add(most)))
            }
            Pages::Mapped(_) => {
                // Less than planned is better than nothing.
                let least = (room.cells + room.cells / 4).min(room.capacity);
                if self.make_room(engine, k, wanted).is_err()
                    && let Err(error) = self.make_room(engine, k, least)
                {
                    // The room suffices for now. The launch that exhausts it reports why.
                    if error.code != "W0522" {
                        return Err(error);
                    }
                    engine.refused(error);
                }
                self.set_rooms(engine)
            }
        }
    }

    /// Requests the numbers of allocated cells.
    pub(super) fn after_launch(&mut self, engine: &CudaEngine) -> Result<()> {
        let base = self.base();
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

    /// Zeroes everything.
    pub(super) fn clear(&mut self, engine: &CudaEngine) -> Result<()> {
        self.after_launch(engine)?;
        engine.wait()?;
        self.look(engine)?;
        let mut ranges = self.layout.fixed_ranges(&self.tree);
        for (k, room) in self.rooms.iter().enumerate() {
            let cells = match self.pages {
                Pages::OnDemand(_) => self.seen(k),
                Pages::Mapped(_) => room.cells,
            };
            ranges.extend(self.layout.ranges_for(&self.tree, room.node, cells));
        }
        for range in ranges {
            let end = range.end.min(self.pages.size());
            engine.zero(self.base() + range.start, end - range.start)?;
        }
        for room in &mut self.rooms {
            (room.high, room.stride) = (0, 0);
        }
        if let Some(shared) = self.shared_budget()? {
            shared.cleared(self.counted());
        }
        self.set_limits(engine)?;
        self.after_launch(engine)
    }
}

impl Drop for SparseMemory {
    /// No kernel uses it any more.
    fn drop(&mut self) {
        if let (Some(fixed), Ok(Some(shared))) = (self.fixed, self.shared_budget()) {
            shared.dropped(fixed + self.uncounted, self.counted());
        }
    }
}

/// The nodes of a tree that allocate cells.
fn rooms(tree: &TreeData, layout: &TreeMemory) -> Vec<Room> {
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
    rooms
}
