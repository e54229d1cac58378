//! Emits loop nests over dimensions.

use super::sparse::continue_unless;
use super::temps::TempValues;
use super::{Bounds, Nest};
use smallvec::smallvec;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Field, Region, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{I64, Scalar};

impl Nest<'_> {
    pub(super) fn load_bounds(&mut self, b: &mut Builder, params: &[Value], temps: &TempValues) {
        for dim in self.dims {
            let lo = bound(b, dim.bounds.lo, params, temps);
            let hi = bound(b, dim.bounds.hi, params, temps);
            let extent = match dim.constant_extent() {
                Some(e) => b.i64(e as i64),
                None => {
                    let long = distance(b, lo, hi);
                    steps(b, long, dim.bounds.step.get())
                }
            };
            self.bounds.push(Bounds { lo, hi, extent });
        }
    }

    /// `for.parallel u in begin..end`, then a full nest over the dimensions from `outer` on.
    pub(super) fn units(&mut self, b: &mut Builder, outer: usize, begin: Value, end: Value) {
        let one = b.i64(1);
        // A single dimension counts in its own coordinates, so that the loop's index is the field index.
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
                nest.tiled = Some(label);
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
    pub(super) fn inner(&mut self, b: &mut Builder, k: usize, numbers: &mut Vec<Value>) {
        let Bounds { lo, hi, .. } = self.bounds[k];
        self.inner_range(b, k, numbers, lo, hi);
    }

    pub(super) fn inner_range(
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

    /// Loops over rows of the last dimension, for any extent.
    pub(super) fn rows(&mut self, b: &mut Builder, begin: Value, end: Value) {
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

    /// A part of a dimension in its own coordinates. The clamp has no effect, but gives later passes the range of
    /// the index.
    pub(super) fn within(
        &self,
        b: &mut Builder,
        k: usize,
        begin: Value,
        end: Value,
    ) -> (Value, Value) {
        let Bounds { lo, hi, .. } = self.bounds[k];
        let from = b.binary(BinOp::Add, begin, lo);
        let from = b.binary(BinOp::Min, from, hi);
        let from = b.binary(BinOp::Max, from, lo);
        let to = b.binary(BinOp::Add, end, lo);
        (from, b.binary(BinOp::Min, to, hi))
    }

    /// Splits a collapsed number into the numbers of the first `count` dimensions.
    pub(super) fn unravel(&self, b: &mut Builder, joint: Value, count: usize) -> Vec<Value> {
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
                } else if self.gpu && b.func.constant(extent).is_none() {
                    // There are no iterations if it is zero; that it is positive, code generation has to see.
                    let one = b.i64(1);
                    b.binary(BinOp::Max, extent, one)
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
            let step = self.dims[k].bounds.step.get();
            let own = if step > 1 {
                let step = b.i64(step.into());
                b.binary(BinOp::Mul, own, step)
            } else {
                own
            };
            let number = b.binary(BinOp::Add, own, lo);
            if step > 1 {
                // Indices in tiles are checked one by one.
                numbers[k] = number;
                continue;
            }
            let one = b.i64(1);
            let last = b.binary(BinOp::Sub, hi, one);
            let number = b.binary(BinOp::Max, number, lo);
            numbers[k] = b.binary(BinOp::Min, number, last);
        }
        numbers
    }

    /// Makes the old entry region the body of the innermost loop: one parameter, `continue` at its end.
    pub(super) fn adopt_body(&mut self, b: &mut Builder, label: wuji_ir::entities::Label) -> Value {
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
            // The iteration number is computed from the coordinates: see `iteration_number`.
            f.regions[r]
                .insts
                .retain(|i| f.insts[*i].op != Op::Iteration);
            if let Term::Return(_) = f.regions[r].term {
                f.regions[r].term = Term::Continue(label, Values::new());
            }
        }
        u
    }

    /// Inserts instructions before the body.
    pub(super) fn before_body(
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

    /// Computes the loop's indices from the numbers of all dimensions, and its iteration number.
    pub(super) fn indices(&mut self, b: &mut Builder, numbers: &[Value]) {
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
        self.skip_cut_off(b, &wide);
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

    /// Skips indices in tiles that are beyond the end of a dimension.
    fn skip_cut_off(&self, b: &mut Builder, wide: &[Option<Value>]) {
        let Some(label) = self.tiled else {
            return;
        };
        let dims = self.dims.iter().zip(&self.bounds);
        for (dim, Bounds { hi, .. }) in dims.filter(|(d, _)| d.is_stepped()) {
            if let Some(index) = wide[dim.index] {
                let inside = b.compare(CmpOp::Lt, index, *hi);
                continue_unless(b, inside, label);
            }
        }
    }

    /// Row-major over the domain, independent of the loop order. Coordinates are without origins.
    pub(super) fn iteration_number(&mut self, b: &mut Builder, coordinates: &[Value]) {
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
            // The old instruction is unused now; remove it, because backends do not support it.
            if let Some(inst) = b.func.def(a) {
                b.func.insts[inst].op = Op::Const(wuji_ir::types::Imm::zero(Scalar::I64));
            }
        }
    }

    /// Smallest coordinate and extent of an index over all its dimensions.
    pub(super) fn index_domain(&self, b: &mut Builder, index: usize) -> (Value, Value) {
        if let Some(domain) = &self.domain {
            return (b.i64(0), b.i64(domain[index] as i64));
        }
        let mut dims = self.dims.iter().zip(&self.bounds);
        if let Some((_, cut)) = dims.find(|(d, _)| d.index == index && d.is_stepped()) {
            return (cut.lo, distance(b, cut.lo, cut.hi));
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
    pub(super) fn clear_local_arrays(&mut self, b: &mut Builder) {
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

/// How many numbers there are in `lo..hi`.
fn distance(b: &mut Builder, lo: Value, hi: Value) -> Value {
    let most = b.binary(BinOp::Max, lo, hi);
    b.binary(BinOp::Sub, most, lo)
}

/// How many steps it takes to reach or pass a distance.
fn steps(b: &mut Builder, distance: Value, step: u32) -> Value {
    if step == 1 {
        return distance;
    }
    // Without overflow: the distance may be the largest number.
    let by = b.i64(step.into());
    let whole = b.binary(BinOp::Div, distance, by);
    let rest = b.binary(BinOp::Rem, distance, by);
    let zero = b.i64(0);
    let more = b.compare(CmpOp::Gt, rest, zero);
    let more = b.convert(more, Scalar::I64);
    b.binary(BinOp::Add, whole, more)
}

/// Extents of a field's indices.
pub(super) fn extents(m: &Env, field: Field) -> Vec<u64> {
    m.fields[field]
        .domain(&m.trees)
        .into_iter()
        .map(|d| d.1)
        .collect()
}

/// A bound as `i64`.
pub(super) fn bound(b: &mut Builder, bound: Bound, params: &[Value], temps: &TempValues) -> Value {
    let value = match bound {
        Bound::Const(c) => return b.i64(c),
        Bound::Param(p) => params[p as usize],
        Bound::Sum { base, plus, scalar } => {
            let base = match base {
                BoundBase::Param(p) => params[p as usize],
                BoundBase::Extent(a, axis) => b.extent(a, axis),
            };
            let base = b.convert(base, scalar);
            let plus = b.int(scalar, plus.into());
            b.binary(BinOp::Add, base, plus)
        }
        Bound::Temp(t) => temps.value(b, t, params),
        // Lists are indexed by number; the length is not read inside.
        Bound::List(..) => b.i64(i64::MAX),
    };
    if b.func.ty(value).as_scalar() == Some(Scalar::U64) {
        let most = b.int(Scalar::U64, i64::MAX.into());
        let clamped = b.binary(BinOp::Min, value, most);
        return b.convert(clamped, Scalar::I64);
    }
    b.convert(value, Scalar::I64)
}
