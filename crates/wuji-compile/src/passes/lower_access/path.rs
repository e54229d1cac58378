//! Paths from the root to a leaf of a sparse tree, one step per node.
//!
//! Dense steps are arithmetic; the others are `TreeAccess` operations on offsets, which later passes merge and
//! expand. Nothing here branches on whether a cell exists: an absent cell is at offset 0, where a tree has only
//! zeros. So reads return zeros there, and steps further down find nothing.

use super::Lower;
use crate::analysis::affine::Affine;
use crate::analysis::entries::Entry;
use crate::nodes::level::PathStep;
use crate::nodes::{level_functions, morton_bits};
use wuji_ir::entities::{Field, Node, Tree, Value};
use wuji_ir::layout::{Axis, CellOrder, ListEntry, NodeData};
use wuji_ir::ops::*;

/// How an access treats absent cells.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum AccessMode {
    /// Reads zeros.
    Read,
    /// As `Read`, and tests whether the cell is active.
    Test,
    /// Activates them.
    Activate,
}

impl AccessMode {
    pub(super) fn of(op: &Op, access: &Access) -> AccessMode {
        match (op, access.activation) {
            (Op::Load(_), _) | (_, Activation::KnownActive) => AccessMode::Read,
            (_, Activation::Never) => AccessMode::Test,
            (_, Activation::IfAbsent) => AccessMode::Activate,
        }
    }
}

/// One node on the path to a field.
#[derive(Clone)]
pub(super) struct Level {
    pub(super) node: Node,
    pub(super) data: NodeData,
    offset: i64,
    first: i64,
    cell: i64,
    /// Of each of the node's axes: which index of the field runs along it, and how many coordinates a
    /// cell of this node spans.
    axes: Vec<(usize, u64)>,
    /// The same for all axes that are split on the path to this node, in their order.
    path_axes: Vec<(usize, u64)>,
}

/// A path so far.
pub(super) struct TreePath {
    pub(super) tree: Tree,
    /// Offset of the cell, or of where the next node starts.
    pub(super) at: Affine,
    /// Each index, relative to the smallest.
    indices: Vec<Affine>,
    /// The remainder of each index below the nodes visited so far.
    rest: Vec<Affine>,
    /// The last cell that had to be found; 0 when it, or one above, is absent. `None`: it exists.
    cell: Option<Value>,
    /// Whether bits and lengths on the path show that the cell is active. `None`: it is.
    set: Option<Value>,
    /// Cells to activate when everything below them has memory: their node, container and number.
    touches: Vec<(Node, [Value; 2])>,
}

impl TreePath {
    pub(super) fn at(tree: Tree, at: Affine, rest: Vec<Affine>) -> TreePath {
        TreePath {
            tree,
            at,
            indices: rest.clone(),
            rest,
            cell: None,
            set: None,
            touches: Vec::new(),
        }
    }
}

