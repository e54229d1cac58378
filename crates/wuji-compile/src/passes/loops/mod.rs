//! Turns parallel tasks into functions over chunks of units, with explicit loops in memory order.
//!
//! The iteration space is a list of dimensions, slowest first: the axes of a range, or for the cells of
//! a field the axes of every node on its path, so that the innermost loop runs along memory. Trailing
//! dimensions of constant size become a full loop nest, *one unit*; the others are numbered through.
//! Where the last dimension is large or unknown, a chunk walks along it in rows, so that no iteration
//! pays for a division.
//!
//! On a GPU a unit is one iteration: threads take one after the other, and neighbouring threads neighbouring ones.

mod sparse;

use crate::analysis::cost;
use crate::options::{Options, Target};
use crate::passes::Cx;
use crate::rewrite::Substitution;
use smallvec::smallvec;
use sparse::{ListLoop, Mask};
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Field, Func, Inst, Local, Region, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{I64, Scalar, Type};

/// Iterations in one unit at most.
const UNIT_LIMIT: u64 = 1 << 14;
/// Units there should be at least, for threads to share.
const MIN_UNITS: u64 = 64;

pub fn loops(m: &mut Module, cx: &mut Cx) -> Result<()> {
    let options = cx.options.clone();
    let mut tasks = Vec::new();
    for mut task in std::mem::take(&mut m.tasks) {
        match task.kind.clone() {
            TaskKind::Serial => serial(m, task.func),
            TaskKind::Chunks { .. } => {}
            TaskKind::Range { dims, hints } => {
                let dims = dims
                    .iter()
                    .enumerate()
                    .map(|(k, d)| Dim {
                        bounds: *d,
                        index: k,
                        scale: 1,
                    })
                    .collect();
                task.kind = chunk(m, task.func, dims, None, &[], hints, &options);
            }
            TaskKind::Cells { field, hints } => {
                let origins: Vec<i64> = m.fields[field].axes.iter().map(|a| a.1).collect();
                let (list, dims) = match sparse::plan(m, field) {
                    Some((list, dims)) => (Some(list), dims),
                    None => (None, cell_dims(m, field, hints.serial)),
                };
                if let Some(list) = &list {
                    if hints.serial {
                        return Err(sparse::refuse_serial(m, field, &task));
                    }
                    tasks.extend(list.list_tasks(m, &task, cx)?);
                }
                let loops = list.map(|l| (l, field));
                task.kind = chunk(m, task.func, dims, loops, &origins, hints, &options);
            }
        }
        tasks.push(task);
    }
    m.tasks = tasks;
    Ok(())
}

/// Serial code is iteration 0.
fn serial(m: &mut Module, func: Func) {
    let zero = wuji_ir::types::Imm::zero(Scalar::I64);
    for inst in m.funcs[func].insts.values_mut() {
        if inst.op == Op::Iteration {
            inst.op = Op::Const(zero);
        }
    }
}

/// One dimension: `scale *` its number is added to one index of the loop.
struct Dim {
    bounds: RangeDim,
    index: usize,
    scale: i64,
}

impl Dim {
    fn constant_extent(&self) -> Option<u64> {
        match (self.bounds.lo, self.bounds.hi) {
            (Bound::Const(lo), Bound::Const(hi)) => {
                Some(u64::try_from(i128::from(hi) - i128::from(lo)).unwrap_or(0))
            }
            _ => None,
        }
    }
}

/// The dimensions of a field's cells in memory order; in index order when that was asked for.
fn cell_dims(m: &Env, field: wuji_ir::entities::Field, index_order: bool) -> Vec<Dim> {
    let data = &m.fields[field];
    let tree = &m.trees[data.tree];
    let dim = |extent: u64, index: usize, scale: u64| Dim {
        bounds: RangeDim {
            lo: Bound::Const(0),
            hi: Bound::Const(i64::try_from(extent).unwrap_or(i64::MAX)),
        },
        index,
        scale: scale as i64,
    };
    if index_order {
        let domain = data.domain(&m.trees);
        return domain
            .iter()
            .enumerate()
            .map(|(k, (_, e))| dim(*e, k, 1))
            .collect();
    }
    let path = tree.path(data.node);
    let mut dims = Vec::new();
    for (level, node) in path.iter().enumerate() {
        for (axis, extent) in &tree.nodes[*node].extents {
            let Some(index) = data.axes.iter().position(|a| a.0 == *axis) else {
                continue;
            };
            let scale: u64 = path[level + 1..]
                .iter()
                .flat_map(|n| &tree.nodes[*n].extents)
                .filter(|e| e.0 == *axis)
                .map(|e| e.1)
                .product();
            dims.push(dim(*extent, index, scale));
        }
    }
    dims
}

