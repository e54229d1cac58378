//! Thread blocks: each thread runs until it ends or waits at a cooperative instruction, and resumes when the
//! others have reached it.

use super::Memory;
use super::control::{End, Next, Stacks};
use super::error::{NOT_RUNNABLE, TOO_LARGE};
use super::launch::Launch;
use super::points::Points;
use crate::Result;
use crate::entities::{Func, Inst};
use crate::eval;
use crate::module::Span;
use crate::ops::{BinOp, LoopHints, Op, Party, Shuffle, ThreadOp, WARP};
use crate::types::{Imm, Scalar};

/// The most blocks of a GPU grid.
const MOST_BLOCKS: u64 = i32::MAX as u64;

/// A running thread block.
#[derive(Debug)]
pub(super) struct Block {
    /// The running thread.
    thread: u32,
    threads: u32,
    number: u64,
    blocks: u64,
    /// Shared memory, at the offsets of the locals of the task's function.
    shared: Vec<Imm>,
}

/// A suspended thread.
struct Thread {
    number: u32,
    stacks: Stacks,
    iteration: Option<u64>,
    draws: u64,
    state: State,
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum State {
    Runs,
    Waits(Func, Inst),
    Ended,
}

impl Launch<'_, '_> {
    pub(super) fn read_shared(&self, at: usize) -> Imm {
        let shared = self.block.as_ref().and_then(|b| b.shared.get(at));
        shared.copied().unwrap_or(Imm::zero(Scalar::Bool))
    }

    pub(super) fn write_shared(&mut self, at: usize, value: Imm) {
        if let Some(slot) = self.block.as_mut().and_then(|b| b.shared.get_mut(at)) {
            *slot = value;
        }
    }

    /// Queries return immediately; for other operations the thread waits. Outside of a block, a thread is
    /// alone.
    pub(super) fn thread_op(&mut self, inst: Inst, op: ThreadOp) -> Result<Next> {
        let (thread, threads, number, blocks) = match &self.block {
            Some(b) => (b.thread, b.threads, b.number, b.blocks),
            None => (0, 1, 0, 1),
        };
        let known = match op {
            ThreadOp::Index => i128::from(thread),
            ThreadOp::BlockSize => i128::from(threads),
            ThreadOp::Block => i128::from(number),
            ThreadOp::Blocks => i128::from(blocks),
            ThreadOp::Lane => i128::from(thread % WARP),
            // Threads run one after the other here.
            ThreadOp::ActiveMask => i128::from(1u32 << (thread % WARP)),
            ThreadOp::BlockFence | ThreadOp::GridFence => return Ok(Next::On),
            ThreadOp::Barrier
            | ThreadOp::BarrierAll
            | ThreadOp::BarrierAny
            | ThreadOp::BarrierCount
            | ThreadOp::Ballot
            | ThreadOp::MatchAny
            | ThreadOp::Shuffle(_)
            | ThreadOp::Segment
            | ThreadOp::SegmentSum
            | ThreadOp::WarpBarrier => {
                if self.block.is_some() {
                    return Ok(Next::Wait(inst));
                }
                let args = self.arguments(inst);
                if let Some(result) = self.func().insts[inst].results.first().copied() {
                    let scalar = meet(op, &[(0, args)], 0);
                    self.set_scalar(result, scalar);
                }
                return Ok(Next::On);
            }
        };
        let result = self.func().insts[inst].results[0];
        self.set_int(result, known);
        Ok(Next::On)
    }

    /// The scalar arguments of an instruction.
    fn arguments(&self, inst: Inst) -> Vec<Imm> {
        let args = &self.func().insts[inst].args;
        args.iter().map(|a| self.scalar(*a)).collect()
    }

    /// Runs the iterations of a `foreach` in thread blocks.
    pub(super) fn foreach_together(
        &mut self,
        inst: Inst,
        points: &Points,
        hints: LoopHints,
        turns: u64,
    ) -> Result<()> {
        let f = self.func();
        let region = f.insts[inst].regions[0];
        let func = self.func_id();
        let hints = LoopHints {
            cooperative: true,
            ..hints
        };
        self.blocks(func, hints, turns, |launch, turn| {
            if turn >= turns {
                return Ok(None);
            }
            let (number, coords) = points.at(turn);
            let before = launch.thread_of(inst);
            let own = std::mem::replace(&mut launch.stacks, before);
            for (param, c) in f.regions[region].params.iter().zip(coords) {
                launch.set_int(*param, c);
            }
            let thread = std::mem::replace(&mut launch.stacks, own);
            Ok(Some((thread, Some(number))))
        })
    }

