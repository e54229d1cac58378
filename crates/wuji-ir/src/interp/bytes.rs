//! Lowered memory: the bytes of trees and temps, and which of them belong to which field.

use super::array::{read_scalar, write_scalar};
use super::error::{TOO_LARGE, stop};
use super::store::FieldDomain;
use crate::Result;
use crate::entities::{Field, Node, Tree};
use crate::layout::{TreeMemory, header};
use crate::module::Module;
use crate::types::{Imm, Scalar};
use rustc_hash::FxHashMap;

/// Zeros until written to. Only pages that are written to take memory.
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

    /// Whether a scalar at this offset is inside and aligned.
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
    pub(super) bytes: Bytes,
}

impl TreeBytes {
    pub(super) fn new(m: &Module, tree: Tree) -> Result<TreeBytes> {
        let memory = TreeMemory::of(&m.trees[tree], &m.fields, &m.structs)
            .ok_or_else(|| stop(TOO_LARGE, format!("{tree} is too large")))?;
        let bytes = Bytes::new(memory.size);
        Ok(TreeBytes { memory, bytes })
    }

    /// Entries of the list of active cells of a node.
    pub(super) fn listed(&self, node: Node) -> Imm {
        match self.memory.node(node) {
            Some(n) => self.bytes.read(n.header + header::LISTED, Scalar::I64),
            None => Imm::zero(Scalar::I64),
        }
    }

    /// Whether a byte of the tree belongs to an element of the field.
    pub(super) fn belongs(&self, m: &Module, field: Field, offset: u64) -> bool {
        let data = &m.fields[field];
        let tree = &m.trees[data.tree];
        let mut at = offset;
        for node in tree.path(data.node) {
            let start = self.memory.node_offset[node];
            let cell = self.memory.cell_size[node];
            let size = cell * tree.nodes[node].cells();
            if at < start || at - start >= size {
                return false;
            }
            at = (at - start) % cell;
        }
        let start = self.memory.place(field);
        let size = m.structs.size_align(data.elem).0;
        start <= at && at < start + size
    }

    /// Where an element starts, for coordinates inside of the field's domain.
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
            at += self.memory.node_offset[*node] + cell * self.memory.cell_size[*node];
        }
        at + self.memory.place(field)
    }
}
