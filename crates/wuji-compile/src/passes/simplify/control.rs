//! Control instructions: walking into them, and flattening those with one way to go.

use super::memory::Writes;
use super::{Exits, Kind, Simplifier};
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::Imm;

/// Instructions of both sides together that an `if` may turn into `select`s.
const MAX_SPECULATED: usize = 6;

/// The depth to which a condition is decomposed into implied conditions.
const MAX_LEARNED_DEPTH: usize = 4;

impl Simplifier<'_, '_> {
    /// Returns whether control continues with the next instruction.
    pub(super) fn control(&mut self, inst: Inst) -> bool {
        match self.f.insts[inst].op.control() {
            Some(ControlOp::If) => self.branch(inst),
            Some(ControlOp::Block(label)) => self.block(inst, label),
            Some(ControlOp::For(label, _)) => self.count(inst, label),
            Some(ControlOp::Loop(label)) => self.repeat(inst, label),
            Some(ControlOp::ForEach(..)) => {
                // Runs as another task: the values it needs are passed to it, so nothing is shared
                // with it, and nothing is known about memory in it or after it.
                let known = std::mem::take(&mut self.known);
                self.memory = super::Memory::default();
                let region = self.f.insts[inst].regions[0];
                self.region(region, Kind::Apart);
                self.known = known;
                self.memory = super::Memory::default();
                self.keep(inst);
                true
            }
            // A call.
            None => {
                let mut writes = Writes::default();
                writes.everything();
                self.memory.forget(self.m, &writes);
                self.memory.new_stretch();
                self.keep(inst);
                true
            }
        }
    }

    /// Puts the body of a region here; its `yield` gives the results of `inst`.
    fn splice(&mut self, inst: Inst, region: Region) -> bool {
        self.again = true;
        let insts = std::mem::take(&mut self.f.regions[region].insts);
        if self.level_here() == 0 {
            self.keep_uncounted(&insts);
        }
        if !self.run(insts) {
            return false;
        }
        self.substitution.apply_to_term(self.f, region);
        let term = self.f.regions[region].term.clone();
        match &term {
            Term::Yield(values) => {
                let results = self.f.insts[inst].results.clone();
                for (r, v) in results.iter().zip(values) {
                    self.substitution.set(*r, *v);
                }
                true
            }
            Term::Break(..) | Term::Continue(..) | Term::Return(_) | Term::Unreachable => {
                let span = self.f.regions[region].term_span;
                let here = self.level_here();
                self.frames[here].term = Some((term, span));
                false
            }
        }
    }

    /// Parallel loops below control flow have no number of their own; without it, they still have none.
    /// Otherwise the code after them would draw other random numbers.
    fn keep_uncounted(&mut self, insts: &[Inst]) {
        for inst in insts {
            if let Op::ForEach(.., hints) = &mut self.f.insts[*inst].op {
                hints.uncounted = true;
            }
        }
    }

    fn branch(&mut self, inst: Inst) -> bool {
        let condition = self.f.insts[inst].args[0];
        let sides = self.f.insts[inst].regions.clone();
        if let Some(holds) = self.truth(condition)
            && self.cx.fuel()
        {
            return self.splice(inst, sides[usize::from(!holds)]);
        }
        self.memory.new_stretch();
        let mut ends = false;
        for (side, holds) in sides.iter().zip([true, false]) {
            let mut learned = Vec::new();
            self.learn(condition, holds, 0, &mut learned);
            let end = self.region(*side, Kind::Apart);
            ends |= end && matches!(self.f.regions[*side].term, Term::Yield(_));
            for v in learned {
                self.facts[v] = None;
            }
        }
        let writes = std::mem::take(&mut self.writes[inst]);
        self.memory.forget(self.m, &writes);
        self.memory.new_stretch();
        if self.is_cheap(&sides) && self.cx.fuel() {
            self.speculate(inst, condition, &sides);
            return true;
        }
        self.unify(inst, &sides);
        match self.same_branch_before(condition) {
            Some(at) if self.cx.fuel() => self.merge(at, inst),
            _ => self.keep(inst),
        }
        ends
    }

    /// Where in the current region an `if` on the same condition stands, with nothing but pure
    /// instructions after it.
    fn same_branch_before(&self, condition: Value) -> Option<usize> {
        let out = &self.frames[self.level_here()].out;
        let at = out
            .iter()
            .rposition(|i| self.f.insts[*i].op.effect() != Effect::Pure)?;
        let earlier = &self.f.insts[out[at]];
        let fits = earlier.op == Op::If
            && earlier.args[0] == condition
            && earlier.results.is_empty()
            && earlier
                .regions
                .iter()
                .all(|r| matches!(self.f.regions[*r].term, Term::Yield(_)));
        fits.then_some(at)
    }

