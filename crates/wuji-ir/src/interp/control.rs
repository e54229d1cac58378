//! Frames, regions and terminators.

use super::error::{NOT_INSIDE, NOT_RUNNABLE, STOPPED, TOO_LARGE, TOO_LONG, stop};
use super::launch::{Launch, Scope};
use super::order::Permutation;
use super::points::Points;
use super::prepare::EMPTY;
use crate::entities::*;
use crate::module::{MAX_CALL_DEPTH, SiteKind, Span, Term};
use crate::ops::{ControlOp, Domain, ForKind, LoopHints, Op, OpClass, Place};
use crate::types::Imm;
use crate::{Error, Position, Result};
use std::ops::Range;

/// The most scalars in all activations together.
const MAX_STACK: usize = 1 << 26;

/// One activation of a function.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) func: Func,
    /// The offsets of its values and locals on their stacks.
    pub(super) values: usize,
    pub(super) locals: usize,
    /// The `call` in the frame below.
    call: Option<Inst>,
}

/// A region that is running.
#[derive(Debug)]
struct Running {
    region: Region,
    /// The next instruction.
    at: usize,
    owner: Owner,
}

#[derive(Debug)]
enum Owner {
    /// The body of a function.
    Body,
    /// `if`, `block` or `loop`.
    Plain(Inst),
    /// The body of a cooperative `foreach`, run by one thread.
    Thread(Inst),
    For(Inst, Counter),
    ForEach(Inst, Box<Visit>),
}

/// The state of a `for`.
#[derive(Debug)]
struct Counter {
    lo: i128,
    step: i128,
    turn: u64,
    turns: u64,
    order: Permutation,
}

impl Counter {
    fn index(&self) -> i128 {
        self.lo + i128::from(self.order.at(self.turn)) * self.step
    }
}

/// The state of a `foreach`.
#[derive(Debug)]
struct Visit {
    points: Points,
    turn: u64,
    turns: u64,
    order: Permutation,
    /// Locals that the body stores to, with their values before the loop: every iteration starts with those.
    locals: Vec<(Range<usize>, Vec<Imm>)>,
    /// What the serial code continues with, if the loop belongs to it.
    around: Option<Scope>,
}

/// How a function ended.
#[derive(Debug, PartialEq)]
pub(super) enum End {
    Returned(Vec<Imm>),
    /// An assertion or the recursion limit ended the iteration.
    Ended,
    /// Not ended: the thread waits at a cooperative instruction.
    Waits(Inst),
}

/// The stacks of one thread of control.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    pub(super) frames: Vec<Frame>,
    running: Vec<Running>,
    pub(super) values: Vec<Imm>,
    pub(super) locals: Vec<Imm>,
    /// Activations of recursive functions.
    depth: u32,
    /// Values that are being copied.
    moving: Vec<Imm>,
}

/// The effect of an instruction on control flow.
pub(super) enum Next {
    On,
    /// The iteration is over.
    EndIteration,
    /// The thread waits until others reach this instruction.
    Wait(Inst),
}

impl Launch<'_, '_> {
    /// Runs a function with its arguments, as scalars, to its end.
    pub(super) fn call(&mut self, func: Func, args: &[Imm]) -> Result<End> {
        match self.start_call(func, args)? {
            Next::EndIteration => Ok(End::Ended),
            Next::On | Next::Wait(_) => self.resume(),
        }
    }

    /// Prepares a function call.
    pub(super) fn start_call(&mut self, func: Func, args: &[Imm]) -> Result<Next> {
        self.stacks.frames.clear();
        self.stacks.running.clear();
        self.stacks.values.clear();
        self.stacks.locals.clear();
        self.stacks.depth = 0;
        self.stacks.moving.clear();
        self.stacks.moving.extend_from_slice(args);
        self.enter(func, None, Span::UNKNOWN)
    }

