//! The loops that are flattened, by a cost model.
//!
//! The inner loop must have a divergent trip count: one that can differ between the lanes of a warp. Then a warp runs it as
//! often as its longest lane, about [`LONGEST`] times the mean of [`TRIPS`] iterations. In a merged loop, a lane waits at most for
//! the end of a strip of K steps; but as some lane of a warp is nearly always at the end of its inner loop, every
//! iteration of the merged loop also executes the rest of the outer body. With the work T of the rest, b of a step and o of the
//! bookkeeping:
//!
//! ```text
//! nested   T + LONGEST TRIPS b
//! merged   (TRIPS / K + 1/2) (T + o + K b)        least for K^2 = 2 TRIPS (T + o) / b
//! ```
//!
//! A nest is flattened if that makes it at least 1.25 times as fast, if the outer loop is not known to be short, a step
//! is not trivial, and the state fits into registers.

use super::flatten;
use super::split::Branch;
use crate::analysis::cost;
use crate::analysis::uniformity::Uniformity;
use crate::rewrite::Structure;
use cranelift_entity::SecondaryMap;
use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::entities::{Func, Inst, Label, Region, Value};
use wuji_ir::module::{Function, MAX_NESTING, Module, Term};
use wuji_ir::ops::{ControlOp, ForKind, Op};
use wuji_ir::types::Imm;

/// The mean trip count of an inner loop: it is unknown.
const TRIPS: u64 = 8;
/// The trip count of the longest of 32 lanes, in mean trip counts: for a geometric distribution.
const LONGEST: u64 = 4;
/// The longest strip.
const MOST_STEPS: u64 = 4;
/// Iterations of the outer loop that make it worthwhile to let lanes run ahead.
const FEWEST_ITERATIONS: u64 = 4;
/// Work of a step that is worth a strip.
const LEAST_WORK: u64 = 8;
/// Work of an iteration of the merged loop that a nest does not have: what to resume, and with which values.
const OVERHEAD: u64 = 8;
/// The most registers of 32 bits that are carried in addition.
const MOST_STATE: u64 = 64;
/// The deepest nesting of regions. A flattened loop, and one that was split off for it, can each double it.
const DEEPEST: usize = MAX_NESTING / 5;

/// A loop, and one inside of it with no other loop in between.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Nest {
    pub(super) outer: Inst,
    pub(super) inner: Inst,
}

/// Loop nests that can be flattened, the innermost first.
pub(super) fn nests(m: &Module, func: Func) -> Vec<Nest> {
    let mut search = Search {
        m,
        func,
        found: Vec::new(),
    };
    search.region(m.funcs[func].entry, None);
    search.found
}

/// Whether no other loop is between the two.
pub(super) fn is_nest(f: &Function, nest: Nest) -> bool {
    let structure = Structure::of(f);
    let around = |inst: Inst| structure.owner[structure.region_of[inst].expand()?].expand();
    let mut way = std::iter::successors(around(nest.inner), |inst| around(*inst));
    way.find(|inst| matches!(f.insts[*inst].op, Op::Loop(_) | Op::For(..))) == Some(nest.outer)
}

struct Search<'a> {
    m: &'a Module,
    func: Func,
    found: Vec<Nest>,
}

impl Search<'_> {
    fn region(&mut self, region: Region, around: Option<Inst>) {
        let f = &self.m.funcs[self.func];
        for inst in &f.regions[region].insts {
            let data = &f.insts[*inst];
            match data.op.control() {
                Some(ControlOp::Loop(_) | ControlOp::For(_, ForKind::Serial)) => {
                    self.serial(*inst, around);
                }
                Some(ControlOp::If | ControlOp::Block(_)) => {
                    for r in &data.regions {
                        self.region(*r, around);
                    }
                }
                Some(ControlOp::For(..) | ControlOp::ForEach(..)) => {
                    for r in &data.regions {
                        self.region(*r, None);
                    }
                }
                None => {}
            }
        }
    }

    fn serial(&mut self, inst: Inst, around: Option<Inst>) {
        let f = &self.m.funcs[self.func];
        let body = f.insts[inst].regions[0];
        // Lanes must reach operations among threads together. One look at each nest is enough.
        if around.is_none() && self.is_among_threads(body) {
            return;
        }
        self.region(body, Some(inst));
        if let Some(outer) = around
            && counts_up(f, outer)
            && counts_up(f, inst)
        {
            self.found.push(Nest { outer, inner: inst });
        }
    }

    fn is_among_threads(&self, body: Region) -> bool {
        let f = &self.m.funcs[self.func];
        let parallel = |i: Inst| matches!(f.insts[i].op, Op::For(_, ForKind::Parallel));
        self.m.among_threads(self.func, body).is_some() || f.insts_in(body).any(parallel)
    }
}

/// Whether a loop is a `loop`, or a `for` with a step of 1.
fn counts_up(f: &Function, inst: Inst) -> bool {
    let data = &f.insts[inst];
    let Op::For(..) = data.op else {
        return true;
    };
    f.constant(data.args[2]).and_then(Imm::as_int) == Some(1)
}

/// Whether regions are nested so deep that there is no room for more.
pub(super) fn is_deep(f: &Function) -> bool {
    fn depth(f: &Function, region: Region) -> usize {
        let inside = f.regions[region].insts.iter();
        let regions = inside.flat_map(|i| f.insts[*i].regions.iter());
        1 + regions.map(|r| depth(f, *r)).max().unwrap_or(0)
    }
    depth(f, f.entry) > DEEPEST
}