impl Lower<'_> {
    /// Whether some cell on the path to a field can be absent.
    pub(super) fn is_sparse(&self, field: Field) -> bool {
        let data = &self.b.env.fields[field];
        !self.b.env.trees[data.tree]
            .sparse_path(data.node)
            .is_empty()
    }

    pub(super) fn levels(&self, field: Field) -> Vec<Level> {
        let data = &self.b.env.fields[field];
        let tree = &self.b.env.trees[data.tree];
        let memory = &self.memory[data.tree];
        let path = tree.path(data.node);
        let mut levels = Vec::new();
        for (k, node) in path.iter().enumerate() {
            let own = &tree.nodes[*node];
            let along = |axis: &Axis| {
                let index = data.axes.iter().position(|a| a.0 == *axis).unwrap_or(0);
                let below = path[k + 1..]
                    .iter()
                    .flat_map(|n| &tree.nodes[*n].extents)
                    .filter(|e| e.0 == *axis)
                    .fold(1u64, |n, e| n.saturating_mul(e.1));
                (index, below)
            };
            levels.push(Level {
                node: *node,
                axes: own.extents.iter().map(|(axis, _)| along(axis)).collect(),
                path_axes: tree.axes(*node).iter().map(along).collect(),
                data: own.clone(),
                offset: memory.node_offset[*node] as i64,
                first: memory.first_cell[*node] as i64,
                cell: memory.cell_size[*node] as i64,
            });
        }
        levels
    }

    /// Offset of an access whose indices are inside, and whether its cell is active; `None` when it is, or when that does
    /// not matter.
    pub(super) fn sparse_offset(
        &mut self,
        access: &Access,
        field: Field,
        exprs: &[Affine],
        mode: AccessMode,
    ) -> (Affine, Option<Value>) {
        let rank = exprs.len() - access.dynamic_steps();
        let levels = self.levels(field);
        let path = self.path_to(field, &levels, &exprs[..rank], mode);
        let within = self.path_offset(access, &exprs[rank..]);
        let place = self.memory[path.tree].place(field) as i64;
        let at = self.sum(&path.at, &Affine::constant(place), 1);
        let at = self.sum(&at, &within, 1);
        let there = match mode {
            AccessMode::Read => None,
            AccessMode::Test | AccessMode::Activate => self.exists(&path),
        };
        (at, there)
    }

    /// Whether the cell at the end of a path is active; `None` when it is known to be.
    pub(super) fn exists(&mut self, path: &TreePath) -> Option<Value> {
        let found = path.cell.map(|cell| {
            let zero = self.b.i64(0);
            self.b.compare(CmpOp::Ne, cell, zero)
        });
        match (found, path.set) {
            (Some(a), Some(b)) => Some(self.b.binary(BinOp::And, a, b)),
            (a, b) => a.or(b),
        }
    }

    /// From the root to the cell of an element whose indices are inside.
    pub(super) fn path_to(
        &mut self,
        field: Field,
        levels: &[Level],
        indices: &[Affine],
        mode: AccessMode,
    ) -> TreePath {
        let (mut path, start) = self.start(field, levels, indices, mode);
        for level in &levels[start..] {
            self.enter(&mut path, level);
            self.step(&mut path, level, mode);
        }
        self.touch(&mut path);
        path
    }

    /// The start of a path: the root, or the list entry of the enclosing loop. Also returns the next level.
    fn start(
        &mut self,
        field: Field,
        levels: &[Level],
        indices: &[Affine],
        mode: AccessMode,
    ) -> (TreePath, usize) {
        let data = self.b.env.fields[field].clone();
        let mut rest: Vec<Affine> = Vec::new();
        for (expr, (_, lo)) in indices.iter().zip(&data.axes) {
            rest.push(self.sum(expr, &Affine::constant(*lo), -1));
        }
        let root = self.memory[data.tree].node_offset[self.b.env.trees[data.tree].root()];
        let mut path = TreePath::at(data.tree, Affine::constant(root as i64), rest);
        if let (Some(chunk), Some(level)) = (self.chunk, levels.last()) {
            path.at = Affine::atom(chunk);
            path.cell = Some(chunk);
            let along = level.axes[0].0;
            let cells = level.data.kind.format().cells_per_allocation();
            path.rest[along] = self.divide(&path.rest[along].clone(), cells).1;
            self.within_chunk(&mut path, level);
            return (path, levels.len());
        }
        for (k, level) in levels.iter().enumerate().rev() {
            let Some(entry) = self.entry_of(data.tree, level.node) else {
                continue;
            };
            let covers = level.data.kind.format().list_entry();
            // The entry is a chunk, from which the length of its list cannot be reached.
            if matches!(covers, ListEntry::Chunk { .. }) && mode != AccessMode::Read {
                continue;
            }
            let Some(low) = self.at_entry(&entry, field, levels, k, &path.rest) else {
                continue;
            };
            path.rest = low;
            path.at = Affine::atom(entry.offset);
            match covers {
                // The entry is the cell: the next node starts in it.
                ListEntry::Cell => {}
                ListEntry::Chunk { .. } => self.within_chunk(&mut path, level),
                ListEntry::MaskWord => {
                    let number = self.number(&mut path, level);
                    // The container exists, but the bit of the index may be unset.
                    let container = path.at.clone();
                    self.test_or_touch(&mut path, level, (&container, &number), mode);
                    path.at = self.sum(&path.at, &number, level.cell);
                    path.at.constant += level.first;
                }
            }
            return (path, k + 1);
        }
        (path, 1)
    }

    /// From the start of a chunk to a cell, whose number is counted from there.
    fn within_chunk(&mut self, path: &mut TreePath, level: &Level) {
        let (index, below) = level.axes[0];
        let (number, low) = self.divide(&path.rest[index].clone(), below);
        path.rest[index] = low;
        path.at = self.sum(&path.at, &number, level.cell);
    }

    /// The list entry of the loop around the access.
    fn entry_of(&self, tree: Tree, node: Node) -> Option<Entry> {
        let found = self.visible.iter();
        let mut found = found.filter(|e| e.tree == tree && e.node == node);
        let first = found.next()?;
        // With several lists the right one is unknown.
        found.next().is_none().then(|| first.clone())
    }

    /// The remainder of the indices below an entry, if they are known to lie in it.
    fn at_entry(
        &mut self,
        entry: &Entry,
        field: Field,
        levels: &[Level],
        k: usize,
        rest: &[Affine],
    ) -> Option<Vec<Affine>> {
        let level = &levels[k];
        let axes = self.b.env.trees[entry.tree].axes(level.node);
        let data = self.b.env.fields[field].clone();
        let mut out = rest.to_vec();
        for (axis, coord) in axes.iter().zip(&entry.coords) {
            let index = data.axes.iter().position(|a| a.0 == *axis)?;
            let by = spans(levels, k, *axis);
            let (high, low) = self.split(&rest[index], by)?;
            let same = match coord {
                Some(v) => high == Affine::atom(*v),
                None => high == Affine::constant(0),
            };
            if !same {
                return None;
            }
            out[index] = low;
        }
        Some(out)
    }

    /// From a cell to the start of the next node in it.
    pub(super) fn enter(&mut self, path: &mut TreePath, level: &Level) {
        path.at = self.sum(&path.at, &Affine::constant(level.offset), 1);
    }

    /// The coordinates of the cell in its container, in the order of the node's axes.
    fn coordinates(&mut self, path: &mut TreePath, level: &Level) -> Vec<Affine> {
        let mut out = Vec::new();
        for (index, below) in &level.axes {
            let (high, low) = self.divide(&path.rest[*index].clone(), *below);
            path.rest[*index] = low;
            out.push(high);
        }
        out
    }

    /// The coordinates of the cell in the tree, in the order of the axes on the path.
    fn tree_coordinates(&mut self, path: &mut TreePath, level: &Level) -> Vec<Affine> {
        let mut out = Vec::new();
        for (index, below) in &level.path_axes {
            let (high, low) = self.divide(&path.indices[*index].clone(), *below);
            if level.axes.iter().any(|own| own.0 == *index) {
                path.rest[*index] = low;
            }
            out.push(high);
        }
        out
    }

    /// The number of the cell in its container.
    fn number(&mut self, path: &mut TreePath, level: &Level) -> Affine {
        let coordinates = self.coordinates(path, level);
        match level.data.order {
            CellOrder::RowMajor => {
                let mut number = Affine::default();
                for ((_, extent), c) in level.data.extents.iter().zip(&coordinates) {
                    number = self.scale(&number, *extent as i64);
                    number = self.sum(&number, c, 1);
                }
                number
            }
            CellOrder::Morton => {
                let values: Vec<Value> = coordinates.iter().map(|c| self.materialize(c)).collect();
                Affine::atom(self.morton(&level.data, &values))
            }
        }
    }

    /// Bits of the coordinates, interleaved.
    fn morton(&mut self, data: &NodeData, coordinates: &[Value]) -> Value {
        let mut out = self.b.i64(0);
        for (at, (axis, bit)) in morton_bits(data).into_iter().enumerate() {
            let mask = self.b.i64(1 << bit);
            let x = self.b.binary(BinOp::And, coordinates[axis], mask);
            let shift = self.b.i64(at as i64 - bit);
            let x = self.b.binary(BinOp::Shl, x, shift);
            out = self.b.binary(BinOp::Or, out, x);
        }
        out
    }

    /// From the start of a node to one of its cells.
    pub(super) fn step(&mut self, path: &mut TreePath, level: &Level, mode: AccessMode) {
        level_functions(level.data.kind).step(&mut Step {
            lower: self,
            path,
            level,
            mode,
        });
    }

    /// Tests or sets the activity of a cell.
    fn test_or_touch(
        &mut self,
        path: &mut TreePath,
        level: &Level,
        (container, number): (&Affine, &Affine),
        mode: AccessMode,
    ) {
        if mode == AccessMode::Read {
            return;
        }
        let args = [self.materialize(container), self.materialize(number)];
        if mode == AccessMode::Activate {
            path.touches.push((level.node, args));
            return;
        }
        let op = Op::TreeAccess(TreeAccessOp::Test, path.tree, level.node);
        let set = self.b.value(op, &args);
        path.set = Some(match path.set {
            Some(all) => self.b.binary(BinOp::And, all, set),
            None => set,
        });
    }

    /// Activates the cells of a path, from the leaf to the root: a cell that another thread deactivates meanwhile becomes
    /// active again, or what is below it inactive, too.
    fn touch(&mut self, path: &mut TreePath) {
        for (node, args) in path.touches.drain(..).rev() {
            let op = Op::TreeAccess(TreeAccessOp::Touch, path.tree, node);
            self.b.push(op, &args);
        }
    }

    /// To the cell that contains the field's node. Does not start at a list entry: the caller needs the node's container.
    pub(super) fn path_above(
        &mut self,
        field: Field,
        above: &[Level],
        indices: &[Affine],
        mode: AccessMode,
    ) -> TreePath {
        let data = self.b.env.fields[field].clone();
        let mut rest: Vec<Affine> = Vec::new();
        for (expr, (_, lo)) in indices.iter().zip(&data.axes) {
            rest.push(self.sum(expr, &Affine::constant(*lo), -1));
        }
        let root = self.memory[data.tree].node_offset[self.b.env.trees[data.tree].root()];
        let mut path = TreePath::at(data.tree, Affine::constant(root as i64), rest);
        for level in above.iter().skip(1) {
            self.enter(&mut path, level);
            self.step(&mut path, level, mode);
        }
        self.touch(&mut path);
        path
    }
}