/// Neighbours that one thread of a GPU takes: as many as a load of 16 bytes brings.
const ROW: u64 = 4;
/// Only where there are so many iterations that all threads have something to do.
const MANY: u64 = 1 << 20;
/// Iterations of at most so many instructions do little else than wait for memory.
const SHORT: u64 = 64;

/// Makes rows of neighbours along memory the innermost dimension, if there are enough of them.
fn rows(dims: &mut Vec<Dim>, from: u64) -> bool {
    let mut total = dims.iter().map(Dim::constant_extent);
    let total = total.try_fold(1u64, |n, e| n.checked_mul(e?));
    let Some(last) = dims.last() else {
        return false;
    };
    let (Some(extent), Bound::Const(0)) = (last.constant_extent(), last.bounds.lo) else {
        return false;
    };
    if total.is_none_or(|t| t < from) || !extent.is_multiple_of(ROW) {
        return false;
    }
    let (index, scale) = (last.index, last.scale);
    let dim = |extent: u64, scale: i64| Dim {
        bounds: RangeDim {
            lo: Bound::Const(0),
            hi: Bound::Const(extent as i64),
        },
        index,
        scale,
    };
    dims.pop();
    dims.push(dim(extent / ROW, scale * ROW as i64));
    dims.push(dim(ROW, scale));
    true
}

/// Threads of a block along both sides of a tile; together they are a block.
const TILE: (u64, u64) = (8, 32);
/// So many loads of one field look like those of a stencil.
const STENCIL: usize = 3;

/// Where a field is loaded all around, threads of a block share a tile of the last two dimensions, rather than a line: what one
/// has loaded is near when the next one wants it.
fn tiles(f: &Function, body: Region, dims: &mut Vec<Dim>) {
    let mut loads: Vec<(Place, usize)> = Vec::new();
    for inst in f.insts_in(body) {
        if let Op::Load(access) = &f.insts[inst].op {
            match loads.iter_mut().find(|l| l.0 == access.place) {
                Some(found) => found.1 += 1,
                None => loads.push((access.place, 1)),
            }
        }
    }
    if loads.iter().all(|l| l.1 < STENCIL) {
        return;
    }
    // The last one is the row of neighbours.
    let [.., above, along, _row] = &dims[..] else {
        return;
    };
    let whole = |dim: &Dim, side: u64| {
        let extent = dim.constant_extent().filter(|e| e.is_multiple_of(side));
        extent.filter(|_| dim.bounds.lo == Bound::Const(0))
    };
    let (Some(high), Some(wide)) = (whole(above, TILE.0), whole(along, TILE.1)) else {
        return;
    };
    let dim = |like: &Dim, extent: u64, times: u64| Dim {
        bounds: RangeDim {
            lo: Bound::Const(0),
            hi: Bound::Const(extent as i64),
        },
        index: like.index,
        scale: like.scale * times as i64,
    };
    let new = [
        dim(above, high / TILE.0, TILE.0),
        dim(along, wide / TILE.1, TILE.1),
        dim(above, TILE.0, 1),
        dim(along, TILE.1, 1),
    ];
    let row = dims.pop();
    dims.truncate(dims.len() - 2);
    dims.extend(new);
    dims.extend(row);
}