    /// Appends the sides of an `if` to those of an earlier one on the same condition, which moves here.
    fn merge(&mut self, at: usize, inst: Inst) {
        self.again = true;
        let here = self.level_here();
        let earlier = self.frames[here].out.remove(at);
        for k in 0..2 {
            let (first, second) = (
                self.f.insts[earlier].regions[k],
                self.f.insts[inst].regions[k],
            );
            let more = std::mem::take(&mut self.f.regions[second].insts);
            let term = std::mem::replace(&mut self.f.regions[second].term, Term::Unreachable);
            let span = self.f.regions[second].term_span;
            let data = &mut self.f.regions[first];
            data.insts.extend(more);
            data.term = term;
            data.term_span = span;
        }
        let results = std::mem::take(&mut self.f.insts[inst].results);
        for (k, r) in results.iter().enumerate() {
            self.f.values[*r].def = ValueDef::Result(earlier, k as u16);
        }
        self.f.insts[earlier].results = results;
        self.keep(earlier);
    }

    /// Notes that a condition holds or not, with what follows from that.
    fn learn(&mut self, condition: Value, holds: bool, depth: usize, learned: &mut Vec<Value>) {
        if depth > MAX_LEARNED_DEPTH || self.facts[condition].is_some() {
            return;
        }
        self.facts[condition] = Some(holds);
        learned.push(condition);
        let Some(inst) = self.f.def(condition) else {
            return;
        };
        let InstData { op, args, .. } = &self.f.insts[inst];
        let (op, args) = (op.clone(), args.clone());
        let both = if holds { BinOp::And } else { BinOp::Or };
        if op == Op::Unary(UnOp::Not) {
            self.learn(args[0], !holds, depth + 1, learned);
        } else if op == Op::Binary(both) {
            self.learn(args[0], holds, depth + 1, learned);
            self.learn(args[1], holds, depth + 1, learned);
        }
    }

    /// Results that are the same value from outside on every side are that value.
    fn unify(&mut self, inst: Inst, sides: &[Region]) {
        for (k, result) in self.f.insts[inst].results.clone().into_iter().enumerate() {
            let mut same: Option<Value> = None;
            let mut agree = true;
            for side in sides {
                if let Term::Yield(values) = &self.f.regions[*side].term {
                    match same {
                        None => same = Some(values[k]),
                        Some(v) => agree &= v == values[k],
                    }
                }
            }
            if let (Some(v), true) = (same, agree)
                && self.level[v] as usize <= self.level_here()
                && self.cx.fuel()
            {
                self.substitution.set(result, v);
                self.again = true;
            }
        }
    }

    /// Whether both sides only compute a little and give their values.
    fn is_cheap(&self, sides: &[Region]) -> bool {
        let mut count = 0;
        for side in sides {
            let data = &self.f.regions[*side];
            if !matches!(data.term, Term::Yield(_)) {
                return false;
            }
            count += data.insts.len();
            if count > MAX_SPECULATED || !data.insts.iter().all(|i| is_cheap(&self.f.insts[*i].op))
            {
                return false;
            }
        }
        true
    }

    /// Computes both sides and selects.
    fn speculate(&mut self, inst: Inst, condition: Value, sides: &[Region]) {
        self.again = true;
        let span = self.f.spans[inst];
        for side in sides {
            let insts = std::mem::take(&mut self.f.regions[*side].insts);
            self.run(insts);
            self.substitution.apply_to_term(self.f, *side);
        }
        let values: Vec<Values> = sides
            .iter()
            .map(|s| self.f.regions[*s].term.args().iter().copied().collect())
            .collect();
        for (k, result) in self.f.insts[inst].results.clone().into_iter().enumerate() {
            let args: Values = [condition, values[0][k], values[1][k]]
                .into_iter()
                .collect();
            let ty = self.f.ty(result);
            let v = self.emit(Op::Select, args, ty, span);
            self.substitution.set(result, v);
        }
    }

    fn block(&mut self, inst: Inst, label: Label) -> bool {
        let region = self.f.insts[inst].regions[0];
        if self.exits[label].breaks.is_empty() && self.cx.fuel() {
            return self.splice(inst, region);
        }
        self.memory.new_stretch();
        self.region(region, Kind::Once);
        self.after(inst)
    }

