//! Loops over the active cells of a sparse field: over the entries of the list of the last sparse node
//! on its path, then over the cells that an entry covers, then over the dense nodes below.

use super::{Dim, Nest};
use crate::nodes::digits;
use crate::nodes::lists::{self, ListOptions};
use crate::nodes::words::divide;
use crate::passes::Cx;
use smallvec::SmallVec;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Field, Label, Node, Tree, Value};
use wuji_ir::layout::{Axis, CellOrder, FieldData, ListEntry, NodeData, TreeData};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::I64;
use wuji_ir::{Error, Position, Result};

/// Bits of one word of a mask.
const WORD: u64 = 64;
/// On a GPU: the least work of an iteration for which finding the bit of a thread pays.
pub(super) const WORTH_COMPACTING: u64 = 1 << 10;

/// A loop over a list.
pub(super) struct ListLoop {
    tree: Tree,
    pub(super) node: Node,
    data: NodeData,
    /// One per axis on the path to the node: whether an entry's coordinate is a dimension.
    coords: Vec<bool>,
    /// Leading dimensions whose numbers come from the entry.
    given: usize,
    shape: Shape,
}

/// The cells that an entry covers.
enum Shape {
    /// One cell.
    Cell,
    /// Consecutive cells: the first dimension of the loop.
    Row,
    /// The active cells of a box, by mask. Dimensions `given..given + loops` are its sides; `bases` are the numbers
    /// of boxes along the axes that a word does not cover.
    Box { bases: Vec<u64>, loops: usize },
    /// The cells of the set bits of a word, one after the other.
    Bits,
}

/// The mask of active cells of a box.
#[derive(Copy, Clone)]
pub(super) struct Mask {
    word: Value,
    first: usize,
    pub(super) last: usize,
}

/// The loop over the cells of a field, if some of them may be inactive.
pub(super) fn plan(m: &Env, field: Field) -> Option<(ListLoop, Vec<Dim>)> {
    let field_data = &m.fields[field];
    let tree = &m.trees[field_data.tree];
    let node = *tree.sparse_path(field_data.node).last()?;
    let data = tree.nodes[node].clone();
    let path = tree.path(field_data.node);
    let at = path.iter().position(|n| *n == node)?;
    let mut plan = ListDims {
        field: field_data,
        tree,
        path,
        dims: Vec::new(),
    };
    let coords = plan.of_entry(node, at)?;
    let mut given = plan.dims.len();
    let shape = plan.of_cells(&data, at, &mut given);
    plan.of_dense_nodes(at + 1);
    let list = ListLoop {
        tree: field_data.tree,
        node,
        data,
        coords,
        given,
        shape,
    };
    Some((list, plan.dims))
}

/// The dimensions of a loop over a list.
struct ListDims<'a> {
    field: &'a FieldData,
    tree: &'a TreeData,
    /// From the root to the node of the field.
    path: Vec<Node>,
    dims: Vec<Dim>,
}