/// Whether an iteration is over soon: a few instructions, and no loops.
fn is_short(f: &Function, body: Region) -> bool {
    let mut count = 0;
    for inst in f.insts_in(body) {
        let op = &f.insts[inst].op;
        if matches!(op, Op::For(..) | Op::Loop(_) | Op::Call(_) | Op::Cell(..)) {
            return false;
        }
        let serial = matches!(
            op,
            Op::Atomic(..) | Op::CompareExchange(_) | Op::Print(_) | Op::Random
        );
        count += match op.elementwise() {
            Some(_) => op.cost().units(),
            None if serial => 8,
            None => 1,
        };
    }
    count <= SHORT
}

/// Whether there are so few units that 32 bits are enough for their numbers.
fn few(dims: &[Dim]) -> bool {
    let mut extents = dims.iter().map(Dim::constant_extent);
    let total = extents.try_fold(1u64, |n, e| n.checked_mul(e?));
    total.is_some_and(|t| t < 1 << 31)
}

/// How many leading dimensions are numbered through; the rest is one unit. `None`: walk in rows.
fn split(dims: &[Dim]) -> Option<usize> {
    let extents: Vec<Option<u64>> = dims.iter().map(Dim::constant_extent).collect();
    let total: Option<u64> = extents.iter().try_fold(1u64, |n, e| n.checked_mul((*e)?));
    // Numbered through, an empty domain has no units; as a nest inside of units it would be walked in vain.
    if dims.len() <= 1 || extents.contains(&Some(0)) {
        return Some(dims.len());
    }
    for k in 1..dims.len() {
        let Some(unit) = extents[k..]
            .iter()
            .try_fold(1u64, |n, e| n.checked_mul((*e)?))
        else {
            continue;
        };
        let outer = extents[..k]
            .iter()
            .try_fold(1u64, |n, e| n.checked_mul((*e)?));
        let enough = outer.is_none_or(|n| n >= MIN_UNITS) || total.is_some_and(|t| t < 1 << 12);
        if unit <= UNIT_LIMIT && enough {
            return Some(k);
        }
    }
    None
}

fn chunk(
    m: &mut Module,
    func: Func,
    dims: Vec<Dim>,
    list: Option<(ListLoop, Field)>,
    origins: &[i64],
    hints: LoopHints,
    options: &Options,
) -> TaskKind {
    let target = options.target;
    let Module { env, funcs, .. } = m;
    let f = &mut funcs[func];
    let kernel_params = env.params.len();
    let old_params: Vec<Value> = f.params().to_vec();
    let body = f.entry;
    let index_types: Vec<Type> = old_params[kernel_params..]
        .iter()
        .map(|v| f.ty(*v))
        .collect();
    let mut types: Vec<Type> = env.params.iter().map(|p| p.ty).collect();
    types.extend([I64, I64]);
    f.entry = f.add_region(&types);
    let entry = f.entry;
    let new_params: Vec<Value> = f.params().to_vec();
    let mut subst = Substitution::new();
    for (old, new) in old_params.iter().zip(&new_params[..kernel_params]) {
        subst.set(*old, *new);
    }

    let mut dims = dims;
    let at = match target {
        Target::Cpu => split(&dims),
        Target::Cuda => {
            if list.is_none()
                && !hints.serial
                && !hints.cooperative
                && is_short(f, body)
                && rows(&mut dims, options.rows_from.unwrap_or(MANY))
            {
                tiles(f, body, &mut dims);
                Some(dims.len() - 1)
            } else {
                Some(dims.len())
            }
        }
    };
    let outer = at.unwrap_or(dims.len());
    let unit = dims[outer..]
        .iter()
        .filter_map(Dim::constant_extent)
        .product::<u64>();
    lift_skip(f, body);
    let blocks = target == Target::Cuda
        && list.is_some()
        && !options.without.iter().any(|w| w == "scratchpads")
        && keeps_near(env, f, body, options.sm);
    if hints.cooperative {
        // The entry has what this adds before anything else; the body is not part of the function yet.
        let threads = hints.threads();
        prepare_threads(&mut Builder::new(env, f), body, threads, &mut subst);
    }
    let mut b = Builder::new(env, f);
    let mut nest = Nest {
        kind: if hints.serial {
            ForKind::Serial
        } else {
            ForKind::Parallel
        },
        short: target == Target::Cuda && few(&dims),
        bounds: Vec::new(),
        dims: &dims,
        mask: None,
        domain: list.as_ref().map(|(_, f)| m_domain(b.env, *f)),
        body,
        origins,
        index_types,
        old_indices: old_params[kernel_params..].to_vec(),
        subst,
    };
    nest.load_bounds(&mut b, &new_params);
    let (begin, end) = (new_params[kernel_params], new_params[kernel_params + 1]);
    match (&list, at) {
        (Some((list, _)), _) => match target {
            Target::Cpu => nest.entries(&mut b, list, begin, end),
            Target::Cuda if blocks => nest.blocks(&mut b, list, begin, end),
            Target::Cuda => nest.elements(&mut b, list, begin, end),
        },
        (None, Some(outer)) => nest.units(&mut b, outer, begin, end),
        (None, None) => nest.rows(&mut b, begin, end),
    }
    b.region = entry;
    b.end(Term::Return(Values::new()));
    let subst = nest.subst;
    subst.apply(f);
    env.signatures[func] = f.signature();
    if let Some((list, _)) = list {
        let unit = list.unit(&dims);
        let inside = RangeDim {
            lo: Bound::Const(0),
            hi: Bound::Const(i64::try_from(unit).unwrap_or(i64::MAX)),
        };
        return match target {
            Target::Cpu => TaskKind::Chunks {
                unit,
                dims: vec![list.bounds()],
                hints,
            },
            Target::Cuda if blocks => TaskKind::Chunks {
                unit,
                dims: vec![list.bounds()],
                hints: LoopHints {
                    blocks: true,
                    block_size: hints.block_size.or(Some(threads_for(unit))),
                    ..hints
                },
            },
            Target::Cuda => TaskKind::Chunks {
                unit: 1,
                dims: vec![list.bounds(), inside],
                hints,
            },
        };
    }
    TaskKind::Chunks {
        dims: dims[..outer].iter().map(|d| d.bounds).collect(),
        unit,
        hints,
    }
}