    /// The same for a task whose function is one iteration.
    pub(super) fn points_together(
        &mut self,
        func: Func,
        points: &Points,
        hints: LoopHints,
        turns: u64,
        types: &[Scalar],
    ) -> Result<bool> {
        self.blocks(func, hints, turns, |launch, turn| {
            if turn >= turns {
                return Ok(None);
            }
            let (number, coords) = points.at(turn);
            let args = launch.arguments_at(&coords, types);
            Ok(Some((launch.called(func, &args)?, Some(number))))
        })?;
        Ok(true)
    }

    /// The same for a task of chunks. Threads beyond the last unit take part in the code before the loop.
    pub(super) fn units_together(
        &mut self,
        func: Func,
        units: u64,
        hints: LoopHints,
    ) -> Result<bool> {
        self.blocks(func, hints, units, |launch, unit| {
            let mut args = launch.params.clone();
            let last = (unit + 1).min(units);
            args.push(Imm::int(Scalar::I64, i128::from(unit.min(last))));
            args.push(Imm::int(Scalar::I64, i128::from(last)));
            Ok(Some((launch.called(func, &args)?, None)))
        })?;
        Ok(true)
    }

    fn called(&mut self, func: Func, args: &[Imm]) -> Result<Stacks> {
        let own = std::mem::take(&mut self.stacks);
        let started = self.start_call(func, args);
        let thread = std::mem::replace(&mut self.stacks, own);
        started.map(|_| thread)
    }

    /// Runs enough blocks for all turns. `start` returns the stacks and the iteration of a thread.
    fn blocks(
        &mut self,
        func: Func,
        hints: LoopHints,
        turns: u64,
        mut start: impl FnMut(&mut Self, u64) -> Result<Option<(Stacks, Option<u64>)>>,
    ) -> Result<()> {
        let threads = hints.threads();
        let blocks = turns.div_ceil(u64::from(threads));
        if blocks > MOST_BLOCKS {
            let why = "there are too many blocks of threads";
            return Err(self.error(TOO_LARGE, why, Span::UNKNOWN));
        }
        self.races = None;
        let order = self.order(blocks, false);
        for k in 0..blocks {
            let number = order.at(k);
            let mut all = Vec::new();
            for thread in 0..threads {
                let turn = number * u64::from(threads) + u64::from(thread);
                let Some((stacks, iteration)) = start(self, turn)? else {
                    continue;
                };
                all.push(Thread {
                    number: thread,
                    stacks,
                    iteration,
                    draws: 0,
                    state: State::Runs,
                });
            }
            let mut shared = self.machine.prepared.funcs[func].zeros.clone();
            if let Memory::Lowered { .. } = self.machine.memory {
                // Lowered code clears shared memory explicitly, so it starts with garbage.
                for scalar in &mut shared {
                    *scalar = Imm::from_bits(scalar.ty, 0x5a5a_5a5a_5a5a_5a5a);
                }
            }
            let outer = self.block.replace(Block {
                thread: 0,
                threads,
                number,
                blocks,
                shared,
            });
            let ran = self.run_block(&mut all);
            self.block = outer;
            ran?;
        }
        Ok(())
    }

    fn run_block(&mut self, threads: &mut [Thread]) -> Result<()> {
        loop {
            let order = self.order(threads.len() as u64, false);
            for k in 0..threads.len() as u64 {
                let thread = &mut threads[order.at(k) as usize];
                if thread.state == State::Runs {
                    self.run_thread(thread)?;
                }
            }
            let mut met = false;
            for lanes in threads.chunk_by_mut(|a, b| a.number / WARP == b.number / WARP) {
                met |= self.meet(lanes, Party::Warp);
            }
            met = met || self.meet(threads, Party::Block);
            if met {
                continue;
            }
            if threads.iter().all(|t| t.state == State::Ended) {
                return Ok(());
            }
            let why = "threads of a block wait at different places";
            return Err(self.error(NOT_RUNNABLE, why, Span::UNKNOWN));
        }
    }

    /// Executes a cooperative instruction if all threads of the party have reached it. `false` if some are
    /// missing.
    fn meet(&mut self, threads: &mut [Thread], party: Party) -> bool {
        let mut at = None;
        for thread in threads.iter() {
            match (thread.state, at) {
                (State::Ended, _) => {}
                (State::Runs, _) => return false,
                (state, None) => at = Some(state),
                (state, Some(other)) if state == other => {}
                (State::Waits(..), Some(_)) => return false,
            }
        }
        let Some(State::Waits(func, inst)) = at else {
            return false;
        };
        let data = &self.machine.module.funcs[func].insts[inst];
        let Op::Thread(op) = data.op else {
            return false;
        };
        if op.party() != party {
            return false;
        }
        let mut given = Vec::new();
        for thread in threads.iter_mut().filter(|t| t.state != State::Ended) {
            std::mem::swap(&mut self.stacks, &mut thread.stacks);
            given.push((thread.number, self.arguments(inst)));
            std::mem::swap(&mut self.stacks, &mut thread.stacks);
        }
        let waiting = threads.iter_mut().filter(|t| t.state != State::Ended);
        for (k, thread) in waiting.enumerate() {
            if let Some(result) = data.results.first() {
                std::mem::swap(&mut self.stacks, &mut thread.stacks);
                self.set_scalar(*result, meet(op, &given, k));
                std::mem::swap(&mut self.stacks, &mut thread.stacks);
            }
            thread.state = State::Runs;
        }
        true
    }

