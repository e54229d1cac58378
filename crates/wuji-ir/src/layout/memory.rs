//! The memory layout of a tree.
//!
//! A tree of dense nodes is its root cell. A tree with sparse nodes is one reserved range of addresses, most of it
//! never touched:
//!
//! ```text
//! 0            zeros, three times as many as the largest allocated cell has bytes: what absent cells read as
//! tree header  bytes in use, limit
//! headers      one per sparse node
//! root cell
//! arenas       one per allocating node: cells, and the queues they are allocated from
//! lists        one per sparse node: the active cells, for loops
//! ```
//!
//! A pointer is a byte offset from the start of the tree; 0 is "absent", and reads through it find zeros.

use super::kinds::WORD;
use super::{Child, FieldData, TreeData};
use crate::entities::{Field, Node};
use crate::types::Structs;
use cranelift_entity::PrimaryMap;
use std::ops::Range;

/// Sizes and offsets in bytes of everything in one tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeMemory {
    /// Bytes from one cell of a node to the next.
    pub cell_size: PrimaryMap<Node, u64>,
    /// Where a node starts within a cell of its parent; the root cell's own offset for the root.
    pub node_offset: PrimaryMap<Node, u64>,
    /// Offset of the first cell, or of the first pointer, from the start of the node: behind the mask of a bitmasked
    /// node, behind the length of a dynamic one.
    pub first_cell: PrimaryMap<Node, u64>,
    /// Where a field's element starts within a cell of its node.
    pub place_offset: Vec<(Field, u64)>,
    /// Of the sparse nodes.
    pub nodes: PrimaryMap<Node, Option<NodeMemory>>,
    /// Bytes of address space.
    pub size: u64,
    /// The alignment in bytes.
    pub align: u64,
}

/// Memory of a sparse node outside the cells of its parent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeMemory {
    /// Offset of its [`header`].
    pub header: u64,
    /// The memory of cells that are allocated one by one.
    pub arena: Option<Arena>,
    /// The list of active cells.
    pub list: ListMemory,
    /// Offset of the table that cells are found by; 0 without one.
    pub table: u64,
}

/// Memory for the cells of one node, all of one size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arena {
    /// Offset of the first cell.
    pub data: u64,
    /// Bytes of a cell (of a chunk, in a dynamic node).
    pub cell: u64,
    /// Cells that have addresses.
    pub capacity: u64,
    /// Offset of the queue, or stack, of recycled cells: `capacity` offsets.
    pub free: u64,
    /// Offset of the list of deactivated cells, with gaps where a shard claimed places that it did not use.
    pub pending: u64,
    /// Offset of the [`shard`]s.
    pub shards: u64,
    /// One word per cell: the next number in the stack of cells that were freed unused.
    pub next: u64,
    /// Words kept beside each cell; in a hash node its [`record`](super::record).
    pub records: u64,
}

impl Arena {
    /// The largest power of two that divides the offsets of all cells.
    pub fn alignment(&self) -> u64 {
        lowest_bit(self.data | self.cell)
    }
}

/// The active cells of a node, for loops.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListMemory {
    /// The most entries.
    pub entries: u64,
    /// Words of an entry: offset, mask or count, number of the first cell, coordinates.
    pub words: u64,
}

