//! Finds the cells of a tree.

use super::machine::Memory;
use std::collections::BTreeSet;
use wuji_ir::entities::{Node, Tree};
use wuji_ir::layout::{
    Child, Dynamic, NodeKind, TreeData, TreeMemory, hash_table, header, record, shard,
};
use wuji_ir::module::Module;

pub(crate) fn find(memory: &Memory, at: u64) -> u64 {
    memory.get(&(at as i64)).copied().unwrap_or(0)
}

/// All allocated cells of a tree.
pub(crate) struct Places<'a> {
    tree: &'a TreeData,
    layout: TreeMemory,
    memory: &'a Memory,
    /// The cells in the tree, by node.
    in_tree: Vec<Vec<u64>>,
    /// The node, container and coordinates of the cells of hash nodes.
    names: Vec<(Node, u64, Vec<i64>, u64)>,
}

impl<'a> Places<'a> {
    pub(crate) fn of(m: &'a Module, memory: &'a Memory) -> Places<'a> {
        let tree = &m.trees[Tree::from_u32(0)];
        let layout = TreeMemory::of(tree, &m.fields, &m.structs).unwrap();
        let mut places = Places {
            tree,
            in_tree: vec![Vec::new(); tree.nodes.len()],
            names: Vec::new(),
            memory,
            layout,
        };
        let root = tree.root();
        places.cell(root, places.layout.node_offset[root]);
        places
    }

    pub(crate) fn count(&self, node: usize) -> usize {
        self.in_tree[node].len()
    }

    pub(crate) fn cells(&self, node: usize) -> &[u64] {
        &self.in_tree[node]
    }

    /// The cell of a hash node with these coordinates.
    pub(crate) fn named(&self, coordinates: &[i64]) -> Option<u64> {
        let found = self.names.iter().find(|n| n.2 == coordinates);
        found.map(|n| n.3)
    }

    /// Visits the contents of a cell.
    fn cell(&mut self, node: Node, at: u64) {
        for child in &self.tree.nodes[node].children {
            if let Child::Node(n) = child {
                self.container(*n, at + self.layout.node_offset[*n]);
            }
        }
    }

    fn container(&mut self, node: Node, at: u64) {
        let data = &self.tree.nodes[node];
        let first = at + self.layout.first_cell[node];
        let below = |places: &mut Self, count: u64| {
            for k in 0..count {
                let cell = find(places.memory, first + 8 * k);
                if cell != 0 {
                    places.in_tree[node.as_u32() as usize].push(cell);
                    places.cell(node, cell);
                }
            }
        };
        match data.kind {
            NodeKind::Pointer => below(self, data.cells()),
            NodeKind::Dynamic(list) => below(self, data.cells().div_ceil(list.chunk.into())),
            NodeKind::Hash => self.table(node, at),
            NodeKind::Bitmasked => self.cells_in(node, first, |places, k| {
                let mask = find(places.memory, at + 8 * (k / 64));
                mask >> (k % 64) & 1 != 0
            }),
            NodeKind::Dense => self.cells_in(node, first, |_, _| true),
            NodeKind::BitArray | NodeKind::Root => {}
        }
    }

    /// Visits those cells of a container that are active, for kinds whose cells are in it.
    fn cells_in(&mut self, node: Node, first: u64, active: impl Fn(&Self, u64) -> bool) {
        let size = self.layout.cell_size[node];
        for k in 0..self.tree.nodes[node].cells() {
            if active(self, k) {
                self.cell(node, first + k * size);
            }
        }
    }

    /// The cells of a container, among those in the tables of its node.
    fn table(&mut self, node: Node, container: u64) {
        let own = self.layout.node(node).unwrap().clone();
        let arena = own.arena.unwrap();
        let path = self.tree.path_info(node);
        let words = self.tree.nodes[node].kind.format().record_words(path);
        let end = own.table + 8 * hash_table::start(hash_table::LEVELS);
        let slots = self.memory.range(own.table as i64..end as i64);
        let cells: Vec<u64> = slots.map(|s| *s.1).filter(|c| *c as i64 > 0).collect();
        for cell in cells {
            let record = arena.records + (cell - arena.data) / arena.cell * 8 * words;
            let word = |k: u64| find(self.memory, record + 8 * k);
            let generation = word(record::GENERATION);
            assert_ne!(generation, 0, "a cell that is not active is in a table");
            if path.below_sparse {
                let of = word(record::container(path.axes));
                let current = find(self.memory, of);
                assert_eq!(generation, current, "a cell outlives its container");
                if of != container {
                    continue;
                }
            }
            let coordinates = (0..path.axes).map(|k| word(record::COORDINATES + k as u64) as i64);
            let name = (node, container, coordinates.collect(), cell);
            self.names.push(name);
            self.in_tree[node.as_u32() as usize].push(cell);
            self.cell(node, cell);
        }
    }

    /// Every allocated cell is in exactly one state; `elsewhere` is the number of cells per node that need not be
    /// found.
    pub(crate) fn check(&self, elsewhere: &[u64], seed: u64) {
        let nodes = self.tree.nodes.keys();
        let allocating = nodes.filter(|n| self.tree.nodes[*n].kind.allocates());
        for (node, elsewhere) in allocating.zip(elsewhere) {
            self.check_node(node, *elsewhere, seed);
        }
        let names: BTreeSet<_> = (self.names.iter())
            .map(|(node, container, name, _)| (node, container, name))
            .collect();
        assert_eq!(
            names.len(),
            self.names.len(),
            "seed {seed}: a table has two cells for the same coordinates"
        );
    }

    fn check_node(&self, node: Node, elsewhere: u64, seed: u64) {
        let own = self.layout.node(node).unwrap();
        let arena = own.arena.as_ref().unwrap();
        let word = |at: u64| find(self.memory, at);
        let head = |at: u64| word(own.header + at);
        let run = |k: u64, what: u64| {
            let run = word(arena.shards + k * shard::SIZE + what);
            assert_ne!(
                run,
                shard::BUSY,
                "seed {seed}: a shard is still being filled"
            );
            (run & 0xffff_ffff)..(run >> 32)
        };
        let runs = |what: u64| (0..shard::COUNT).flat_map(move |k| run(k, what));
        let mut places: Vec<u64> = self.in_tree[node.as_u32() as usize].clone();
        let queue = match head(header::ROOM) {
            0 => head(header::TAKEN)..head(header::FREE),
            // Of a GPU: a stack, of which some were popped.
            _ => 0..head(header::FREE).saturating_sub(head(header::TAKEN)),
        };
        let queue = queue.chain(runs(shard::RECYCLED));
        places.extend(queue.map(|k| word(arena.free + 8 * k)));
        let gaps: BTreeSet<u64> = runs(shard::PENDING).collect();
        let pending = (0..head(header::PENDING)).filter(|k| !gaps.contains(k));
        places.extend(pending.map(|k| word(arena.pending + 8 * k)));
        places.extend(runs(shard::FRESH).map(|k| arena.data + k * arena.cell));
        let mut top = head(header::RETURNED) & 0xffff_ffff;
        while top != 0 {
            places.push(arena.data + (top - 1) * arena.cell);
            top = word(arena.next + 8 * (top - 1));
        }
        let distinct: BTreeSet<u64> = places.iter().copied().collect();
        assert_eq!(
            distinct.len(),
            places.len(),
            "seed {seed}, {node}: a cell is in two states"
        );
        assert_eq!(
            distinct.len() as u64 + elsewhere,
            head(header::HIGH),
            "seed {seed}, {node}: a cell is lost"
        );
    }
}

/// The elements of a list below a pointer, in order.
pub(crate) fn lists(m: &Module, memory: &Memory, list: u64) -> Vec<u64> {
    let tree = &m.trees[Tree::from_u32(0)];
    let layout = TreeMemory::of(tree, &m.fields, &m.structs).unwrap();
    let [root, block, node] = [0, 1, 2].map(Node::from_u32);
    let slots = layout.node_offset[root] + layout.node_offset[block] + layout.first_cell[block];
    let cell = find(memory, slots + 8 * list);
    let container = cell + layout.node_offset[node];
    let NodeKind::Dynamic(Dynamic { chunk }) = tree.nodes[node].kind else {
        panic!("no list");
    };
    let length = find(memory, container).min(tree.nodes[node].cells());
    let size = layout.cell_size[node];
    (0..length)
        .map(|k| {
            let first = container + layout.first_cell[node];
            let chunk_at = find(memory, first + 8 * (k / u64::from(chunk)));
            find(memory, chunk_at + size * (k % u64::from(chunk)))
        })
        .collect()
}
