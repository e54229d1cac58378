//! Removes early exits: control enters every region at its start and leaves it at its end.
//!
//! Where an instruction may leave early, the rest of its region moves under an `if`: into the side that goes on,
//! or, where that is no single side, under one on a flag that says how the instruction was left.

mod kernel;
mod outcome;

use crate::rewrite::{Substitution, sweep};
use outcome::{Exit, Outcome, Side, Taken, defined_in, join};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;
use wuji_ir::build::Builder;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Scalar, Type};

/// Removes early exits from a function. Afterwards
///
/// - every region of an `if` ends in `yield`, and there is no `block`;
/// - `return` is only at the end of the function;
/// - the bodies of `for` and `foreach` end in their own `continue`, at the end;
/// - the body of a `loop` ends in `if c { break } else { continue }` and `unreachable`, and both are its own.
///
/// A `for` that is left early becomes a `loop` that counts.
pub(super) fn remove_exits(env: &mut Env, f: &mut Function) {
    let entry = f.entry;
    let mut exits = Exits {
        b: Builder::new(env, f),
        substitution: Substitution::new(),
    };
    let source = exits.take(entry);
    let outcome = exits.function(&source);
    let results = exits.b.func.results.clone();
    let values = exits.values_or_zero(&outcome, Exit::Return, &results);
    let data = &mut exits.b.func.regions[entry];
    data.term = Term::Return(values);
    data.term_span = source.span;
    sweep(f);
}

/// More instructions of a region that may leave it are not nested into each other, but split into two halves.
const MAX_NESTED: usize = 16;

/// The instructions of a region, and its end.
struct Source {
    insts: Vec<Inst>,
    term: Term,
    span: Span,
    /// The positions of instructions that may leave the region.
    leaving: Vec<usize>,
}

/// What `yield` at the end of a region does.
#[derive(Copy, Clone)]
enum After<'a> {
    Nothing,
    /// Leaves a block.
    Leave(Label),
    /// Gives results to an instruction, and goes on after it.
    Rest {
        results: &'a [Value],
        source: &'a Source,
        from: usize,
        after: &'a After<'a>,
    },
}

struct Exits<'a> {
    b: Builder<'a>,
    substitution: Substitution,
}