impl ListDims<'_> {
    /// How many coordinates along an axis a cell spans of the node before this one on the path.
    fn span(&self, from: usize, axis: Axis) -> u64 {
        self.path[from..]
            .iter()
            .flat_map(|n| &self.tree.nodes[*n].extents)
            .filter(|e| e.0 == axis)
            .fold(1u64, |n, e| n.saturating_mul(e.1))
    }

    fn add(&mut self, extent: u64, axis: Axis, scale: u64) {
        let index = self.field.axes.iter().position(|a| a.0 == axis);
        self.dims.push(Dim {
            bounds: RangeDim::new(
                Bound::Const(0),
                Bound::Const(i64::try_from(extent).unwrap_or(i64::MAX)),
            ),
            index: index.unwrap_or(0),
            scale: scale as i64,
        });
    }

    /// Dimensions whose numbers come from the entry. For each axis, whether it is one.
    fn of_entry(&mut self, node: Node, at: usize) -> Option<Vec<bool>> {
        let data = &self.tree.nodes[node];
        let parent = data.parent?;
        let entry = data.kind.format().list_entry();
        let mut coords = Vec::new();
        for axis in self.tree.axes(node) {
            let own = data.extents.iter().any(|e| e.0 == axis);
            let (extent, scale) = match entry {
                ListEntry::MaskWord => (self.tree.extent(parent, axis), self.span(at, axis)),
                ListEntry::Chunk { cells } if own => (
                    data.cells().div_ceil(cells),
                    self.span(at + 1, axis).saturating_mul(cells),
                ),
                ListEntry::Cell | ListEntry::Chunk { .. } => {
                    (self.tree.extent(node, axis), self.span(at + 1, axis))
                }
            };
            // The node's own axes may be unsplit above it.
            let used = extent > 1 || entry != ListEntry::MaskWord;
            coords.push(used);
            if used {
                self.add(extent, axis, scale);
            }
        }
        Some(coords)
    }

    /// Dimensions of the cells that an entry covers.
    fn of_cells(&mut self, data: &NodeData, at: usize, given: &mut usize) -> Shape {
        match data.kind.format().list_entry() {
            ListEntry::Cell => Shape::Cell,
            ListEntry::Chunk { cells } => {
                let axis = data.extents[0].0;
                self.add(cells, axis, self.span(at + 1, axis));
                Shape::Row
            }
            ListEntry::MaskWord => match boxes(data) {
                None => {
                    for (axis, extent) in &data.extents {
                        self.add(*extent, *axis, self.span(at + 1, *axis));
                    }
                    Shape::Bits
                }
                Some(sides) => {
                    // Axis by axis: boxes first, then the cells of a box.
                    let extents = || data.extents.iter().zip(&sides);
                    let mut bases = Vec::new();
                    for ((axis, extent), side) in extents() {
                        if side < extent {
                            bases.push(extent / side);
                            self.add(extent / side, *axis, side * self.span(at + 1, *axis));
                            *given += 1;
                        }
                    }
                    let mut loops = 0;
                    for ((axis, _), side) in extents() {
                        if *side > 1 {
                            self.add(*side, *axis, self.span(at + 1, *axis));
                            loops += 1;
                        }
                    }
                    Shape::Box { bases, loops }
                }
            },
        }
    }

    /// Dimensions of the dense nodes from a position of the path on.
    fn of_dense_nodes(&mut self, from: usize) {
        for k in from..self.path.len() {
            for (axis, extent) in &self.tree.nodes[self.path[k]].extents {
                self.add(*extent, *axis, self.span(k + 1, *axis));
            }
        }
    }
}

/// The sides of the box of cells that a mask word covers, along each axis; `None` if the cells form no box.
fn boxes(data: &NodeData) -> Option<Vec<u64>> {
    if data.order != CellOrder::RowMajor {
        return None;
    }
    if data.cells() <= WORD {
        return Some(data.extents.iter().map(|e| e.1).collect());
    }
    let mut left = WORD;
    let mut sides: Vec<u64> = Vec::new();
    for (_, extent) in data.extents.iter().rev() {
        let side = (*extent).min(left);
        if !extent.is_multiple_of(side) || !left.is_multiple_of(side) {
            return None;
        }
        left /= side;
        sides.push(side);
    }
    sides.reverse();
    // All axes after the first split one must be whole, otherwise words would wrap around.
    let first = sides.iter().position(|s| *s > 1)?;
    let whole = data.extents[first + 1..]
        .iter()
        .zip(&sides[first + 1..])
        .all(|(e, s)| e.1 == *s);
    whole.then_some(sides)
}

impl ListLoop {
    /// Tasks to run before the loop.
    pub(super) fn list_tasks(&self, m: &mut Module, task: &Task, cx: &Cx) -> Result<Vec<Task>> {
        let options = ListOptions {
            reuse: cx.uses("list_reuse"),
            target: cx.options.target,
        };
        lists::tasks(m, self.tree, self.node, task, options)
    }

    pub(super) fn bounds(&self) -> RangeDim {
        RangeDim::new(Bound::Const(0), Bound::List(self.tree, self.node))
    }

    /// The most iterations of one entry.
    pub(super) fn unit(&self, dims: &[Dim]) -> u64 {
        let own = match self.shape {
            Shape::Bits => WORD,
            Shape::Cell | Shape::Row | Shape::Box { .. } => 1,
        };
        let skip = match self.shape {
            Shape::Bits => self.data.extents.len(),
            Shape::Cell | Shape::Row | Shape::Box { .. } => 0,
        };
        dims[self.given + skip..]
            .iter()
            .filter_map(Dim::constant_extent)
            .fold(own, u64::saturating_mul)
    }
}

