//! Structured control flow becomes blocks and phis.

use super::function::{FunctionGen, Hoisted, Join, JumpTarget, YieldTo};
use crate::emit::{Block, Md, Ty, Val};
use inkwell::llvm_sys::LLVMIntPredicate::*;
use inkwell::llvm_sys::LLVMOpcode;
use wuji_ir::Result;
use wuji_ir::entities::{Func, Inst, Label, Region, Value};
use wuji_ir::ops::{ForKind, Op};
use wuji_ir::types::{Imm, Scalar};

/// How the index of a `for` moves.
#[derive(Copy, Clone)]
enum Steps {
    /// By 1 or -1: the bound itself ends the loop.
    Unit { down: bool },
    /// By anything else: a count of iterations ends the loop, so the index cannot wrap.
    Counted { trips: Val, step: Val },
    /// By as many as there are threads on a GPU, each of which started at its own number.
    Strided { step: Val },
}

/// LLVM's loop vectorizer takes time quadratic in the length of a body, and seldom likes long ones.
const MAX_VECTOR_BODY: usize = 600;

/// Turns of a short loop that a thread of a GPU has under way, and how long "short" is.
const UNROLLED: u64 = 8;
const MAX_UNROLLED: usize = 48;

/// How often a loop with an end looks whether it is to stop.
#[derive(Copy, Clone, PartialEq, Eq)]
enum PollPolicy {
    Never,
    EveryIteration,
    /// It runs in strips, and looks after each: in the inner loop, nothing has changed.
    EveryStrip,
}

/// The loop over strips, around the loop over the turns of one.
struct Strips {
    head: Block,
    index: Val,
    count: Option<Val>,
    carried: Vec<Val>,
}

/// Loops of no more turns are done before anybody wants them to stop, also one in the other.
const MANY: u64 = 64;
/// The same, for loops without others inside.
const LONG: u64 = 1 << 28;
/// Turns of a strip.
const STRIP: u64 = 1 << 16;

