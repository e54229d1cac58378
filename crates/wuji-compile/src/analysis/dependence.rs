//! Data dependence: in which order two accesses of one iteration can reach the same element.
//!
//! The two accesses are at instances of the serial loops around them. Equal indices, loop bounds and the order of the
//! instances are linear constraints over loop indices; Fourier-Motzkin elimination tells whether any instances satisfy them.
//! The test is conservative: an order that it excludes is impossible.

mod linear;

use crate::analysis::affine::{Affine, AffineAnalysis};
use crate::rewrite::Structure;
use linear::System;
use rustc_hash::FxHashMap;
use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::module::{Function, ValueDef};
use wuji_ir::ops::{Domain, Op};
use wuji_ir::types::Imm;

/// An access: its instruction and the indices of its element.
pub type Access<'a> = (Inst, &'a [Value]);

/// In which order two accesses of an iteration reach the same element.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Dependence {
    /// The first one can be earlier.
    pub forward: bool,
    /// The second one can be earlier.
    pub backward: bool,
    /// Every index is an affine expression of loop indices. Otherwise the elements may always differ.
    pub is_affine: bool,
}

/// Which access an index or another value belongs to.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
enum Side {
    Both,
    First,
    Second,
}

/// The dependences of a function.
#[derive(Debug)]
pub struct Dependences<'f> {
    f: &'f Function,
    structure: &'f Structure,
    affine: AffineAnalysis<'f>,
}

impl<'f> Dependences<'f> {
    /// The analysis of a function.
    pub fn new(f: &'f Function, structure: &'f Structure) -> Dependences<'f> {
        Dependences {
            f,
            structure,
            affine: AffineAnalysis::new(f, structure),
        }
    }

    /// The dependence between two accesses of the same field, of which the first one stands before the second one.
    ///
    /// Only pairs of the same iteration of a parallel loop count: between iterations there is no order.
    pub fn between(&mut self, first: Access<'_>, second: Access<'_>) -> Dependence {
        let loops = self.common_loops(first.0, second.0);
        let mut out = Dependence {
            forward: false,
            backward: false,
            is_affine: true,
        };
        for (level, at) in loops.iter().enumerate() {
            if matches!(self.f.insts[*at].op, Op::ForEach(..)) {
                continue;
            }
            for order in [Order::Forward, Order::Backward] {
                let mut pair = Pair::new(self, &loops, level);
                let possible = pair.is_possible(first, second, Some((*at, order)));
                out.is_affine &= pair.is_affine || !possible;
                match order {
                    Order::Forward => out.forward |= possible,
                    Order::Backward => out.backward |= possible,
                }
            }
        }
        let mut pair = Pair::new(self, &loops, loops.len());
        let possible = pair.is_possible(first, second, None);
        out.forward |= possible;
        out.is_affine &= pair.is_affine || !possible;
        out
    }

    /// Whether two accesses of the same field can reach the same element in any iterations.
    pub fn may_overlap(&mut self, a: Access<'_>, b: Access<'_>) -> bool {
        Pair::new(self, &[], 0).is_possible(a, b, None)
    }

    /// Whether two accesses of the same field can reach the same element while a region that both are in runs once.
    pub fn may_meet(&mut self, a: Access<'_>, b: Access<'_>, region: Region) -> bool {
        let mut loops = self.loops_in(region);
        loops.reverse();
        let equal = loops.len();
        Pair::new(self, &loops, equal).is_possible(a, b, None)
    }

    /// The loops around both, from the outermost.
    fn common_loops(&self, a: Inst, b: Inst) -> Vec<Inst> {
        let (mut around, others) = (self.loops_around(a), self.loops_around(b));
        around.retain(|l| others.contains(l));
        around.reverse();
        around
    }

    fn loops_around(&self, inst: Inst) -> Vec<Inst> {
        let region = self.structure.region_of[inst].expand();
        region.map_or_else(Vec::new, |r| self.loops_in(r))
    }

    /// The loops whose bodies a region is in, from the innermost.
    fn loops_in(&self, region: Region) -> Vec<Inst> {
        let mut out = Vec::new();
        let mut outer = self.structure.owner[region].expand();
        while let Some(control) = outer {
            if matches!(
                self.f.insts[control].op,
                Op::For(..) | Op::Loop(_) | Op::ForEach(..)
            ) {
                out.push(control);
            }
            outer = self.structure.parent(control);
        }
        out
    }

    /// The loop with this index, and the number of the axis.
    fn loop_of_index(&self, v: Value) -> Option<(Inst, usize)> {
        let ValueDef::Param(region, axis) = self.f.values[v].def else {
            return None;
        };
        let owner = self.structure.owner[region].expand()?;
        let op = &self.f.insts[owner].op;
        // The other parameters of a serial loop are values that rounds carry.
        let is_index = matches!(op, Op::ForEach(..)) || matches!(op, Op::For(..)) && axis == 0;
        is_index.then_some((owner, axis.into()))
    }

    /// The constant step of a loop.
    fn step(&self, at: Inst) -> Option<i64> {
        let data = &self.f.insts[at];
        if matches!(data.op, Op::ForEach(..)) {
            return Some(1);
        }
        if !matches!(data.op, Op::For(..)) {
            return None;
        }
        let step = self.f.constant(data.args[2])?;
        i64::try_from(Imm::as_int(step)?).ok()
    }
}

