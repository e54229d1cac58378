//! The reverse sweep of serial loops.
//!
//! The reversed loop needs the carried values at the start of each iteration, last iteration first. Checkpoints hold
//! some of them; the others are computed again from the checkpoint before. The binomial schedule (Griewank) makes
//! that as rare as the number of checkpoints allows.

use super::Reverse;
use super::adjoint::Adjoint;
use crate::autodiff::shape::{Flow, flow_of};
use crate::remark::Reversal;
use rustc_hash::FxHashSet;
use smallvec::smallvec;
use std::collections::BTreeSet;
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Local, Region, Value};
use wuji_ir::module::{LocalData, LocalRole, Term, Values};
use wuji_ir::ops::{AccessOp, BinOp, CmpOp, ForKind, Op, Place};
use wuji_ir::types::{I64, Imm, Scalar, Type};

/// Checkpoints of one loop take about this many bytes.
const CHECKPOINT_BYTES: u64 = 4096;
const LEAST_CHECKPOINTS: u64 = 8;
const MOST_CHECKPOINTS: u64 = 64;

/// A loop to reverse.
struct Source {
    inst: Inst,
    body: Region,
    /// The parameter with the index of a `for`.
    index: Option<Value>,
    /// The parameters with carried values.
    params: Values,
    /// Their initial values.
    initial: Values,
    /// Their values in the next iteration.
    next: Values,
}

impl Reverse<'_, '_> {
    /// A `for`, without early exits.
    pub(super) fn counted_loop(&mut self, inst: Inst) -> Result<()> {
        let data = &self.f.insts[inst];
        let body = &self.f.regions[data.regions[0]];
        let source = Source {
            inst,
            body: data.regions[0],
            index: Some(body.params[0]),
            params: body.params[1..].into(),
            initial: data.args[3..].into(),
            next: body.term.args().into(),
        };
        let bounds = self.values(&data.args[..3])?;
        let count = self.count(&bounds);
        let mut start = Values::new();
        for (p, r) in source.params.iter().zip(&data.results) {
            let adjoint = self.take_whole(*r);
            if self.activity.is_active(*p) {
                let ty = self.f.ty(*p);
                start.push(adjoint.unwrap_or_else(|| self.b.zero(ty)));
            }
        }
        let sums = (0..source.params.len())
            .all(|k| !self.activity.is_active(source.params[k]) || self.is_sum(&source, k));
        self.for_body(source.body, |this| {
            let state = this.needed_carried(&source.params);
            if state.is_empty() && sums && !this.depends_on_order(source.body) {
                this.remark(inst, Reversal::AnyOrder);
                return this.in_any_order(&source, &bounds, &start);
            }
            this.in_reverse(&source, Some(&bounds), count, &start, &[])
        })
    }

    /// Only what the reverse sweep of a body needs is computed again in it, not what other code needs of its loop.
    fn for_body(
        &mut self,
        body: Region,
        reverse: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let (funcs, adjoints) = (self.shared.funcs, self.shared.adjoints);
        let needed = self
            .activity
            .needed_in(self.b.env, funcs, self.f, adjoints, body)?;
        let outer = std::mem::replace(&mut self.needed, needed);
        let done = reverse(self);
        self.needed = outer;
        done
    }

    /// A `loop`: its iterations are counted first.
    pub(super) fn open_loop(&mut self, inst: Inst) -> Result<()> {
        let data = &self.f.insts[inst];
        let body = data.regions[0];
        let exit = self.exit(body)?;
        let source = Source {
            inst,
            body,
            index: None,
            params: self.f.regions[body].params.clone(),
            initial: data.args.clone(),
            next: exit.carried.into(),
        };
        let count = self.count_iterations(&source, exit.condition)?;
        let mut start = Values::new();
        for p in &source.params {
            if self.activity.is_active(*p) {
                start.push(self.b.zero(self.f.ty(*p)));
            }
        }
        let mut left = Vec::new();
        for (r, v) in data.results.iter().zip(exit.results) {
            if let Some(adjoint) = self.take_whole(*r) {
                left.push((*v, adjoint));
            }
        }
        self.for_body(source.body, |this| {
            this.in_reverse(&source, None, count, &start, &left)
        })
    }