    /// Runs the stacks to the end, or until the thread waits for others.
    pub(super) fn resume(&mut self) -> Result<End> {
        loop {
            let Some(running) = self.stacks.running.last_mut() else {
                return Ok(End::Ended);
            };
            let at = running.at;
            running.at += 1;
            let region = running.region;
            let region = &self.func().regions[region];
            let next = if let Some(inst) = region.insts.get(at) {
                self.step(*inst)?
            } else {
                if let Some(values) = self.terminate(&region.term, region.term_span)? {
                    return Ok(End::Returned(values));
                }
                Next::On
            };
            match next {
                Next::On => {}
                Next::Wait(inst) => return Ok(End::Waits(inst)),
                Next::EndIteration => {
                    if !self.end_iteration()? {
                        return Ok(End::Ended);
                    }
                }
            }
        }
    }

    /// Counts a step.
    pub(super) fn tick(&mut self) -> Result<()> {
        self.outcome.steps += 1;
        if self.outcome.steps > self.machine.config.max_steps {
            return Err(self.error(TOO_LONG, "the program runs for too long", Span::UNKNOWN));
        }
        if self.outcome.steps.is_multiple_of(1024)
            && let Some(stop) = self.machine.stop
            && (stop.0)()
        {
            return Err(self.error(STOPPED, "the program was stopped", Span::UNKNOWN));
        }
        Ok(())
    }

    pub(super) fn error(
        &self,
        code: &'static str,
        message: impl Into<String>,
        span: Span,
    ) -> Error {
        stop(code, message).at(Position::of(self.machine.module, span))
    }

    fn step(&mut self, inst: Inst) -> Result<Next> {
        self.tick()?;
        let f = self.func();
        let data = &f.insts[inst];
        match data.op.class() {
            OpClass::Control(op) => match op {
                ControlOp::If => {
                    let side = usize::from(self.scalar(data.args[0]).bits() == 0);
                    self.run_region(data.regions[side], Owner::Plain(inst));
                }
                ControlOp::Block(_) => self.run_region(data.regions[0], Owner::Plain(inst)),
                ControlOp::Loop(_) => {
                    self.gather(&data.args);
                    self.run_region(data.regions[0], Owner::Plain(inst));
                    self.scatter(&f.regions[data.regions[0]].params);
                }
                ControlOp::For(_, kind) => self.start_for(inst, kind)?,
                ControlOp::ForEach(_, domain, hints) => self.start_foreach(inst, domain, hints)?,
            },
            OpClass::Call(callee) => {
                self.gather(&data.args);
                return self.enter(callee, Some(inst), f.spans[inst]);
            }
            class @ (OpClass::Constant(_)
            | OpClass::Elementwise(_)
            | OpClass::Component(_)
            | OpClass::Reduce(_)
            | OpClass::Algebra(_)
            | OpClass::Query(_)
            | OpClass::Hint(_)
            | OpClass::Access(..)
            | OpClass::Cell(..)
            | OpClass::TreeAccess(..)
            | OpClass::Memory(_)
            | OpClass::Random
            | OpClass::Thread(_)
            | OpClass::Check(_)) => return self.compute(inst, class),
        }
        Ok(Next::On)
    }

    fn run_region(&mut self, region: Region, owner: Owner) {
        self.stacks.running.push(Running {
            region,
            at: 0,
            owner,
        });
    }

    /// Enters a function; its arguments are in `moving`.
    fn enter(&mut self, func: Func, call: Option<Inst>, span: Span) -> Result<Next> {
        let layout = &self.machine.prepared.funcs[func];
        if layout.recursive {
            // Lowered functions check the depth themselves, and report at one beyond the limit.
            let limit = MAX_CALL_DEPTH + u32::from(layout.reports_depth);
            if self.stacks.depth >= limit && layout.reports_depth {
                return Err(self.error(NOT_INSIDE, "the recursion limit did not hold", span));
            }
            if self.stacks.depth >= limit {
                self.report(SiteKind::TooDeep(func), span, Vec::new());
                return Ok(Next::EndIteration);
            }
            self.stacks.depth += 1;
        }
        let s = &mut self.stacks;
        let frame = Frame {
            func,
            values: s.values.len(),
            locals: s.locals.len(),
            call,
        };
        if s.values.len() + s.locals.len() + layout.size + layout.zeros.len() > MAX_STACK {
            return Err(self.error(TOO_LARGE, "the program needs too much memory", span));
        }
        s.values
            .resize(frame.values + layout.size, Imm::zero(EMPTY));
        s.locals.extend_from_slice(&layout.zeros);
        s.frames.push(frame);
        let f = &self.machine.module.funcs[func];
        self.run_region(f.entry, Owner::Body);
        self.scatter(f.params());
        Ok(Next::On)
    }

