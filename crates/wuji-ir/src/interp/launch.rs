//! A run of a kernel: its tasks, their iterations, and their reports.

use super::control::{End, Stacks};
use super::error::{BAD_LAUNCH, NOT_RUNNABLE, stop};
use super::order::{Dice, Order};
use super::points::Points;
use super::prepare::{Run, zero};
use super::races::Races;
use super::{Machine, Memory, Outcome, Printed, Report};
use crate::Result;
use crate::entities::{Func, Inst, Message, Node, Temp, Tree, Value};
use crate::message::format_message;
use crate::module::{
    Bound, BoundBase, Copies, Function, RangeDim, Repeat, SiteKind, Span, Task, TaskKind,
};
use crate::ops::LoopHints;
use crate::random;
use crate::types::{Imm, Scalar};
use rustc_hash::FxHashMap;

/// The current position, for random numbers and reports.
#[derive(Debug, Default)]
pub(super) struct Scope {
    pub(super) task: u32,
    pub(super) key: u64,
    /// `None` in a task of chunks, which counts iterations itself.
    pub(super) iteration: Option<u64>,
    pub(super) draws: u64,
    /// An assertion failed, or the recursion limit was exceeded.
    pub(super) failed: bool,
    /// The iteration that has each value of a `unique` hint.
    pub(super) unique: FxHashMap<(Inst, i128), u64>,
}

#[derive(Debug)]
pub(super) struct Launch<'r, 'm> {
    pub(super) machine: &'r mut Machine<'m>,
    pub(super) stacks: Stacks,
    pub(super) scope: Scope,
    /// The last serial task that has drawn, and how many draws were made up to its end.
    drawn: (u32, u64),
    pub(super) outcome: Outcome,
    /// `None` for serial order.
    pub(super) dice: Option<Dice>,
    /// Checks the current parallel task for races.
    pub(super) races: Option<Races>,
    /// The running worker: 0, or 1, which has private copies.
    pub(super) worker: u8,
    /// The running thread block, if any.
    pub(super) block: Option<super::threads::Block>,
    pub(super) params: Vec<Imm>,
}

pub(super) fn run(machine: &mut Machine<'_>, params: &[Imm]) -> Result<Outcome> {
    let m = machine.module;
    let expected: Vec<Scalar> = m
        .params
        .iter()
        .flat_map(|p| m.structs.flatten(p.ty))
        .collect();
    if !expected.iter().eq(params.iter().map(|p| &p.ty)) {
        return Err(stop(
            BAD_LAUNCH,
            format!("the kernel takes {expected:?}, found {params:?}"),
        ));
    }
    machine.arrays.check_aliases(m)?;
    match &mut machine.memory {
        Memory::Abstract { temps, .. } => {
            *temps = m.temps.values().map(|t| zero(m, t.ty)).collect();
        }
        Memory::Lowered { temps, .. } => *temps = super::Bytes::new(m.temp_offsets().1),
    }
    let dice = match machine.config.order {
        Order::Serial => None,
        Order::Shuffled(seed) => Some(Dice::new(seed)),
    };
    let mut launch = Launch {
        machine,
        stacks: Stacks::default(),
        scope: Scope::default(),
        drawn: (0, 0),
        outcome: Outcome::default(),
        dice,
        races: None,
        worker: 0,
        block: None,
        params: params.to_vec(),
    };
    launch.kernel()?;
    let mut outcome = launch.outcome;
    // Stable, so that lines of one iteration stay in program order.
    outcome.printed.sort_by_key(|p| (p.task, p.iteration));
    Ok(outcome)
}