/// Whether a field is to be kept near while a block is worked on.
fn keeps_near(m: &Env, f: &Function, body: Region, sm: u32) -> bool {
    let (mut cached, mut added) = (Vec::new(), Vec::new());
    for inst in f.insts_in(body) {
        let op = &f.insts[inst].op;
        if let Op::Cache(field) = op {
            cached.push(*field);
        }
        if let Op::Atomic(_, access) = op
            && let Place::Field(field) = access.place
        {
            added.push(field);
        }
    }
    let pays = |field: &Field| !added.contains(field) || cost::sums_pay(m, *field, sm);
    cached.iter().any(pays)
}

/// Threads for a block of so many elements: no more than there are, and enough to fill and empty what is kept near.
fn threads_for(elements: u64) -> u32 {
    elements.clamp(64, 256).next_multiple_of(WARP.into()) as u32
}

/// A body that starts by returning when a temp says so returns for the whole chunk.
fn lift_skip(f: &mut Function, body: Region) {
    let &[load, branch, ..] = &f.regions[body].insts[..] else {
        return;
    };
    let temp = matches!(&f.insts[load].op, Op::Load(a) if matches!(a.place, Place::Temp(_)));
    let data = &f.insts[branch];
    let skips = data.op == Op::If
        && data.args.first() == f.insts[load].results.first()
        && data.regions.iter().all(|r| f.regions[*r].insts.is_empty())
        && matches!(f.regions[data.regions[0]].term, Term::Return(_))
        && matches!(f.regions[data.regions[1]].term, Term::Yield(_));
    if temp && skips {
        f.regions[body].insts.drain(..2);
        let entry = f.entry;
        f.regions[entry].insts.extend([load, branch]);
    }
}

#[derive(Copy, Clone)]
struct Bounds {
    lo: Value,
    hi: Value,
    extent: Value,
}

struct Nest<'a> {
    /// Of the loops: iterations with the hint `serial` stay in order.
    kind: ForKind,
    /// Numbers of units are taken apart in 32 bits.
    short: bool,
    dims: &'a [Dim],
    /// Cells of a box that are left out.
    mask: Option<Mask>,
    /// Extents of the indices, where they are more than the product of the dimensions.
    domain: Option<Vec<u64>>,
    /// Every dimension's `lo`, `hi` and extent, `i64`.
    bounds: Vec<Bounds>,
    body: Region,
    /// Added to each index; none means zeros.
    origins: &'a [i64],
    index_types: Vec<Type>,
    old_indices: Vec<Value>,
    subst: Substitution,
}