/// The order of two instances of a loop.
#[derive(Copy, Clone)]
enum Order {
    Forward,
    Backward,
}

/// Two accesses that are in the same round of some of the loops around them.
struct Pair<'d, 'f> {
    of: &'d mut Dependences<'f>,
    /// The loops around both, from the outermost.
    loops: &'d [Inst],
    /// In so many of them both are in the same round.
    equal: usize,
    variables: FxHashMap<(Value, Side), usize>,
    system: System,
    is_affine: bool,
}

impl<'d, 'f> Pair<'d, 'f> {
    fn new(of: &'d mut Dependences<'f>, loops: &'d [Inst], equal: usize) -> Pair<'d, 'f> {
        Pair {
            of,
            loops,
            equal,
            variables: FxHashMap::default(),
            system: System::default(),
            is_affine: true,
        }
    }

    /// Whether they can be at one element, in this order of the rounds of a loop.
    fn is_possible(&mut self, a: Access<'_>, b: Access<'_>, order: Option<(Inst, Order)>) -> bool {
        for (x, y) in a.1.iter().zip(b.1) {
            let (x, y) = (self.of.affine.expr(*x), self.of.affine.expr(*y));
            let mut sum = self.linear(&x, Side::First, 1);
            sum.extend(self.linear(&y, Side::Second, -1));
            self.is_affine &= self.is_known(&sum);
            let constant = i128::from(x.constant) - i128::from(y.constant);
            self.system.equal_to_zero(&sum, constant);
        }
        if let Some((at, order)) = order {
            self.order(at, order);
        }
        self.system.is_feasible()
    }

    /// Whether all values that do not cancel are loop indices.
    fn is_known(&self, sum: &[(usize, i128)]) -> bool {
        self.variables.iter().all(|((v, _), n)| {
            let coefficient: i128 = sum.iter().filter(|t| t.0 == *n).map(|t| t.1).sum();
            coefficient == 0 || self.of.loop_of_index(*v).is_some()
        })
    }

    fn order(&mut self, at: Inst, order: Order) {
        let Some(step) = self.of.step(at) else {
            return;
        };
        let index = self.of.f.regions[self.of.f.insts[at].regions[0]].params[0];
        let first = self.variable(index, Side::First);
        let second = self.variable(index, Side::Second);
        let (mut early, mut late) = match order {
            Order::Forward => (first, second),
            Order::Backward => (second, first),
        };
        if step < 0 {
            (early, late) = (late, early);
        }
        self.system
            .at_least_zero(&[(late, 1), (early, -1)], -i128::from(step).abs());
    }

    fn linear(&mut self, expr: &Affine, side: Side, factor: i128) -> Vec<(usize, i128)> {
        let terms = expr.terms.iter();
        terms
            .map(|(v, c)| (self.variable(*v, side), factor * i128::from(*c)))
            .collect()
    }

    /// The variable of a value for an access.
    fn variable(&mut self, v: Value, side: Side) -> usize {
        let side = if self.is_shared(v) { Side::Both } else { side };
        if let Some(known) = self.variables.get(&(v, side)) {
            return *known;
        }
        let variable = self.system.variable();
        self.variables.insert((v, side), variable);
        self.bound(v, variable, side);
        variable
    }

    /// Whether a value is the same for both accesses: all loops around it are in the same round.
    fn is_shared(&self, v: Value) -> bool {
        let equal = &self.loops[..self.equal];
        let home = self.of.structure.def_region(self.of.f, v);
        home.is_some_and(|home| self.of.loops_in(home).iter().all(|l| equal.contains(l)))
    }

    /// Adds the bounds of the loop with this index.
    fn bound(&mut self, v: Value, variable: usize, side: Side) {
        let Some((at, axis)) = self.of.loop_of_index(v) else {
            return;
        };
        let data = &self.of.f.insts[at];
        let is_range = matches!(
            data.op,
            Op::For(..) | Op::ForEach(_, Domain::Range { .. }, _)
        );
        let (Some(step), true) = (self.of.step(at), is_range) else {
            return;
        };
        let (lo, hi) = (data.args[2 * axis], data.args[2 * axis + 1]);
        let (lo, hi) = (self.of.affine.expr(lo), self.of.affine.expr(hi));
        // The bounds of a loop are those of its access.
        let (start, limit) = (self.linear(&lo, side, 1), self.linear(&hi, side, 1));
        let sign = if step < 0 { -1 } else { 1 };
        let between = |terms: &[(usize, i128)], factor: i128| {
            let mut sum = vec![(variable, -factor * sign)];
            sum.extend(terms.iter().map(|(v, c)| (*v, factor * sign * c)));
            sum
        };
        // `start <= index < limit`; if the step is negative, `start >= index > limit`.
        self.system
            .at_least_zero(&between(&start, -1), -sign * i128::from(lo.constant));
        self.system
            .at_least_zero(&between(&limit, 1), sign * i128::from(hi.constant) - 1);
        if step.unsigned_abs() > 1 {
            let rounds = self.system.variable();
            self.system.at_least_zero(&[(rounds, 1)], 0);
            let mut sum = vec![(variable, -1), (rounds, i128::from(step))];
            sum.extend(&start);
            self.system.equal_to_zero(&sum, i128::from(lo.constant));
        }
    }
}

#[cfg(test)]
mod tests;