/// An error: lists are not in the order of the coordinates.
pub(super) fn refuse_serial(m: &Env, field: Field, task: &Task) -> Error {
    Error::new(
        "W0312",
        format!(
            "a loop over the sparse field `{}` cannot be serial",
            m.fields[field].name
        ),
    )
    .at(Position::of(m, task.span))
    .note("its active cells are found in no particular order")
    .help("loop over ranges of indices, and ask `is_active`")
}

impl Nest<'_> {
    /// `for.parallel e in begin..end` over entries, then over the cells that an entry covers.
    pub(super) fn entries(&mut self, b: &mut Builder, list: &ListLoop, begin: Value, end: Value) {
        let one = b.i64(1);
        let label = b.func.fresh_label();
        let inst = b.push_typed(Op::For(label, self.kind), &[begin, end, one], &[]);
        let at_body = matches!(list.shape, Shape::Cell | Shape::Box { loops: 0, .. })
            && list.given == self.dims.len();
        let region = if at_body {
            let e = self.adopt_body(b, label);
            self.before_body(b, |nest, b| {
                let numbers = nest.given(b, list, e);
                nest.indices(b, &numbers);
            })
        } else {
            b.region(&[I64], |b, p| {
                let mut numbers = self.given(b, list, p[0]);
                match list.shape {
                    Shape::Bits => self.bits(b, list, &mut numbers),
                    Shape::Cell | Shape::Row | Shape::Box { .. } => {
                        self.inner(b, list.given, &mut numbers);
                    }
                }
                b.end(Term::Continue(label, Values::new()));
            })
        };
        b.func.insts[inst].regions.push(region);
    }

    /// `for.parallel u in begin..end` over all cells that entries may cover: neighbouring numbers are neighbours in
    /// one entry.
    pub(super) fn elements(&mut self, b: &mut Builder, list: &ListLoop, begin: Value, end: Value) {
        let one = b.i64(1);
        let label = b.func.fresh_label();
        let inst = b.push_typed(Op::For(label, self.kind), &[begin, end, one], &[]);
        let inside = list.unit(self.dims);
        let u = self.adopt_body(b, label);
        let region = self.before_body(b, |nest, b| {
            let (entry, rest) = divide(b, u, inside);
            let numbers = nest.given(b, list, entry);
            nest.element(b, list, numbers, rest, label);
        });
        b.func.insts[inst].regions.push(region);
    }

    /// `for.parallel e in begin..end` over entries, and `for.parallel u in 0..n` over the cells that an entry may cover.
    pub(super) fn blocks(&mut self, b: &mut Builder, list: &ListLoop, begin: Value, end: Value) {
        let one = b.i64(1);
        let label = b.func.fresh_label();
        let inst = b.push_typed(Op::For(label, self.kind), &[begin, end, one], &[]);
        let inside = list.unit(self.dims);
        let region = b.region(&[I64], |b, p| {
            let numbers = self.given(b, list, p[0]);
            let (lo, hi, one) = (b.i64(0), b.i64(inside as i64), b.i64(1));
            let inner = b.func.fresh_label();
            let threads = b.push_typed(Op::For(inner, self.kind), &[lo, hi, one], &[]);
            let u = self.adopt_body(b, inner);
            let body = self.before_body(b, |nest, b| nest.element(b, list, numbers, u, inner));
            b.func.insts[threads].regions.push(body);
            b.end(Term::Continue(label, Values::new()));
        });
        b.func.insts[inst].regions.push(region);
    }

    /// Element `rest` of an entry, whose leading dimensions are `numbers`. Continues with the next iteration if
    /// there is no such element.
    fn element(
        &mut self,
        b: &mut Builder,
        list: &ListLoop,
        mut numbers: Vec<Value>,
        rest: Value,
        label: Label,
    ) {
        match list.shape {
            Shape::Bits => {
                let (first, word) = (numbers.pop(), numbers.pop());
                let (Some(first), Some(word)) = (first, word) else {
                    return;
                };
                let axes = list.data.extents.len();
                let (bit, rest) = divide(b, rest, list.unit(self.dims) / WORD);
                skip_bit(b, word, bit, label);
                let number = b.binary(BinOp::Add, first, bit);
                for d in digits(b, &list.data, number) {
                    let most = self.dims[numbers.len()].constant_extent().unwrap_or(1);
                    numbers.push(clamp(b, d, most));
                }
                self.below(b, list.given + axes, rest, &mut numbers);
            }
            Shape::Cell => self.below(b, list.given, rest, &mut numbers),
            Shape::Row => {
                self.below(b, list.given, rest, &mut numbers);
                let there = numbers.get(list.given).copied();
                if let Some(number) = there {
                    let hi = self.bounds[list.given].hi;
                    let inside = b.compare(CmpOp::Lt, number, hi);
                    continue_unless(b, inside, label);
                }
            }
            Shape::Box { .. } => match self.mask {
                Some(mask) if self.compact && mask.last + 1 == self.dims.len() => {
                    let bit = set_bit(b, mask.word, rest, label);
                    self.below(b, list.given, bit, &mut numbers);
                }
                mask => {
                    self.below(b, list.given, rest, &mut numbers);
                    if let Some(mask) = mask {
                        self.skip_unset(b, mask, &numbers, label);
                    }
                }
            },
        }
        self.indices(b, &numbers);
    }

    /// Splits a collapsed number into the dimensions from `from` on, all of constant size.
    fn below(&self, b: &mut Builder, from: usize, joint: Value, numbers: &mut Vec<Value>) {
        let mut rest = joint;
        let mut own: Vec<Value> = Vec::new();
        for dim in self.dims[from..].iter().rev() {
            let extent = dim.constant_extent().unwrap_or(1);
            let (above, number) = divide(b, rest, extent);
            own.push(clamp(b, number, extent));
            rest = above;
        }
        numbers.extend(own.into_iter().rev());
    }

    /// Reads an entry; returns the numbers of the dimensions that it determines.
    fn given(&mut self, b: &mut Builder, list: &ListLoop, number: Value) -> Vec<Value> {
        let op = Op::TreeAccess(TreeAccessOp::Entry, list.tree, list.node);
        let inst = b.push(op, &[number]);
        let words = b.func.insts[inst].results.clone();
        let (extra, first) = (words[1], words[2]);
        let mut numbers = Vec::new();
        for (word, used) in words[3..].iter().zip(&list.coords) {
            if *used {
                let most = self.dims[numbers.len()].constant_extent().unwrap_or(1);
                numbers.push(clamp(b, *word, most));
            }
        }
        match &list.shape {
            Shape::Cell => {}
            Shape::Row => {
                // Clamping to the size of a chunk gives later passes a range.
                let most = self.dims[list.given].constant_extent().unwrap_or(1);
                let most = b.i64(most as i64);
                self.bounds[list.given].hi = b.binary(BinOp::Min, extra, most);
            }
            Shape::Bits => {
                numbers.push(extra);
                numbers.push(first);
            }
            Shape::Box { bases, loops } => {
                let word = b.i64(WORD as i64);
                let mut rest = b.binary(BinOp::Div, first, word);
                let mut own: SmallVec<[Value; 3]> = SmallVec::new();
                for (k, count) in bases.iter().enumerate().rev() {
                    let by = b.i64(*count as i64);
                    let low = if k == 0 {
                        rest
                    } else {
                        b.binary(BinOp::Rem, rest, by)
                    };
                    own.push(clamp(b, low, *count));
                    rest = b.binary(BinOp::Div, rest, by);
                }
                own.reverse();
                numbers.extend(own);
                // A single cell has only one bit.
                self.mask = (*loops > 0).then(|| Mask {
                    word: extra,
                    first: list.given,
                    last: list.given + loops - 1,
                });
            }
        }
        numbers
    }

    /// Ends the iteration unless the bit of the cell is set.
    pub(super) fn skip_unset(
        &mut self,
        b: &mut Builder,
        mask: Mask,
        numbers: &[Value],
        label: Label,
    ) {
        let mut bit = b.i64(0);
        let dims = mask.first..=mask.last;
        for (dim, number) in self.dims[dims.clone()].iter().zip(&numbers[dims]) {
            let extent = dim.constant_extent().unwrap_or(1);
            let extent = b.i64(extent as i64);
            bit = b.binary(BinOp::Mul, bit, extent);
            bit = b.binary(BinOp::Add, bit, *number);
        }
        skip_bit(b, mask.word, bit, label);
    }

    /// `for.parallel bit in 0..64`, with the coordinates computed for each.
    fn bits(&mut self, b: &mut Builder, list: &ListLoop, numbers: &mut Vec<Value>) {
        let (first, word) = (numbers.pop(), numbers.pop());
        let (Some(first), Some(word)) = (first, word) else {
            return;
        };
        let axes = list.data.extents.len();
        let (lo, hi, one) = (b.i64(0), b.i64(WORD as i64), b.i64(1));
        let label = b.func.fresh_label();
        let inst = b.push_typed(Op::For(label, self.kind), &[lo, hi, one], &[]);
        let cell = |nest: &Nest<'_>, b: &mut Builder, bit: Value, numbers: &mut Vec<Value>| {
            skip_bit(b, word, bit, label);
            let number = b.binary(BinOp::Add, first, bit);
            let own = digits(b, &list.data, number);
            for (k, d) in own.into_iter().enumerate() {
                let most = nest.dims[list.given + k].constant_extent().unwrap_or(1);
                numbers.push(clamp(b, d, most));
            }
        };
        let region = if list.given + axes == self.dims.len() {
            let bit = self.adopt_body(b, label);
            self.before_body(b, |nest, b| {
                cell(nest, b, bit, numbers);
                nest.indices(b, numbers);
            })
        } else {
            b.region(&[I64], |b, p| {
                cell(self, b, p[0], numbers);
                self.inner(b, list.given + axes, numbers);
                b.end(Term::Continue(label, Values::new()));
            })
        };
        b.func.insts[inst].regions.push(region);
    }
}