/// Words of the header of a sparse node. Contended words have their own cache lines.
pub mod header {
    /// Position of the first cell in the queue of recycled cells that no shard has claimed. On a GPU: the cells that were popped
    /// from the stack of recycled ones. It may be beyond the end.
    pub const TAKEN: u64 = 0;
    /// Top of the stack of cells freed unused: number + 1 in the low half, a tag in the high half.
    pub const RETURNED: u64 = 64;
    /// Where the queue of recycled cells ends; on a GPU, the height of their stack.
    pub const FREE: u64 = 128;
    /// Whether shards clear recycled cells when they claim them; otherwise the allocating thread clears a
    /// cell.
    pub const AHEAD: u64 = 136;
    /// Positions in the list of deactivated cells that were claimed since the last collection.
    pub const PENDING: u64 = 192;
    /// The number of cells that were ever claimed. It may exceed the capacity.
    pub const HIGH: u64 = 256;
    /// Set when a cell is activated or deactivated.
    pub const CHANGED: u64 = 320;
    /// Entries of the list.
    pub const LISTED: u64 = 384;
    /// How often the set of active cells has changed, counted by the host.
    pub const VERSION: u64 = 448;
    /// The sum of the versions on the path to the node when its list was generated, plus one.
    pub const STAMP: u64 = 456;
    /// Of a hash node: the first table that is in use.
    pub const LEVEL: u64 = 464;
    /// Of a hash node: the last table that is in use.
    pub const TOP: u64 = 472;
    /// On a GPU: the number of mapped cells, set by the host. Elsewhere the system maps memory on first use.
    pub const ROOM: u64 = 480;
    /// Of a hash node below a sparse one: the number of generations of containers so far.
    pub const GENERATIONS: u64 = 488;
    /// Of a hash node below a sparse one: whether containers were cleared, so that cells await collection.
    pub const SWEEP: u64 = 496;
    /// Bytes of the header.
    pub const SIZE: u64 = 512;
}

/// Threads in different parts of a tree allocate and deactivate cells through different shards, which have
/// their own cache lines. A shard has *runs*: numbers that it has claimed together from a word of the header
/// and hands out one by one. A run is one word: the next number in the low half, the end in the high half.
pub mod shard {
    /// Positions in the queue of recycled cells.
    pub const RECYCLED: u64 = 0;
    /// Cells that were never used.
    pub const FRESH: u64 = 8;
    /// Positions in the list of deactivated cells.
    pub const PENDING: u64 = 16;
    /// Bytes of a shard.
    pub const SIZE: u64 = 64;
    /// Shards per arena.
    pub const COUNT: u64 = 32;
    /// The longest run.
    pub const LONGEST: u64 = 64;
    /// Instead of a run, while a thread fetches one.
    pub const BUSY: u64 = 1;

    /// The remaining numbers of a run.
    pub fn left(run: u64) -> u64 {
        (run >> 32).saturating_sub(run & 0xffff_ffff)
    }
}

/// Words at the start of a tree with sparse nodes, behind the zeros.
pub mod tree_header {
    /// Bytes of cells allocated so far.
    pub const USED: u64 = 0;
    /// The most bytes that may be allocated.
    pub const LIMIT: u64 = 64;
    /// On a GPU: the offset of the [`budget`](super::budget) from the start of the tree.
    pub const BUDGET: u64 = 72;
    /// A budget of the tree alone.
    pub const OWN_BUDGET: u64 = 80;
    /// Bytes of the header.
    pub const SIZE: u64 = 128;
}

/// Words that all trees of a GPU share, in memory of their own. Trees with short offsets do not reach them, and are too small to
/// exhaust a device.
pub mod budget {
    /// Bytes of cells that were allocated in all trees.
    pub const CLAIMED: u64 = 0;
    /// The most bytes that may be allocated in all trees.
    pub const LIMIT: u64 = 8;
    /// Bytes of a budget.
    pub const SIZE: u64 = 16;
}

/// Address space for all cells of one tree. It is cheap; the system provides memory on first use.
const RESERVE: u64 = 1 << 40;
/// Two cell numbers, or positions in a list of cells, fit a nonnegative word.
const MOST_CELLS: u64 = (1 << 31) - (1 << 16);
/// Additional room in the list of deactivated cells: the rest of each shard's run of positions, and the rests
/// of the runs of recycled cells, which a collection adds.
const GAPS: u64 = 2 * shard::COUNT * shard::LONGEST;
const PAGE: u64 = 1 << 16;

impl TreeMemory {
    /// Whether all offsets fit in 31 bits.
    pub fn has_short_offsets(&self) -> bool {
        self.size < 1 << 31
    }