impl FunctionGen<'_, '_, '_> {
    fn join(&self, name: &std::ffi::CStr) -> Join {
        Join {
            block: self.unit.emit.append_block(self.fun, name),
            incoming: Vec::new(),
        }
    }

    /// Goes on at a join; gives the values that arrive there.
    fn enter(&self, join: &Join, tys: &[Ty]) -> Vec<Val> {
        let e = &self.unit.emit;
        e.position(join.block);
        match &join.incoming[..] {
            // Nothing arrives: what follows is dead, any value will do.
            [] => tys.iter().map(|t| e.zero(*t)).collect(),
            [(_, values)] => values.clone(),
            many => tys
                .iter()
                .enumerate()
                .map(|(k, ty)| {
                    let phi = e.phi(*ty);
                    for (from, values) in many {
                        e.add_incoming(phi, values[k], *from);
                    }
                    phi
                })
                .collect(),
        }
    }

    pub(super) fn return_values(&self, values: &[Val]) {
        let e = &self.unit.emit;
        let value = match values {
            [] => None,
            [one] => Some(*one),
            many => {
                let mut all = e.zero(self.result);
                for (k, v) in many.iter().enumerate() {
                    all = e.insert(all, *v, k as u32);
                }
                Some(all)
            }
        };
        if cfg!(target_arch = "x86_64") && self.streams_vectors() {
            e.intrinsic("llvm.x86.sse.sfence", &[], &[]);
        }
        e.ret(self.result, value);
    }

    pub(super) fn return_zero(&self) {
        let e = &self.unit.emit;
        let zero = (!self.f.results.is_empty()).then(|| e.zero(self.result));
        e.ret(self.result, zero);
    }

    pub(super) fn if_else(&mut self, inst: Inst) -> Result<()> {
        let data = &self.f.insts[inst];
        let condition = self.get(data.args[0])?;
        let e = &self.unit.emit;
        let then = e.append_block(self.fun, c"then");
        let otherwise = e.append_block(self.fun, c"else");
        e.cond_br(condition, then, otherwise);
        let join = self.join(c"endif");
        self.yields.push(YieldTo::If(join));
        let outside = std::mem::replace(&mut self.converged, false);
        for (block, region) in [(then, data.regions[0]), (otherwise, data.regions[1])] {
            self.unit.emit.position(block);
            self.region(region)?;
        }
        self.converged = outside;
        if let Some(YieldTo::If(join)) = self.yields.pop() {
            self.leave(inst, &join)?;
        }
        Ok(())
    }

    pub(super) fn block(&mut self, inst: Inst, label: Label) -> Result<()> {
        let exit = self.join(c"endblock");
        self.targets.insert(label, JumpTarget { exit, next: None });
        self.yields.push(YieldTo::Block(label));
        self.region(self.f.insts[inst].regions[0])?;
        self.yields.pop();
        if let Some(target) = self.targets.remove(&label) {
            self.leave(inst, &target.exit)?;
        }
        Ok(())
    }

    /// The results of an instruction are what arrives at its exit.
    fn leave(&mut self, inst: Inst, exit: &Join) -> Result<()> {
        let results = &self.f.insts[inst].results;
        let tys = self.tys(results)?;
        let values = self.enter(exit, &tys);
        self.define_all(results, &values);
        Ok(())
    }

    pub(super) fn endless_loop(&mut self, inst: Inst, label: Label) -> Result<()> {
        let data = &self.f.insts[inst];
        let region = data.regions[0];
        let initial = self.all(&data.args)?;
        let params = &self.f.regions[region].params;
        let tys = self.tys(params)?;

        let before = self.unit.emit.current();
        let head = self.unit.emit.append_block(self.fun, c"loop");
        self.unit.emit.br(head);
        self.unit.emit.position(head);
        let phis: Vec<Val> = tys.iter().map(|t| self.unit.emit.phi(*t)).collect();
        for (phi, v) in phis.iter().zip(&initial) {
            self.unit.emit.add_incoming(*phi, *v, before);
        }
        self.define_all(params, &phis);

        let (exit, next) = (self.join(c"endloop"), Some(self.join(c"again")));
        self.targets.insert(label, JumpTarget { exit, next });
        let outside = std::mem::replace(&mut self.converged, false);
        self.region(region)?;
        self.converged = outside;
        let Some(target) = self.targets.remove(&label) else {
            return Ok(());
        };
        if let Some(next) = &target.next {
            let values = self.enter(next, &tys);
            if next.incoming.is_empty() {
                self.return_zero();
            } else {
                if !self.f.traits.uninterrupted {
                    self.poll_interrupt();
                }
                let latch = self.unit.emit.current();
                self.unit.emit.br(head);
                for (phi, v) in phis.iter().zip(&values) {
                    self.unit.emit.add_incoming(*phi, *v, latch);
                }
            }
        }
        self.leave(inst, &target.exit)
    }

    /// Leaves the function when the runtime has asked for it.
    fn poll_interrupt(&mut self) {
        if self.unit.gpu.is_some() {
            return self.poll_now_and_then();
        }
        self.poll_each_time();
    }

    pub(super) fn poll_each_time(&mut self) {
        let flag = self.hoisted(Hoisted::Interrupt);
        let e = &self.unit.emit;
        let value = e.load_fresh(e.int_ty(32), flag, 4);
        self.unit.scopes.mark_context(e, value);
        let stop = e.icmp(LLVMIntNE, value, e.const_int(e.int_ty(32), 0));
        let leave = e.append_block(self.fun, c"interrupted");
        let go_on = e.append_block(self.fun, c"go_on");
        let branch = e.cond_br(stop, leave, go_on);
        let weight = |w: u64| e.md_value(e.const_int(e.int_ty(32), w));
        let weights = e.md_node(&[e.md_string("branch_weights"), weight(1), weight(1 << 20)]);
        e.set_md(branch, e.kinds.prof, weights);
        e.position(leave);
        self.return_zero();
        self.unit.emit.position(go_on);
    }

    /// How often a loop with an end looks whether it is to stop.
    fn poll(&self, inst: Inst, region: Region, kind: ForKind, scalar: Scalar) -> PollPolicy {
        if !self.can_stop || kind == ForKind::Boundary {
            return PollPolicy::Never;
        }
        if self.has_long_loop(region) {
            return PollPolicy::EveryIteration;
        }
        // Chunks of parallel loops are short enough.
        match (kind, self.turns(inst)) {
            (ForKind::Serial, Some(turns)) if turns > LONG => PollPolicy::EveryStrip,
            (ForKind::Serial, None) if scalar.bytes() >= 4 => PollPolicy::EveryStrip,
            _ => PollPolicy::Never,
        }
    }

    /// How many turns a loop has, if that is known; at most.
    fn turns(&self, inst: Inst) -> Option<u64> {
        let number = |k: usize| {
            let v = self.f.insts[inst].args[k];
            self.f.constant(v).and_then(Imm::as_int)
        };
        let distance = number(1)?.abs_diff(number(0)?);
        let step = number(2)?.unsigned_abs().max(1);
        Some(u64::try_from(distance / step).unwrap_or(u64::MAX))
    }

    /// Whether there is a loop in a region that could take long and does not look by itself.
    fn has_long_loop(&self, region: Region) -> bool {
        self.f.insts_in(region).any(|i| {
            matches!(self.f.insts[i].op, Op::For(..))
                && self.turns(i).is_none_or(|turns| turns > MANY)
        })
    }

    pub(super) fn for_loop(&mut self, inst: Inst, label: Label, kind: ForKind) -> Result<()> {
        let data = &self.f.insts[inst];
        let region = data.regions[0];
        let (bounds, carried) = data.args.split_at(3);
        let scalar = self.scalar(bounds[0])?;
        let initial = self.all(carried)?;
        let (lo, hi) = (self.get(bounds[0])?, self.get(bounds[1])?);
        let exit = self.join(c"endfor");

        let stride = match kind {
            ForKind::Parallel | ForKind::Boundary => self.stride.take(),
            ForKind::Serial => None,
        };
        // Where a block takes an iteration, its threads take those of the loops inside.
        let within = stride.and_then(|_| self.inner_stride.take());
        self.stride = within.or(self.stride);
        let outside = std::mem::replace(&mut self.converged, false);
        let steps = match &stride {
            Some(stride) => {
                let e = &self.unit.emit;
                let some = e.icmp(LLVMIntSLT, lo, hi);
                // Distances are exact as unsigned numbers.
                let own = e.icmp(LLVMIntULT, stride.first, e.sub(hi, lo));
                Some((e.and(some, own), Steps::Strided { step: stride.step }))
            }
            None => self.steps(scalar, lo, hi, bounds[2])?,
        };
        let lo = match &stride {
            Some(stride) => self.unit.emit.add(lo, stride.first),
            None => lo,
        };
        let Some((guard, steps)) = steps else {
            // A step of 0 runs nothing.
            let exit = Join {
                block: exit.block,
                incoming: vec![(self.unit.emit.current(), initial)],
            };
            self.unit.emit.br(exit.block);
            return self.leave(inst, &exit);
        };

        let e = &self.unit.emit;
        let before = e.append_block(self.fun, c"for");
        let head = e.append_block(self.fun, c"iterate");
        let from = e.current();
        e.cond_br(guard, before, exit.block);
        e.position(before);
        let params = &self.f.regions[region].params;
        let tys = self.tys(&params[1..])?;
        let poll = self.poll(inst, region, kind, scalar);
        let index_ty = e.scalar_ty(scalar);
        let counted = match steps {
            Steps::Unit { .. } | Steps::Strided { .. } => None,
            Steps::Counted { .. } => Some(e.zero(index_ty)),
        };
        // Where the index, the count of turns, and the carried values come from at first.
        let mut first = (lo, counted, initial.clone(), before);
        let mut strips = None;
        let (mut strip_hi, mut strip_steps) = (hi, steps);
        if poll == PollPolicy::EveryStrip {
            let outer = e.append_block(self.fun, c"strip");
            e.br(outer);
            e.position(outer);
            let (index, count, carried) = self.loop_phis(index_ty, &tys, &first);
            (strip_hi, strip_steps) = self.strip(scalar, index, count, hi, &steps);
            first = (index, count, carried.clone(), self.unit.emit.current());
            strips = Some(Strips {
                head: outer,
                index,
                count,
                carried,
            });
        }
        let e = &self.unit.emit;
        e.br(head);
        e.position(head);
        let (index, count, phis) = self.loop_phis(index_ty, &tys, &first);
        self.set(params[0], index);
        self.define_all(&params[1..], &phis);

        let exit = Join {
            block: exit.block,
            incoming: vec![(from, initial)],
        };
        let next = Some(self.join(c"next"));
        self.targets.insert(label, JumpTarget { exit, next });
        let rare = kind == ForKind::Boundary || self.longer_than(region, MAX_VECTOR_BODY);
        let group = match kind {
            ForKind::Parallel => self.unit.groups.take(),
            ForKind::Serial | ForKind::Boundary => None,
        };
        self.groups.extend(group);
        self.region(region)?;
        if group.is_some() {
            self.groups.pop();
        }
        let Some(mut target) = self.targets.remove(&label) else {
            return Ok(());
        };
        if let Some(next) = &target.next {
            let values = self.enter(next, &tys);
            if next.incoming.is_empty() {
                self.return_zero();
            } else if stride.is_some() && self.cooperative {
                self.end_thread();
                let last = self.unit.emit.current();
                self.unit.emit.br(target.exit.block);
                target.exit.incoming.push((last, values));
            } else {
                if poll == PollPolicy::EveryIteration {
                    self.poll_interrupt();
                }
                let e = &self.unit.emit;
                let next = self.advance(scalar, index, strip_hi, count, &strip_steps);
                let (following, done, more) = next;
                let latch = e.current();
                let end = match &strips {
                    None => target.exit.block,
                    Some(_) => e.append_block(self.fun, c"stripped"),
                };
                let branch = e.cond_br(more, head, end);
                let whole = group.is_some() && self.is_short_row(inst, region);
                match self.unit.gpu {
                    None => e.set_md(
                        branch,
                        e.kinds.loop_,
                        self.loop_metadata(rare, whole, group),
                    ),
                    Some(_) if stride.is_none() && self.is_worth_unrolling(inst, region, kind) => {
                        let count = e.md_value(e.const_int(e.int_ty(32), UNROLLED));
                        let fact = e.md_node(&[e.md_string("llvm.loop.unroll.count"), count]);
                        e.set_md(branch, e.kinds.loop_, e.md_self_node(&[fact]));
                    }
                    Some(_) => {}
                }
                e.add_incoming(index, following, latch);
                if let (Some(count), Some(done)) = (count, done) {
                    e.add_incoming(count, done, latch);
                }
                for (phi, v) in phis.iter().zip(&values) {
                    e.add_incoming(*phi, *v, latch);
                }
                let mut last = latch;
                if let Some(strips) = strips {
                    e.position(end);
                    self.poll_interrupt();
                    let e = &self.unit.emit;
                    let more = self.is_more(scalar, following, done, hi, &steps);
                    last = e.current();
                    e.cond_br(more, strips.head, target.exit.block);
                    e.add_incoming(strips.index, following, last);
                    if let (Some(count), Some(done)) = (strips.count, done) {
                        e.add_incoming(count, done, last);
                    }
                    for (phi, v) in strips.carried.iter().zip(&values) {
                        e.add_incoming(*phi, *v, last);
                    }
                }
                target.exit.incoming.push((last, values));
            }
        }
        if stride.is_some() {
            self.stride = stride;
            self.inner_stride = within;
        }
        self.converged = outside;
        self.leave(inst, &target.exit)
    }

    /// Whether there is a first iteration, and how the index moves; `None` when the step is 0.
    fn steps(&self, s: Scalar, lo: Val, hi: Val, step: Value) -> Result<Option<(Val, Steps)>> {
        let e = &self.unit.emit;
        let ty = e.scalar_ty(s);
        let signed = s.is_signed_int();
        let (less, greater) = if signed {
            (LLVMIntSLT, LLVMIntSGT)
        } else {
            (LLVMIntULT, LLVMIntUGT)
        };
        // Distances are exact as unsigned numbers, whatever the type.
        let trips = |distance: Val, step: Val| {
            let one = e.const_int(ty, 1);
            let last = e.binary(LLVMOpcode::LLVMUDiv, e.sub(distance, one), step);
            e.add(last, one)
        };
        if let Some(k) = self.f.constant(step).and_then(Imm::as_int) {
            return Ok(match k {
                0 => None,
                1 => Some((e.icmp(less, lo, hi), Steps::Unit { down: false })),
                -1 => Some((e.icmp(greater, lo, hi), Steps::Unit { down: true })),
                _ => {
                    let (guard, distance) = if k > 0 {
                        (e.icmp(less, lo, hi), e.sub(hi, lo))
                    } else {
                        (e.icmp(greater, lo, hi), e.sub(lo, hi))
                    };
                    let size = e.const_int(ty, k.unsigned_abs() as u64);
                    Some((
                        guard,
                        Steps::Counted {
                            trips: trips(distance, size),
                            step: e.const_int(ty, k as u64),
                        },
                    ))
                }
            });
        }
        let step = self.get(step)?;
        let (zero, one) = (e.zero(ty), e.const_int(ty, 1));
        let moves = e.icmp(LLVMIntNE, step, zero);
        let (first, distance, size) = if signed {
            let up = e.icmp(LLVMIntSGT, step, zero);
            (
                e.select(up, e.icmp(less, lo, hi), e.icmp(greater, lo, hi)),
                e.select(up, e.sub(hi, lo), e.sub(lo, hi)),
                e.select(up, step, e.sub(zero, step)),
            )
        } else {
            (e.icmp(less, lo, hi), e.sub(hi, lo), step)
        };
        let size = e.select(moves, size, one);
        Ok(Some((
            e.select(moves, first, e.const_bool(false)),
            Steps::Counted {
                trips: trips(distance, size),
                step,
            },
        )))
    }

    /// The next index, how many turns are done where that is counted, and whether there are more.
    fn advance(
        &self,
        s: Scalar,
        index: Val,
        hi: Val,
        count: Option<Val>,
        steps: &Steps,
    ) -> (Val, Option<Val>, Val) {
        let e = &self.unit.emit;
        let ty = e.scalar_ty(s);
        let signed = s.is_signed_int();
        let following = match steps {
            // Below the bound, so one more fits.
            Steps::Unit { down: false } => e.add_no_wrap(index, e.const_int(ty, 1), signed),
            Steps::Unit { down: true } => e.add_no_wrap(index, e.const_int(ty, u64::MAX), true),
            // The index after the last one may wrap, and is never looked at.
            Steps::Counted { step, .. } => e.add_no_wrap(index, *step, signed),
            // It may wrap, and is not looked at then.
            Steps::Strided { step } => {
                let more = e.icmp(LLVMIntULT, *step, e.sub(hi, index));
                return (e.add(index, *step), None, more);
            }
        };
        let done = count.map(|count| e.add_no_wrap(count, e.const_int(ty, 1), false));
        let more = self.is_more(s, following, done, hi, steps);
        (following, done, more)
    }

    /// Whether an index is one, or whether there are more turns than are done.
    fn is_more(&self, s: Scalar, index: Val, done: Option<Val>, hi: Val, steps: &Steps) -> Val {
        let e = &self.unit.emit;
        match (steps, done) {
            (Steps::Strided { .. }, _) => e.icmp(LLVMIntSLT, index, hi),
            (Steps::Unit { down: false }, _) => {
                let less = if s.is_signed_int() {
                    LLVMIntSLT
                } else {
                    LLVMIntULT
                };
                e.icmp(less, index, hi)
            }
            (Steps::Unit { down: true }, _) => e.icmp(LLVMIntSGT, index, hi),
            (Steps::Counted { trips, .. }, Some(done)) => e.icmp(LLVMIntULT, done, *trips),
            (Steps::Counted { .. }, None) => e.const_bool(false),
        }
    }

    /// The bound and the steps of the strip that begins at an index.
    fn strip(
        &self,
        s: Scalar,
        index: Val,
        count: Option<Val>,
        hi: Val,
        steps: &Steps,
    ) -> (Val, Steps) {
        let e = &self.unit.emit;
        let ty = e.scalar_ty(s);
        let length = e.const_int(ty, STRIP);
        // What is left is exact as an unsigned number, so whatever is added to fits.
        let bounded = |left: Val, end: Val, whole: Val| {
            e.select(e.icmp(LLVMIntUGT, left, length), end, whole)
        };
        match (steps, count) {
            (Steps::Unit { down: false }, _) => {
                let end = bounded(e.sub(hi, index), e.add(index, length), hi);
                (end, Steps::Unit { down: false })
            }
            (Steps::Unit { down: true }, _) => {
                let end = bounded(e.sub(index, hi), e.sub(index, length), hi);
                (end, Steps::Unit { down: true })
            }
            (Steps::Counted { trips, step }, Some(count)) => {
                let end = bounded(e.sub(*trips, count), e.add(count, length), *trips);
                let (trips, step) = (end, *step);
                (hi, Steps::Counted { trips, step })
            }
            (Steps::Counted { trips, step }, None) => {
                let (trips, step) = (*trips, *step);
                (hi, Steps::Counted { trips, step })
            }
            // Only loops in one thread run in strips.
            (Steps::Strided { step }, _) => (hi, Steps::Strided { step: *step }),
        }
    }

    /// The index, the count of turns and the carried values of a loop, with what they are at first.
    fn loop_phis(
        &self,
        index_ty: Ty,
        tys: &[Ty],
        (lo, counted, initial, from): &(Val, Option<Val>, Vec<Val>, Block),
    ) -> (Val, Option<Val>, Vec<Val>) {
        let e = &self.unit.emit;
        let phi = |ty: Ty, v: Val| {
            let phi = e.phi(ty);
            e.add_incoming(phi, v, *from);
            phi
        };
        let index = phi(index_ty, *lo);
        let count = counted.map(|v| phi(index_ty, v));
        let carried = tys.iter().zip(initial).map(|(ty, v)| phi(*ty, *v));
        (index, count, carried.collect())
    }

    /// Whether a region has more than so many instructions, those inside included.
    fn longer_than(&self, region: Region, most: usize) -> bool {
        self.f.insts_in(region).nth(most).is_some()
    }

    /// Whether a loop is a row of a block: a few turns without loops inside, better one vector than
    /// many copies.
    fn is_short_row(&self, inst: Inst, region: Region) -> bool {
        let number = |k: usize| {
            let v = self.f.insts[inst].args[k];
            self.f.constant(v).and_then(Imm::as_int)
        };
        let (Some(lo), Some(hi)) = (number(0), number(1)) else {
            return false;
        };
        let is_loop = |i: Inst| matches!(self.f.insts[i].op, Op::For(..) | Op::Loop(_));
        (4..=64).contains(&(hi - lo)) && !self.f.insts_in(region).any(is_loop)
    }

    /// Whether a loop of a thread is short inside and long outside, so that several turns at once hide how long memory takes.
    fn is_worth_unrolling(&self, inst: Inst, region: Region, kind: ForKind) -> bool {
        let has_loops = |r: &Region| {
            let insts = self.f.regions[*r].insts.iter();
            insts
                .map(|i| &self.f.insts[*i])
                .any(|d| matches!(d.op, Op::For(..) | Op::Loop(_) | Op::Call(_)))
        };
        kind != ForKind::Boundary
            && self.turns(inst).is_none_or(|turns| turns > MANY)
            && !self.longer_than(region, MAX_UNROLLED)
            && !has_loops(&region)
    }

    fn loop_metadata(&self, rare: bool, whole: bool, group: Option<Md>) -> Md {
        let e = &self.unit.emit;
        let mut facts = vec![e.md_node(&[e.md_string("llvm.loop.mustprogress")])];
        if let Some(group) = group {
            facts.push(e.md_node(&[e.md_string("llvm.loop.parallel_accesses"), group]));
        }
        if whole && !rare {
            facts.push(e.md_node(&[e.md_string("llvm.loop.unroll.disable")]));
        }
        if rare {
            let no = e.md_value(e.const_bool(false));
            facts.push(e.md_node(&[e.md_string("llvm.loop.vectorize.enable"), no]));
            facts.push(e.md_node(&[e.md_string("llvm.loop.unroll.disable")]));
        }
        e.md_self_node(&facts)
    }

    pub(super) fn call(&mut self, inst: Inst, callee: Func) -> Result<()> {
        let data = &self.f.insts[inst];
        let mut args = vec![self.context()];
        args.extend(self.all(&data.args)?);
        let fun = self.unit.callee(callee)?;
        let traits = self.unit.module.funcs[callee].traits;
        let value = if self.unit.gpu.is_some() && traits.once {
            self.call_once(fun, &args)
        } else {
            self.unit.emit.call(fun, &args)
        };
        if traits.inline {
            // What takes the place of the call is in the same loops.
            self.mark_loops(value);
        }
        match &data.results[..] {
            [] => {}
            [one] => self.set(*one, value),
            many => {
                for (k, result) in many.iter().enumerate() {
                    let part = self.unit.emit.extract(value, k as u32);
                    self.set(*result, part);
                }
            }
        }
        Ok(())
    }

    pub(super) fn report(&mut self, site: u32, args: &[Value]) -> Result<()> {
        let mut values = vec![
            self.context(),
            self.unit
                .emit
                .const_int(self.unit.emit.int_ty(32), self.unit.site_word(site)),
        ];
        for arg in args {
            let (v, s) = (self.get(*arg)?, self.scalar(*arg)?);
            values.push(self.to_slot(v, s));
        }
        let reporter = self.unit.reporter(args.len());
        self.unit.emit.call(reporter, &values);
        Ok(())
    }

    /// A scalar in an 8-byte slot.
    fn to_slot(&self, v: Val, s: Scalar) -> Val {
        let e = &self.unit.emit;
        let bits = if s.is_float() {
            e.bitcast(v, e.int_ty(s.bits()))
        } else {
            v
        };
        if s.bits() == 64 {
            bits
        } else if s.is_signed_int() {
            e.cast(LLVMOpcode::LLVMSExt, bits, e.i64_ty())
        } else {
            e.cast(LLVMOpcode::LLVMZExt, bits, e.i64_ty())
        }
    }
}