/// One step of a path, for the level functions of a node kind.
pub(super) struct Step<'s, 'a> {
    pub(super) lower: &'s mut Lower<'a>,
    pub(super) path: &'s mut TreePath,
    pub(super) level: &'s Level,
    pub(super) mode: AccessMode,
}

impl PathStep for Step<'_, '_> {
    fn data(&self) -> &NodeData {
        &self.level.data
    }

    fn container(&self) -> Affine {
        self.path.at.clone()
    }

    fn first_cell(&self) -> i64 {
        self.level.first
    }

    fn number(&mut self) -> Affine {
        self.lower.number(self.path, self.level)
    }

    fn tree_coordinates(&mut self) -> Vec<Affine> {
        self.lower.tree_coordinates(self.path, self.level)
    }

    fn below_sparse(&self) -> bool {
        let tree = &self.lower.b.env.trees[self.path.tree];
        tree.path_info(self.level.node).below_sparse
    }

    fn divide(&mut self, a: &Affine, by: u64) -> (Affine, Affine) {
        self.lower.divide(a, by)
    }

    fn materialize(&mut self, a: &Affine) -> Value {
        self.lower.materialize(a)
    }

    fn find(&mut self, operands: &[Value]) {
        let op = match self.mode {
            AccessMode::Read | AccessMode::Test => TreeAccessOp::Find,
            AccessMode::Activate => TreeAccessOp::Ensure,
        };
        let op = Op::TreeAccess(op, self.path.tree, self.level.node);
        let cell = self.lower.b.value(op, operands);
        self.path.cell = Some(cell);
        self.path.at = Affine::atom(cell);
    }

    fn test_or_touch(&mut self, container: &Affine, number: &Affine) {
        let at = (container, number);
        self.lower
            .test_or_touch(self.path, self.level, at, self.mode);
    }

    fn advance(&mut self, cells: &Affine, bytes: i64) {
        self.path.at = self.lower.sum(&self.path.at, cells, self.level.cell);
        self.path.at.constant += bytes;
    }
}

/// How many coordinates along an axis one entry of the list of level `k` spans.
fn spans(levels: &[Level], k: usize, axis: Axis) -> u64 {
    let below: u64 = levels[k + 1..]
        .iter()
        .flat_map(|l| &l.data.extents)
        .filter(|e| e.0 == axis)
        .fold(1u64, |n, e| n.saturating_mul(e.1));
    let own = levels[k].data.extents.iter().find(|e| e.0 == axis);
    let factor = match (levels[k].data.kind.format().list_entry(), own) {
        (ListEntry::MaskWord, Some((_, extent))) => *extent,
        (ListEntry::Chunk { cells }, Some(_)) => cells,
        (ListEntry::Cell, _) | (ListEntry::MaskWord | ListEntry::Chunk { .. }, None) => 1,
    };
    below.saturating_mul(factor)
}
