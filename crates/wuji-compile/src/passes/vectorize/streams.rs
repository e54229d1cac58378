//! Non-temporal stores, for long loops that write a field and do not read it.
//!
//! An ordinary store to a line that is not cached fetches the line first (write-allocate). Non-temporal stores
//! avoid that, if they are aligned vectors and ideally full cache lines. So the loop peels a few iterations up to
//! an aligned address.

use super::Rewrite;
use super::plan::VectorPlan;
use super::shapes::{Shape, Shapes};
use crate::analysis::affine::{Affine, AffineAnalysis};
use crate::rewrite::Structure;
use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::build::Builder;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;

/// The least number of bytes that a loop has to write of a field. Less would stay in the cache for the next reader;
/// measured, the break-even point is between 8 and 16 MiB (`docs/performance.md`).
const LEAST_BYTES: u64 = 32 << 20;

/// Bytes of a cache line.
const LINE: i64 = 64;

/// The least trip count of a loop that does not begin and end with full cache lines: a line with both temporal and
/// non-temporal stores takes longer than many full ones. Measured: rows of 1024 ran at half the speed, rows of 4096
/// at the same speed.
const LEAST_TRIPS: i128 = 1 << 14;
/// The same for loops that use non-temporal stores only for full lines.
const LEAST_LINE_TRIPS: i128 = 512;
/// The same for loops with only full vectors.
const LEAST_WHOLE_TRIPS: i128 = 256;

/// The non-temporal stores of a loop.
#[derive(Default)]
pub(super) struct Streams {
    pub(super) stores: FxHashSet<Inst>,
    /// The offset that the loop peels to an aligned address; `None` if it is aligned already.
    peel: Option<Peel>,
}

struct Peel {
    offset: Value,
    /// Bytes of an element, and the alignment.
    element: i64,
    whole: i64,
}

/// The number of iterations of a task, if it is known.
pub(super) fn iterations(task: &Task) -> Option<u64> {
    let TaskKind::Chunks { dims, unit, .. } = &task.kind else {
        return None;
    };
    dims.iter().try_fold(*unit, |all, dim| {
        Some(all.saturating_mul(dim.constant_count()?))
    })
}

/// What is known of the loop around the stores.
struct Nest {
    /// The first iteration.
    begin: Affine,
    index: Value,
    /// At most this many iterations.
    trips: i128,
    /// Whether no iterations are left after the groups of vectors.
    no_rest: bool,
    /// Whether it streams however few iterations there are.
    forced: bool,
}

impl Nest {
    /// Whether an offset is known to be a multiple of some bytes in the first iteration.
    fn begins_at_multiple(&self, offset: &Affine, bytes: i64) -> bool {
        let by_index = offset.coefficient(self.index);
        let begins = (offset.without(self.index)).add_scaled(&self.begin, by_index);
        begins
            .is_some_and(|at| at.constant % bytes == 0 && at.terms.iter().all(|t| t.1 % bytes == 0))
    }

    /// Whether there are too few iterations.
    fn is_short(&self, aligned: bool, lines: bool) -> bool {
        let fewest = match (aligned && self.no_rest, lines) {
            (true, _) => LEAST_WHOLE_TRIPS,
            (false, true) => LEAST_LINE_TRIPS,
            (false, false) => LEAST_TRIPS,
        };
        self.trips < fewest && !self.forced
    }
}

impl Streams {
    /// Selects the stores of a loop, in a task with this many iterations.
    pub(super) fn find(
        (m, f): (&Env, &Function),
        structure: &Structure,
        inst: Inst,
        shapes: &Shapes,
        plan: &VectorPlan,
        (iterations, least): (u64, Option<u64>),
    ) -> Streams {
        let mut streams = Streams::default();
        if !plan.main || !plan.straight {
            return streams;
        }
        let Some(used) = used_fields(f) else {
            return streams;
        };
        let body = f.insts[inst].regions[0];
        let twice = stored_twice(f, body);
        let mut affine = AffineAnalysis::new(f, structure);
        let (lo, hi) = (f.insts[inst].args[0], f.insts[inst].args[1]);
        let group = i64::from(plan.lanes) * plan.parts as i64;
        let nest = Nest {
            begin: affine.expr(lo),
            index: f.regions[body].params[0],
            // An upper bound: chunks may be shorter, but then there are few of them.
            trips: affine.range(hi).1.saturating_sub(affine.range(lo).0),
            no_rest: plan.trips.is_some_and(|n| n % group == 0),
            forced: least.is_some(),
        };
        let mut first = None;
        for i in &f.regions[body].insts {
            let data = &f.insts[*i];
            let Op::MemStore(Space::Tree(tree, field)) = data.op else {
                continue;
            };
            let Some(s) = f.ty(data.args[1]).as_scalar() else {
                continue;
            };
            let element = i64::from(s.bytes());
            let bytes = iterations.saturating_mul(element as u64);
            let (offset, vector) = (data.args[0], element * i64::from(plan.lanes));
            // Stores of less than half a register are not worth it, and not all of them have a non-temporal form.
            if m.trees[tree].is_sparse()
                || bytes < least.unwrap_or(LEAST_BYTES)
                || vector < 16
                || used.contains(&field)
                || twice.contains(&field)
                || shapes.shape(offset) != Shape::Strided(element)
            {
                continue;
            }
            // Groups of vectors that are full lines leave no partial line, once they are aligned.
            let lines = group * element % LINE == 0;
            let whole = if lines { vector.max(LINE) } else { vector };
            let expr = affine.expr(offset);
            match &first {
                None => {
                    let known = nest.begins_at_multiple(&expr, whole);
                    let hoistable = || can_hoist(f, structure, body, offset);
                    if nest.is_short(known, lines) || !known && !hoistable() {
                        continue;
                    }
                    streams.peel = (!known).then_some(Peel {
                        offset,
                        element,
                        whole,
                    });
                    first = Some((expr, whole));
                }
                // The others are aligned when the first one is.
                Some((expr_of_first, of_first)) => {
                    let distance = expr.add_scaled(expr_of_first, -1);
                    let distance = distance.and_then(|a| a.as_constant());
                    if whole != *of_first || distance.is_none_or(|a| a % whole != 0) {
                        continue;
                    }
                }
            }
            streams.stores.insert(*i);
        }
        streams
    }
}

