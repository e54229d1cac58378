//! Writes the code of sorted sums.

use super::super::{Arrays as PadArrays, Pad, added};
use super::{SortedSums, Sum, strides};
use crate::analysis::affine::Affine;
use crate::nodes::words::divide;
use crate::rewrite::{Map, clone_inst, combine, identity, materialize};
use cranelift_entity::EntitySet;
use rustc_hash::FxHashSet;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Inst, Local, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{I32, Scalar, Type};

impl SortedSums {
    /// Sorts the iterations, and sums up those of a cell.
    pub(in super::super) fn apply(&self, m: &mut Env, f: &mut Function, pads: &[Pad]) {
        let body = self.block.body;
        let slice = self.slice(f).unwrap_or_default();
        let at = f.regions[body].insts.iter().position(|i| *i == self.inner);
        let after = f.regions[body].insts.split_off(at.map_or(0, |k| k + 1));
        f.regions[body].insts.pop();
        let sums: Vec<PadArrays> = (pads.iter())
            .map(|pad| {
                let arrays = pad.arrays(m, f, true);
                let len = &mut f.locals[arrays.pad].len;
                *len = len.map(|len| len * self.warps);
                arrays
            })
            .collect();
        let cells = self.cells() as u32;
        let mut shared = |name: &str, len: u32| {
            f.locals.push(LocalData {
                name: name.into(),
                ty: I32,
                len: Some(len),
                shared: true,
                role: LocalRole::Scratchpad,
            })
        };
        let arrays = Arrays {
            counts: shared("cells", cells + 2),
            places: shared("places", self.iterations as u32),
            order: shared("order", self.iterations as u32),
        };
        let span = f.spans[self.inner];
        let term = f.regions[body].term.clone();
        let mut b = Builder::new(m, f);
        (b.region, b.span) = (body, span);
        let mut bases = Vec::new();
        for (pad, own) in pads.iter().zip(&sums) {
            let base: Vec<Value> = pad.shared.iter().map(|s| materialize(&mut b, s)).collect();
            self.clear(&mut b, pad, *own);
            bases.push(base);
        }
        self.sort(&mut b, arrays, &slice, (pads, &sums));
        let beyond = b.i64(i64::from(cells) + 1);
        let outside = read(&mut b, arrays.counts, beyond);
        let zero = b.int(Scalar::I32, 0);
        let all_near = b.compare(CmpOp::Eq, outside, zero);
        let sorted = |b: &mut Builder| {
            self.sum(b, arrays, (pads, &sums));
            Values::new()
        };
        let unsorted = |b: &mut Builder| {
            b.func.regions[b.region].insts.push(self.inner);
            Values::new()
        };
        b.if_else(all_near, &[], sorted, unsorted);
        self.outline(&mut b);
        b.barrier();
        for ((pad, own), base) in pads.iter().zip(&sums).zip(&bases) {
            self.flush(&mut b, (pad, *own), base, all_near);
        }
        b.barrier();
        b.func.regions[body].insts.extend(after);
        b.end(term);
    }

    /// Clears the scratchpads of all warps.
    fn clear(&self, b: &mut Builder, pad: &Pad, arrays: PadArrays) {
        let len = pad.len().unwrap_or(1) as i64;
        let all = b.i64(len * i64::from(self.warps));
        let elem = b.env.fields[pad.field].elem;
        by_threads(b, all, |b, at| {
            let neutral = identity(b, AtomicOp::Add, elem);
            write(b, arrays.pad, at, neutral);
        });
        let Some(touched) = arrays.touched else {
            return;
        };
        let len = b.i64(len);
        by_threads(b, len, |b, at| {
            let no = b.bool(false);
            write(b, touched, at, no);
        });
    }