impl Nest<'_> {
    fn load_bounds(&mut self, b: &mut Builder, params: &[Value]) {
        for dim in self.dims {
            let lo = bound(b, dim.bounds.lo, params);
            let hi = bound(b, dim.bounds.hi, params);
            let extent = match dim.constant_extent() {
                Some(e) => b.i64(e as i64),
                None => {
                    let most = b.binary(BinOp::Max, lo, hi);
                    b.binary(BinOp::Sub, most, lo)
                }
            };
            self.bounds.push(Bounds { lo, hi, extent });
        }
    }

    /// `for.parallel u in begin..end`, then a full nest over the dimensions from `outer` on.
    fn units(&mut self, b: &mut Builder, outer: usize, begin: Value, end: Value) {
        let one = b.i64(1);
        // A single dimension counts in its own coordinates, so that indices are the loop's index.
        let (from, to, own) = if outer == 1 {
            let (from, to) = self.within(b, 0, begin, end);
            (from, to, true)
        } else {
            (begin, end, false)
        };
        let label = b.func.fresh_label();
        let inst = b.push_typed(Op::For(label, self.kind), &[from, to, one], &[]);
        let region = if outer == self.dims.len() {
            let u = self.adopt_body(b, label);
            let at = b.region;
            let mut numbers = Vec::new();
            let fresh = self.before_body(b, |nest, b| {
                numbers = if own {
                    vec![u]
                } else {
                    nest.unravel(b, u, outer)
                };
                nest.indices(b, &numbers);
            });
            b.region = at;
            fresh
        } else {
            b.region(&[I64], |b, p| {
                let mut numbers = if own {
                    vec![p[0]]
                } else {
                    self.unravel(b, p[0], outer)
                };
                self.inner(b, outer, &mut numbers);
                b.end(Term::Continue(label, Values::new()));
            })
        };
        b.func.insts[inst].regions.push(region);
    }

    /// Loops over dimensions `k..`, the body innermost.
    fn inner(&mut self, b: &mut Builder, k: usize, numbers: &mut Vec<Value>) {
        let Bounds { lo, hi, .. } = self.bounds[k];
        self.inner_range(b, k, numbers, lo, hi);
    }

    fn inner_range(
        &mut self,
        b: &mut Builder,
        k: usize,
        numbers: &mut Vec<Value>,
        lo: Value,
        hi: Value,
    ) {
        let one = b.i64(1);
        let label = b.func.fresh_label();
        let inst = b.push_typed(Op::For(label, self.kind), &[lo, hi, one], &[]);
        let region = if k + 1 == self.dims.len() {
            let u = self.adopt_body(b, label);
            numbers.push(u);
            self.before_body(b, |nest, b| {
                if let Some(mask) = nest.mask.filter(|m| m.last == k) {
                    nest.skip_unset(b, mask, numbers, label);
                }
                nest.indices(b, numbers);
            })
        } else {
            b.region(&[I64], |b, p| {
                numbers.push(p[0]);
                if let Some(mask) = self.mask.filter(|m| m.last == k) {
                    self.skip_unset(b, mask, numbers, label);
                }
                self.inner(b, k + 1, numbers);
                b.end(Term::Continue(label, Values::new()));
            })
        };
        numbers.pop();
        b.func.insts[inst].regions.push(region);
    }

    /// Walks along the last dimension in rows, whatever its extent.
    fn rows(&mut self, b: &mut Builder, begin: Value, end: Value) {
        let last = self.dims.len() - 1;
        let extent = self.bounds[last].extent;
        let row = b.binary(BinOp::Div, begin, extent);
        let column = b.binary(BinOp::Rem, begin, extent);
        let label = b.func.fresh_label();
        let inst = b.push_typed(Op::Loop(label), &[begin, row, column], &[]);
        let region = b.region(&[I64, I64, I64], |b, p| {
            let (at, row, column) = (p[0], p[1], p[2]);
            let more = b.compare(CmpOp::Lt, at, end);
            let branch = b.push_typed(Op::If, &[more], &[]);
            let stay = b.region(&[], |b, _| b.end(Term::Yield(Values::new())));
            let leave = b.region(&[], |b, _| b.end(Term::Break(label, Values::new())));
            b.func.insts[branch].regions.extend([stay, leave]);
            let left = b.binary(BinOp::Sub, end, at);
            let stop = b.binary(BinOp::Add, column, left);
            let stop = b.binary(BinOp::Min, stop, extent);
            let mut numbers = self.unravel(b, row, last);
            let (from, to) = self.within(b, last, column, stop);
            self.inner_range(b, last, &mut numbers, from, to);
            let width = b.binary(BinOp::Sub, stop, column);
            let at = b.binary(BinOp::Add, at, width);
            let one = b.i64(1);
            let row = b.binary(BinOp::Add, row, one);
            let zero = b.i64(0);
            b.end(Term::Continue(label, smallvec![at, row, zero]));
        });
        b.func.insts[inst].regions.push(region);
    }

    /// A piece of a dimension in its own coordinates. Clamping changes nothing, but tells the passes
    /// after this one where the index lies.
    fn within(&self, b: &mut Builder, k: usize, begin: Value, end: Value) -> (Value, Value) {
        let Bounds { lo, hi, .. } = self.bounds[k];
        let from = b.binary(BinOp::Add, begin, lo);
        let from = b.binary(BinOp::Max, from, lo);
        let to = b.binary(BinOp::Add, end, lo);
        (from, b.binary(BinOp::Min, to, hi))
    }

    /// The numbers of the first `count` dimensions from their joint number.
    fn unravel(&self, b: &mut Builder, joint: Value, count: usize) -> Vec<Value> {
        let mut numbers = vec![joint; count];
        let mut rest = joint;
        if self.short {
            rest = b.convert(rest, Scalar::U32);
        }
        for k in (0..count).rev() {
            let Bounds { lo, hi, extent } = self.bounds[k];
            let own = if k == 0 {
                rest
            } else {
                let by = if self.short {
                    b.convert(extent, Scalar::U32)
                } else {
                    extent
                };
                let own = b.binary(BinOp::Rem, rest, by);
                rest = b.binary(BinOp::Div, rest, by);
                own
            };
            let own = if self.short {
                b.convert(own, Scalar::I64)
            } else {
                own
            };
            let number = b.binary(BinOp::Add, own, lo);
            let one = b.i64(1);
            let last = b.binary(BinOp::Sub, hi, one);
            let number = b.binary(BinOp::Max, number, lo);
            numbers[k] = b.binary(BinOp::Min, number, last);
        }
        numbers
    }

    /// Makes the old entry region the body of the innermost loop: one parameter, `continue` at its end.
    fn adopt_body(&mut self, b: &mut Builder, label: wuji_ir::entities::Label) -> Value {
        let f = &mut *b.func;
        f.regions[self.body].params.clear();
        let u = f.add_region_param(self.body, I64);
        let mut regions = vec![self.body];
        let mut k = 0;
        while k < regions.len() {
            let r = regions[k];
            k += 1;
            for i in &f.regions[r].insts {
                regions.extend(&f.insts[*i].regions);
            }
            // Its number comes from the coordinates: see `iteration_number`.
            f.regions[r]
                .insts
                .retain(|i| f.insts[*i].op != Op::Iteration);
            if let Term::Return(_) = f.regions[r].term {
                f.regions[r].term = Term::Continue(label, Values::new());
            }
        }
        u
    }

    /// Puts instructions in front of the body.
    fn before_body(
        &mut self,
        b: &mut Builder,
        fill: impl FnOnce(&mut Self, &mut Builder),
    ) -> Region {
        let rest = std::mem::take(&mut b.func.regions[self.body].insts);
        let outer = std::mem::replace(&mut b.region, self.body);
        fill(self, b);
        self.clear_local_arrays(b);
        b.region = outer;
        b.func.regions[self.body].insts.extend(rest);
        self.body
    }

    /// The loop's indices from the numbers of all dimensions, and its iteration number.
    fn indices(&mut self, b: &mut Builder, numbers: &[Value]) {
        let mut wide: Vec<Option<Value>> = vec![None; self.index_types.len()];
        for (dim, number) in self.dims.iter().zip(numbers) {
            let part = if dim.scale == 1 {
                *number
            } else {
                let scale = b.i64(dim.scale);
                b.binary(BinOp::Mul, *number, scale)
            };
            wide[dim.index] = Some(match wide[dim.index] {
                Some(sum) => b.binary(BinOp::Add, sum, part),
                None => part,
            });
        }
        let mut coordinates = Vec::new();
        for (k, ty) in self.index_types.clone().iter().enumerate() {
            let value = match wide[k] {
                Some(v) => v,
                None => b.i64(0),
            };
            coordinates.push(value);
            let value = match self.origins.get(k) {
                Some(origin) if *origin != 0 => {
                    let origin = b.i64(*origin);
                    b.binary(BinOp::Add, value, origin)
                }
                _ => value,
            };
            let Some(scalar) = ty.as_scalar() else {
                continue;
            };
            let narrow = b.convert(value, scalar);
            self.subst.set(self.old_indices[k], narrow);
        }
        self.iteration_number(b, &coordinates);
    }

    /// Row-major over the domain, whatever order the loops run in. Coordinates are without origins.
    fn iteration_number(&mut self, b: &mut Builder, coordinates: &[Value]) {
        let askers: Vec<Value> = {
            let f = &*b.func;
            let mut found = Vec::new();
            for inst in f.insts.values() {
                if inst.op == Op::Iteration {
                    found.extend(inst.results.iter().copied());
                }
            }
            found
        };
        if askers.is_empty() {
            return;
        }
        let mut number = b.i64(0);
        for (k, c) in coordinates.iter().enumerate() {
            let (lo, extent) = self.index_domain(b, k);
            let from_zero = b.binary(BinOp::Sub, *c, lo);
            number = b.binary(BinOp::Mul, number, extent);
            number = b.binary(BinOp::Add, number, from_zero);
        }
        for a in askers {
            self.subst.set(a, number);
            // Nobody asks the old instruction any more; it must not be left for a backend.
            if let Some(inst) = b.func.def(a) {
                b.func.insts[inst].op = Op::Const(wuji_ir::types::Imm::zero(Scalar::I64));
            }
        }
    }

    /// Smallest coordinate and extent of an index over all its dimensions.
    fn index_domain(&self, b: &mut Builder, index: usize) -> (Value, Value) {
        if let Some(domain) = &self.domain {
            return (b.i64(0), b.i64(domain[index] as i64));
        }
        let mut lo = b.i64(0);
        let mut extent = b.i64(1);
        for (
            dim,
            Bounds {
                lo: l, extent: e, ..
            },
        ) in self.dims.iter().zip(&self.bounds)
        {
            if dim.index == index {
                let scale = b.i64(dim.scale);
                let part = b.binary(BinOp::Mul, *l, scale);
                lo = b.binary(BinOp::Add, lo, part);
                extent = b.binary(BinOp::Mul, extent, *e);
            }
        }
        (lo, extent)
    }

    /// Local arrays are zero at the start of every iteration.
    fn clear_local_arrays(&mut self, b: &mut Builder) {
        let arrays: Vec<_> = b
            .func
            .locals
            .iter()
            .filter(|(_, d)| !d.shared)
            .filter_map(|(l, d)| d.len.map(|n| (l, d.ty, n)))
            .collect();
        for (local, ty, len) in arrays {
            let zero = b.zero(ty);
            let (lo, hi, one) = (b.i64(0), b.i64(len.into()), b.i64(1));
            b.for_range(ForKind::Serial, (lo, hi, one), &[], |b, _, i, _| {
                let mut access = Access::write(Place::Local(local));
                access.guard = Guard::InBounds;
                b.push(Op::Store(access), &[i, zero]);
                Values::new()
            });
        }
    }
}