    /// Executes a terminator. Returns the results at the end of the whole call.
    fn terminate(&mut self, term: &Term, span: Span) -> Result<Option<Vec<Imm>>> {
        match term {
            Term::Yield(values) => {
                self.gather(values);
                let Some(Running {
                    owner: Owner::Plain(inst),
                    ..
                }) = self.stacks.running.pop()
                else {
                    return Err(self.error(NOT_RUNNABLE, "nothing takes this `yield`", span));
                };
                self.give_results(inst);
            }
            Term::Break(label, values) => {
                self.gather(values);
                self.leave_to(*label, span)?;
                match self.stacks.running.pop().map(|r| r.owner) {
                    Some(Owner::Plain(inst) | Owner::For(inst, ..)) => self.give_results(inst),
                    Some(Owner::Body | Owner::Thread(_) | Owner::ForEach(..)) | None => {
                        return Err(self.error(NOT_RUNNABLE, "nothing takes this `break`", span));
                    }
                }
            }
            Term::Continue(label, values) => {
                self.tick()?;
                self.gather(values);
                self.leave_to(*label, span)?;
                self.next_iteration()?;
            }
            Term::Return(values) => {
                self.gather(values);
                return Ok(self.leave_function());
            }
            // The verifier has checked that this is unreachable.
            Term::Unreachable => {
                return Err(self.error(NOT_RUNNABLE, "control reached `unreachable`", span));
            }
        }
        Ok(None)
    }

    /// Leaves the regions inside the one with a label.
    fn leave_to(&mut self, label: Label, span: Span) -> Result<()> {
        let f = self.func();
        while let Some(running) = self.stacks.running.last() {
            let inst = match running.owner {
                Owner::Body => break,
                Owner::Plain(inst)
                | Owner::Thread(inst)
                | Owner::For(inst, ..)
                | Owner::ForEach(inst, _) => inst,
            };
            if f.insts[inst].op.label() == Some(label) {
                return Ok(());
            }
            self.stacks.running.pop();
        }
        Err(self.error(NOT_RUNNABLE, format!("{label} is not around this"), span))
    }

    /// Runs the innermost region again, with the values in `moving` as its carried values.
    fn next_iteration(&mut self) -> Result<()> {
        let f = self.func();
        let Some(running) = self.stacks.running.last_mut() else {
            return Ok(());
        };
        running.at = 0;
        let region = running.region;
        match &mut running.owner {
            Owner::Body => {}
            Owner::Thread(_) => {
                self.stacks.running.pop();
            }
            Owner::Plain(_) => self.scatter(&f.regions[region].params),
            Owner::For(inst, counter) => {
                counter.turn += 1;
                if counter.turn == counter.turns {
                    let inst = *inst;
                    self.stacks.running.pop();
                    self.give_results(inst);
                } else {
                    let (inst, index) = (*inst, counter.index());
                    self.start_turn(inst, region, index);
                }
            }
            Owner::ForEach(_, visit) => {
                visit.turn += 1;
                self.visit_point();
            }
        }
        Ok(())
    }

    fn start_for(&mut self, inst: Inst, kind: ForKind) -> Result<()> {
        let f = self.func();
        let data = &f.insts[inst];
        let int = |v: Value| self.scalar(v).as_int().unwrap_or(0);
        let (lo, hi, step) = (int(data.args[0]), int(data.args[1]), int(data.args[2]));
        let distance = if step < 0 { lo - hi } else { hi - lo };
        let turns = if step == 0 || distance <= 0 {
            0
        } else {
            ((distance - 1) / step.abs() + 1) as u64
        };
        let carried = &data.args[3..];
        self.gather(carried);
        if turns == 0 {
            self.give_results(inst);
            return Ok(());
        }
        let shuffled = kind == ForKind::Parallel && carried.is_empty();
        let order = self.order(turns, !shuffled);
        let counter = Counter {
            lo,
            step,
            turn: 0,
            turns,
            order,
        };
        let (region, index) = (data.regions[0], counter.index());
        self.run_region(region, Owner::For(inst, counter));
        self.start_turn(inst, region, index);
        Ok(())
    }

