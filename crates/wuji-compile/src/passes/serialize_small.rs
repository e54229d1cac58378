//! Serializes tasks that are faster, or only deterministic, on one thread; their updates need no atomics.
//!
//! In deterministic worlds these are the tasks that still update floats in shared memory: on one thread the updates
//! are applied in iteration order. In other worlds they are the tasks where atomics cost more than the other
//! threads gain: an atomic takes as long as about [`ATOMIC`] plain instructions, for any number of threads.

use crate::options::Target;
use crate::passes::Cx;
use wuji_ir::Result;
use wuji_ir::entities::{Func, Region};
use wuji_ir::module::{Function, InstData, Module, TaskKind};
use wuji_ir::ops::{AlgebraOp, AtomicOp, ControlOp, ForKind, Op, Sharing, Space};

use crate::analysis::cost::likely_trips;

/// The cost of an atomic in instructions: some 25 cycles without overlap.
const ATOMIC: u64 = 80;
/// The cost of a plain update in instructions.
const PLAIN: u64 = 3;
/// The assumed trip count of a loop with unknown bounds, and the number of calls of recursive functions: rather too
/// many, so that all threads run it.
const UNKNOWN: u64 = 32;
const CALL: u64 = 1000;

/// The pass; the [module](self) describes it.
pub fn serialize_small(m: &mut Module, cx: &mut Cx) -> Result<()> {
    let (deterministic, threads) = (cx.options.deterministic, u64::from(cx.options.threads));
    if cx.options.target == Target::Cuda {
        return Ok(());
    }
    for t in 0..m.tasks.len() {
        let func = m.tasks[t].func;
        let alone = if deterministic {
            updates_floats(m, func)
        } else {
            threads > 0 && Cost::of(m, &m.funcs[func]).alone(threads)
        };
        if !alone {
            continue;
        }
        if let TaskKind::Chunks { hints, .. } = &mut m.tasks[t].kind {
            hints.serial = true;
            own(m, func);
        }
    }
    Ok(())
}

/// The estimated cost of an iteration.
#[derive(Copy, Clone, Default, PartialEq, Debug)]
struct Cost {
    /// Scalars that are updated by atomics.
    atomics: u64,
    /// Everything else.
    others: u64,
}

impl Cost {
    fn of(m: &Module, f: &Function) -> Cost {
        Cost::of_region(m, f, f.entry)
    }

    /// Whether one thread is faster than all of them.
    fn alone(self, threads: u64) -> bool {
        let plain = self
            .others
            .saturating_add(PLAIN.saturating_mul(self.atomics));
        let atomic = self
            .others
            .saturating_add(ATOMIC.saturating_mul(self.atomics));
        // Not for a small gain: a machine with many threads should use them for this loop too.
        threads == 1 || plain.saturating_mul(threads) < atomic / 4 * 3
    }

    fn of_region(m: &Module, f: &Function, region: Region) -> Cost {
        let in_loop = region != f.entry;
        let mut sum = Cost::default();
        for inst in &f.regions[region].insts {
            let data = &f.insts[*inst];
            let inside = data.regions.iter().map(|r| Cost::of_region(m, f, *r));
            let cost = match data.op.control() {
                None => Cost::of_plain(m, f, data, in_loop),
                // Cells are rarely allocated, and reports are rare. Of two versions, the one without atomics is
                // usually taken.
                Some(ControlOp::If) => (data.regions.iter())
                    .filter(|r| !is_seldom(m, f, **r) && !f.regions[**r].insts.is_empty())
                    .map(|r| Cost::of_region(m, f, *r))
                    .min_by_key(|side| side.atomics)
                    .unwrap_or_default(),
                Some(ControlOp::For(_, ForKind::Boundary)) => Cost::default(),
                // The outermost parallel loop runs over the units: the result is the cost of one.
                Some(ControlOp::For(_, ForKind::Parallel)) if !in_loop => {
                    inside.fold(Cost::default(), Cost::plus)
                }
                Some(ControlOp::For(_, ForKind::Serial | ForKind::Parallel)) => {
                    let turns = likely_trips(f, *inst).unwrap_or(UNKNOWN);
                    inside.fold(Cost::default(), Cost::plus).times(turns)
                }
                Some(ControlOp::Loop(_)) => inside.fold(Cost::default(), Cost::plus).times(UNKNOWN),
                Some(ControlOp::Block(_)) => inside.fold(Cost::default(), Cost::plus),
                Some(ControlOp::ForEach(..)) => Cost::default(),
            };
            sum = sum.plus(if in_loop || !data.regions.is_empty() {
                cost
            } else {
                Cost::default()
            });
        }
        sum
    }