/// What is known of threads that work together: how many there are in a block, and that shared arrays are zero before any of
/// them begins. All threads of a block see to that, those without an iteration included.
fn prepare_threads(b: &mut Builder, body: Region, threads: u32, subst: &mut Substitution) {
    let asks = |inst: &Inst| {
        let op = &b.func.insts[*inst].op;
        matches!(op, Op::Thread(ThreadOp::Index | ThreadOp::BlockSize))
    };
    let asked: Vec<Inst> = b.func.insts_in(body).filter(asks).collect();
    let arrays: Vec<_> = b
        .func
        .locals
        .iter()
        .filter(|(_, d)| d.shared)
        .filter_map(|(l, d)| d.len.map(|n| (l, d.ty, n)))
        .collect();
    if asked.is_empty() && arrays.is_empty() {
        return;
    }
    let own = b.value(Op::Thread(ThreadOp::Index), &[]);
    let last = b.int(Scalar::I32, i128::from(threads) - 1);
    // Changes nothing, but tells the passes after this one where the number lies.
    let own = b.binary(BinOp::Min, own, last);
    let all = b.int(Scalar::I32, i128::from(threads));
    for inst in asked {
        let result = b.func.result(inst);
        let is_index = b.func.insts[inst].op == Op::Thread(ThreadOp::Index);
        let known = if is_index { own } else { all };
        subst.set(result, known);
    }
    if arrays.is_empty() {
        return;
    }
    for (local, ty, len) in arrays {
        clear_shared(b, own, threads, (local, ty, len));
    }
    b.push(Op::Thread(ThreadOp::Barrier), &[]);
}