impl<'m> Launch<'_, 'm> {
    fn kernel(&mut self) -> Result<()> {
        let m = self.machine.module;
        if let Some(kernel) = m.kernel {
            self.start_scope(0);
            self.scope.iteration = Some(0);
            let params = self.params.clone();
            if let End::Returned(values) = self.call(kernel, &params)?
                && !m.funcs[kernel].results.is_empty()
            {
                self.outcome.result = Some(values);
            }
            return Ok(());
        }
        let mut at = 0;
        while let Some(task) = m.tasks.get(at) {
            if !self.task(task)? {
                return Ok(());
            }
            at = match task.flow.repeat {
                Some(repeat) if self.repeats(task, repeat) => {
                    self.tick()?;
                    m.first_of_step(repeat.from)
                }
                _ => at + 1,
            };
        }
        if let Some(temp) = m.result {
            self.outcome.result = Some(self.read_temp(temp));
        }
        Ok(())
    }

    fn repeats(&self, task: &Task, repeat: Repeat) -> bool {
        let next = self.read_temp(repeat.temp).first().copied();
        let next = next.and_then(Imm::as_int);
        next.is_some_and(|next| next <= i128::from(task.flow.step))
    }

    /// Runs one task. `false` if it ended the kernel.
    fn task(&mut self, task: &Task) -> Result<bool> {
        if let Some((tree, node)) = task.lists {
            return self.list_task(task, tree, node);
        }
        match task.copies {
            Copies::None | Copies::Uses { .. } => self.run_task(task),
            // The copy of worker 0 is the tree.
            Copies::Fills(_) | Copies::Merges(_) => {
                self.worker = 1;
                let continues = self.run_task(task);
                self.worker = 0;
                continues
            }
        }
    }

    /// Runs a task that generates a list, unless the list is up to date.
    fn list_task(&mut self, task: &Task, tree: Tree, node: Node) -> Result<bool> {
        let data = &self.machine.module.trees[tree];
        let Memory::Lowered { trees, .. } = &mut self.machine.memory else {
            let why = "lists are made in lowered memory only";
            return Err(self.error(NOT_RUNNABLE, why, task.span));
        };
        if !trees[tree].start_list(data, node) {
            return Ok(true);
        }
        let continues = self.run_task(task)?;
        if let Memory::Lowered { trees, .. } = &mut self.machine.memory {
            trees[tree].end_list(data, node);
        }
        Ok(continues)
    }

    fn run_task(&mut self, task: &Task) -> Result<bool> {
        self.start_scope(task.ordinal);
        match &task.kind {
            TaskKind::Serial => {
                self.scope.iteration = Some(0);
                // Tasks of one stretch of serial code continue its draws.
                if self.drawn.0 == task.ordinal {
                    self.scope.draws = self.drawn.1;
                }
                let params = self.params.clone();
                let end = self.call(task.func, &params)?;
                if self.scope.draws > 0 {
                    self.drawn = (task.ordinal, self.scope.draws);
                }
                // Lowered code reports the failure and returns.
                Ok(matches!(end, End::Returned(_)) && !self.scope.failed)
            }
            TaskKind::Range { dims, hints } => {
                let points = self.ranges(dims)?;
                self.points(task.func, &points, *hints, task.span)
            }
            TaskKind::Cells { field, hints } => {
                let points = self.cells_of(*field, task.span)?;
                self.points(task.func, &points, *hints, task.span)
            }
            TaskKind::Chunks { dims, hints, .. } => {
                let points = self.ranges(dims)?;
                let copies = matches!(task.copies, Copies::Uses { .. });
                self.chunks(task.func, &points, *hints, copies, task.span)
            }
        }
    }

    fn points(
        &mut self,
        func: Func,
        points: &Points,
        hints: LoopHints,
        span: Span,
    ) -> Result<bool> {
        let turns = self.turns(points, span)?;
        let types = self.param_types(func);
        if hints.cooperative {
            return self.points_together(func, points, hints, turns, &types);
        }
        let order = self.order(turns, hints.serial);
        self.watch(hints.serial);
        for turn in 0..turns {
            self.watch_next_iteration();
            let (number, coords) = points.at(order.at(turn));
            self.scope.iteration = Some(number);
            self.scope.draws = 0;
            let args = self.arguments_at(&coords, &types);
            self.call(func, &args)?;
            self.tick()?;
        }
        Ok(true)
    }

    fn chunks(
        &mut self,
        func: Func,
        points: &Points,
        hints: LoopHints,
        copies: bool,
        span: Span,
    ) -> Result<bool> {
        let units = self.turns(points, span)?;
        if hints.cooperative {
            return self.units_together(func, units, hints);
        }
        let two = copies && !hints.serial;
        let chunks = match &mut self.dice {
            _ if units == 0 => Vec::new(),
            None if two && units > 1 => vec![(0, units / 2), (units / 2, units)],
            None => vec![(0, units)],
            Some(dice) => dice.chunks(units, hints.serial),
        };
        self.scope.iteration = None;
        self.watch(hints.serial);
        for (k, (begin, end)) in chunks.into_iter().enumerate() {
            self.watch_next_iteration();
            let mut args = self.params.clone();
            args.push(Imm::int(Scalar::I64, i128::from(begin)));
            args.push(Imm::int(Scalar::I64, i128::from(end)));
            if two {
                self.worker = (k % 2) as u8;
            }
            let ended = self.call(func, &args);
            if two {
                self.worker = 0;
            }
            ended?;
        }
        Ok(true)
    }

    /// The arguments of an iteration of a task: the kernel's parameters and the indices.
    pub(super) fn arguments_at(&self, coords: &[i128], types: &[Scalar]) -> Vec<Imm> {
        let mut args = self.params.clone();
        for (k, c) in coords.iter().enumerate() {
            let ty = types.get(self.params.len() + k).copied();
            args.push(Imm::int(ty.unwrap_or(Scalar::I64), *c));
        }
        args
    }

    fn param_types(&self, func: Func) -> Vec<Scalar> {
        let m = self.machine.module;
        let f = &m.funcs[func];
        f.params()
            .iter()
            .flat_map(|p| m.structs.flatten(f.ty(*p)))
            .collect()
    }

    fn ranges(&self, dims: &[RangeDim]) -> Result<Points> {
        let axes = dims.iter().map(|d| self.range(d));
        Ok(Points::Box(axes.collect::<Result<_>>()?))
    }

    /// Lower bound and extent.
    fn range(&self, dim: &RangeDim) -> Result<(i128, u64)> {
        let (lo, hi) = (self.bound(dim.lo)?, self.bound(dim.hi)?);
        Ok((lo, dim.count(lo, hi) as u64))
    }

    fn bound(&self, bound: Bound) -> Result<i128> {
        let m = self.machine.module;
        let value = match bound {
            Bound::Const(c) => return Ok(i128::from(c)),
            Bound::Param(k) => {
                let slot = m.param_slots().get(k as usize).copied();
                slot.and_then(|s| self.params.get(s)).copied()
            }
            Bound::Sum { base, plus, scalar } => {
                let base = match base {
                    BoundBase::Param(k) => self.bound(Bound::Param(k))?,
                    BoundBase::Extent(a, axis) => {
                        self.machine.arrays.get(a).view.extents[usize::from(axis)].into()
                    }
                };
                return Ok(Bound::sum(base, plus, scalar));
            }
            Bound::Temp(t) => self.read_temp(t).first().copied(),
            Bound::List(tree, node) => self.listed(tree, node),
        };
        value
            .and_then(Imm::as_int)
            .ok_or_else(|| stop(NOT_RUNNABLE, "the bound of a task is not an integer"))
    }

    /// The number of entries of a node's list of active cells.
    fn listed(&self, tree: Tree, node: Node) -> Option<Imm> {
        match &self.machine.memory {
            Memory::Lowered { trees, .. } => Some(trees[tree].listed(node)),
            Memory::Abstract { .. } => None,
        }
    }

    fn read_temp(&self, temp: Temp) -> Vec<Imm> {
        let m = self.machine.module;
        match &self.machine.memory {
            Memory::Abstract { temps, .. } => temps[temp.0 as usize].clone(),
            Memory::Lowered { temps, .. } => {
                let start = m.temp_offsets().0[temp.0 as usize];
                m.structs
                    .scalar_offsets(m.temps[temp].ty)
                    .into_iter()
                    .map(|(ty, offset)| temps.read(start + offset, ty))
                    .collect()
            }
        }
    }

    pub(super) fn start_scope(&mut self, task: u32) {
        self.races = None;
        let config = &self.machine.config;
        self.scope = Scope {
            task,
            key: random::task_key(config.seed, config.launch, u64::from(task)),
            ..Scope::default()
        };
    }

    /// Begins a `foreach` of a kernel that is not split into tasks.
    pub(super) fn start_parallel_scope(&mut self) {
        self.start_scope(self.scope.task + 1);
    }

    /// Begins the serial code after a `foreach`.
    pub(super) fn start_serial_scope(&mut self) {
        self.start_scope(self.scope.task + 1);
        self.scope.iteration = Some(0);
    }

    pub(super) fn report(&mut self, kind: SiteKind, span: Span, values: Vec<Imm>) {
        if let SiteKind::Assert(_) | SiteKind::TooDeep(_) = kind {
            self.scope.failed = true;
        }
        self.outcome.reports.push(Report {
            kind,
            span,
            task: self.scope.task,
            iteration: self.scope.iteration,
            values,
        });
    }

    pub(super) fn print(&mut self, message: Message, iteration: u64, values: &[Imm]) {
        let m = self.machine.module;
        self.outcome.printed.push(Printed {
            task: self.scope.task,
            iteration,
            text: format_message(&m.structs, &m.messages[message], values),
        });
    }

    pub(super) fn func_id(&self) -> Func {
        self.stacks.frames[self.stacks.frames.len() - 1].func
    }

    /// The function that is running.
    pub(super) fn func(&self) -> &'m Function {
        let m = self.machine.module;
        &m.funcs[self.func_id()]
    }

    /// The range of a value of the running function on the stack.
    pub(super) fn run_of(&self, value: Value) -> std::ops::Range<usize> {
        let frame = &self.stacks.frames[self.stacks.frames.len() - 1];
        let Run { start, len } = self.machine.prepared.funcs[frame.func].values[value];
        frame.values + start..frame.values + start + len
    }

    /// The scalars of a value.
    pub(super) fn value(&self, value: Value) -> &[Imm] {
        &self.stacks.values[self.run_of(value)]
    }

    /// The scalar of a scalar value.
    pub(super) fn scalar(&self, value: Value) -> Imm {
        self.stacks.values[self.run_of(value).start]
    }

    pub(super) fn set(&mut self, value: Value, scalars: &[Imm]) {
        let run = self.run_of(value);
        self.stacks.values[run].copy_from_slice(scalars);
    }

    pub(super) fn set_scalar(&mut self, value: Value, scalar: Imm) {
        let at = self.run_of(value).start;
        self.stacks.values[at] = scalar;
    }

    /// Sets an integer value, wrapped to its type.
    pub(super) fn set_int(&mut self, value: Value, int: i128) {
        let ty = self.func().ty(value).as_scalar().unwrap_or(Scalar::I64);
        self.set_scalar(value, Imm::int(ty, int));
    }
}
