//! Where the bytes of a tree are.
//!
//! A tree of dense nodes is its root cell and nothing else. A tree with sparse nodes is one long range of
//! addresses of which little is touched:
//!
//! ```text
//! 0            zeros, three times as many as the largest allocated cell has bytes: what absent cells read as
//! tree header  bytes in use, limit
//! headers      one per sparse node
//! root cell
//! arenas       one per allocating node: cells, and the lists that hand them out
//! lists        one per sparse node: the active cells, for loops
//! ```
//!
//! A pointer is a byte offset from the start of the tree; 0 is "absent", and reads through it find zeros.

use super::{Child, FieldData, NodeKind, TreeData};
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
    /// Where the first cell is from where the node starts: behind the mask of a bitmasked node, behind
    /// the length of a dynamic one (whose "cells" there are pointers to chunks).
    pub first_cell: PrimaryMap<Node, u64>,
    /// Where a field's element starts within a cell of its node.
    pub place_offset: Vec<(Field, u64)>,
    /// Of the sparse nodes.
    pub nodes: PrimaryMap<Node, Option<NodeMemory>>,
    /// Addresses from the first to the last byte of the tree.
    pub size: u64,
    pub align: u64,
}

/// What a sparse node has besides what lies in the cells of its parent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeMemory {
    /// Offset of its [`header`].
    pub header: u64,
    pub arena: Option<Arena>,
    pub list: ListMemory,
    /// Of a hash node: where its table is.
    pub table: u64,
}

/// Memory for the cells of one node, all of one size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arena {
    /// Offset of the first cell.
    pub data: u64,
    /// Bytes of a cell (of a chunk, in a dynamic node).
    pub cell: u64,
    /// Cells there are addresses for.
    pub capacity: u64,
    /// Offset of the queue of cells that may be given out again: `capacity` offsets.
    pub free: u64,
    /// Offset of the list of cells that were deactivated: offsets, with gaps where it has them ready
    /// for somebody who never came.
    pub pending: u64,
    /// Offset of the [`shard`]s.
    pub shards: u64,
    /// One word per cell: its number's successor in the stack of cells that were given back unused.
    pub next: u64,
    /// Of a hash node: for every cell whether it is active, and its coordinates, a word each.
    pub keys: u64,
}

/// The active cells of a node, for loops.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListMemory {
    pub entries: u64,
    /// Words of an entry: offset, mask or count, number of the first cell, coordinates.
    pub words: u64,
}

/// Words of the header of a sparse node. Those that threads fight for have a line of their own.
pub mod header {
    /// Where in the queue of cells that may be given out again the first one is that no shard has. It may
    /// be beyond the end.
    pub const TAKEN: u64 = 0;
    /// Top of the stack of cells given back unused: number + 1 below, a tag above.
    pub const RETURNED: u64 = 64;
    /// Where that queue ends.
    pub const FREE: u64 = 128;
    /// Whether shards clear the cells of the queue when they take them; else who gets a cell clears it.
    pub const AHEAD: u64 = 136;
    /// Places in the list of deactivated cells that have been given out since the last collection.
    pub const PENDING: u64 = 192;
    /// Cells that shards have ever taken, from the first on. It may be beyond the capacity.
    pub const HIGH: u64 = 256;
    /// Set when a cell comes or goes.
    pub const CHANGED: u64 = 320;
    /// Entries of the list.
    pub const LISTED: u64 = 384;
    /// How often the set of active cells has changed, as the host counts.
    pub const VERSION: u64 = 448;
    /// What the versions on the way to the node added up to when its list was made, plus one.
    pub const STAMP: u64 = 456;
    /// Of a hash node: the first table that is in use.
    pub const LEVEL: u64 = 464;
    /// Of a hash node: the last table that is in use.
    pub const TOP: u64 = 472;
    /// On a GPU: cells that there is memory for, as the host says. Elsewhere memory comes when it is touched.
    pub const ROOM: u64 = 480;
    pub const SIZE: u64 = 512;
}

/// Threads that are at different places in a tree take cells, and let them go, through different shards,
/// which have their lines to themselves. A shard has *runs*: numbers that it took from a word of the header all at once and
/// hands out one by one. A run is a word: the next number in the low half, the end in the high one.
pub mod shard {
    /// Places in the queue of cells that may be given out again.
    pub const RECYCLED: u64 = 0;
    /// Cells that were never used.
    pub const FRESH: u64 = 8;
    /// Places in the list of deactivated cells.
    pub const PENDING: u64 = 16;
    pub const SIZE: u64 = 64;
    /// There are so many of them for each arena.
    pub const COUNT: u64 = 32;
    /// No run is longer.
    pub const LONGEST: u64 = 64;
    /// Instead of a run, while somebody fetches one.
    pub const BUSY: u64 = 1;

    /// How many numbers a run still has.
    pub fn left(run: u64) -> u64 {
        (run >> 32).saturating_sub(run & 0xffff_ffff)
    }
}

