//! Early returns of kernels. A `foreach` cannot be in an `if`, so what is between two of them is.

use super::outcome::{Exit, Outcome, Taken};
use super::{After, Exits, Source};
use rustc_hash::FxHashSet;
use wuji_ir::entities::*;
use wuji_ir::module::{Function, Term, Values};
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
    fn segment(
        &mut self,
        before: Outcome,
        source: &Source,
        part: std::ops::Range<usize>,
    ) -> Outcome {
        let insts = source.insts[part.clone()].to_vec();
        let returns = insts.iter().any(|i| self.may_return(*i));
        let stays = before.is_only(Exit::Next) && !returns;
        let (insts, passed) = if stays {
            (insts, Values::new())
        } else {
            let insts = self.hoist(insts);
            let used = used_in(self.b.func, &source.insts[part.end..], &source.term);
            let results = insts.iter().flat_map(|i| &self.b.func.insts[*i].results);
            let passed = results.filter(|v| used.contains(v)).copied().collect();
            (insts, passed)
        };
        let segment = Source {
            insts,
            term: Term::Yield(passed.clone()),
            span: source.span,
        };
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

    fn may_return(&self, inst: Inst) -> bool {
        let f = &self.b.func;
        let mut inside = f.insts[inst].regions.iter().flat_map(|r| f.regions_in(*r));
        inside.any(|r| matches!(f.regions[r].term, Term::Return(_)))
    }

    /// Appends what depends on nothing in a segment, so that constants stay visible; gives the rest.
    fn hoist(&mut self, insts: Vec<Inst>) -> Vec<Inst> {
        let mut rest = Vec::new();
        let mut later: FxHashSet<Value> = FxHashSet::default();
        for inst in insts {
            self.substitution.apply_to_inst(self.b.func, inst);
            let data = &self.b.func.insts[inst];
            let free =
                data.op.effect() == Effect::Pure && data.args.iter().all(|a| !later.contains(a));
            if free {
                self.keep(inst);
            } else {
                later.extend(&data.results);
                rest.push(inst);
            }
        }
        rest
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

/// The values that instructions and a terminator use.
fn used_in(f: &Function, insts: &[Inst], term: &Term) -> FxHashSet<Value> {
    let mut used: FxHashSet<Value> = term.args().iter().copied().collect();
    for inst in insts {
        used.extend(&f.insts[*inst].args);
        for region in f.insts[*inst].regions.iter().flat_map(|r| f.regions_in(*r)) {
            let data = &f.regions[region];
            let args = data.insts.iter().flat_map(|i| &f.insts[*i].args);
            used.extend(args.chain(data.term.args()));
        }
    }
    used
}