    /// The number of iterations of a `for`.
    fn count(&mut self, bounds: &[Value]) -> Value {
        let b = &mut self.b;
        let (lo, hi) = (to_i64(b, bounds[0]), to_i64(b, bounds[1]));
        let step = to_i64(b, bounds[2]);
        let (zero, one) = (b.i64(0), b.i64(1));
        let distance = b.binary(BinOp::Sub, hi, lo);
        let number = match b.func.constant(bounds[2]).and_then(Imm::as_int) {
            Some(1) => distance,
            _ => {
                // Rounded away from zero: both have the same sign, or there is no iteration.
                let up = b.compare(CmpOp::Gt, step, zero);
                let minus = b.i64(-1);
                let unit = b.select(up, one, minus);
                let more = b.binary(BinOp::Sub, step, unit);
                let sum = b.binary(BinOp::Add, distance, more);
                b.binary(BinOp::Div, sum, step)
            }
        };
        b.binary(BinOp::Max, number, zero)
    }

    /// Runs a `loop` once more, for the number of its iterations.
    fn count_iterations(&mut self, source: &Source, condition: Value) -> Result<Value> {
        let state = self.needed_carried(&source.params);
        let mut args = Values::new();
        let mut types = Vec::new();
        for k in &state {
            args.push(self.value(source.initial[*k])?);
            types.push(self.f.ty(source.params[*k]));
        }
        let (zero, one) = (self.b.i64(0), self.b.i64(1));
        args.push(zero);
        types.push(I64);
        let label = self.b.func.fresh_label();
        let count = self.b.push_typed(Op::Loop(label), &args, &[I64]);
        let (region, _) = self.region(&types, |this, new| {
            for (k, v) in state.iter().zip(new) {
                this.map.insert(source.params[*k], *v);
            }
            this.forward(source.body)?;
            let number = this.b.binary(BinOp::Add, new[state.len()], one);
            let mut next = this.next_state(source, &state)?;
            next.push(number);
            let condition = this.value(condition)?;
            let leave = Term::Break(label, smallvec![number]);
            this.leave_or_repeat(condition, leave, Term::Continue(label, next));
            Ok(())
        })?;
        self.b.func.insts[count].regions.push(region);
        Ok(self.b.func.result(count))
    }

    fn next_state(&mut self, source: &Source, state: &[usize]) -> Result<Values> {
        let next: Vec<Value> = state.iter().map(|k| source.next[*k]).collect();
        self.values(&next)
    }

    /// Whether an iteration may read what an earlier one has written, so that the reverse sweep must visit the later
    /// one first.
    fn depends_on_order(&self, body: Region) -> bool {
        let f = self.f;
        let (mut read, mut written) = (FxHashSet::default(), FxHashSet::default());
        for inst in f.insts_in(body) {
            match flow_of(&f.insts[inst].op) {
                Flow::Access(AccessOp::Load, access) => {
                    read.insert(access.place);
                }
                Flow::Access(_, access) => {
                    written.insert(access.place);
                    if self.shared.adjoints.is_overwritten(access.place) {
                        read.insert(access.place);
                    }
                }
                Flow::Call(_) => return true,
                Flow::Control(_) | Flow::Pure(_) | Flow::Constant => {}
            }
        }
        // Two array arguments may be the same memory.
        let is_array = |p: &&Place| matches!(p, Place::Array(_));
        !read.is_disjoint(&written)
            || read.iter().any(|p| is_array(&p)) && written.iter().any(|p| is_array(&p))
    }