/// The inner loops whose trip counts are divergent.
pub(super) fn divergent(
    f: &Function,
    values: &SecondaryMap<Value, Uniformity>,
    nests: &[Nest],
) -> FxHashSet<Inst> {
    let is_divergent = |inst: &Inst| {
        let data = &f.insts[*inst];
        let bounds = matches!(data.op, Op::For(..))
            && (data.args[..2].iter()).any(|v| values[*v] == Uniformity::Thread);
        let exits = Exits {
            f,
            values,
            left: data.op.label(),
        };
        bounds || exits.diverge(data.regions[0], false, &mut Vec::new())
    };
    let inner = nests.iter().map(|n| n.inner);
    inner.filter(is_divergent).collect()
}

/// The exits of a loop.
struct Exits<'a> {
    f: &'a Function,
    values: &'a SecondaryMap<Value, Uniformity>,
    left: Option<Label>,
}

impl Exits<'_> {
    /// Whether a region leaves the loop below a divergent branch; `inside` are the labels in the loop.
    fn diverge(&self, region: Region, below: bool, inside: &mut Vec<Label>) -> bool {
        let data = &self.f.regions[region];
        let leaves = match &data.term {
            Term::Break(to, _) => !inside.contains(to),
            Term::Continue(to, _) => !inside.contains(to) && Some(*to) != self.left,
            Term::Return(_) => true,
            Term::Yield(_) | Term::Unreachable => false,
        };
        (leaves && below)
            || data.insts.iter().any(|inst| {
                let data = &self.f.insts[*inst];
                let below =
                    below || data.op == Op::If && self.values[data.args[0]] == Uniformity::Thread;
                inside.extend(data.op.label());
                let found = (data.regions.iter()).any(|r| self.diverge(*r, below, inside));
                if data.op.label().is_some() {
                    inside.pop();
                }
                found
            })
    }
}

/// Estimated work.
pub(super) struct Costs {
    /// The work of called functions.
    called: FxHashMap<Func, u64>,
    /// Strips of loops that have been flattened.
    strips: FxHashMap<Inst, u64>,
}

impl Costs {
    pub(super) fn of(m: &Module, func: Func) -> Costs {
        let called = m.called_from(&m.funcs[func]).into_iter();
        Costs {
            called: called
                .map(|g| (g, cost::work(&m.funcs[g], m.funcs[g].entry)))
                .collect(),
            strips: FxHashMap::default(),
        }
    }

    /// Notes that a loop has become a strip of the loop around it.
    pub(super) fn flattened(&mut self, inner: Inst, steps: u64) {
        self.strips.insert(inner, steps);
    }

    /// The steps of a strip, and whether it pays to flatten a nest.
    pub(super) fn steps(&self, f: &Function, nest: Nest) -> (u64, bool) {
        let is_for = matches!(f.insts[nest.outer].op, Op::For(..));
        let few = |n: u64| n < FEWEST_ITERATIONS;
        let is_short = is_for && cost::trips(f, nest.outer).is_some_and(few);
        let step = self.work(f, nest.inner, None);
        let rest = self.work(f, nest.outer, Some(nest.inner));
        let more = rest.saturating_add(OVERHEAD);
        let steps = strip(more, step);
        let nested = rest.saturating_add((LONGEST * TRIPS).saturating_mul(step));
        // Twice the work, because of the half.
        let merged =
            (2 * TRIPS / steps + 1).saturating_mul(more.saturating_add(steps.saturating_mul(step)));
        let gains = nested.saturating_mul(8) > merged.saturating_mul(5);
        let pays =
            gains && !is_short && step >= LEAST_WORK && flatten::state(f, nest) <= MOST_STATE;
        (steps, pays)
    }

    /// Whether there is enough in front of a branch to make it a loop.
    pub(super) fn splits(&self, f: &Function, nest: Nest, branch: &Branch) -> bool {
        self.work(f, nest.outer, Some(branch.inst)) >= LEAST_WORK
    }

    /// The work of one iteration of a loop, without one that is inside of it.
    fn work(&self, f: &Function, inst: Inst, without: Option<Inst>) -> u64 {
        let body = f.insts[inst].regions[0];
        cost::work_by(f, body, &|inst| self.given(f, inst, without))
    }

    fn given(&self, f: &Function, inst: Inst, without: Option<Inst>) -> Option<u64> {
        if Some(inst) == without {
            return Some(0);
        }
        if let Some(callee) = f.insts[inst].op.callee() {
            return self.called.get(&callee).copied();
        }
        // Beside another loop, a step counts once.
        let steps = *self.strips.get(&inst).filter(|_| without.is_some())?;
        Some(self.work(f, inst, without) / steps)
    }
}

/// The best length of a strip: the largest power of two K with K^2 <= 2 TRIPS T / b.
fn strip(rest: u64, step: u64) -> u64 {
    let square = (2 * TRIPS).saturating_mul(rest) / step.max(1);
    let mut steps = 1;
    while steps < MOST_STEPS && 4 * steps * steps <= square {
        steps *= 2;
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_are_longer_beside_more_work() {
        assert_eq!(strip(0, 100), 1);
        assert_eq!(strip(20, 100), 1);
        assert_eq!(strip(30, 100), 2);
        assert_eq!(strip(100, 100), 4);
        assert_eq!(strip(1000, 100), 4);
        assert_eq!(strip(u64::from(u32::MAX), 0), 4);
    }
}
