//! List entries that the loops of a function run over.

use super::affine::{Affine, AffineAnalysis};
use crate::rewrite::Structure;
use rustc_hash::FxHashMap;
use wuji_ir::entities::{Field, Func, Inst, Node, Region, Tree, Value};
use wuji_ir::layout::{Axis, ListEntry, NodeData, TreeData};
use wuji_ir::module::{Env, Function, Module};
use wuji_ir::ops::{Activation, BinOp, CellOp, Effect, Op, Place, TreeAccessOp};

/// An entry of the list of a node's active cells.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The tree.
    pub tree: Tree,
    /// The node whose list of active cells has the entry.
    pub node: Node,
    /// The offset of the cell or container.
    pub offset: Value,
    /// One per axis on the path to the node: the clamped coordinate, which indices are computed from.
    /// `None` when it is unused.
    pub coords: Vec<Option<Value>>,
    /// The region that reads the entry.
    region: Region,
    /// The instructions of the region before that.
    earlier: Vec<Inst>,
}

impl Entry {
    /// Whether the entry has been read where an instruction is.
    fn is_visible(&self, structure: &Structure, mut inst: Inst) -> bool {
        while structure.region_of[inst].expand() != Some(self.region) {
            match structure.parent(inst) {
                Some(parent) => inst = parent,
                None => return false,
            }
        }
        !self.earlier.contains(&inst)
    }
}

/// All entries that a function reads.
pub fn entries(f: &Function, structure: &Structure) -> Vec<Entry> {
    let mut found = Vec::new();
    // `loops` clamps coordinates: `max(min(coordinate, last), 0)`.
    let mut least: FxHashMap<Value, Value> = FxHashMap::default();
    let mut most: FxHashMap<Value, Value> = FxHashMap::default();
    f.walk(|inst| {
        let data = &f.insts[inst];
        if let Op::TreeAccess(TreeAccessOp::Entry, tree, node) = data.op {
            found.push((tree, node, inst));
        } else if data.op == Op::Binary(BinOp::Min) {
            least.entry(data.args[0]).or_insert(data.results[0]);
        } else if data.op == Op::Binary(BinOp::Max) {
            most.entry(data.args[0]).or_insert(data.results[0]);
        }
    });
    found
        .into_iter()
        .filter_map(|(tree, node, inst)| {
            let region = structure.region_of[inst].expand()?;
            let insts = f.regions[region].insts.iter().copied();
            let results = &f.insts[inst].results;
            let coords = results[3..]
                .iter()
                .map(|c| least.get(c).and_then(|v| most.get(v)).copied());
            Some(Entry {
                tree,
                node,
                offset: results[0],
                coords: coords.collect(),
                region,
                earlier: insts.take_while(|other| *other != inst).collect(),
            })
        })
        .collect()
}

/// The entries that have been read where an instruction is.
pub fn visible(entries: &[Entry], structure: &Structure, inst: Inst) -> Vec<Entry> {
    let read = entries.iter().filter(|e| e.is_visible(structure, inst));
    read.cloned().collect()
}

/// The most blocks along an axis that an index may fall into.
const MOST_BLOCKS: i128 = 3;

/// Indices that fall into the block of an entry or a neighbouring one.
#[derive(Clone, Debug)]
pub struct Near {
    /// The entry that indices are near to.
    pub entry: Entry,
    /// The node whose allocated cells are the blocks: that of the entry, or its parent.
    pub block: Node,
    /// Axes that are split at the block or above.
    pub axes: Vec<NearAxis>,
    /// Indices along axes that are split only below the block, relative to their smallest coordinate; they are in
    /// range.
    pub others: Vec<(usize, Affine)>,
}

/// One axis: the block's coordinate is that of the entry plus `first + low / by`.
#[derive(Clone, Debug)]
pub struct NearAxis {
    /// Which index of the field.
    pub index: usize,
    /// Coordinates that a block spans.
    pub by: u64,
    /// The index, relative to the start of the first block it may fall into.
    pub low: Affine,
    /// The first block the index may fall into, relative to that of the entry.
    pub first: i64,
    /// The number of blocks it may fall into.
    pub count: usize,
    /// Blocks along the axis; with `wraps`, the first follows the last.
    pub blocks: u64,
    /// Whether the last block is followed by the first.
    pub wraps: bool,
    /// The entry's coordinate.
    pub coord: Value,
}

/// Whether each cell of a node is allocated separately.
fn is_block(data: &NodeData) -> bool {
    data.kind.allocates() && data.kind.format().list_entry() == ListEntry::Cell
}

/// Decomposes the indices of a load that are near an entry.
pub fn near(
    m: &Env,
    affine: &mut AffineAnalysis<'_>,
    entries: &[Entry],
    field: Field,
    indices: &[Value],
) -> Option<Near> {
    let data = &m.fields[field];
    let tree = &m.trees[data.tree];
    let mut of_tree = entries.iter().filter(|e| e.tree == data.tree);
    let entry = of_tree.next()?;
    if of_tree.next().is_some() {
        return None;
    }
    let block = block_of(tree, entry.node, data.node)?;
    let (split, coords) = (tree.axes(block), &entry.coords);
    let mut axes = Vec::new();
    for (axis, coord) in split.iter().zip(coords) {
        axes.push(near_axis(
            m,
            affine,
            (field, block),
            (*axis, (*coord)?),
            indices,
        )?);
    }
    let mut others = Vec::new();
    for (index, (axis, lo)) in data.axes.iter().enumerate() {
        if split.contains(axis) {
            continue;
        }
        let expr = affine.expr(indices[index]);
        let (least, most) = affine.func.ty(indices[index]).as_scalar()?.int_range()?;
        let (a, b) = affine.range_of(&expr);
        let end = i128::from(*lo) + i128::from(tree.extent(data.node, *axis));
        if a < i128::from(*lo).max(least) || b >= end.min(most + 1) {
            return None;
        }
        others.push((index, expr.add_scaled(&Affine::constant(*lo), -1)?));
    }
    Some(Near {
        entry: entry.clone(),
        block,
        axes,
        others,
    })
}