    /// Adds the scratchpads of all warps to the field, if they were used.
    fn flush(
        &self,
        b: &mut Builder,
        (pad, arrays): (&Pad, PadArrays),
        bases: &[Value],
        used: Value,
    ) {
        let Some(touched) = arrays.touched else {
            return;
        };
        let len = pad.len().unwrap_or(1) as i64;
        pad.by_threads(b, |b, at, offsets| {
            let set = read(b, touched, at);
            let set = b.binary(BinOp::And, set, used);
            let indices = added(b, bases, offsets);
            let then = |b: &mut Builder| {
                let mut sum = read(b, arrays.pad, at);
                for warp in 1..self.warps {
                    let first = b.i64(len * i64::from(warp));
                    let at = b.binary(BinOp::Add, first, at);
                    let part = read(b, arrays.pad, at);
                    sum = combine(b, AtomicOp::Add, sum, part);
                }
                let mut args = indices.clone();
                args.push(sum);
                let add = Op::Atomic(AtomicOp::Add, Access::write(Place::Field(pad.field)));
                b.push(add, &args);
                Values::new()
            };
            b.if_else(set, &[], then, |_| Values::new());
        });
    }

    /// Sums of entries that are not sorted are calls, because tree accesses of all of them would be most of the code.
    fn outline(&self, b: &mut Builder) {
        let mut made: Vec<(Op, Vec<Type>, Func)> = Vec::new();
        for Sum { inst, .. } in &self.sums {
            let data = &b.func.insts[*inst];
            let op = data.op.clone();
            let types: Vec<Type> = data.args.iter().map(|v| b.func.ty(*v)).collect();
            let known = made.iter().find(|m| (&m.0, &m.1) == (&op, &types));
            let func = known.map(|m| m.2).unwrap_or_else(|| {
                let name = format!("{}.add.{}", b.func.name, made.len());
                let mut f = Function::new(name, &types, &[]);
                f.traits.outlined = true;
                let args = f.params().to_vec();
                let mut inner = Builder::new(b.env, &mut f);
                inner.span = b.func.spans[*inst];
                inner.push(op.clone(), &args);
                inner.end(Term::Return(Values::new()));
                let func = b.env.add(f);
                made.push((op, types, func));
                func
            });
            let data = &mut b.func.insts[*inst];
            data.op = Op::Call(func);
            data.results.clear();
        }
    }

    /// Counts the iterations of each cell, gives each cell a range of places, and writes the number of each iteration to
    /// its place.
    fn sort(&self, b: &mut Builder, arrays: Arrays, slice: &[Inst], pads: (&[Pad], &[PadArrays])) {
        let Arrays {
            counts,
            places,
            order,
        } = arrays;
        let cells = self.cells() as i64;
        let iterations = b.i64(self.iterations as i64);
        let numbers = b.i64(cells + 2);
        by_threads(b, numbers, |b, cell| {
            let zero = b.int(Scalar::I32, 0);
            write(b, counts, cell, zero);
        });
        b.barrier();
        by_threads(b, iterations, |b, iteration| {
            let mut map = Map::of(&[self.index], &[iteration]);
            copy_all(b, &self.head, &mut map);
            let exists = self.guard.map(|g| map.value(g));
            let exists = exists.unwrap_or_else(|| b.bool(true));
            let then = |b: &mut Builder| {
                copy_all(b, slice, &mut map);
                let (cell, is_near) = self.position(b, &map);
                let one = b.int(Scalar::I32, 1);
                let outside = |b: &mut Builder| {
                    let beyond = b.i64(cells + 1);
                    b.push(Op::Atomic(AtomicOp::Add, inside(counts)), &[beyond, one]);
                    Values::new()
                };
                b.if_else(is_near, &[], |_| Values::new(), outside);
                let rank = b.value(Op::Atomic(AtomicOp::Add, inside(counts)), &[cell, one]);
                let cell = b.convert(cell, Scalar::I32);
                let high = b.int(Scalar::I32, 1 << RANK_BITS);
                let high = b.binary(BinOp::Mul, cell, high);
                [b.binary(BinOp::Or, high, rank)].into_iter().collect()
            };
            let none = |b: &mut Builder| [b.int(Scalar::I32, -1)].into_iter().collect();
            let both = b.if_else(exists, &[I32], then, none);
            let place = b.func.insts[both].results[0];
            write(b, places, iteration, place);
        });
        b.barrier();
        let all = b.i64(cells);
        by_threads(b, all, |b, cell| {
            let count = read(b, counts, cell);
            let zero = b.int(Scalar::I32, 0);
            let some = b.compare(CmpOp::Gt, count, zero);
            let then = |b: &mut Builder| {
                let start = b.value(Op::Atomic(AtomicOp::Add, inside(counts)), &[all, count]);
                write(b, counts, cell, start);
                self.touch(b, cell, pads);
                Values::new()
            };
            b.if_else(some, &[], then, |_| Values::new());
        });
        b.barrier();
        by_threads(b, iterations, |b, iteration| {
            let place = read(b, places, iteration);
            let zero = b.int(Scalar::I32, 0);
            let exists = b.compare(CmpOp::Ge, place, zero);
            let then = |b: &mut Builder| {
                let bits = b.int(Scalar::I32, RANK_BITS.into());
                let cell = b.binary(BinOp::Shr, place, bits);
                let cell = b.convert(cell, Scalar::I64);
                let mask = b.int(Scalar::I32, (1 << RANK_BITS) - 1);
                let rank = b.binary(BinOp::And, place, mask);
                let start = read(b, counts, cell);
                let at = b.binary(BinOp::Add, start, rank);
                let at = b.convert(at, Scalar::I64);
                let number = b.convert(iteration, Scalar::I32);
                write(b, order, at, number);
                Values::new()
            };
            b.if_else(exists, &[], then, |_| Values::new());
        });
        b.barrier();
    }