    /// Forgets what an instruction may have written, and keeps it.
    fn after(&mut self, inst: Inst) -> bool {
        let writes = std::mem::take(&mut self.writes[inst]);
        self.memory.forget(self.m, &writes);
        self.memory.new_stretch();
        self.keep(inst);
        true
    }

    fn repeat(&mut self, inst: Inst, label: Label) -> bool {
        let region = self.f.insts[inst].regions[0];
        self.drop_invariant(inst, label, 0);
        let writes = self.writes[inst].clone();
        self.memory.forget(self.m, &writes);
        self.memory.new_stretch();
        self.region(region, Kind::Repeated);
        self.after(inst)
    }

    fn count(&mut self, inst: Inst, label: Label) -> bool {
        let args = self.f.insts[inst].args.clone();
        let region = self.f.insts[inst].regions[0];
        match self.trips(&args) {
            Some(0) if self.cx.fuel() => {
                self.again = true;
                let results = self.f.insts[inst].results.clone();
                for (r, v) in results.iter().zip(&args[3..]) {
                    self.substitution.set(*r, *v);
                }
                return true;
            }
            Some(1) if self.cx.fuel() => {
                self.once(inst, label, &args);
                return self.block(inst, label);
            }
            _ => {}
        }
        self.drop_invariant(inst, label, 3);
        let writes = self.writes[inst].clone();
        self.memory.forget(self.m, &writes);
        self.memory.new_stretch();
        self.region(region, Kind::Repeated);
        self.after(inst)
    }

    /// How often a `for` runs, where that is known to be never or once.
    fn trips(&self, args: &[Value]) -> Option<u32> {
        let (lo, hi) = (args[0], args[1]);
        if lo == hi {
            return Some(0);
        }
        let int = |v: Value| self.f.constant(v).and_then(Imm::as_int);
        let step = int(args[2])?;
        if step == 0 {
            return Some(0);
        }
        let distance = match (int(lo), int(hi)) {
            (Some(lo), Some(hi)) => hi - lo,
            _ => return None,
        };
        let distance = if step > 0 { distance } else { -distance };
        if distance <= 0 {
            Some(0)
        } else if distance <= step.abs() {
            Some(1)
        } else {
            None
        }
    }

    /// Turns a `for` that runs once into a block.
    fn once(&mut self, inst: Inst, label: Label, args: &[Value]) {
        let region = self.f.insts[inst].regions[0];
        let params = std::mem::take(&mut self.f.regions[region].params);
        self.substitution.set(params[0], args[0]);
        for (p, a) in params[1..].iter().zip(&args[3..]) {
            self.substitution.set(*p, *a);
        }
        self.f.insts[inst].op = Op::Block(label);
        self.f.insts[inst].args.clear();
        let Exits {
            mut breaks,
            continues,
        } = std::mem::take(&mut self.exits[label]);
        for r in continues {
            let term = &mut self.f.regions[r].term;
            if let Term::Continue(_, values) = term {
                let values = std::mem::take(values);
                if r == region {
                    *term = Term::Yield(values);
                } else {
                    *term = Term::Break(label, values);
                    breaks.push(r);
                }
            }
        }
        self.exits[label].breaks = breaks;
    }

    /// Removes carried values that no iteration changes.
    fn drop_invariant(&mut self, inst: Inst, label: Label, first: usize) {
        let InstData {
            args,
            regions,
            results,
            op,
        } = self.f.insts[inst].clone();
        let counts = matches!(op, Op::For(..));
        let params: Values = self.f.regions[regions[0]].params[usize::from(counts)..]
            .iter()
            .copied()
            .collect();
        let exits = self.exits[label].clone();
        for (k, p) in params.iter().enumerate() {
            let start = args[first + k];
            let same = |s: &Simplifier<'_, '_>, regions: &[Region]| {
                regions.iter().all(|r| {
                    let v = s.substitution.get(s.f.regions[*r].term.args()[k]);
                    v == *p || v == start
                })
            };
            if *p == start || !same(self, &exits.continues) || !self.cx.fuel() {
                continue;
            }
            self.again = true;
            if counts && same(self, &exits.breaks) {
                self.substitution.set(results[k], start);
            }
            self.substitution.set(*p, start);
        }
    }
}

/// Worth computing even when it is not needed.
fn is_cheap(op: &Op) -> bool {
    op.effect() == Effect::Pure && op.cost() <= CostClass::Cheap
}