    /// Whether iterations only add to a carried value, so that its adjoint is the same in all of them.
    fn is_sum(&self, source: &Source, k: usize) -> bool {
        let (f, param) = (self.f, source.params[k]);
        let mut chain = source.next[k];
        while chain != param {
            let Some(inst) = f.def(chain) else {
                return false;
            };
            let data = &f.insts[inst];
            let inside = f.regions[source.body].insts.contains(&inst);
            if !inside || data.op != Op::Binary(BinOp::Add) || self.uses(source.body, chain) != 1 {
                return false;
            }
            let reaches = |v: Value| self.leads_to(v, param);
            chain = match (reaches(data.args[0]), reaches(data.args[1])) {
                (true, false) => data.args[0],
                (false, true) => data.args[1],
                (true, true) | (false, false) => return false,
            };
        }
        self.uses(source.body, param) == 1
    }

    /// Whether a value is another one plus something.
    fn leads_to(&self, v: Value, param: Value) -> bool {
        let f = self.f;
        v == param
            || f.def(v).is_some_and(|inst| {
                let data = &f.insts[inst];
                data.op == Op::Binary(BinOp::Add)
                    && data.args.iter().any(|a| self.leads_to(*a, param))
            })
    }

    /// How often the instructions and ends of a region use a value.
    fn uses(&self, body: Region, v: Value) -> usize {
        let f = self.f;
        let by_insts = f.insts_in(body).flat_map(|i| f.insts[i].args.iter());
        let regions = f.regions_in(body);
        let by_ends = regions.iter().flat_map(|r| f.regions[*r].term.args());
        by_insts.chain(by_ends).filter(|a| **a == v).count()
    }

    /// Iterations that are independent of each other keep their order. `start` has the adjoints of sums.
    fn in_any_order(&mut self, source: &Source, bounds: &[Value], start: &[Value]) -> Result<()> {
        let Op::For(_, kind) = self.f.insts[source.inst].op else {
            return Ok(());
        };
        let Some(index) = source.index else {
            return Ok(());
        };
        let active: Vec<usize> = (0..source.params.len())
            .filter(|k| self.activity.is_active(source.params[*k]))
            .collect();
        let label = self.b.func.fresh_label();
        let copy = self.b.push_typed(Op::For(label, kind), bounds, &[]);
        let ty = self.f.ty(index);
        let (region, frame) = self.region(&[ty], |this, new| {
            this.map.insert(index, new[0]);
            this.forward(source.body)?;
            for (k, adjoint) in active.iter().zip(start) {
                this.add(source.next[*k], Adjoint::Whole(*adjoint));
            }
            this.reverse(source.body)?;
            for k in &active {
                this.take(source.params[*k]);
            }
            Ok(())
        })?;
        self.b.func.insts[copy].regions.push(region);
        self.accumulate(copy, region, Values::new(), &frame, |next| {
            Term::Continue(label, next)
        });
        for (k, adjoint) in active.iter().zip(start) {
            self.add(source.initial[*k], Adjoint::Whole(*adjoint));
        }
        Ok(())
    }

    /// Ends the body of a `for` that adds to the adjoints of values from outside, and adds its results to them.
    fn accumulate(
        &mut self,
        copy: Inst,
        region: Region,
        mut next: Values,
        frame: &super::Frame,
        end: impl FnOnce(Values) -> Term,
    ) {
        let outer: BTreeSet<Value> = frame.keys().copied().collect();
        let added = self.within(region, |this| this.added_to(frame, outer.iter()));
        let mut sums = Vec::new();
        for (v, more) in outer.iter().zip(added) {
            let ty = self.f.ty(*v);
            let zero = self.b.zero(ty);
            self.b.func.insts[copy].args.push(zero);
            let sum = self.b.func.add_region_param(region, ty);
            let total = self.within(region, |this| super::adjoint::add(&mut this.b, sum, more));
            next.push(total);
            sums.push((*v, self.b.func.add_result(copy, ty)));
        }
        // The zeros come before the loop that they start.
        let here = &mut self.b.func.regions[self.b.region].insts;
        if let Some(at) = here.iter().position(|i| *i == copy) {
            here.remove(at);
            here.push(copy);
        }
        self.b.func.regions[region].term = end(next);
        for (v, sum) in sums {
            self.add(v, Adjoint::Whole(sum));
        }
    }

