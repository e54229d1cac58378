//! Early returns of kernels. A `foreach` cannot be in an `if`, so what is between two of them is.

use super::outcome::{Exit, Outcome, Taken};
use super::{After, Exits, Source};
use rustc_hash::FxHashSet;
use std::ops::Range;
use wuji_ir::entities::*;
use wuji_ir::module::{Term, Values};
use wuji_ir::ops::{Domain, Effect, Op};

impl Exits<'_> {
    /// The body of a function, in the entry region.
    pub(super) fn function(&mut self, source: &Source) -> Outcome {
        let is_foreach = |i: &Inst| matches!(self.b.func.insts[*i].op, Op::ForEach(..));
        let Some(last) = source.insts.iter().rposition(is_foreach) else {
            return self.run(source, 0, &After::Nothing);
        };
        let loops: Vec<usize> = (0..=last)
            .filter(|k| is_foreach(&source.insts[*k]))
            .collect();
        let mut outcome = Outcome::only(Exit::Next, Values::new());
        let mut at = 0;
        for k in loops {
            outcome = self.segment(outcome, source, at..k);
            if !outcome.has(Exit::Next) {
                return outcome;
            }
            self.parallel_loop(source.insts[k], &outcome);
            at = k + 1;
        }
        if outcome.is_only(Exit::Next) {
            return self.run(source, at, &After::Nothing);
        }
        self.unless_left(outcome, |this| this.run(source, at, &After::Nothing))
    }

    /// Serial code in front of a parallel loop. It passes on the values that are used later.
    fn segment(&mut self, before: Outcome, source: &Source, part: Range<usize>) -> Outcome {
        let (mut segment, mut passed) = self.part(source, part);
        if before.is_only(Exit::Next) && segment.leaving.is_empty() {
            passed.clear();
            segment.term = Term::Yield(Values::new());
        } else {
            let hoisted = self.hoist(&mut segment);
            passed.retain(|v| !hoisted.contains(v));
            segment = self.source(segment.insts, Term::Yield(passed.clone()), source.span);
        }
        let outcome = if before.is_only(Exit::Next) {
            self.run(&segment, 0, &After::Nothing)
        } else {
            self.unless_left(before, |this| this.run(&segment, 0, &After::Nothing))
        };
        if let Some(values) = outcome.values(Exit::Next) {
            self.bind(&passed, values);
        }
        outcome
    }

    /// Appends what depends on nothing in a segment to the current region, so that constants stay visible. Gives the
    /// values of that.
    fn hoist(&mut self, segment: &mut Source) -> FxHashSet<Value> {
        let mut hoisted: FxHashSet<Value> = FxHashSet::default();
        let mut later: FxHashSet<Value> = FxHashSet::default();
        for inst in std::mem::take(&mut segment.insts) {
            self.substitution.apply_to_inst(self.b.func, inst);
            let data = &self.b.func.insts[inst];
            let is_free = data.args.iter().all(|a| !later.contains(a));
            if data.op.effect() == Effect::Pure && is_free {
                hoisted.extend(&data.results);
                self.keep(inst);
            } else {
                later.extend(&data.results);
                segment.insts.push(inst);
            }
        }
        hoisted
    }

    /// A parallel loop that does nothing after an early return.
    fn parallel_loop(&mut self, inst: Inst, outcome: &Outcome) {
        self.substitution.apply_to_inst(self.b.func, inst);
        self.b.span = self.b.func.spans[inst];
        let Op::ForEach(label, domain, _) = self.b.func.insts[inst].op.clone() else {
            return;
        };
        let mut taken = outcome.taken(&mut self.b, Exit::Next);
        let has_bounds = matches!(domain, Domain::Range { rank } if rank > 0);
        if has_bounds && taken != Taken::Always {
            let (lo, hi) = (
                self.b.func.insts[inst].args[0],
                self.b.func.insts[inst].args[1],
            );
            let condition = taken.value(&mut self.b);
            self.b.func.insts[inst].args[1] = self.b.select(condition, hi, lo);
            taken = Taken::Always;
        }
        self.for_each(inst, label, taken);
    }
}