/// The node whose allocated cells are blocks for the entries of a node: itself, or its parent. `None` if the cells of `leaf` are
/// not in these blocks.
fn block_of(tree: &TreeData, node: Node, leaf: Node) -> Option<Node> {
    let block = match tree.nodes[node].kind.format().list_entry() {
        ListEntry::Cell => node,
        ListEntry::MaskWord => tree.nodes[node].parent?,
        ListEntry::Chunk { .. } => return None,
    };
    let mut sparse = tree.sparse_path(leaf).into_iter();
    let allocated_below = sparse.any(|n| n > block && tree.nodes[n].kind.allocates());
    let inside = tree.path(leaf).contains(&block);
    let same_axes = tree.axes(block) == tree.axes(node);
    (is_block(&tree.nodes[block]) && !allocated_below && inside && same_axes).then_some(block)
}

/// The index along an axis, relative to the coordinate of an entry.
fn near_axis(
    m: &Env,
    affine: &mut AffineAnalysis<'_>,
    (field, block): (Field, Node),
    (axis, coord): (Axis, Value),
    indices: &[Value],
) -> Option<NearAxis> {
    let data = &m.fields[field];
    let tree = &m.trees[data.tree];
    let index = data.axes.iter().position(|a| a.0 == axis)?;
    let blocks = tree.extent(block, axis);
    let extent = tree.extent(data.node, axis);
    let by = i64::try_from(extent / blocks).ok()?;
    let lo = data.axes[index].1;
    let expr = affine.expr(indices[index]);
    // A machine integer may wrap where its affine expression does not.
    let (least, most) = affine.func.ty(indices[index]).as_scalar()?.int_range()?;
    let range = affine.range_of(&expr);
    let fits = least <= range.0 && range.1 <= most;
    let whole = i128::from(lo) == least && i128::from(extent) == most - least + 1;
    if !(fits || whole && blocks.is_power_of_two()) {
        return None;
    }
    let relative = expr.add_scaled(&Affine::constant(lo), -1)?;
    let mut high = Affine::constant(relative.constant.div_euclid(by));
    let mut low = Affine::constant(relative.constant.rem_euclid(by));
    for (v, c) in &relative.terms {
        let term = Affine::atom(*v);
        if c % by == 0 {
            high = high.add_scaled(&term, c / by)?;
        } else {
            low = low.add_scaled(&term, *c)?;
        }
    }
    let first = high.add_scaled(&Affine::atom(coord), -1)?.as_constant()?;
    let (a, b) = affine.range_of(&low);
    let count = b.div_euclid(by.into()) + 1;
    if a < 0 || count > MOST_BLOCKS || first.unsigned_abs() > 1 << 20 {
        return None;
    }
    Some(NearAxis {
        index,
        by: by as u64,
        low,
        first,
        count: count as usize,
        blocks,
        wraps: !fits,
        coord,
    })
}

/// Whether a function or its callees may deactivate cells of a tree. Then an entry may become inactive before the
/// iteration ends.
pub fn loses_cells(m: &Module, f: &Function, tree: Tree) -> bool {
    let mut called: Vec<Func> = Vec::new();
    let mut found = false;
    let mut look = |f: &Function, called: &mut Vec<Func>| {
        f.walk(|inst| {
            let op = &f.insts[inst].op;
            if let Op::Cell(CellOp::Deactivate | CellOp::DeactivateChunk, field) = op {
                found |= m.fields[*field].tree == tree;
            }
            // In functions that are already lowered.
            if let Op::TreeAccess(TreeAccessOp::Drop, at, _) = op {
                found |= *at == tree;
            }
            called.extend(op.callee().filter(|callee| !called.contains(callee)));
        });
    };
    look(f, &mut called);
    let mut at = 0;
    while let Some(id) = called.get(at).copied() {
        at += 1;
        look(&m.funcs[id], &mut called);
    }
    found
}

/// Whether a function may activate or deactivate cells of a tree, which invalidates the offsets found before.
pub fn changes_cells(m: &Env, f: &Function, tree: Tree) -> bool {
    let mut found = false;
    f.walk(|inst| {
        let op = &f.insts[inst].op;
        if let Some(a) = op.written_access()
            && let Place::Field(field) = a.place
        {
            let data = &m.fields[field];
            found |= data.tree == tree
                && a.activation == Activation::IfAbsent
                && !m.trees[tree].sparse_path(data.node).is_empty();
        }
        if let Op::Cell(cell, field) = op {
            found |= cell.effect() == Effect::Writes && m.fields[*field].tree == tree;
        }
        found |= op.callee().is_some();
    });
    found
}