    fn start_turn(&mut self, inst: Inst, region: Region, index: i128) {
        let f = self.func();
        // Parallel loops of called functions are parts of an iteration.
        let outermost = self.stacks.frames.len() == 1;
        if let Op::For(_, ForKind::Parallel) = f.insts[inst].op
            && outermost
        {
            self.watch_next_iteration();
        }
        let params = &f.regions[region].params;
        self.scatter(&params[1..]);
        self.set_int(params[0], index);
    }

    fn start_foreach(&mut self, inst: Inst, domain: &Domain, hints: LoopHints) -> Result<()> {
        let f = self.func();
        let data = &f.insts[inst];
        let points = match domain {
            Domain::Range { .. } => {
                let int = |v: Value| self.scalar(v).as_int().unwrap_or(0);
                let ranges = data.args.chunks(2).map(|pair| {
                    let (lo, hi) = (int(pair[0]), int(pair[1]));
                    (lo, (hi - lo).max(0) as u64)
                });
                Points::Box(ranges.collect())
            }
            Domain::Field(field) => self.cells_of(*field, f.spans[inst])?,
        };
        let turns = self.turns(&points, f.spans[inst])?;
        let m = self.machine.module;
        if hints.cooperative || m.among_threads(self.func_id(), data.regions[0]).is_some() {
            self.start_parallel_scope();
            self.foreach_together(inst, &points, hints, turns)?;
            self.start_serial_scope();
            return Ok(());
        }
        let order = self.order(turns, hints.serial);
        let base = self.stacks.frames[self.stacks.frames.len() - 1].locals;
        let locals = self
            .stored_locals(data.regions[0])
            .into_iter()
            .map(|l| {
                let local = &self.machine.prepared.funcs[self.func_id()].locals[l];
                let start = base + local.start;
                let range = start..start + local.scalars();
                let before = self.stacks.locals[range.clone()].to_vec();
                (range, before)
            })
            .collect();
        // Below control flow, loops belong to the serial code around them.
        let belongs = self.stacks.running.len() > 1 || hints.uncounted;
        let around = belongs.then(|| std::mem::take(&mut self.scope));
        match &around {
            None => self.start_parallel_scope(),
            Some(around) => self.start_scope(around.task),
        }
        self.watch(hints.serial);
        let visit = Visit {
            around,
            points,
            turn: 0,
            turns,
            order,
            locals,
        };
        self.run_region(data.regions[0], Owner::ForEach(inst, Box::new(visit)));
        self.visit_point();
        Ok(())
    }

    /// The stacks of a thread that runs the body of a `foreach`.
    pub(super) fn thread_of(&self, inst: Inst) -> Stacks {
        let region = self.func().insts[inst].regions[0];
        Stacks {
            frames: self.stacks.frames.clone(),
            running: vec![Running {
                region,
                at: 0,
                owner: Owner::Thread(inst),
            }],
            values: self.stacks.values.clone(),
            locals: self.stacks.locals.clone(),
            depth: self.stacks.depth,
            moving: Vec::new(),
        }
    }

    /// Locals that a region or a nested one stores to.
    fn stored_locals(&self, region: Region) -> Vec<Local> {
        let f = self.func();
        let written = |inst: Inst| match f.insts[inst].op.written_access()?.place {
            Place::Local(local) => Some(local),
            Place::Field(_) | Place::Array(_) | Place::Temp(_) => None,
        };
        let mut stored: Vec<Local> = f.insts_in(region).filter_map(written).collect();
        stored.sort_unstable();
        stored.dedup();
        stored
    }