/// Words at the start of a tree with sparse nodes, behind the zeros.
pub mod tree_header {
    /// Bytes of cells given out so far.
    pub const USED: u64 = 0;
    /// How many there may be.
    pub const LIMIT: u64 = 64;
    pub const SIZE: u64 = 128;
}

/// Tables of a hash node: table `k` has `FIRST << k` slots, one behind the other.
pub mod hash_table {
    pub const FIRST: u64 = 1 << 10;
    /// There are so many of them.
    pub const LEVELS: u64 = 24;
    /// On a GPU, where all of them have memory from the start, so many are used.
    pub const GPU_LEVELS: u64 = 14;
    /// Slots that are looked at in one table before the next.
    pub const PROBES: u64 = 16;

    /// Where table `k` starts, in slots. A run of probes may reach beyond the end of its table.
    pub const fn start(k: u64) -> u64 {
        (FIRST << k) - FIRST + k * PROBES
    }
}

/// Addresses for all cells of one tree. Address space is cheap; memory is taken when touched.
const RESERVE: u64 = 1 << 40;
/// Two numbers of cells, or of places in a list of them, fit a word that is not negative.
const MOST_CELLS: u64 = (1 << 31) - (1 << 16);
/// What the list of deactivated cells may have besides them: the rest of each shard's run of places, and a collection
/// puts the rests of their runs of recycled cells there, too.
const GAPS: u64 = 2 * shard::COUNT * shard::LONGEST;
const PAGE: u64 = 1 << 16;
const WORD: u64 = 8;

impl TreeMemory {
    pub fn place(&self, field: Field) -> u64 {
        self.place_offset
            .iter()
            .find(|p| p.0 == field)
            .map_or(0, |p| p.1)
    }

    /// Of a sparse node.
    pub fn node(&self, node: Node) -> Option<&NodeMemory> {
        self.nodes[node].as_ref()
    }

    /// Where the header of the tree is, if it has one: there are as many zeros in front of it.
    pub fn tree_header(&self, tree: &TreeData) -> Option<u64> {
        tree.is_sparse().then(|| self.zeros())
    }

    /// An offset with as many zeros before it, and twice as many behind it, as any cell has bytes: stands
    /// for an absent cell where code may look beside it.
    pub fn absent(&self) -> u64 {
        self.zeros() / 3
    }

    /// What has to be there from the start, on a machine on which memory does not come when it is touched.
    pub fn fixed_ranges(&self, tree: &TreeData) -> Vec<Range<u64>> {
        if !tree.is_sparse() {
            return std::iter::once(0..self.size).collect();
        }
        let root = self.node_offset[tree.root()];
        let mut all: Vec<_> = std::iter::once(0..root + self.cell_size[tree.root()]).collect();
        for (id, node) in self.nodes.iter() {
            let Some(node) = node else { continue };
            if node.table != 0 {
                let slots = hash_table::start(hash_table::GPU_LEVELS);
                all.push(node.table..node.table + slots * WORD);
            }
            match &node.arena {
                Some(arena) => {
                    let shards = shard::COUNT * shard::SIZE;
                    all.push(arena.shards..arena.shards + shards);
                }
                // Without an arena above, its list has a fixed size.
                None if self.arena_above(tree, id).is_none() => {
                    let words = tree.nodes[id].cells().div_ceil(64);
                    let entries = self.containers(tree, id).unwrap_or(0).saturating_mul(words);
                    all.push(
                        node.list.entries..node.list.entries + entries * node.list.words * WORD,
                    );
                }
                None => {}
            }
        }
        all
    }

    /// What has to be there for so many cells of a node that allocates.
    pub fn ranges_for(&self, tree: &TreeData, node: Node, cells: u64) -> Vec<Range<u64>> {
        let Some((memory, arena)) = self.node(node).and_then(|n| Some((n, n.arena.as_ref()?)))
        else {
            return Vec::new();
        };
        let cells = cells.min(arena.capacity);
        let keys = match tree.nodes[node].kind {
            NodeKind::Hash => 1 + tree.nodes[node].extents.len() as u64,
            _ => 0,
        };
        let from = |at: u64, bytes: u64| at..at + bytes;
        let mut all = vec![
            from(arena.data, cells * arena.cell),
            from(arena.free, cells * WORD),
            from(arena.pending, (cells + GAPS) * WORD),
            from(arena.next, cells * WORD),
            from(arena.keys, cells * WORD * keys),
            from(memory.list.entries, cells * memory.list.words * WORD),
        ];
        // Lists of what is below, as far as no other arena is between.
        for (id, below) in self.nodes.iter() {
            let Some(below) = below else { continue };
            if below.arena.is_none() && self.arena_above(tree, id) == Some(node) {
                let per = self.containers(tree, id).unwrap_or(0) / arena.capacity.max(1);
                let words = tree.nodes[id].cells().div_ceil(64);
                let entries = cells.saturating_mul(per).saturating_mul(words);
                all.push(from(below.list.entries, entries * below.list.words * WORD));
            }
        }
        all
    }

    /// The nearest node above that allocates.
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