/// Fields that a function uses other than by storing; `None` if that is unknown.
fn used_fields(f: &Function) -> Option<FxHashSet<Field>> {
    let mut used = FxHashSet::default();
    let mut unknown = false;
    let mut touch = |space: &Space| match space {
        Space::Tree(_, field) | Space::Private(_, field) => {
            used.insert(*field);
        }
        Space::Bytes(_) | Space::Streamed(_) => unknown = true,
        Space::Nodes(_) | Space::Array(_) | Space::Temps => {}
    };
    let mut calls = false;
    f.walk(|inst| {
        let op = &f.insts[inst].op;
        calls |= op.callee().is_some();
        let OpClass::Memory(op) = op.class() else {
            return;
        };
        match op {
            MemoryOp::MemStore(Space::Tree(..)) => {}
            MemoryOp::MemLoad(space, _)
            | MemoryOp::MemStore(space)
            | MemoryOp::MemAtomic(_, space, _)
            | MemoryOp::MemCompareExchange(space) => touch(&space),
            MemoryOp::LoadInterleaved(rows) | MemoryOp::StoreInterleaved(rows) => {
                rows.columns.iter().for_each(|(space, _)| touch(space));
            }
            MemoryOp::AddInterleaved(spaces) => spaces.iter().for_each(&mut touch),
        }
    });
    (!unknown && !calls).then_some(used)
}

/// Fields that a loop's body stores to more than once.
fn stored_twice(f: &Function, body: Region) -> FxHashSet<Field> {
    let (mut once, mut twice) = (FxHashSet::default(), FxHashSet::default());
    for i in f.insts_in(body) {
        if let Op::MemStore(Space::Tree(_, field)) = f.insts[i].op
            && !once.insert(field)
        {
            twice.insert(field);
        }
    }
    twice
}

/// Whether a value of a loop's body can be computed before the loop, from its index.
fn can_hoist(f: &Function, structure: &Structure, body: Region, v: Value) -> bool {
    match f.values[v].def {
        ValueDef::Param(region, _) => region == body || !inside(structure, region, body),
        ValueDef::Result(inst, _) => {
            let Some(region) = structure.region_of[inst].expand() else {
                return false;
            };
            let data = &f.insts[inst];
            !inside(structure, region, body)
                || (data.regions.is_empty()
                    && data.op.effect() == Effect::Pure
                    && data.args.iter().all(|a| can_hoist(f, structure, body, *a)))
        }
    }
}

fn inside(structure: &Structure, region: Region, body: Region) -> bool {
    let mut at = Some(region);
    while let Some(r) = at {
        if r == body {
            return true;
        }
        let owner = structure.owner[r].expand();
        at = owner.and_then(|o| structure.region_of[o].expand());
    }
    false
}

impl Rewrite<'_> {
    /// The first iteration from which on non-temporal stores are full vectors or lines, or the end of the loop.
    pub(super) fn first_whole(
        &mut self,
        parent: Region,
        inst: Inst,
        streams: &Streams,
    ) -> Option<Value> {
        let peel = streams.peel.as_ref()?;
        let data = &self.source.old.insts[inst];
        let (lo, hi, body) = (data.args[0], data.args[1], data.regions[0]);
        let mut known = FxHashMap::default();
        known.insert(self.source.old.regions[body].params[0], lo);
        let mut b = Builder::new(self.m, self.f);
        b.region = parent;
        let (old, structure) = (self.source.old, self.source.structure);
        let offset = hoist(&mut b, old, structure, body, peel.offset, &mut known);
        let zero = b.i64(0);
        let back = b.binary(BinOp::Sub, zero, offset);
        let mask = b.i64(peel.whole - 1);
        let bytes = b.binary(BinOp::And, back, mask);
        let shift = b.i64(i64::from(peel.element.trailing_zeros()));
        let count = b.binary(BinOp::Shr, bytes, shift);
        let first = b.binary(BinOp::Add, lo, count);
        Some(b.binary(BinOp::Min, first, hi))
    }
}

fn hoist(
    b: &mut Builder,
    old: &Function,
    structure: &Structure,
    body: Region,
    v: Value,
    known: &mut FxHashMap<Value, Value>,
) -> Value {
    if let Some(made) = known.get(&v) {
        return *made;
    }
    let inner = old.def(v).filter(|inst| {
        let region = structure.region_of[*inst].expand();
        region.is_some_and(|r| inside(structure, r, body))
    });
    let Some(inst) = inner else { return v };
    let data = &old.insts[inst];
    let args: Values = data
        .args
        .iter()
        .map(|a| hoist(b, old, structure, body, *a, known))
        .collect();
    let types: Vec<_> = data.results.iter().map(|r| old.ty(*r)).collect();
    let made = b.push_typed(data.op.clone(), &args, &types);
    let results = b.func.insts[made].results.clone();
    for (old, new) in data.results.iter().zip(results) {
        known.insert(*old, new);
    }
    known.get(&v).copied().unwrap_or(v)
}