    /// Iterations from the last to the first. `start` has the adjoints of active carried values after the last one;
    /// `left` are values with which a `loop` is left, and their adjoints.
    fn in_reverse(
        &mut self,
        source: &Source,
        bounds: Option<&[Value]>,
        count: Value,
        start: &[Value],
        left: &[(Value, Value)],
    ) -> Result<()> {
        let state = self.needed_carried(&source.params);
        let checkpoints = Checkpoints::new(self, source, &state, count)?;
        let active: Vec<Value> = source
            .params
            .iter()
            .copied()
            .filter(|p| self.activity.is_active(*p))
            .collect();
        let (zero, one) = (self.b.i64(0), self.b.i64(1));
        let label = self.b.func.fresh_label();
        let mut args: Values = smallvec![zero, count, one, zero];
        args.extend(start.iter().copied());
        let mut types = vec![I64, I64];
        types.extend(active.iter().map(|p| self.f.ty(*p)));
        let op = Op::For(label, ForKind::Serial);
        let copy = self.b.push_typed(op, &args, &types[1..]);
        let mut next = Values::new();
        let (region, frame) = self.region(&types, |this, new| {
            let last = this.b.binary(BinOp::Sub, count, one);
            let number = this.b.binary(BinOp::Sub, last, new[0]);
            let (values, top) = checkpoints.restore(this, source, bounds, number, new[1])?;
            for (k, v) in state.iter().zip(values) {
                this.map.insert(source.params[*k], v);
            }
            this.set_index(source, bounds, number);
            this.forward(source.body)?;
            for (v, adjoint) in left {
                let is_last = this.b.compare(CmpOp::Eq, new[0], zero);
                let nothing = this.b.zero(this.f.ty(*v));
                let adjoint = this.b.select(is_last, *adjoint, nothing);
                this.add(*v, Adjoint::Whole(adjoint));
            }
            for (k, p) in source.params.iter().enumerate() {
                if let Some(a) = active.iter().position(|q| q == p) {
                    this.add(source.next[k], Adjoint::Whole(new[2 + a]));
                }
            }
            this.reverse(source.body)?;
            next.push(top);
            for p in &active {
                let adjoint = this.take_or_zero(*p);
                next.push(adjoint);
            }
            Ok(())
        })?;
        self.b.func.insts[copy].regions.push(region);
        let results = self.b.func.insts[copy].results[1..].to_vec();
        self.accumulate(copy, region, next, &frame, |next| {
            Term::Continue(label, next)
        });
        for (p, adjoint) in active.iter().zip(results) {
            if let Some(k) = source.params.iter().position(|q| q == p) {
                self.add(source.initial[k], Adjoint::Whole(adjoint));
            }
        }
        Ok(())
    }

    /// Maps the index of an iteration, by its number.
    fn set_index(&mut self, source: &Source, bounds: Option<&[Value]>, number: Value) {
        let (Some(index), Some(bounds)) = (source.index, bounds) else {
            return;
        };
        let b = &mut self.b;
        let Some(ty) = self.f.ty(index).as_scalar() else {
            return;
        };
        let number = b.convert(number, ty);
        let distance = b.binary(BinOp::Mul, number, bounds[2]);
        let value = b.binary(BinOp::Add, bounds[0], distance);
        self.map.insert(index, value);
    }
}

fn to_i64(b: &mut Builder, v: Value) -> Value {
    b.convert(v, Scalar::I64)
}

/// Carried values at the start of some iterations, as a stack in local arrays.
struct Checkpoints {
    /// The numbers of the iterations.
    numbers: Local,
    /// An array for each carried value.
    values: Vec<Local>,
    /// Which values are carried, and needed.
    state: Vec<usize>,
    capacity: u64,
}