    /// The number of the cell of an iteration, in range, and whether it was.
    fn position(&self, b: &mut Builder, map: &Map) -> (Value, Value) {
        let (digits, is_near) = self.digits(b, map);
        let mut cell = b.i64(0);
        for (digit, (_, (lo, hi))) in digits.into_iter().zip(&self.cell) {
            let extent = b.i64(hi - lo + 1);
            cell = b.binary(BinOp::Mul, cell, extent);
            cell = b.binary(BinOp::Add, cell, digit);
        }
        (cell, is_near)
    }

    /// The position of the cell along each axis, from the lowest one, in range, and whether all were.
    fn digits(&self, b: &mut Builder, map: &Map) -> (Vec<Value>, Value) {
        let mut digits = Vec::new();
        let mut all = b.bool(true);
        for (expr, (lo, hi)) in &self.cell {
            let mut terms: Vec<(Value, i64)> = Vec::new();
            terms.extend(expr.terms.iter().map(|(v, k)| (map.value(*v), *k)));
            let expr = Affine {
                terms: terms.into(),
                constant: -lo,
            };
            let at = materialize(b, &expr);
            let bits = b.value(Op::Bitcast(Scalar::U64), &[at]);
            let last = b.int(Scalar::U64, i128::from(hi - lo));
            let is_in = b.compare(CmpOp::Le, bits, last);
            all = b.binary(BinOp::And, all, is_in);
            let near = b.binary(BinOp::Min, bits, last);
            digits.push(b.value(Op::Bitcast(Scalar::I64), &[near]));
        }
        (digits, all)
    }

    /// Marks the elements that iterations of a cell add to.
    fn touch(&self, b: &mut Builder, cell: Value, (pads, arrays): (&[Pad], &[PadArrays])) {
        let mut digits = Vec::new();
        let mut rest = cell;
        for (_, (lo, hi)) in self.cell.iter().rev() {
            let (above, digit) = divide(b, rest, (hi - lo + 1) as u64);
            digits.push(digit);
            rest = above;
        }
        digits.reverse();
        let yes = b.bool(true);
        for (k, pad) in pads.iter().enumerate() {
            let Some(touched) = arrays[k].touched else {
                continue;
            };
            let first = self.element(b, pad, &digits);
            let mut seen = FxHashSet::default();
            for sum in self.sums.iter().filter(|s| s.pad == k) {
                if seen.insert(sum.distance) {
                    let distance = b.i64(sum.distance);
                    let at = b.binary(BinOp::Add, first, distance);
                    write(b, touched, at, yes);
                }
            }
        }
    }

    /// The element of a scratchpad for a cell, up to the distances of sums.
    fn element(&self, b: &mut Builder, pad: &Pad, digits: &[Value]) -> Value {
        let mut lowest = 0;
        let mut at = b.i64(0);
        let cells = self.cell.iter().map(|(_, (lo, _))| lo);
        for (((digit, stride), lo), range) in
            digits.iter().zip(strides(pad)).zip(cells).zip(&pad.ranges)
        {
            lowest += (lo - range.0) * stride;
            let stride = b.i64(stride);
            let part = b.binary(BinOp::Mul, *digit, stride);
            at = b.binary(BinOp::Add, at, part);
        }
        let lowest = b.i64(lowest);
        b.binary(BinOp::Add, at, lowest)
    }