    /// Starts the next iteration of a `foreach`, or ends the loop.
    fn visit_point(&mut self) {
        self.watch_next_iteration();
        let f = self.func();
        let Some(Running {
            region,
            owner: Owner::ForEach(_, visit),
            ..
        }) = self.stacks.running.last()
        else {
            return;
        };
        for (range, before) in &visit.locals {
            self.stacks.locals[range.clone()].copy_from_slice(before);
        }
        if visit.turn == visit.turns {
            self.end_foreach();
            return;
        }
        let (number, coords) = visit.points.at(visit.order.at(visit.turn));
        self.scope.iteration = Some(number);
        self.scope.draws = 0;
        for (param, c) in f.regions[*region].params.iter().zip(coords) {
            self.set_int(*param, c);
        }
    }

    fn end_foreach(&mut self) {
        let ended = self.stacks.running.pop().map(|r| r.owner);
        let around = match ended {
            Some(Owner::ForEach(_, visit)) => visit.around,
            _ => None,
        };
        match around {
            Some(around) => {
                self.races = None;
                self.scope = around;
            }
            None => self.start_serial_scope(),
        }
    }

    /// Whether the current instruction is directly in the body of a parallel loop, so that every iteration runs it once.
    pub(super) fn is_in_body_of_iteration(&self) -> bool {
        match self.stacks.running.last().map(|r| &r.owner) {
            Some(Owner::ForEach(..) | Owner::Thread(_)) => true,
            Some(Owner::Body) => self.stacks.frames.len() == 1,
            Some(Owner::Plain(_) | Owner::For(..)) | None => false,
        }
    }

    /// Ends the current iteration. `false` if the whole call is one iteration.
    fn end_iteration(&mut self) -> Result<bool> {
        if self.scope.iteration.is_none() {
            let why = "checks of a task of chunks have to be lowered";
            return Err(self.error(NOT_RUNNABLE, why, Span::UNKNOWN));
        }
        // A `foreach` is directly in the kernel's body.
        let foreach = |r: &Running| matches!(r.owner, Owner::ForEach(..));
        let Some(at) = self.stacks.running.iter().position(foreach) else {
            return Ok(false);
        };
        while self.stacks.frames.len() > 1 {
            self.pop_frame();
        }
        self.stacks.running.truncate(at + 1);
        self.tick()?;
        self.next_iteration()?;
        Ok(true)
    }

    fn pop_frame(&mut self) -> Option<Frame> {
        let frame = self.stacks.frames.pop()?;
        self.stacks.values.truncate(frame.values);
        self.stacks.locals.truncate(frame.locals);
        if self.machine.prepared.funcs[frame.func].recursive {
            self.stacks.depth -= 1;
        }
        Some(frame)
    }

    /// Passes the results in `moving` to the caller; returns them if there is none.
    fn leave_function(&mut self) -> Option<Vec<Imm>> {
        while let Some(running) = self.stacks.running.pop() {
            if let Owner::Body = running.owner {
                break;
            }
        }
        let frame = self.pop_frame();
        match frame.and_then(|f| f.call) {
            Some(call) => {
                self.give_results(call);
                None
            }
            None => Some(std::mem::take(&mut self.stacks.moving)),
        }
    }

    /// Stores `moving` into the results of an instruction.
    fn give_results(&mut self, inst: Inst) {
        let f = self.func();
        self.scatter(&f.insts[inst].results);
    }

    /// Loads values into `moving`, so that a parallel assignment is possible.
    fn gather(&mut self, values: &[Value]) {
        let mut moving = std::mem::take(&mut self.stacks.moving);
        moving.clear();
        for value in values {
            moving.extend_from_slice(self.value(*value));
        }
        self.stacks.moving = moving;
    }

    /// Stores `moving` into values.
    fn scatter(&mut self, values: &[Value]) {
        let moving = std::mem::take(&mut self.stacks.moving);
        let mut at = 0;
        for value in values {
            let n = self.run_of(*value).len();
            self.set(*value, &moving[at..at + n]);
            at += n;
        }
        self.stacks.moving = moving;
    }

    pub(super) fn order(&mut self, turns: u64, in_order: bool) -> Permutation {
        match &mut self.dice {
            Some(dice) if !in_order => Permutation::random(turns, dice),
            _ => Permutation::Identity,
        }
    }
}