impl Checkpoints {
    /// The stack has the initial values.
    fn new(
        reverse: &mut Reverse<'_, '_>,
        source: &Source,
        state: &[usize],
        count: Value,
    ) -> Result<Checkpoints> {
        let structs = &reverse.b.env.structs;
        let types: Vec<Type> = state
            .iter()
            .map(|k| reverse.f.ty(source.params[*k]))
            .collect();
        let bytes: u64 = types.iter().map(|ty| structs.size_align(*ty).0).sum();
        let mut capacity =
            (CHECKPOINT_BYTES / bytes.max(1)).clamp(LEAST_CHECKPOINTS, MOST_CHECKPOINTS);
        let known = reverse.b.func.constant(count).and_then(Imm::as_int);
        if let Some(count) = known.and_then(|n| u64::try_from(n).ok()) {
            capacity = capacity.min(count.max(1));
        }
        let mut array = |name: &str, ty: Type| {
            reverse.b.func.locals.push(LocalData {
                name: name.to_owned(),
                ty,
                len: Some(capacity as u32),
                shared: false,
                role: LocalRole::Variable,
            })
        };
        let numbers = array("iteration", I64);
        let values: Vec<Local> = types.iter().map(|ty| array("checkpoint", *ty)).collect();
        let checkpoints = Checkpoints {
            numbers,
            values,
            state: state.to_vec(),
            capacity,
        };
        if state.is_empty() {
            reverse.remark(source.inst, Reversal::Backwards);
        } else {
            let count = capacity;
            reverse.remark(source.inst, Reversal::Checkpoints { count, bytes });
            let zero = reverse.b.i64(0);
            let initial: Vec<Value> = state.iter().map(|k| source.initial[*k]).collect();
            let initial = reverse.values(&initial)?;
            checkpoints.save(&mut reverse.b, zero, zero, &initial);
        }
        Ok(checkpoints)
    }

    fn save(&self, b: &mut Builder, at: Value, number: Value, values: &[Value]) {
        b.store(Place::Local(self.numbers), &[at], number);
        for (local, v) in self.values.iter().zip(values) {
            b.store(Place::Local(*local), &[at], *v);
        }
    }

    /// The values at the start of iteration `number`, from the checkpoint at `top`; and the new top, after the
    /// reverse sweep of the iteration.
    fn restore(
        &self,
        reverse: &mut Reverse<'_, '_>,
        source: &Source,
        bounds: Option<&[Value]>,
        number: Value,
        top: Value,
    ) -> Result<(Values, Value)> {
        if self.state.is_empty() {
            return Ok((Values::new(), top));
        }
        let b = &mut reverse.b;
        let from = b.load(Place::Local(self.numbers), &[top]);
        let one = b.i64(1);
        let values = self.values.iter().map(|l| b.load(Place::Local(*l), &[top]));
        let mut args: Values = values.collect();
        let mut types: Vec<Type> = args.iter().map(|v| b.func.ty(*v)).collect();
        let next = self.next_checkpoint(b, from, number, top);
        args.extend([from, top, next]);
        types.extend([I64; 3]);
        let n = self.state.len();
        let label = b.func.fresh_label();
        let found = b.push_typed(Op::Loop(label), &args, &types[..n + 2]);
        let (region, _) = reverse.region(&types, |this, new| {
            let (at, top, next) = (new[n], new[n + 1], new[n + 2]);
            let there = this.b.compare(CmpOp::Ge, at, number);
            let mut left: Values = new[..n].into();
            left.extend([at, top]);
            let branch = this.b.push_typed(Op::If, &[there], &[]);
            let leave = this.b.region(&[], |b, _| b.end(Term::Break(label, left)));
            let (repeat, _) = this.region(&[], |this, _| {
                for (k, v) in self.state.iter().zip(new) {
                    this.map.insert(source.params[*k], *v);
                }
                this.set_index(source, bounds, at);
                this.forward(source.body)?;
                let mut state = this.next_state(source, &self.state)?;
                let at = this.b.binary(BinOp::Add, at, one);
                let here = this.b.compare(CmpOp::Eq, at, next);
                let saved = this.b.if_else(
                    here,
                    &[I64, I64],
                    |b| {
                        let top = b.binary(BinOp::Add, top, one);
                        self.save(b, top, at, &state);
                        let next = self.next_checkpoint(b, at, number, top);
                        smallvec![top, next]
                    },
                    |_| smallvec![top, next],
                );
                let results = this.b.func.insts[saved].results.clone();
                state.push(at);
                state.extend(results);
                this.b.end(Term::Continue(label, state));
                Ok(())
            })?;
            this.b.func.insts[branch].regions.extend([leave, repeat]);
            this.b.end(Term::Unreachable);
            Ok(())
        })?;
        let b = &mut reverse.b;
        b.func.insts[found].regions.push(region);
        let results = b.func.insts[found].results.clone();
        let top = results[n + 1];
        // The checkpoint of this iteration is not needed any more.
        let saved = b.load(Place::Local(self.numbers), &[top]);
        let done = b.compare(CmpOp::Eq, saved, number);
        let below = b.binary(BinOp::Sub, top, one);
        let top = b.select(done, below, top);
        Ok((results[..n].into(), top))
    }

