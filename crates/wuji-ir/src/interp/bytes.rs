//! Lowered memory: the bytes of trees and temps, and which bytes each field owns.

use super::array::{read_scalar, write_scalar};
use super::error::{TOO_LARGE, stop};
use super::store::FieldDomain;
use crate::Result;
use crate::entities::{Field, Node, Tree};
use crate::layout::{Axis, CellOrder, TreeData, TreeMemory, budget, header, tree_header};
use crate::module::Module;
use crate::types::{Imm, Scalar};
use rustc_hash::FxHashMap;

/// Bytes that are initially zero. Only written pages take memory.
#[derive(Debug, Default)]
pub(super) struct Bytes {
    len: u64,
    pages: FxHashMap<u64, Box<[u8]>>,
}

impl Bytes {
    const PAGE: u64 = 1 << 16;

    pub(super) fn new(len: u64) -> Bytes {
        Bytes {
            len,
            pages: FxHashMap::default(),
        }
    }

    /// Whether a scalar at this offset is in range and aligned.
    pub(super) fn holds(&self, offset: i64, ty: Scalar) -> bool {
        let size = u64::from(ty.bytes());
        offset >= 0
            && (offset as u64).is_multiple_of(size)
            && (offset as u64)
                .checked_add(size)
                .is_some_and(|e| e <= self.len)
    }

    /// Aligned scalars never cross a page.
    pub(super) fn read(&self, offset: u64, ty: Scalar) -> Imm {
        match self.pages.get(&(offset / Self::PAGE)) {
            Some(page) => read_scalar(&page[(offset % Self::PAGE) as usize..], ty),
            None => Imm::zero(ty),
        }
    }

    pub(super) fn write(&mut self, offset: u64, value: Imm) {
        let page = self
            .pages
            .entry(offset / Self::PAGE)
            .or_insert_with(|| vec![0; Self::PAGE as usize].into());
        write_scalar(&mut page[(offset % Self::PAGE) as usize..], value);
    }
}

/// The bytes of one tree.
#[derive(Debug)]
pub(super) struct TreeBytes {
    memory: TreeMemory,
    /// Of a sparse tree: this many bytes at the start stay zero.
    zeros: Option<u64>,
    pub(super) bytes: Bytes,
    /// The private copy of worker 1.
    pub(super) copy: Bytes,
}

impl TreeBytes {
    pub(super) fn new(m: &Module, tree: Tree) -> Result<TreeBytes> {
        let memory = TreeMemory::of(&m.trees[tree], &m.fields, &m.structs)
            .ok_or_else(|| stop(TOO_LARGE, format!("{tree} is too large")))?;
        let zeros = memory.tree_header(&m.trees[tree]);
        let bytes = fresh(&memory, zeros);
        Ok(TreeBytes {
            memory,
            zeros,
            copy: Bytes::new(bytes.len),
            bytes,
        })
    }

    /// Takes all bytes out, and leaves a fresh tree.
    pub(super) fn take(&mut self) -> Bytes {
        let new = fresh(&self.memory, self.zeros);
        std::mem::replace(&mut self.bytes, new)
    }

    /// `None` if the size does not match.
    pub(super) fn put(&mut self, bytes: Bytes) -> Option<()> {
        (bytes.len == self.bytes.len).then(|| self.bytes = bytes)
    }

    /// The number of entries of a node's list of active cells.
    pub(super) fn listed(&self, node: Node) -> Imm {
        match self.memory.node(node) {
            Some(n) => self.bytes.read(n.header + header::LISTED, Scalar::I64),
            None => Imm::zero(Scalar::I64),
        }
    }

    /// Prepares the generation of a node's list of active cells; `false` if it is up to date.
    pub(super) fn start_list(&mut self, tree: &TreeData, node: Node) -> bool {
        let Some(list) = self.memory.node(node).map(|n| n.header) else {
            return false;
        };
        let headers: Vec<u64> = self
            .memory
            .nodes
            .values()
            .flatten()
            .map(|n| n.header)
            .collect();
        for at in headers {
            if self.word(at + header::CHANGED) != 0 {
                self.set_word(at + header::CHANGED, 0);
                let version = self.word(at + header::VERSION) + 1;
                self.set_word(at + header::VERSION, version);
            }
        }
        let stale = self.word(list + header::STAMP) != self.stamp(tree, node);
        if stale {
            self.set_word(list + header::LISTED, 0);
        }
        stale
    }

    /// Marks the list as up to date.
    pub(super) fn end_list(&mut self, tree: &TreeData, node: Node) {
        let stamp = self.stamp(tree, node);
        if let Some(header) = self.memory.node(node).map(|n| n.header) {
            self.set_word(header + header::STAMP, stamp);
        }
    }

    /// The stamp of a list that is generated now.
    fn stamp(&self, tree: &TreeData, node: Node) -> i64 {
        let path = tree.sparse_path(node);
        let headers = path.iter().filter_map(|n| self.memory.node(*n));
        headers.fold(1, |sum, n| sum + self.word(n.header + header::VERSION))
    }