    /// The offset of a field in a cell of its parent.
    pub fn place(&self, field: Field) -> u64 {
        self.place_offset
            .iter()
            .find(|p| p.0 == field)
            .map_or(0, |p| p.1)
    }

    /// The memory of a sparse node.
    pub fn node(&self, node: Node) -> Option<&NodeMemory> {
        self.nodes[node].as_ref()
    }

    /// The offset of the tree's header, if it has one; all bytes before it are zero.
    pub fn tree_header(&self, tree: &TreeData) -> Option<u64> {
        tree.is_sparse().then(|| self.zeros())
    }

    /// An offset with zeros of one cell size before it and two after it: represents an absent cell where code
    /// may read outside of it.
    pub fn absent(&self) -> u64 {
        self.zeros() / 3
    }

    /// Ranges that must be mapped initially, on a device that does not map memory on first use.
    pub fn fixed_ranges(&self, tree: &TreeData) -> Vec<Range<u64>> {
        if !tree.is_sparse() {
            return std::iter::once(0..self.size).collect();
        }
        let root = self.node_offset[tree.root()];
        let mut all: Vec<_> = std::iter::once(0..root + self.cell_size[tree.root()]).collect();
        for (id, node) in self.nodes.iter() {
            let Some(node) = node else { continue };
            if node.table != 0 {
                let (_, words) = tree.nodes[id].kind.format().table_words();
                all.push(node.table..node.table + words * WORD);
            }
            match &node.arena {
                Some(arena) => {
                    let shards = shard::COUNT * shard::SIZE;
                    all.push(arena.shards..arena.shards + shards);
                }
                // Without an arena above, its list has a fixed size.
                None if self.arena_above(tree, id).is_none() => {
                    let containers = self.containers(tree, id).unwrap_or(0);
                    let entries = containers.saturating_mul(list_entries(tree, id));
                    all.push(
                        node.list.entries..node.list.entries + entries * node.list.words * WORD,
                    );
                }
                None => {}
            }
        }
        all
    }

    /// Ranges that must be mapped for this many cells of an allocating node.
    pub fn ranges_for(&self, tree: &TreeData, node: Node, cells: u64) -> Vec<Range<u64>> {
        let Some((memory, arena)) = self.node(node).and_then(|n| Some((n, n.arena.as_ref()?)))
        else {
            return Vec::new();
        };
        let cells = cells.min(arena.capacity);
        let records = record_words(tree, node);
        let from = |at: u64, bytes: u64| at..at + bytes;
        let mut all = vec![
            from(arena.data, cells * arena.cell),
            from(arena.free, cells * WORD),
            from(arena.pending, (cells + GAPS) * WORD),
            from(arena.next, cells * WORD),
            from(arena.records, cells * WORD * records),
            from(memory.list.entries, cells * memory.list.words * WORD),
        ];
        // Lists of the nodes below, unless another arena is in between.
        for (id, below) in self.nodes.iter() {
            let Some(below) = below else { continue };
            if below.arena.is_none() && self.arena_above(tree, id) == Some(node) {
                let per = self.containers(tree, id).unwrap_or(0) / arena.capacity.max(1);
                let each = list_entries(tree, id);
                let entries = cells.saturating_mul(per).saturating_mul(each);
                all.push(from(below.list.entries, entries * below.list.words * WORD));
            }
        }
        all
    }

    /// A power of two that divides the offsets of all containers of a node.
    pub fn container_alignment(&self, tree: &TreeData, node: Node) -> u64 {
        let mut bits = self.node_offset[node];
        let mut at = tree.nodes[node].parent;
        while let Some(n) = at {
            bits |= self.cell_size[n];
            if let Some(arena) = self.node(n).and_then(|m| m.arena.as_ref()) {
                return lowest_bit(bits | arena.alignment());
            }
            bits |= self.first_cell[n] | self.node_offset[n];
            at = tree.nodes[n].parent;
        }
        lowest_bit(bits)
    }