/// Threads make a shared array zero, each every so many elements.
fn clear_shared(b: &mut Builder, own: Value, threads: u32, (local, ty, len): (Local, Type, u32)) {
    let mut access = Access::write(Place::Local(local));
    access.guard = Guard::InBounds;
    let zero = b.zero(ty);
    let (lo, one) = (b.int(Scalar::I32, 0), b.int(Scalar::I32, 1));
    let rounds = b.int(Scalar::I32, i128::from(len / threads));
    let all = b.int(Scalar::I32, i128::from(threads));
    b.for_range(ForKind::Serial, (lo, rounds, one), &[], |b, _, k, _| {
        let before = b.binary(BinOp::Mul, k, all);
        let at = b.binary(BinOp::Add, before, own);
        b.push(Op::Store(access.clone()), &[at, zero]);
        Values::new()
    });
    let rest = len % threads;
    if rest == 0 {
        return;
    }
    let rest = b.int(Scalar::I32, i128::from(rest));
    let wanted = b.compare(CmpOp::Lt, own, rest);
    let branch = b.push_typed(Op::If, &[wanted], &[]);
    let yes = b.region(&[], |b, _| {
        let before = b.int(Scalar::I32, i128::from(len - len % threads));
        let at = b.binary(BinOp::Add, before, own);
        b.push(Op::Store(access), &[at, zero]);
        b.end(Term::Yield(Values::new()));
    });
    let no = b.region(&[], |b, _| b.end(Term::Yield(Values::new())));
    b.func.insts[branch].regions.extend([yes, no]);
}

/// Extents of a field's indices.
fn m_domain(m: &Env, field: Field) -> Vec<u64> {
    m.fields[field]
        .domain(&m.trees)
        .into_iter()
        .map(|d| d.1)
        .collect()
}

/// A bound as `i64`.
fn bound(b: &mut Builder, bound: Bound, params: &[Value]) -> Value {
    let value = match bound {
        Bound::Const(c) => return b.i64(c),
        Bound::Param(p) => params[p as usize],
        Bound::Temp(t) => b.load(Place::Temp(t), &[]),
        // Lists are walked by number; nobody asks for their length inside.
        Bound::List(..) => b.i64(i64::MAX),
    };
    if b.func.ty(value).as_scalar() == Some(Scalar::U64) {
        let most = b.int(Scalar::U64, i64::MAX.into());
        let clamped = b.binary(BinOp::Min, value, most);
        return b.convert(clamped, Scalar::I64);
    }
    b.convert(value, Scalar::I64)
}
