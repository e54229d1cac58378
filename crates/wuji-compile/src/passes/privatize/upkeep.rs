//! Tasks around a privatized one: initializing the copies before it, and merging them after it.
//!
//! Both traverse the memory of a node in address order, for any layout: cells at a constant distance form a *run*,
//! and a block of a run is one unit.

use super::Group;
use crate::rewrite::{combine, identity, scalar_identity};
use wuji_ir::build::Builder;
use wuji_ir::entities::Value;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{I64, Scalar, Type};

/// The approximate size of a block: an unmodified block of a copy is only read.
const BLOCK_BYTES: u64 = 4096;

/// The tasks before a privatized task, and those after it.
pub(super) fn tasks(m: &mut Module, groups: &[Group], like: &Task) -> (Vec<Task>, Vec<Task>) {
    let (mut fills, mut merges) = (Vec::new(), Vec::new());
    for group in groups {
        let runs = Runs::of(m, group);
        let tree = group.tree;
        fills.push(task(m, group, &runs, like, "fill", Copies::Fills(tree)));
        merges.push(task(m, group, &runs, like, "merge", Copies::Merges(tree)));
    }
    (fills, merges)
}

/// The addresses of a node's cells: `outer` levels of runs, then cells at a constant distance.
struct Runs {
    start: u64,
    /// Count and distance, outermost first.
    outer: Vec<(u64, u64)>,
    cells: u64,
    cell: u64,
    /// The slice that is visited, the first index of the field, and the number of slices.
    slice: Option<(Slice, i64, u64)>,
}

impl Runs {
    fn of(m: &Env, group: &Group) -> Runs {
        let tree = &m.trees[group.tree];
        let memory = &group.memory;
        let mut start = 0;
        let mut levels: Vec<(u64, u64)> = Vec::new();
        for node in tree.path(group.node) {
            start += memory.node_offset[node] + memory.first_cell[node];
            let (cells, cell) = (tree.nodes[node].cells(), memory.cell_size[node]);
            match levels.last_mut() {
                Some(last) if last.0 == 1 || last.1 == cells * cell => {
                    *last = (last.0 * cells, cell);
                }
                _ => levels.push((cells, cell)),
            }
        }
        let (cells, cell) = levels.pop().unwrap_or((1, 0));
        let slices = group.slices(m);
        Runs {
            start,
            outer: levels,
            cells: cells / slices,
            cell,
            slice: group
                .slice
                .map(|s| (s, m.fields[s.field].axes[0].1, slices)),
        }
    }

    /// The number of the slice, and whether there is one with this number.
    fn slice_number(&self, b: &mut Builder) -> Option<(Value, Value)> {
        let (slice, lo, slices) = self.slice?;
        let from = b.i64(slice.offset - lo);
        let number = match slice.param {
            None => from,
            Some(p) => {
                let param = b.func.params()[p as usize];
                let index = b.convert(param, Scalar::I64);
                b.binary(BinOp::Add, index, from)
            }
        };
        let bits = b.value(Op::Bitcast(Scalar::U64), &[number]);
        let slices = b.int(Scalar::U64, slices.into());
        Some((number, b.compare(CmpOp::Lt, bits, slices)))
    }

    fn block(&self) -> u64 {
        (BLOCK_BYTES / self.cell.max(1)).clamp(1, self.cells)
    }

    fn blocks(&self) -> u64 {
        self.cells.div_ceil(self.block())
    }

    fn units(&self) -> u64 {
        let outer = self.outer.iter().fold(1, |n, l| n * l.0);
        outer * self.blocks()
    }
}

fn task(
    m: &mut Module,
    group: &Group,
    runs: &Runs,
    like: &Task,
    what: &str,
    copies: Copies,
) -> Task {
    let mut types: Vec<Type> = m.params.iter().map(|p| p.ty).collect();
    let params = types.len();
    types.extend([I64, I64]);
    let name = format!("{}.{what}.{}.{}", like.name, group.tree, group.node);
    let mut f = Function::new(name.clone(), &types, &[]);
    let (begin, end) = (f.params()[params], f.params()[params + 1]);
    let mut b = Builder::new(m, &mut f);
    let one = b.i64(1);
    let mut start = b.i64(runs.start as i64);
    let mut end = end;
    if let Some((number, exists)) = runs.slice_number(&mut b) {
        end = b.select(exists, end, begin);
        let bytes = b.i64((runs.cells * runs.cell) as i64);
        let distance = b.binary(BinOp::Mul, number, bytes);
        start = b.binary(BinOp::Add, start, distance);
    }
    b.for_range(ForKind::Serial, (begin, end, one), &[], |b, _, unit, _| {
        let block = Block::of(b, runs, start, unit);
        match copies {
            Copies::Merges(_) => merge(b, group, &block),
            Copies::None | Copies::Uses { .. } | Copies::Fills(_) => fill(b, group, &block),
        }
        Values::new()
    });
    b.end(Term::Return(Values::new()));
    Task {
        name,
        kind: TaskKind::Chunks {
            dims: vec![RangeDim::new(
                Bound::Const(0),
                Bound::Const(runs.units() as i64),
            )],
            unit: runs.block(),
            hints: LoopHints::default(),
        },
        func: m.add_func(f),
        ordinal: like.ordinal,
        lists: None,
        slices: Vec::new(),
        copies,
        flow: like.flow.beside(),
        span: like.span,
    }
}

/// The cells `lo..hi` of a run.
struct Block {
    start: Value,
    lo: Value,
    hi: Value,
    cell: u64,
}