    /// The nearest allocating node above.
    fn arena_above(&self, tree: &TreeData, node: Node) -> Option<Node> {
        let mut at = tree.nodes[node].parent;
        while let Some(n) = at {
            if tree.nodes[n].kind.allocates() {
                return Some(n);
            }
            at = tree.nodes[n].parent;
        }
        None
    }

    fn zeros(&self) -> u64 {
        let arenas = self
            .nodes
            .values()
            .flatten()
            .filter_map(|n| n.arena.as_ref());
        zeros(arenas.map(|a| a.cell))
    }

    /// Computes the layout of a tree; `None` if it needs more than 2^62 bytes.
    pub fn of(
        tree: &TreeData,
        fields: &PrimaryMap<Field, FieldData>,
        structs: &Structs,
    ) -> Option<TreeMemory> {
        let count = tree.nodes.len();
        let all = |x: u64| -> PrimaryMap<Node, u64> { (0..count).map(|_| x).collect() };
        let mut memory = TreeMemory {
            cell_size: all(0),
            node_offset: all(0),
            first_cell: all(0),
            place_offset: Vec::new(),
            nodes: (0..count).map(|_| None).collect(),
            size: 0,
            align: 1,
        };
        let mut align = all(1);
        // Children come after their parents, so backwards is bottom-up.
        for node in tree.nodes.keys().rev() {
            let mut at = 0u64;
            for child in &tree.nodes[node].children {
                let (size, child_align) = match *child {
                    Child::Place(f) => fields[f].size_align(structs),
                    Child::Node(n) => memory.container(tree, n, align[n])?,
                };
                at = at.checked_next_multiple_of(child_align)?;
                match *child {
                    Child::Place(f) => memory.place_offset.push((f, at)),
                    Child::Node(n) => memory.node_offset[n] = at,
                }
                align[node] = align[node].max(child_align);
                at = at.checked_add(size)?;
                if at > 1 << 62 {
                    return None;
                }
            }
            memory.cell_size[node] = at.checked_next_multiple_of(align[node])?;
        }
        let root = tree.root();
        memory.align = align[root];
        memory.size = memory.cell_size[root];
        if tree.is_sparse() {
            memory.add_sparse(tree)?;
        }
        Some(memory)
    }

    /// Size and alignment of what a node occupies in one cell of its parent.
    fn container(&mut self, tree: &TreeData, node: Node, align: u64) -> Option<(u64, u64)> {
        let data = &tree.nodes[node];
        let cells = data
            .extents
            .iter()
            .try_fold(1u64, |n, e| n.checked_mul(e.1));
        let format = data.kind.format();
        let container =
            format.container(tree.path_info(node), cells, self.cell_size[node], align)?;
        self.first_cell[node] = container.first_cell;
        Some((container.size, container.align))
    }