    /// Runs the iterations in their new order. All lanes of a warp take part in sums, also those without an iteration.
    fn sum(&self, b: &mut Builder, arrays: Arrays, pads: (&[Pad], &[PadArrays])) {
        let cells = b.i64(self.cells() as i64);
        let total = read(b, arrays.counts, cells);
        let total = b.convert(total, Scalar::I64);
        let last = b.i64(i64::from(WARP) - 1);
        let rounded = b.binary(BinOp::Add, total, last);
        let mask = b.i64(-i64::from(WARP));
        let rounded = b.binary(BinOp::And, rounded, mask);
        let live = self.live(b.func);
        let types: Vec<Type> = live.iter().map(|v| b.func.ty(*v)).collect();
        by_threads(b, rounded, |b, place| {
            let exists = b.compare(CmpOp::Lt, place, total);
            let then = |b: &mut Builder| {
                let number = read(b, arrays.order, place);
                let iteration = b.convert(number, Scalar::I64);
                let mut map = Map::of(&[self.index], &[iteration]);
                copy_all(b, &self.head, &mut map);
                copy_all(b, &self.effects, &mut map);
                live.iter().map(|v| map.value(*v)).collect()
            };
            let none = |b: &mut Builder| types.iter().map(|ty| b.zero(*ty)).collect();
            let both = b.if_else(exists, &types, then, none);
            let results = b.func.insts[both].results.clone();
            let mut sums = Sums {
                plan: self,
                map: Map::of(&live, &results),
                done: EntitySet::new(),
            };
            sums.write(b, exists, pads);
        });
    }

    /// The values of iterations that the sums use.
    fn live(&self, f: &Function) -> Vec<Value> {
        let made: FxHashSet<Value> = (self.head.iter().chain(&self.effects))
            .flat_map(|i| &f.insts[*i].results)
            .copied()
            .chain([self.index])
            .collect();
        let mut live = Vec::new();
        let sums = self.sums.iter().map(|s| s.inst);
        let used = sums.chain(self.rest.keys());
        let used = used.flat_map(|i| f.insts[i].args.iter().copied());
        for v in used.chain(self.positions()) {
            if made.contains(&v) && !live.contains(&v) {
                live.push(v);
            }
        }
        live
    }
}

/// The bits of an iteration's rank in its cell, below the number of the cell.
const RANK_BITS: u32 = 16;

/// Arrays in shared memory.
#[derive(Copy, Clone)]
struct Arrays {
    /// For each cell its number of iterations, later its first place; then the number of all iterations, and of those
    /// that are not near the block.
    counts: Local,
    /// The cell of each iteration and its rank there.
    places: Local,
    /// The iteration at each place.
    order: Local,
}

/// Writes the code of the sums.
struct Sums<'a> {
    plan: &'a SortedSums,
    map: Map,
    done: EntitySet<Inst>,
}