impl Exits<'_> {
    /// The body of a region, which is empty from now on.
    fn take(&mut self, region: Region) -> Source {
        let data = &mut self.b.func.regions[region];
        let insts = std::mem::take(&mut data.insts);
        let term = std::mem::replace(&mut data.term, Term::Unreachable);
        let span = data.term_span;
        self.source(insts, term, span)
    }

    fn source(&self, insts: Vec<Inst>, term: Term, span: Span) -> Source {
        let leaving = (0..insts.len()).filter(|k| self.may_leave(insts[*k]));
        Source {
            leaving: leaving.collect(),
            insts,
            term,
            span,
        }
    }

    /// Whether control may go somewhere else from inside an instruction than to the next one.
    fn may_leave(&self, inst: Inst) -> bool {
        let f = &self.b.func;
        let regions: Vec<Region> = f.insts[inst]
            .regions
            .iter()
            .flat_map(|r| f.regions_in(*r))
            .collect();
        let insts = regions.iter().flat_map(|r| &f.regions[*r].insts);
        let mut inner: FxHashSet<Label> = insts.filter_map(|i| f.insts[*i].op.label()).collect();
        inner.extend(f.insts[inst].op.label());
        regions.iter().any(|r| match &f.regions[*r].term {
            Term::Yield(_) | Term::Unreachable => false,
            Term::Break(l, _) | Term::Continue(l, _) => !inner.contains(l),
            Term::Return(_) => true,
        })
    }

    /// A part of the body of a region, and the values that are used behind it, which it yields.
    fn part(&self, source: &Source, part: Range<usize>) -> (Source, Values) {
        let insts = source.insts[part.clone()].to_vec();
        let used = used_in(self.b.func, &source.insts[part.end..], &source.term);
        let results = insts.iter().flat_map(|i| &self.b.func.insts[*i].results);
        let passed: Values = results.filter(|v| used.contains(v)).copied().collect();
        let part = self.source(insts, Term::Yield(passed.clone()), source.span);
        (part, passed)
    }

    /// Runs `fill` with another current region.
    fn inside<T>(&mut self, region: Region, fill: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.b.region, region);
        let span = self.b.span;
        let made = fill(self);
        self.b.region = outer;
        self.b.span = span;
        made
    }

    /// Appends instructions, without their early exits, to the current region.
    fn run(&mut self, source: &Source, from: usize, after: &After) -> Outcome {
        let first = source.leaving.partition_point(|k| *k < from);
        let leaving = &source.leaving[first..];
        if leaving.len() > MAX_NESTED {
            return self.halves(source, from, leaving[leaving.len() / 2], after);
        }
        for k in from..source.insts.len() {
            let inst = source.insts[k];
            self.substitution.apply_to_inst(self.b.func, inst);
            self.b.span = self.b.func.spans[inst];
            let op = self.b.func.insts[inst].op.clone();
            let outcome = match op.control() {
                None => {
                    self.keep(inst);
                    continue;
                }
                Some(ControlOp::If) if self.has_a_side_that_leaves(inst) => {
                    let results = self.b.func.insts[inst].results.clone();
                    let rest = After::Rest {
                        results: &results,
                        source,
                        from: k + 1,
                        after,
                    };
                    return self.branch(inst, &rest);
                }
                Some(ControlOp::If) => self.branch(inst, &After::Nothing),
                Some(ControlOp::Block(label)) => self.block(inst, label),
                Some(ControlOp::Loop(label)) => self.repeat(inst, label),
                Some(ControlOp::For(label, _)) => self.count(inst, label),
                Some(ControlOp::ForEach(label, ..)) => self.for_each(inst, label, Taken::Always),
            };
            self.bind_results(inst, &outcome);
            if !outcome.has(Exit::Next) {
                return outcome;
            }
            if !outcome.is_only(Exit::Next) {
                return self.unless_left(outcome, |this| this.run(source, k + 1, after));
            }
        }
        self.end(source, after)
    }

    /// Runs instructions up to one that may leave, and then the others.
    fn halves(&mut self, source: &Source, from: usize, middle: usize, after: &After) -> Outcome {
        let (part, passed) = self.part(source, from..middle);
        let outcome = self.run(&part, 0, &After::Nothing);
        if let Some(values) = outcome.values(Exit::Next) {
            self.bind(&passed, values);
        }
        if !outcome.has(Exit::Next) {
            return outcome;
        }
        if outcome.is_only(Exit::Next) {
            return self.run(source, middle, after);
        }
        self.unless_left(outcome, |this| this.run(source, middle, after))
    }

    fn end(&mut self, source: &Source, after: &After) -> Outcome {
        let args = source.term.args().iter();
        let values: Values = args.map(|v| self.substitution.get(*v)).collect();
        match &source.term {
            Term::Yield(_) => match after {
                After::Nothing => Outcome::only(Exit::Next, values),
                After::Leave(label) => Outcome::only(Exit::Break(*label), values),
                After::Rest {
                    results,
                    source,
                    from,
                    after,
                } => {
                    self.bind(results, &values);
                    self.run(source, *from, after)
                }
            },
            Term::Break(label, _) => Outcome::only(Exit::Break(*label), values),
            Term::Continue(label, _) => Outcome::only(Exit::Continue(*label), values),
            Term::Return(_) => Outcome::only(Exit::Return, values),
            Term::Unreachable => Outcome::never(),
        }
    }

    /// What follows an instruction that may have been left.
    fn unless_left(
        &mut self,
        outcome: Outcome,
        rest: impl FnOnce(&mut Self) -> Outcome,
    ) -> Outcome {
        let next = outcome.taken(&mut self.b, Exit::Next);
        let region = self.b.func.add_region(&[]);
        let then = Side {
            region,
            outcome: self.inside(region, rest),
        };
        let otherwise = Side {
            region: self.b.func.add_region(&[]),
            outcome: outcome.without(Exit::Next),
        };
        join(&mut self.b, next, then, otherwise)
    }

    fn keep(&mut self, inst: Inst) {
        self.b.func.regions[self.b.region].insts.push(inst);
    }

    fn bind(&mut self, from: &[Value], to: &[Value]) {
        for (from, to) in from.iter().zip(to) {
            if from != to {
                self.substitution.set(*from, *to);
            }
        }
    }

    fn bind_results(&mut self, inst: Inst, outcome: &Outcome) {
        let results = self.b.func.insts[inst].results.clone();
        if let Some(values) = outcome.values(Exit::Next) {
            self.bind(&results, values);
        }
    }

    /// The values of an exit, or zeros of these types if it is never taken.
    fn values_or_zero(&mut self, outcome: &Outcome, exit: Exit, types: &[Type]) -> Values {
        match outcome.values(exit) {
            Some(values) => values.clone(),
            None => types.iter().map(|ty| self.b.zero(*ty)).collect(),
        }
    }

    fn has_a_side_that_leaves(&self, inst: Inst) -> bool {
        let f = &self.b.func;
        let sides = &f.insts[inst].regions;
        sides
            .iter()
            .any(|r| !matches!(f.regions[*r].term, Term::Yield(_)))
    }

    fn branch(&mut self, inst: Inst, after: &After) -> Outcome {
        let InstData { args, regions, .. } = self.b.func.insts[inst].clone();
        let sides = [0, 1].map(|k| {
            let region = regions[k];
            let source = self.take(region);
            Side {
                region,
                outcome: self.inside(region, |this| this.run(&source, 0, after)),
            }
        });
        let [then, otherwise] = sides;
        join(&mut self.b, Taken::If(args[0]), then, otherwise)
    }

    /// The body of a block takes its place.
    fn block(&mut self, inst: Inst, label: Label) -> Outcome {
        let region = self.b.func.insts[inst].regions[0];
        let source = self.take(region);
        let outcome = self.run(&source, 0, &After::Leave(label));
        outcome.rename(Exit::Break(label), Exit::Next)
    }

    fn repeat(&mut self, inst: Inst, label: Label) -> Outcome {
        let InstData { args, regions, .. } = self.b.func.insts[inst].clone();
        let region = regions[0];
        if !self.is_continued(region, label) {
            let params = std::mem::take(&mut self.b.func.regions[region].params);
            self.bind(&params, &args);
            return self.block(inst, label);
        }
        let source = self.take(region);
        let outcome = self.inside(region, |this| this.run(&source, 0, &After::Nothing));
        self.finish_loop(inst, label, outcome)
    }

    fn is_continued(&self, region: Region, label: Label) -> bool {
        let f = &self.b.func;
        let mut terms = f.regions_in(region).into_iter().map(|r| &f.regions[r].term);
        terms.any(|t| matches!(t, Term::Continue(l, _) if *l == label))
    }

    /// Ends the body of a `loop`, and appends it to the current region. What leaves it in other ways than its own
    /// `break` becomes further results.
    fn finish_loop(&mut self, inst: Inst, label: Label, outcome: Outcome) -> Outcome {
        let region = self.b.func.insts[inst].regions[0];
        let f = &*self.b.func;
        let params: Vec<Type> = f.regions[region].params.iter().map(|p| f.ty(*p)).collect();
        let results: Vec<Type> = f.insts[inst].results.iter().map(|r| f.ty(*r)).collect();
        let own = Exit::Break(label);
        let again = Exit::Continue(label);
        let (stop, carried, mut leaving) = self.inside(region, |this| {
            let stop = match outcome.taken(&mut this.b, again) {
                Taken::Unless(v) => v,
                taken => taken.not().value(&mut this.b),
            };
            let carried = this.values_or_zero(&outcome, again, &params);
            let leaving = if outcome.has(own) || outcome.is_only(again) || outcome.is_never() {
                this.values_or_zero(&outcome, own, &results)
            } else {
                this.b.func.insts[inst].results.clear();
                Values::new()
            };
            (stop, carried, leaving)
        });
        let mut outcome = outcome.without(again);
        let given: Values = self.b.func.insts[inst].results.iter().copied().collect();
        outcome.set_values(own, Values::new());
        let inside = defined_in(self.b.func, region);
        let mut passed: FxHashMap<Value, Value> = FxHashMap::default();
        outcome.map(|v| {
            if !inside.contains(&v) {
                return v;
            }
            *passed.entry(v).or_insert_with(|| {
                leaving.push(v);
                let ty = self.b.func.ty(v);
                self.b.func.add_result(inst, ty)
            })
        });
        outcome.set_values(own, given);
        self.leave_or_repeat(
            region,
            stop,
            Term::Break(label, leaving),
            Term::Continue(label, carried),
        );
        self.keep(inst);
        outcome.rename(own, Exit::Next)
    }

    fn leave_or_repeat(&mut self, region: Region, stop: Value, leave: Term, repeat: Term) {
        self.inside(region, |this| {
            let inst = this.b.push_typed(Op::If, &[stop], &[]);
            for term in [leave, repeat] {
                let side = this.b.region(&[], |b, _| b.end(term));
                this.b.func.insts[inst].regions.push(side);
            }
            this.b.end(Term::Unreachable);
        });
    }

    fn count(&mut self, inst: Inst, label: Label) -> Outcome {
        let InstData { args, regions, .. } = self.b.func.insts[inst].clone();
        let region = regions[0];
        if self.is_left(region, label) {
            return self.count_in_loop(inst, label, &args);
        }
        let source = self.take(region);
        self.inside(region, |this| {
            let outcome = this.run(&source, 0, &After::Nothing);
            let f = &*this.b.func;
            let types: Vec<Type> = args[3..].iter().map(|a| f.ty(*a)).collect();
            let next = this.values_or_zero(&outcome, Exit::Continue(label), &types);
            this.b.end(Term::Continue(label, next));
        });
        self.keep(inst);
        let results = self.b.func.insts[inst].results.iter().copied().collect();
        Outcome::only(Exit::Next, results)
    }

    /// Whether the body of a `for` ends the loop.
    fn is_left(&self, body: Region, label: Label) -> bool {
        let f = &self.b.func;
        let inner: FxHashSet<Label> = f
            .insts_in(body)
            .filter_map(|i| f.insts[i].op.label())
            .collect();
        f.regions_in(body)
            .iter()
            .any(|r| match &f.regions[*r].term {
                Term::Yield(_) | Term::Unreachable => false,
                Term::Break(l, _) => !inner.contains(l),
                Term::Continue(l, _) => *l != label && !inner.contains(l),
                Term::Return(_) => true,
            })
    }

    /// A `for` as a `loop` that carries the number of the iteration, which is less than 2^64 in any case.
    fn count_in_loop(&mut self, inst: Inst, label: Label, args: &[Value]) -> Outcome {
        let f = &*self.b.func;
        let scalar = f.ty(args[0]).as_scalar().unwrap_or(Scalar::I64);
        let wide = scalar.unsigned();
        let types: Vec<Type> = args[3..].iter().map(|a| f.ty(*a)).collect();
        let old = f.insts[inst].regions[0];
        let source = self.take(old);
        let turns = self.turns(args, scalar);

        let zero = self.b.int(wide, 0);
        let mut start: Values = [zero].into_iter().collect();
        start.extend(args[3..].iter().copied());
        let span = self.b.span;
        let new = self.b.func.add_inst(Op::Loop(label), start, &types, span);
        let mut params = vec![Type::Scalar(wide)];
        params.extend(&types);
        let body = self.b.func.add_region(&params);
        self.b.func.insts[new].regions.push(body);
        let params = self.b.func.regions[body].params.clone();
        let outcome = self.inside(body, |this| {
            let done = this.b.compare(CmpOp::Eq, params[0], turns);
            let then = Side {
                region: this.b.func.add_region(&[]),
                outcome: Outcome::only(Exit::Break(label), params[1..].into()),
            };
            let region = this.b.func.add_region(&[]);
            let outcome = this.inside(region, |this| {
                let number = this.b.convert(params[0], scalar);
                let distance = this.b.binary(BinOp::Mul, number, args[2]);
                let index = this.b.binary(BinOp::Add, args[0], distance);
                let mut to: Values = [index].into_iter().collect();
                to.extend(params[1..].iter().copied());
                let from = this.b.func.regions[old].params.clone();
                this.bind(&from, &to);
                this.run(&source, 0, &After::Nothing)
            });
            let otherwise = Side { region, outcome };
            let mut outcome = join(&mut this.b, Taken::If(done), then, otherwise);
            if let Some(carried) = outcome.values(Exit::Continue(label)).cloned() {
                let one = this.b.int(wide, 1);
                let next = this.b.binary(BinOp::Add, params[0], one);
                let mut values: Values = [next].into_iter().collect();
                values.extend(carried);
                outcome.set_values(Exit::Continue(label), values);
            }
            outcome
        });
        self.finish_loop(new, label, outcome)
    }

    /// The number of iterations of a `for`, in the unsigned type of its width. Differences and `abs` wrap, but
    /// what they stand for fits.
    fn turns(&mut self, args: &[Value], scalar: Scalar) -> Value {
        let b = &mut self.b;
        let (lo, hi, step) = (args[0], args[1], args[2]);
        let wide = scalar.unsigned();
        let nothing = b.int(scalar, 0);
        let up = b.compare(CmpOp::Gt, step, nothing);
        let down = b.compare(CmpOp::Lt, step, nothing);
        let ahead = b.compare(CmpOp::Lt, lo, hi);
        let behind = b.compare(CmpOp::Lt, hi, lo);
        let back = b.binary(BinOp::And, down, behind);
        let runs = b.select(up, ahead, back);
        let forwards = b.binary(BinOp::Sub, hi, lo);
        let backwards = b.binary(BinOp::Sub, lo, hi);
        let distance = b.select(up, forwards, backwards);
        let distance = b.convert(distance, wide);
        let size = b.unary(UnOp::Abs, step);
        let size = b.convert(size, wide);
        let one = b.int(wide, 1);
        let last = b.binary(BinOp::Sub, distance, one);
        let last = b.binary(BinOp::Div, last, size);
        let turns = b.binary(BinOp::Add, last, one);
        let none = b.int(wide, 0);
        b.select(runs, turns, none)
    }

    /// A parallel loop; `taken` says when it runs.
    fn for_each(&mut self, inst: Inst, label: Label, taken: Taken) -> Outcome {
        let region = self.b.func.insts[inst].regions[0];
        let source = self.take(region);
        self.inside(region, |this| {
            if taken == Taken::Always {
                this.run(&source, 0, &After::Nothing);
            } else {
                let sides = [(); 2].map(|()| this.b.func.add_region(&[]));
                this.inside(sides[0], |this| this.run(&source, 0, &After::Nothing));
                let [then, otherwise] = sides.map(|region| Side {
                    region,
                    outcome: Outcome::only(Exit::Continue(label), Values::new()),
                });
                join(&mut this.b, taken, then, otherwise);
            }
            this.b.end(Term::Continue(label, Values::new()));
        });
        self.keep(inst);
        Outcome::only(Exit::Next, Values::new())
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