/// Has no effect, but gives later passes a range.
fn clamp(b: &mut Builder, v: Value, extent: u64) -> Value {
    let last = b.i64(extent.saturating_sub(1).min(i64::MAX as u64) as i64);
    let zero = b.i64(0);
    let v = b.binary(BinOp::Min, v, last);
    b.binary(BinOp::Max, v, zero)
}

/// Continues with the next iteration of `label` unless a bit is set.
fn skip_bit(b: &mut Builder, word: Value, bit: Value, label: Label) {
    let shifted = b.binary(BinOp::Shr, word, bit);
    let one = b.i64(1);
    let set = b.binary(BinOp::And, shifted, one);
    let zero = b.i64(0);
    let set = b.compare(CmpOp::Ne, set, zero);
    continue_unless(b, set, label);
}

/// The place of the set bit with the given rank: the threads of an entry take its active cells, so that the others are the last
/// ones. Continues with the next iteration of `label` if there are not so many.
fn set_bit(b: &mut Builder, word: Value, rank: Value, label: Label) -> Value {
    let count = b.value(Op::Unary(UnOp::PopCount), &[word]);
    let exists = b.compare(CmpOp::Lt, rank, count);
    continue_unless(b, exists, label);
    let (mut word, mut rank, mut place) = (word, rank, b.i64(0));
    for half in [32, 16, 8, 4, 2, 1] {
        let (low, by) = (b.i64((1 << half) - 1), b.i64(half));
        let low = b.binary(BinOp::And, word, low);
        let before = b.value(Op::Unary(UnOp::PopCount), &[low]);
        let above = b.compare(CmpOp::Ge, rank, before);
        let [shifted, less, next] = [
            b.binary(BinOp::Shr, word, by),
            b.binary(BinOp::Sub, rank, before),
            b.binary(BinOp::Add, place, by),
        ];
        word = b.select(above, shifted, word);
        rank = b.select(above, less, rank);
        place = b.select(above, next, place);
    }
    place
}

/// Continues with the next iteration of `label` unless a condition holds.
pub(super) fn continue_unless(b: &mut Builder, holds: Value, label: Label) {
    let branch = b.push_typed(Op::If, &[holds], &[]);
    let stay = b.region(&[], |b, _| b.end(Term::Yield(Values::new())));
    let leave = b.region(&[], |b, _| b.end(Term::Continue(label, Values::new())));
    b.func.insts[branch].regions.extend([stay, leave]);
}