impl Sums<'_> {
    fn write(&mut self, b: &mut Builder, exists: Value, (pads, arrays): (&[Pad], &[PadArrays])) {
        let positions: Vec<Value> = self.plan.positions().collect();
        self.prepare(b, &positions);
        let (cell, _) = self.plan.position(b, &self.map);
        let (segment, first) = self.segment(b, cell, exists);
        let (digits, _) = self.plan.digits(b, &self.map);
        let thread = b.value(Op::Thread(ThreadOp::Index), &[]);
        let thread = b.convert(thread, Scalar::I64);
        let (warp, _) = divide(b, thread, WARP.into());
        let mut elements = Vec::new();
        for pad in pads {
            let len = b.i64(pad.len().unwrap_or(1) as i64);
            let own = b.binary(BinOp::Mul, warp, len);
            let element = self.plan.element(b, pad, &digits);
            elements.push(b.binary(BinOp::Add, own, element));
        }
        let mut distance = None;
        for sum in &self.plan.sums {
            let data = b.func.insts[sum.inst].clone();
            let (Some(value), Some(access)) = (data.args.last(), data.op.access()) else {
                continue;
            };
            self.prepare(b, &[*value]);
            let value = segment_sum(b, segment, self.map.value(*value));
            // Another lane may have added to the same element at another distance.
            if distance.replace(sum.distance) != Some(sum.distance) {
                b.push(Op::Thread(ThreadOp::WarpBarrier), &[]);
            }
            let access = Access {
                place: Place::Local(arrays[sum.pad].pad),
                guard: Guard::InBounds,
                ..access.clone()
            };
            let then = |b: &mut Builder| {
                let distance = b.i64(sum.distance);
                let at = b.binary(BinOp::Add, elements[sum.pad], distance);
                let read = Access {
                    activation: Activation::Never,
                    ..access.clone()
                };
                let old = b.value(Op::Load(read), &[at]);
                let new = combine(b, AtomicOp::Add, old, value);
                b.push(Op::Store(access), &[at, new]);
                Values::new()
            };
            b.if_else(first, &[], then, |_| Values::new());
        }
    }

    /// The lanes with the same cell, and whether this one is the first of them.
    fn segment(&self, b: &mut Builder, cell: Value, exists: Value) -> (Value, Value) {
        let cell = b.convert(cell, Scalar::I32);
        let lane = b.value(Op::Thread(ThreadOp::Lane), &[]);
        let none = b.int(Scalar::I32, -1);
        let key = b.select(exists, cell, none);
        let segment = b.value(Op::Thread(ThreadOp::Segment), &[key]);
        let one = b.int(Scalar::U32, 1);
        let lane = b.value(Op::Bitcast(Scalar::U32), &[lane]);
        let bit = b.binary(BinOp::Shl, one, lane);
        let below = b.binary(BinOp::Sub, bit, one);
        let before = b.binary(BinOp::And, segment, below);
        let zero = b.int(Scalar::U32, 0);
        let first = b.compare(CmpOp::Eq, before, zero);
        (segment, b.binary(BinOp::And, exists, first))
    }

    /// Computes what these values follow from.
    fn prepare(&mut self, b: &mut Builder, values: &[Value]) {
        for v in values {
            let Some(def) = b.func.def(*v) else {
                continue;
            };
            if self.plan.rest.contains(def) && self.done.insert(def) {
                let args = b.func.insts[def].args.clone();
                self.prepare(b, &args);
                copy_all(b, &[def], &mut self.map);
            }
        }
    }
}

/// The sum of each component over a segment.
fn segment_sum(b: &mut Builder, segment: Value, value: Value) -> Value {
    let ty = b.func.ty(value);
    let sum = |b: &mut Builder, v| b.value(Op::Thread(ThreadOp::SegmentSum), &[segment, v]);
    if ty.as_scalar().is_some() {
        return sum(b, value);
    }
    let count = b.env.structs.arity(ty);
    let parts: Values = (0..count)
        .map(|k| {
            let part = b.value(Op::Extract(k), &[value]);
            segment_sum(b, segment, part)
        })
        .collect();
    b.value(Op::Compose(ty), &parts)
}

fn copy_all(b: &mut Builder, insts: &[Inst], map: &mut Map) {
    for inst in insts {
        let copy = clone_inst(b.func, *inst, map);
        b.func.regions[b.region].insts.push(copy);
    }
}

/// The threads of a block take the numbers below a limit in turn.
fn by_threads(b: &mut Builder, limit: Value, body: impl FnOnce(&mut Builder, Value)) {
    let (zero, one) = (b.i64(0), b.i64(1));
    b.for_range(ForKind::Parallel, (zero, limit, one), &[], |b, _, at, _| {
        body(b, at);
        Values::new()
    });
}

fn inside(local: Local) -> Access {
    Access {
        guard: Guard::InBounds,
        ..Access::write(Place::Local(local))
    }
}

fn read(b: &mut Builder, local: Local, at: Value) -> Value {
    let access = Access {
        guard: Guard::InBounds,
        ..Access::read(Place::Local(local))
    };
    b.value(Op::Load(access), &[at])
}

fn write(b: &mut Builder, local: Local, at: Value, value: Value) {
    b.push(Op::Store(inside(local)), &[at, value]);
}