impl Block {
    fn of(b: &mut Builder, runs: &Runs, mut start: Value, unit: Value) -> Block {
        let (mut run, block) = divide(b, unit, runs.blocks());
        for (count, distance) in runs.outer.iter().rev() {
            let (rest, number) = divide(b, run, *count);
            let distance = b.i64(*distance as i64);
            let bytes = b.binary(BinOp::Mul, number, distance);
            start = b.binary(BinOp::Add, start, bytes);
            run = rest;
        }
        let size = b.i64(runs.block() as i64);
        let lo = b.binary(BinOp::Mul, block, size);
        let hi = b.binary(BinOp::Add, lo, size);
        let all = b.i64(runs.cells as i64);
        let hi = b.binary(BinOp::Min, hi, all);
        Block {
            start,
            lo,
            hi,
            cell: runs.cell,
        }
    }

    /// The offset of a cell.
    fn at(&self, b: &mut Builder, cell: Value) -> Value {
        let distance = b.i64(self.cell as i64);
        let bytes = b.binary(BinOp::Mul, cell, distance);
        b.binary(BinOp::Add, self.start, bytes)
    }
}

/// The offset of a field's element in a cell.
fn element(b: &mut Builder, group: &Group, field: wuji_ir::entities::Field, cell: Value) -> Value {
    let offset = b.i64(group.memory.place(field) as i64);
    b.binary(BinOp::Add, cell, offset)
}

fn fill(b: &mut Builder, group: &Group, block: &Block) {
    let one = b.i64(1);
    let range = (block.lo, block.hi, one);
    b.for_range(ForKind::Parallel, range, &[], |b, _, cell, _| {
        let cell = block.at(b, cell);
        for (field, op) in &group.fields {
            let at = element(b, group, *field, cell);
            let neutral = identity(b, *op, b.env.fields[*field].elem);
            b.push(
                Op::MemStore(Space::Private(group.tree, *field)),
                &[at, neutral],
            );
        }
        Values::new()
    });
}

/// Merges a block of the worker's copy into the tree, unless the block is unmodified.
fn merge(b: &mut Builder, group: &Group, block: &Block) {
    let changed = changed_bits(b, group, block);
    let zero = b.zero(b.func.ty(changed));
    let some = b.compare(CmpOp::Ne, changed, zero);
    let merging = |b: &mut Builder| {
        let one = b.i64(1);
        let range = (block.lo, block.hi, one);
        b.for_range(ForKind::Parallel, range, &[], |b, _, cell, _| {
            let cell = block.at(b, cell);
            for (field, op) in &group.fields {
                let at = element(b, group, *field, cell);
                let ty = b.env.fields[*field].elem;
                let own = Space::Private(group.tree, *field);
                let value = b.value(Op::MemLoad(own, ty), &[at]);
                let neutral = identity(b, *op, ty);
                b.push(Op::MemStore(own), &[at, neutral]);
                let all = Space::Tree(group.tree, *field);
                let old = b.value(Op::MemLoad(all, ty), &[at]);
                let new = combine(b, *op, old, value);
                b.push(Op::MemStore(all), &[at, new]);
            }
            Values::new()
        });
        Values::new()
    };
    b.if_else(some, &[], merging, |_| Values::new());
}

/// The bitwise OR of all differences of a block of a copy from the identity.
fn changed_bits(b: &mut Builder, group: &Group, block: &Block) -> Value {
    let scalars: Vec<_> = group
        .fields
        .iter()
        .flat_map(|(field, op)| {
            let elem = b.env.fields[*field].elem;
            let scalars = b.env.structs.scalar_offsets(elem);
            scalars.into_iter().map(move |(s, at)| (*field, *op, s, at))
        })
        .collect();
    let wide = if scalars.iter().any(|(_, _, s, _)| s.bytes() == 8) {
        Scalar::U64
    } else {
        Scalar::U32
    };
    let none = b.zero(Type::Scalar(wide));
    let one = b.i64(1);
    let range = (block.lo, block.hi, one);
    let found = b.for_range(ForKind::Serial, range, &[none], |b, _, cell, carried| {
        let cell = block.at(b, cell);
        let mut sum = carried[0];
        for (field, op, scalar, offset) in &scalars {
            let at = element(b, group, *field, cell);
            let offset = b.i64(*offset as i64);
            let at = b.binary(BinOp::Add, at, offset);
            let own = Space::Private(group.tree, *field);
            let value = b.value(Op::MemLoad(own, Type::Scalar(*scalar)), &[at]);
            let neutral = b.imm(scalar_identity(*op, *scalar));
            let (value, neutral) = (bits(b, value, *scalar), bits(b, neutral, *scalar));
            let differs = b.binary(BinOp::Xor, value, neutral);
            let differs = b.convert(differs, wide);
            sum = b.binary(BinOp::Or, sum, differs);
        }
        [sum].into_iter().collect()
    });
    b.func.result(found)
}

/// The bits of a scalar as an unsigned integer.
fn bits(b: &mut Builder, value: Value, scalar: Scalar) -> Value {
    let to = match scalar {
        Scalar::Bool => return b.convert(value, Scalar::U8),
        Scalar::I8 | Scalar::U8 => Scalar::U8,
        Scalar::I16 | Scalar::U16 | Scalar::F16 => Scalar::U16,
        Scalar::I32 | Scalar::U32 | Scalar::F32 => Scalar::U32,
        Scalar::I64 | Scalar::U64 | Scalar::F64 => Scalar::U64,
    };
    if scalar == to {
        value
    } else {
        b.value(Op::Bitcast(to), &[value])
    }
}

/// Quotient and remainder of a nonnegative number.
fn divide(b: &mut Builder, a: Value, by: u64) -> (Value, Value) {
    let by = b.i64(by as i64);
    let quotient = b.binary(BinOp::Div, a, by);
    (quotient, b.binary(BinOp::Rem, a, by))
}