    /// The iteration of the next checkpoint, if `from` has the last one and iterations up to `to` are still to be
    /// reversed; -1 if there is no room.
    ///
    /// With `s` free checkpoints, `C(s + r, s)` iterations can be reversed such that none is repeated more than `r`
    /// times. If `d` of them need `r`, those behind the next checkpoint may be `C(s + r - 1, s - 1)`.
    fn next_checkpoint(&self, b: &mut Builder, from: Value, to: Value, top: Value) -> Value {
        let (zero, one) = (b.i64(0), b.i64(1));
        let last = b.i64(self.capacity as i64 - 1);
        let free = b.binary(BinOp::Sub, last, top);
        let distance = b.binary(BinOp::Sub, to, from);
        let distance = b.binary(BinOp::Add, distance, one);
        let some = b.compare(CmpOp::Gt, free, zero);
        let found = b.if_else(
            some,
            &[I64],
            |b| {
                let label = b.func.fresh_label();
                let reach = b.push_typed(Op::Loop(label), &[one, zero], &[I64, I64]);
                let body = b.region(&[I64, I64], |b, p| {
                    let enough = b.compare(CmpOp::Ge, p[0], distance);
                    let branch = b.push_typed(Op::If, &[enough], &[]);
                    let (c, r) = (p[0], p[1]);
                    let leave = b.region(&[], |b, _| b.end(Term::Break(label, smallvec![c, r])));
                    let repeat = b.region(&[], |b, _| {
                        let r = b.binary(BinOp::Add, r, one);
                        let sum = b.binary(BinOp::Add, free, r);
                        let product = b.binary(BinOp::Mul, c, sum);
                        let c = b.binary(BinOp::Div, product, r);
                        b.end(Term::Continue(label, smallvec![c, r]));
                    });
                    b.func.insts[branch].regions.extend([leave, repeat]);
                    b.end(Term::Unreachable);
                });
                b.func.insts[reach].regions.push(body);
                let results = b.func.insts[reach].results.clone();
                let (reached, repeats) = (results[0], results[1]);
                let sum = b.binary(BinOp::Add, free, repeats);
                let product = b.binary(BinOp::Mul, reached, free);
                let behind = b.binary(BinOp::Div, product, sum);
                let ahead = b.binary(BinOp::Sub, distance, behind);
                let ahead = b.binary(BinOp::Max, ahead, one);
                smallvec![b.binary(BinOp::Add, from, ahead)]
            },
            |b| smallvec![b.i64(-1)],
        );
        b.func.result(found)
    }
}