    /// Adds zeros, headers, arenas and lists around the root cell.
    fn add_sparse(&mut self, tree: &TreeData) -> Option<()> {
        let sparse: Vec<Node> = tree
            .nodes
            .keys()
            .filter(|n| tree.nodes[*n].kind.is_sparse())
            .collect();
        let allocating = sparse.iter().filter(|n| tree.nodes[**n].kind.allocates());
        let reserve = RESERVE / (allocating.count() as u64).max(1);
        let mut cells = Vec::new();
        for n in &sparse {
            cells.push(self.allocated_cell(tree, *n)?);
        }
        let mut at = zeros(cells.iter().copied());
        at = at.checked_add(tree_header::SIZE)?;
        let headers = at;
        at += header::SIZE * sparse.len() as u64;
        at = at.checked_next_multiple_of(self.align.max(64))?;
        self.node_offset[tree.root()] = at;
        at = at.checked_add(self.size)?;
        let mut take = |bytes: u64| -> Option<u64> {
            let here = at.checked_next_multiple_of(PAGE)?;
            at = here.checked_add(bytes).filter(|end| *end <= 1 << 62)?;
            Some(here)
        };
        for (k, node) in sparse.iter().enumerate() {
            let data = &tree.nodes[*node];
            let words = 3 + tree.axes(*node).len() as u64;
            let (cell, header) = (cells[k], headers + header::SIZE * k as u64);
            // The number of possible cells, plus some for cells that are activated and deactivated in one
            // task, and for threads that lose the race to activate one.
            let possible = tree
                .path(*node)
                .iter()
                .fold(1u64, |n, m| n.saturating_mul(tree.nodes[*m].cells()));
            let arena = if data.kind.allocates() {
                let capacity = possible
                    .div_ceil(data.kind.format().cells_per_allocation())
                    .saturating_mul(4)
                    .saturating_add(1 << 12)
                    .min(reserve / cell)
                    .clamp(1, MOST_CELLS);
                Some(Arena {
                    data: take(capacity.checked_mul(cell)?)?,
                    cell,
                    capacity,
                    free: take(capacity * WORD)?,
                    pending: take((capacity + GAPS) * WORD)?,
                    shards: take(shard::COUNT * shard::SIZE)?,
                    next: take(capacity * WORD)?,
                    records: take(capacity * WORD * record_words(tree, *node))?,
                })
            } else {
                None
            };
            let table = match data.kind.format().table_words() {
                (0, _) => 0,
                (words, _) => take(words * WORD)?,
            };
            let listed = match &arena {
                Some(a) => a.capacity,
                None => self
                    .containers(tree, *node)?
                    .saturating_mul(list_entries(tree, *node)),
            };
            let list = ListMemory {
                entries: take(listed.min(1 << 44).checked_mul(words * WORD)?)?,
                words,
            };
            self.nodes[*node] = Some(NodeMemory {
                header,
                arena,
                list,
                table,
            });
        }
        // Loads outside of a cell, whose values are unused, stay inside the tree.
        let slack = zeros(cells.iter().copied());
        self.size = at.checked_add(slack)?.checked_next_multiple_of(PAGE)?;
        self.align = PAGE;
        Some(())
    }

    /// Bytes of one allocation of a node; 0 for a node that does not allocate.
    fn allocated_cell(&self, tree: &TreeData, node: Node) -> Option<u64> {
        let format = tree.nodes[node].kind.format();
        if !format.allocates() {
            return Some(0);
        }
        let bytes = self.cell_size[node].max(1);
        let bytes = bytes.checked_mul(format.cells_per_allocation())?;
        let step = if bytes >= 256 { 64 } else { WORD };
        bytes
            .checked_next_multiple_of(step)
            .filter(|b| *b < 1 << 48)
    }

    /// The largest number of containers of a node, limited by those that have memory.
    fn containers(&self, tree: &TreeData, node: Node) -> Option<u64> {
        let mut count = 1u64;
        let mut at = tree.nodes[node].parent;
        while let Some(n) = at {
            if let Some(arena) = self.nodes[n].as_ref().and_then(|m| m.arena.as_ref()) {
                let per = tree.nodes[n].kind.format().cells_per_allocation();
                return count.checked_mul(arena.capacity)?.checked_mul(per);
            }
            count = count.checked_mul(tree.nodes[n].cells())?;
            at = tree.nodes[n].parent;
        }
        Some(count)
    }
}

/// The largest power of two that divides a number.
fn lowest_bit(number: u64) -> u64 {
    1 << number.trailing_zeros().min(63)
}

/// List entries per container of a node that does not allocate.
fn list_entries(tree: &TreeData, node: Node) -> u64 {
    let data = &tree.nodes[node];
    data.kind.format().list_entries(data.cells())
}

/// Words stored next to each allocated cell.
fn record_words(tree: &TreeData, node: Node) -> u64 {
    let data = &tree.nodes[node];
    data.kind.format().record_words(tree.path_info(node))
}

/// Zeros at the start of a tree, for cells of these sizes.
fn zeros(cells: impl Iterator<Item = u64>) -> u64 {
    3 * cells.max().unwrap_or(0).max(WORD).next_multiple_of(PAGE)
}