    /// Lays a tree out; `None` when it needs more than 2^62 bytes.
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
                    Child::Place(f) => structs.size_align(fields[f].elem),
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

    /// Bytes and alignment of what a node takes in one cell of its parent.
    fn container(&mut self, tree: &TreeData, node: Node, align: u64) -> Option<(u64, u64)> {
        let data = &tree.nodes[node];
        let cells = data
            .extents
            .iter()
            .try_fold(1u64, |n, e| n.checked_mul(e.1));
        match data.kind {
            NodeKind::Root | NodeKind::Dense => {
                Some((self.cell_size[node].checked_mul(cells?)?, align))
            }
            NodeKind::Bitmasked => {
                let align = align.max(WORD);
                let mask = cells?.div_ceil(64) * WORD;
                let first = mask.checked_next_multiple_of(align)?;
                self.first_cell[node] = first;
                let bytes = self.cell_size[node].checked_mul(cells?)?;
                Some((first.checked_add(bytes)?, align))
            }
            NodeKind::Pointer => Some((cells?.checked_mul(WORD)?, WORD)),
            NodeKind::Hash => Some((0, WORD)),
            NodeKind::Dynamic { chunk } => {
                self.first_cell[node] = WORD;
                let chunks = cells?.div_ceil(u64::from(chunk).max(1));
                Some((chunks.checked_add(1)?.checked_mul(WORD)?, WORD))
            }
        }
    }

    /// Puts zeros, headers, arenas and lists around the root cell.
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
            // How many cells there can be at all; and some more, for cells that come and go in one task,
            // and for threads that lose a race to activate one.
            let possible = tree
                .path(*node)
                .iter()
                .fold(1u64, |n, m| n.saturating_mul(tree.nodes[*m].cells()));
            let arena = match data.kind.allocates() {
                false => None,
                true => {
                    let chunk = match data.kind {
                        NodeKind::Dynamic { chunk } => u64::from(chunk).max(1),
                        _ => 1,
                    };
                    let capacity = possible
                        .div_ceil(chunk)
                        .saturating_mul(4)
                        .saturating_add(1 << 12)
                        .min(reserve / cell)
                        .clamp(1, MOST_CELLS);
                    let keys = if data.kind == NodeKind::Hash {
                        1 + data.extents.len() as u64
                    } else {
                        0
                    };
                    Some(Arena {
                        data: take(capacity.checked_mul(cell)?)?,
                        cell,
                        capacity,
                        free: take(capacity * WORD)?,
                        pending: take((capacity + GAPS) * WORD)?,
                        shards: take(shard::COUNT * shard::SIZE)?,
                        next: take(capacity * WORD)?,
                        keys: take(capacity * WORD * keys)?,
                    })
                }
            };
            let table = if data.kind == NodeKind::Hash {
                take(hash_table::start(hash_table::LEVELS) * WORD)?
            } else {
                0
            };
            let listed = match &arena {
                Some(a) => a.capacity,
                // One entry per word of the mask.
                None => self
                    .containers(tree, *node)?
                    .saturating_mul(data.cells().div_ceil(64)),
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
        // Loads beside a cell, whose value nobody uses, stay inside.
        let slack = zeros(cells.iter().copied());
        self.size = at.checked_add(slack)?.checked_next_multiple_of(PAGE)?;
        self.align = PAGE;
        Some(())
    }

    /// Bytes of one allocation of a node; of a node that allocates nothing, 0.
    fn allocated_cell(&self, tree: &TreeData, node: Node) -> Option<u64> {
        let bytes = self.cell_size[node].max(1);
        let bytes = match tree.nodes[node].kind {
            NodeKind::Root | NodeKind::Dense | NodeKind::Bitmasked => return Some(0),
            NodeKind::Pointer | NodeKind::Hash => bytes,
            NodeKind::Dynamic { chunk } => bytes.checked_mul(u64::from(chunk).max(1))?,
        };
        let step = if bytes >= 256 { 64 } else { WORD };
        bytes
            .checked_next_multiple_of(step)
            .filter(|b| *b < 1 << 48)
    }

    /// How many containers of a node there can be, at most as many as have memory.
    fn containers(&self, tree: &TreeData, node: Node) -> Option<u64> {
        let mut count = 1u64;
        let mut at = tree.nodes[node].parent;
        while let Some(n) = at {
            if let Some(arena) = self.nodes[n].as_ref().and_then(|m| m.arena.as_ref()) {
                let per = match tree.nodes[n].kind {
                    NodeKind::Dynamic { chunk } => u64::from(chunk).max(1),
                    _ => 1,
                };
                return count.checked_mul(arena.capacity)?.checked_mul(per);
            }
            count = count.checked_mul(tree.nodes[n].cells())?;
            at = tree.nodes[n].parent;
        }
        Some(count)
    }
}

/// Zeros in front of everything, for cells of these sizes.
fn zeros(cells: impl Iterator<Item = u64>) -> u64 {
    3 * cells.max().unwrap_or(0).max(WORD).next_multiple_of(PAGE)
}
