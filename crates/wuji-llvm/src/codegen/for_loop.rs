//! `for` loops: blocks, phis, strips and loop metadata for LLVM.

use super::digits::Digit;
use super::function::{FunctionGen, JumpTarget};
use super::gpu::Stride;
use crate::emit::{Block, Md, Ty, Val};
use inkwell::llvm_sys::LLVMIntPredicate::*;
use inkwell::llvm_sys::LLVMOpcode;
use wuji_ir::Result;
use wuji_ir::entities::{Inst, Label, Region, Value};
use wuji_ir::ops::{ForKind, Op};
use wuji_ir::types::{Imm, Scalar};

/// How the index of a `for` advances.
#[derive(Copy, Clone)]
enum Steps {
    /// By 1 or -1: the bound ends the loop.
    Unit { down: bool },
    /// By any other step: a trip count ends the loop, so that the index cannot wrap.
    Counted { trips: Val, step: Val },
    /// By the number of GPU threads; each thread starts at its own index (a grid-stride loop).
    Strided { step: Val, multiple: u32 },
}

/// LLVM's loop vectorizer takes time quadratic in the length of a body, and rarely vectorizes long ones.
const MAX_VECTOR_BODY: usize = 600;

/// The unroll factor of short loops in a GPU thread, and the longest body that counts as short.
const UNROLLED: u64 = 8;
const MAX_UNROLLED: usize = 48;

/// How often a counted loop polls the interrupt flag.
#[derive(Copy, Clone, PartialEq, Eq)]
enum PollPolicy {
    Never,
    EveryIteration,
    /// The loop is strip-mined and polls after each strip, so that the inner loop stays unchanged.
    EveryStrip,
}

/// The loop-carried values.
struct LoopValues {
    index: Val,
    /// Iterations done, if they are counted.
    count: Option<Val>,
    carried: Vec<Val>,
}

/// The loop over strips, around the loop over the iterations of one strip.
struct Strips {
    head: Block,
    phis: LoopValues,
}

/// The bounds and the step of a loop.
struct LoopRange {
    lo: Val,
    hi: Val,
    steps: Steps,
}

/// A `for` whose head has been written.
struct ForLoop {
    inst: Inst,
    kind: ForKind,
    scalar: Scalar,
    range: LoopRange,
    /// The end of the strip, or of the loop if there are no strips.
    strip_hi: Val,
    strip_steps: Steps,
    strips: Option<Strips>,
    poll: PollPolicy,
    /// The loop header.
    head: Block,
    tys: Vec<Ty>,
    phis: LoopValues,
    /// Quotients of the index that advance with it.
    digits: Vec<Digit>,
}

/// State that a loop over GPU threads changes for the loops inside.
struct ThreadScope {
    stride: Option<Stride>,
    inner: Option<Stride>,
    converged: bool,
}

/// Loops with at most this many iterations, also nested, end quickly enough without polling.
const MANY: u64 = 64;
/// Work between two polls, in units of an addition (`CostClass::units`): a millisecond or two.
const STRIP_WORK: u64 = 1 << 22;
/// Iterations of a strip: not so few that polling costs time, nor so many that a wrong estimate matters.
const MIN_STRIP: u64 = 1 << 8;
const MAX_STRIP: u64 = 1 << 16;