    fn word(&self, offset: u64) -> i64 {
        let word = self.bytes.read(offset, Scalar::I64);
        word.bits() as i64
    }

    fn set_word(&mut self, offset: u64, value: i64) {
        let word = Imm::int(Scalar::I64, i128::from(value));
        self.bytes.write(offset, word);
    }

    /// Whether a byte is one of the zeros that absent cells read as.
    pub(super) fn is_zeros(&self, offset: u64) -> bool {
        self.zeros.is_some_and(|zeros| offset < zeros)
    }

    /// Whether a byte of the tree belongs to an element of the field, in a cell that exists or not.
    pub(super) fn belongs(&self, m: &Module, field: Field, offset: u64) -> bool {
        let data = &m.fields[field];
        let tree = &m.trees[data.tree];
        let path = tree.path(data.node);
        // Cells of an allocating node are in its arena, regardless of the nodes above.
        let arena = |n: &Node| self.memory.node(*n).and_then(|n| n.arena.as_ref());
        let last = path.iter().rposition(|n| arena(n).is_some());
        let (mut at, below) = match last.and_then(|k| Some((arena(&path[k])?, k))) {
            None => (offset, 0),
            Some((arena, k)) => {
                let inside = offset.checked_sub(arena.data);
                let Some(at) = inside.filter(|at| at / arena.cell < arena.capacity) else {
                    return false;
                };
                let cell = self.memory.cell_size[path[k]].max(1);
                let cells = tree.nodes[path[k]].kind.format().cells_per_allocation();
                let at = at % arena.cell;
                if at >= cell * cells {
                    return false;
                }
                (at % cell, k + 1)
            }
        };
        for node in &path[below..] {
            let start = self.memory.node_offset[*node] + self.memory.first_cell[*node];
            let cell = self.memory.cell_size[*node];
            let size = cell * tree.nodes[*node].cells();
            if at < start || at - start >= size {
                return false;
            }
            at = (at - start) % cell;
        }
        let start = self.memory.place(field);
        let size = data.size_align(&m.structs).0;
        start <= at && at < start + size
    }

    /// The offset of an element, for coordinates in the domain of a field without sparse nodes above it.
    pub(super) fn element(
        &self,
        m: &Module,
        field: Field,
        domain: &FieldDomain,
        coords: &[i128],
    ) -> u64 {
        let data = &m.fields[field];
        let tree = &m.trees[data.tree];
        let path: Vec<Node> = tree.path(data.node);
        let mut at = 0;
        for (depth, node) in path.iter().enumerate() {
            let mut cell = 0;
            for (axis, extent) in &tree.nodes[*node].extents {
                let index = data.axes.iter().position(|a| a.0 == *axis);
                let relative =
                    index.map_or(0, |k| (coords[k] - i128::from(domain.axes[k].0)) as u64);
                let below: u64 = path[depth + 1..]
                    .iter()
                    .flat_map(|n| &tree.nodes[*n].extents)
                    .filter(|e| e.0 == *axis)
                    .map(|e| e.1)
                    .product();
                cell = cell * extent + relative / below % extent;
            }
            if tree.nodes[*node].order == CellOrder::Morton {
                cell = morton(&tree.nodes[*node].extents, cell);
            }
            at += self.memory.node_offset[*node]
                + self.memory.first_cell[*node]
                + cell * self.memory.cell_size[*node];
        }
        at + self.memory.place(field)
    }
}

/// Converts a row-major cell number to a Z-curve number: from the lowest bit of the last axis on, one bit of
/// each axis that has bits left.
fn morton(extents: &[(Axis, u64)], mut number: u64) -> u64 {
    let mut coords: Vec<u64> = Vec::new();
    for (_, extent) in extents.iter().rev() {
        coords.push(number % extent);
        number /= extent;
    }
    let (mut out, mut place) = (0, 0);
    for bit in 0..64 {
        for ((_, extent), c) in extents.iter().rev().zip(&coords) {
            if extent >> bit > 1 {
                out |= (c >> bit & 1) << place;
                place += 1;
            }
        }
    }
    out
}

/// The bytes of a fresh tree.
fn fresh(memory: &TreeMemory, header: Option<u64>) -> Bytes {
    let mut bytes = Bytes::new(memory.size);
    let word = |n: u64| Imm::int(Scalar::I64, i128::from(n));
    if let Some(header) = header {
        let own = header + tree_header::OWN_BUDGET;
        bytes.write(header + tree_header::LIMIT, word(i64::MAX as u64));
        bytes.write(header + tree_header::BUDGET, word(own));
        bytes.write(own + budget::LIMIT, word(i64::MAX as u64));
    }
    for node in memory.nodes.values().flatten() {
        if let Some(arena) = &node.arena {
            bytes.write(node.header + header::ROOM, word(arena.capacity));
        }
    }
    bytes
}