    fn run_thread(&mut self, thread: &mut Thread) -> Result<()> {
        if let Some(block) = &mut self.block {
            block.thread = thread.number;
        }
        std::mem::swap(&mut self.stacks, &mut thread.stacks);
        self.scope.iteration = thread.iteration;
        self.scope.draws = thread.draws;
        let end = self.resume();
        thread.state = match end {
            Ok(End::Waits(inst)) => State::Waits(self.func_id(), inst),
            _ => State::Ended,
        };
        thread.draws = self.scope.draws;
        std::mem::swap(&mut self.stacks, &mut thread.stacks);
        end.map(|_| ())
    }
}

/// The neighbouring threads around one of them that have the same first argument.
fn segment(all: &[(u32, Vec<Imm>)], own: usize) -> &[(u32, Vec<Imm>)] {
    let mut before = 0;
    let same =
        |a: &(u32, Vec<Imm>), b: &(u32, Vec<Imm>)| b.0 == a.0 + 1 && a.1[0].bits() == b.1[0].bits();
    let mut segments = all.chunk_by(same);
    let found = segments.find(|s| {
        before += s.len();
        own < before
    });
    found.unwrap_or_default()
}

/// The result of a cooperative instruction for one thread; `all` has the thread numbers and arguments.
fn meet(op: ThreadOp, all: &[(u32, Vec<Imm>)], own: usize) -> Imm {
    let holds = |(_, args): &&(u32, Vec<Imm>)| args.first().is_some_and(|a| a.bits() != 0);
    let lanes = |those: &mut dyn Iterator<Item = u32>| {
        let mask = those.fold(0u32, |mask, number| mask | 1 << (number % WARP));
        Imm::from_bits(Scalar::U32, u64::from(mask))
    };
    let (number, args) = &all[own];
    match op {
        ThreadOp::BarrierAll => Imm::bool(all.iter().all(|t| holds(&t))),
        ThreadOp::BarrierAny => Imm::bool(all.iter().any(|t| holds(&t))),
        ThreadOp::BarrierCount => {
            let count = all.iter().filter(holds).count();
            Imm::int(Scalar::I32, count as i128)
        }
        ThreadOp::Ballot => lanes(&mut all.iter().filter(holds).map(|t| t.0)),
        ThreadOp::MatchAny => {
            let same = |t: &&(u32, Vec<Imm>)| t.1[0].bits() == args[0].bits();
            lanes(&mut all.iter().filter(same).map(|t| t.0))
        }
        ThreadOp::Shuffle(kind) => {
            let lane = i128::from(number % WARP);
            let by = args[1].as_int().unwrap_or(0);
            let warp = i128::from(WARP);
            let from = match kind {
                Shuffle::From => by.rem_euclid(warp),
                Shuffle::Xor => (lane ^ by).rem_euclid(warp),
                // Distances are modulo 32, as on the hardware.
                Shuffle::Up => lane - by.rem_euclid(warp),
                Shuffle::Down => lane + by.rem_euclid(warp),
            };
            if !(0..warp).contains(&from) {
                return args[0];
            }
            let found = all.iter().find(|t| i128::from(t.0 % WARP) == from);
            // The value of an exited lane is undefined.
            found.map_or(Imm::zero(args[0].ty), |t| t.1[0])
        }
        ThreadOp::Segment => lanes(&mut segment(all, own).iter().map(|t| t.0)),
        ThreadOp::SegmentSum => {
            let inside = |t: &&(u32, Vec<Imm>)| args[0].bits() >> (t.0 % WARP) & 1 == 1;
            let above = all[own..].iter().skip(1).filter(inside);
            above.fold(args[1], |sum, t| {
                eval::binary(BinOp::Add, sum, t.1[1]).unwrap_or(sum)
            })
        }
        ThreadOp::Index
        | ThreadOp::BlockSize
        | ThreadOp::Block
        | ThreadOp::Blocks
        | ThreadOp::Lane
        | ThreadOp::ActiveMask
        | ThreadOp::Barrier
        | ThreadOp::WarpBarrier
        | ThreadOp::BlockFence
        | ThreadOp::GridFence => Imm::zero(Scalar::Bool),
    }
}