impl FunctionGen<'_, '_, '_> {
    pub(super) fn for_loop(&mut self, inst: Inst, label: Label, kind: ForKind) -> Result<()> {
        let data = &self.f.insts[inst];
        let (bounds, carried) = data.args.split_at(3);
        let scalar = self.scalar(bounds[0])?;
        let initial = self.all(carried)?;
        let (lo, hi) = (self.get(bounds[0])?, self.get(bounds[1])?);
        let mut exit = self.join(c"endfor");
        let threads = self.enter_threads(kind);
        let range = self.range(scalar, (lo, hi, bounds[2]), threads.stride.as_ref())?;
        let Some((guard, range)) = range else {
            // A step of 0 means no iterations.
            exit.incoming.push((self.unit.emit.current(), initial));
            self.unit.emit.br(exit.block);
            return self.leave(inst, &exit);
        };
        exit.incoming
            .push((self.unit.emit.current(), initial.clone()));
        let l = self.begin_loop((inst, kind, scalar), guard, range, initial, exit.block)?;
        let next = Some(self.join(c"next"));
        self.targets.insert(label, JumpTarget { exit, next });
        let group = self.loop_body(data.regions[0], kind)?;
        let Some(mut target) = self.targets.remove(&label) else {
            return Ok(());
        };
        if let Some(next) = &target.next {
            let values = self.enter(next, &l.tys);
            if next.incoming.is_empty() {
                self.return_zero();
            } else {
                let last = if threads.stride.is_some() && self.cooperative {
                    self.end_thread();
                    let last = self.unit.emit.current();
                    self.unit.emit.br(target.exit.block);
                    last
                } else {
                    self.next_iteration(&l, &threads, group, &values, target.exit.block)
                };
                target.exit.incoming.push((last, values));
            }
        }
        self.leave_threads(threads);
        self.leave(inst, &target.exit)
    }

    /// The iterations of the outermost parallel loop are distributed over the GPU's threads. If a thread
    /// block takes an iteration, its threads take the iterations of the loops inside.
    fn enter_threads(&mut self, kind: ForKind) -> ThreadScope {
        let stride = match kind {
            ForKind::Parallel | ForKind::Boundary => self.stride.take(),
            ForKind::Serial => None,
        };
        let inner = stride.and_then(|_| self.inner_stride.take());
        self.stride = inner.or(self.stride);
        ThreadScope {
            stride,
            inner,
            converged: std::mem::replace(&mut self.converged, false),
        }
    }

    fn leave_threads(&mut self, outside: ThreadScope) {
        if outside.stride.is_some() {
            self.stride = outside.stride;
            self.inner_stride = outside.inner;
        }
        self.converged = outside.converged;
    }

    /// Whether there is a first iteration, and the range of the loop; `None` if the step is 0.
    fn range(
        &self,
        scalar: Scalar,
        (lo, hi, step): (Val, Val, Value),
        stride: Option<&Stride>,
    ) -> Result<Option<(Val, LoopRange)>> {
        let Some(stride) = stride else {
            let steps = self.steps(scalar, lo, hi, step)?;
            return Ok(steps.map(|(guard, steps)| (guard, LoopRange { lo, hi, steps })));
        };
        let e = &self.unit.emit;
        let some = e.icmp(LLVMIntSLT, lo, hi);
        // Distances are exact as unsigned integers.
        let own = e.icmp(LLVMIntULT, stride.first, e.sub(hi, lo));
        let guard = e.and(some, own);
        let lo = e.add(lo, stride.first);
        let steps = Steps::Strided {
            step: stride.step,
            multiple: stride.multiple,
        };
        Ok(Some((guard, LoopRange { lo, hi, steps })))
    }

    /// The blocks before the body, up to the loop-carried values.
    fn begin_loop(
        &mut self,
        (inst, kind, scalar): (Inst, ForKind, Scalar),
        guard: Val,
        range: LoopRange,
        initial: Vec<Val>,
        exit: Block,
    ) -> Result<ForLoop> {
        let region = self.f.insts[inst].regions[0];
        let e = &self.unit.emit;
        let before = e.append_block(self.fun, c"for");
        let head = e.append_block(self.fun, c"iterate");
        e.cond_br(guard, before, exit);
        e.position(before);
        let params = &self.f.regions[region].params;
        let tys = self.tys(&params[1..])?;
        let poll = self.poll(inst, region, kind, scalar);
        let index_ty = e.scalar_ty(scalar);
        let mut first = LoopValues {
            index: range.lo,
            count: match range.steps {
                Steps::Unit { .. } | Steps::Strided { .. } => None,
                Steps::Counted { .. } => Some(e.zero(index_ty)),
            },
            carried: initial,
        };
        let (mut strip_hi, mut strip_steps, mut strips) = (range.hi, range.steps, None);
        let mut from = before;
        if poll == PollPolicy::EveryStrip {
            let outer = e.append_block(self.fun, c"strip");
            e.br(outer);
            e.position(outer);
            let phis = self.loop_phis(index_ty, &tys, &first, from);
            (strip_hi, strip_steps) = self.strip(
                scalar,
                phis.index,
                phis.count,
                (range.hi, &range.steps),
                region,
            );
            first = LoopValues {
                carried: phis.carried.clone(),
                ..phis
            };
            from = e.current();
            strips = Some(Strips { head: outer, phis });
        }
        let digits = match (&range.steps, &strips) {
            (Steps::Strided { step, multiple }, None) => {
                self.first_digits(inst, range.lo, (*step, *multiple))?
            }
            _ => Vec::new(),
        };
        let e = &self.unit.emit;
        e.br(head);
        e.position(head);
        let phis = self.loop_phis(index_ty, &tys, &first, from);
        let digits = self.enter_digits(digits, from);
        self.set(params[0], phis.index);
        self.define_all(&params[1..], &phis.carried);
        Ok(ForLoop {
            inst,
            kind,
            scalar,
            range,
            strip_hi,
            strip_steps,
            strips,
            poll,
            head,
            tys,
            phis,
            digits,
        })
    }

    /// The body; returns its access group, whose accesses are independent of those of other iterations.
    fn loop_body(&mut self, region: Region, kind: ForKind) -> Result<Option<Md>> {
        let group = match kind {
            ForKind::Parallel => self.unit.groups.take(),
            ForKind::Serial | ForKind::Boundary => None,
        };
        self.groups.extend(group);
        self.region(region)?;
        if group.is_some() {
            self.groups.pop();
        }
        Ok(group)
    }

    /// Branches to the next iteration, if there is one. Returns the block that exits the loop.
    fn next_iteration(
        &mut self,
        l: &ForLoop,
        threads: &ThreadScope,
        group: Option<Md>,
        carried: &[Val],
        exit: Block,
    ) -> Block {
        if l.poll == PollPolicy::EveryIteration {
            self.poll_interrupt();
        }
        let e = &self.unit.emit;
        let (index, count) = (l.phis.index, l.phis.count);
        let (index, count, more) = self.advance(l.scalar, index, l.strip_hi, count, &l.strip_steps);
        let next = LoopValues {
            index,
            count,
            carried: carried.to_vec(),
        };
        let latch = e.current();
        self.advance_digits(&l.digits, latch);
        let e = &self.unit.emit;
        let end = match &l.strips {
            None => exit,
            Some(_) => e.append_block(self.fun, c"stripped"),
        };
        let branch = e.cond_br(more, l.head, end);
        if let Some(metadata) = self.metadata_of(l, threads, group) {
            e.set_md(branch, e.kinds.loop_, metadata);
        }
        self.continue_with(&l.phis, &next, latch);
        match &l.strips {
            None => latch,
            Some(strips) => self.next_strip(l, strips, &next, end, exit),
        }
    }

    /// Branches to the next strip, if there is one. Returns the block that exits the loop.
    fn next_strip(
        &mut self,
        l: &ForLoop,
        strips: &Strips,
        next: &LoopValues,
        end: Block,
        exit: Block,
    ) -> Block {
        self.unit.emit.position(end);
        self.poll_interrupt();
        let e = &self.unit.emit;
        let LoopRange { hi, steps, .. } = &l.range;
        let more = self.is_more(l.scalar, next.index, next.count, *hi, steps);
        let last = e.current();
        e.cond_br(more, strips.head, exit);
        self.continue_with(&strips.phis, next, last);
        last
    }

    /// The loop metadata for LLVM.
    fn metadata_of(&self, l: &ForLoop, threads: &ThreadScope, group: Option<Md>) -> Option<Md> {
        let e = &self.unit.emit;
        let region = self.f.insts[l.inst].regions[0];
        if self.unit.gpu.is_none() {
            let rare = l.kind == ForKind::Boundary || self.longer_than(region, MAX_VECTOR_BODY);
            let whole = group.is_some() && self.is_short_row(l.inst, region);
            return Some(self.loop_metadata(rare, whole, group));
        }
        let unroll = threads.stride.is_none() && self.is_worth_unrolling(l.inst, region, l.kind);
        unroll.then(|| {
            let count = e.md_value(e.const_int(e.int_ty(32), UNROLLED));
            let fact = e.md_node(&[e.md_string("llvm.loop.unroll.count"), count]);
            e.md_self_node(&[fact])
        })
    }

    /// How often a `for` polls the interrupt flag.
    fn poll(&self, inst: Inst, region: Region, kind: ForKind, scalar: Scalar) -> PollPolicy {
        if !self.can_stop || kind == ForKind::Boundary {
            return PollPolicy::Never;
        }
        if self.has_long_loop(region) {
            return PollPolicy::EveryIteration;
        }
        if kind == ForKind::Parallel && self.unit.gpu.is_some() {
            return PollPolicy::Never;
        }
        let long = match self.turns(inst) {
            Some(turns) => turns > self.strip_length(region),
            // An index of 16 bits does not go far.
            None => scalar.bytes() >= 4,
        };
        if long {
            PollPolicy::EveryStrip
        } else {
            PollPolicy::Never
        }
    }

    /// How many iterations of a body run between two polls. A chunk may be long, and have long iterations: time counts, not their
    /// number.
    fn strip_length(&self, body: Region) -> u64 {
        (STRIP_WORK / self.work(body)).clamp(MIN_STRIP, MAX_STRIP)
    }

    /// The work of one run of a region, in units of an addition.
    fn work(&self, region: Region) -> u64 {
        let insts = self.f.regions[region].insts.iter();
        insts.fold(1, |sum: u64, inst| {
            let data = &self.f.insts[*inst];
            let lanes = data.results.first().and_then(|r| self.f.ty(*r).lanes());
            // One instruction serves several lanes.
            let own = data.op.cost().units() * u64::from(lanes.unwrap_or(1).div_ceil(8));
            let inside = data.regions.iter().map(|r| self.work(*r));
            let inside = inside.fold(0, u64::saturating_add);
            let turns = if let Op::For(..) = data.op {
                self.turns(*inst).unwrap_or(1)
            } else {
                1
            };
            sum.saturating_add(own)
                .saturating_add(inside.saturating_mul(turns))
        })
    }

    /// An upper bound on the trip count, if one is known.
    fn turns(&self, inst: Inst) -> Option<u64> {
        let number = |k: usize| {
            let v = self.f.insts[inst].args[k];
            self.f.constant(v).and_then(Imm::as_int)
        };
        let distance = number(1)?.abs_diff(number(0)?);
        let step = number(2)?.unsigned_abs().max(1);
        Some(u64::try_from(distance / step).unwrap_or(u64::MAX))
    }

    /// Whether a region contains a loop that may run long and does not poll itself.
    fn has_long_loop(&self, region: Region) -> bool {
        self.f.insts_in(region).any(|i| {
            matches!(self.f.insts[i].op, Op::For(..))
                && self.turns(i).is_none_or(|turns| turns > MANY)
        })
    }

    /// Whether there is a first iteration, and how the index advances; `None` if the step is 0.
    fn steps(&self, s: Scalar, lo: Val, hi: Val, step: Value) -> Result<Option<(Val, Steps)>> {
        let e = &self.unit.emit;
        let ty = e.scalar_ty(s);
        let signed = s.is_signed_int();
        let (less, greater) = if signed {
            (LLVMIntSLT, LLVMIntSGT)
        } else {
            (LLVMIntULT, LLVMIntUGT)
        };
        // Distances are exact as unsigned integers, for all types.
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

    /// The next index, the iterations done if they are counted, and whether there are more.
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
            // The index is below the bound, so the sum does not wrap.
            Steps::Unit { down: false } => e.add_no_wrap(index, e.const_int(ty, 1), signed),
            Steps::Unit { down: true } => e.add_no_wrap(index, e.const_int(ty, u64::MAX), true),
            // The index after the last iteration may wrap, but is not used.
            Steps::Counted { step, .. } => e.add_no_wrap(index, *step, signed),
            // The index may wrap past the end; it is not used then.
            Steps::Strided { step, .. } => {
                let more = e.icmp(LLVMIntULT, *step, e.sub(hi, index));
                return (e.add(index, *step), None, more);
            }
        };
        let done = count.map(|count| e.add_no_wrap(count, e.const_int(ty, 1), false));
        let more = self.is_more(s, following, done, hi, steps);
        (following, done, more)
    }

    /// Whether the index is in range, or whether fewer iterations are done than the trip count.
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
        (hi, steps): (Val, &Steps),
        body: Region,
    ) -> (Val, Steps) {
        let e = &self.unit.emit;
        let ty = e.scalar_ty(s);
        let length = e.const_int(ty, self.strip_length(body));
        // The remaining distance is exact as an unsigned integer, so the sums do not wrap.
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
            // Only single-threaded loops are strip-mined.
            (steps @ Steps::Strided { .. }, _) => (hi, *steps),
        }
    }

    /// Phis for the index, the iteration count and the carried values of a loop, with their initial values.
    fn loop_phis(&self, index_ty: Ty, tys: &[Ty], first: &LoopValues, from: Block) -> LoopValues {
        let e = &self.unit.emit;
        let phi = |ty: Ty, v: Val| {
            let phi = e.phi(ty);
            e.add_incoming(phi, v, from);
            phi
        };
        let index = phi(index_ty, first.index);
        let count = first.count.map(|v| phi(index_ty, v));
        let carried = tys.iter().zip(&first.carried).map(|(ty, v)| phi(*ty, *v));
        LoopValues {
            index,
            count,
            carried: carried.collect(),
        }
    }

    /// Adds the incoming values of a back edge to the phis of a loop.
    fn continue_with(&self, phis: &LoopValues, next: &LoopValues, from: Block) {
        let e = &self.unit.emit;
        e.add_incoming(phis.index, next.index, from);
        if let (Some(count), Some(done)) = (phis.count, next.count) {
            e.add_incoming(count, done, from);
        }
        for (phi, v) in phis.carried.iter().zip(&next.carried) {
            e.add_incoming(*phi, *v, from);
        }
    }

    /// Whether a region has more than `most` instructions, nested regions included.
    fn longer_than(&self, region: Region, most: usize) -> bool {
        self.f.insts_in(region).nth(most).is_some()
    }

    /// Whether a loop is short and innermost, such as a row of a block: one vector is better than unrolled
    /// copies.
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

    /// Whether a GPU thread should unroll a loop: the body is short and the loop long, so several iterations
    /// in flight hide memory latency.
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
}