    /// The cost of an instruction without regions.
    fn of_plain(m: &Module, f: &Function, data: &InstData, in_loop: bool) -> Cost {
        let scalars = |v| m.structs.flatten(f.ty(v)).len() as u64;
        // Instructions outside of loops run once for each chunk.
        if let Op::MemAtomic(_, space, Sharing::Shared) = data.op
            && in_loop
        {
            return if is_of_nodes(space) {
                Cost::others(1)
            } else {
                Cost {
                    atomics: scalars(data.args[1]),
                    others: 0,
                }
            };
        }
        if let Op::Call(callee) = data.op {
            let callee = &m.funcs[callee];
            return Cost::others(if callee.traits.inline {
                callee.insts.len() as u64
            } else {
                CALL
            });
        }
        if let Op::Const(_) = data.op {
            return Cost::default();
        }
        let results: u64 = data.results.iter().map(|r| scalars(*r)).sum();
        let is_long = matches!(
            data.op,
            Op::Algebra(AlgebraOp::MatMul | AlgebraOp::Determinant | AlgebraOp::Inverse)
        );
        Cost::others(if is_long { 3 * results } else { results })
    }

    fn others(others: u64) -> Cost {
        Cost { atomics: 0, others }
    }

    fn plus(self, other: Cost) -> Cost {
        Cost {
            atomics: self.atomics.saturating_add(other.atomics),
            others: self.others.saturating_add(other.others),
        }
    }

    fn times(self, turns: u64) -> Cost {
        Cost {
            atomics: self.atomics.saturating_mul(turns),
            others: self.others.saturating_mul(turns),
        }
    }
}

/// Whether a branch reports something, or calls a function that activates a cell.
fn is_seldom(m: &Module, f: &Function, region: Region) -> bool {
    let insts = &f.regions[region].insts;
    insts.iter().any(|inst| {
        let op = &f.insts[*inst].op;
        matches!(op, Op::Report(_)) || op.callee().is_some_and(|g| allocates(&m.funcs[g]))
    })
}

/// Whether a function accesses only nodes of trees, and no elements.
fn allocates(g: &Function) -> bool {
    let (mut nodes, mut elements) = (false, false);
    g.walk(|inst| {
        if let Some(space) = g.insts[inst].op.space() {
            *if is_of_nodes(space) {
                &mut nodes
            } else {
                &mut elements
            } = true;
        }
    });
    nodes && !elements
}

/// Whether a space holds the activity of cells.
fn is_of_nodes(space: Space) -> bool {
    match space {
        Space::Nodes(_) | Space::Bytes(_) | Space::Streamed(_) => true,
        Space::Tree(..) | Space::Array(_) | Space::Temps | Space::Private(..) => false,
    }
}

/// Whether a function or its callees update floats that other threads may update too.
fn updates_floats(m: &Module, func: Func) -> bool {
    let mut found = false;
    for id in m.reachable([func]) {
        let f = &m.funcs[id];
        f.walk(|inst| {
            let data = &f.insts[inst];
            if let Op::MemAtomic(op, _, Sharing::Shared) = data.op {
                let scalars = m.structs.flatten(f.ty(data.args[1]));
                found |= op != AtomicOp::Exchange && scalars.iter().any(|s| s.is_float());
            }
        });
    }
    found
}

/// Turns atomics on elements into plain updates. Those on nodes stay, because node functions are shared.
fn own(m: &mut Module, func: Func) {
    for inst in m.funcs[func].insts.values_mut() {
        if let Op::MemAtomic(_, Space::Tree(..) | Space::Array(_) | Space::Temps, sharing) =
            &mut inst.op
        {
            *sharing = Sharing::Owned;
        }
    }
}
