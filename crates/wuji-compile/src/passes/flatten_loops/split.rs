//! Splits the body of a loop at a branch to an inner loop: what is in front of the branch becomes an inner loop too.
//!
//! ```text
//! loop O { A; if c { B } }   ->   loop O { loop W { A; if c { break W } }; B }
//! ```
//!
//! Flattened, W is a strip of its own: lanes that go around the branch repeat A, and need not pass the steps of the inner loop
//! in B each time.

use super::Nest;
use super::flatten::{count_up, is_constant, replace_in};
use crate::analysis::uses::used_by;
use crate::rewrite::{Map, Structure, Substitution, clone_inst};
use rustc_hash::FxHashSet;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Label, Region, Value};
use wuji_ir::module::{Env, Function, Term, Values};
use wuji_ir::ops::Op;
use wuji_ir::types::Type;

/// Instructions behind the branch that both of its sides may get.
const MOST_BEHIND: usize = 8;

/// A loop whose body ends in a branch to an inner loop.
#[derive(Copy, Clone, Debug)]
pub(super) struct Branch {
    outer: Inst,
    pub(super) inst: Inst,
    /// The side with the inner loop.
    side: usize,
}

/// The branch of a nest, if the loop can be split there.
pub(super) fn branch(f: &Function, nest: Nest) -> Option<Branch> {
    let structure = Structure::of(f);
    let body = f.insts[nest.outer].regions[0];
    let mut region = structure.region_of[nest.inner].expand()?;
    let mut below = None;
    let mut inst = nest.inner;
    while region != body {
        below = Some(region);
        inst = structure.owner[region].expand()?;
        region = structure.region_of[inst].expand()?;
    }
    let data = &f.insts[inst];
    let side = data.regions.iter().position(|r| Some(*r) == below)?;
    let insts = &f.regions[body].insts;
    let at = insts.iter().position(|i| *i == inst)?;
    let behind = &insts[at + 1..];
    let continues = matches!(&f.regions[body].term, Term::Continue(to, _) if Some(*to) == f.insts[nest.outer].op.label());
    let is_short =
        behind.len() <= MOST_BEHIND && behind.iter().all(|i| f.insts[*i].regions.is_empty());
    (data.op == Op::If && continues && is_short).then_some(Branch {
        outer: nest.outer,
        inst,
        side,
    })
}

/// Splits a loop; returns the new inner loop.
pub(super) fn split(env: &mut Env, f: &mut Function, branch: Branch) -> Option<Inst> {
    count_up(env, f, branch.outer);
    let label = f.insts[branch.outer].op.label()?;
    let parts = Parts::take(f, branch)?;
    let repeated = parts.repeat(f, label);
    let search = parts.search(env, f, &repeated);
    parts.rest(f, branch, search, &repeated);
    Some(search)
}

/// The parts of a loop's body.
struct Parts {
    body: Region,
    constants: Vec<Inst>,
    /// In front of the branch.
    before: Vec<Inst>,
    branch: Inst,
    /// The side with the inner loop, and the other one.
    taken: Region,
    other: Region,
    is_first: bool,
    behind: Vec<Inst>,
    /// Values from in front of the branch which the side with the inner loop, or something behind, uses.
    given: Vec<Value>,
}

/// How an iteration that does not reach the inner loop continues.
struct Repeated {
    label: Label,
    /// The numbers of the parameters that change.
    changed: Vec<usize>,
}

impl Parts {
    fn take(f: &mut Function, branch: Branch) -> Option<Parts> {
        let body = f.insts[branch.outer].regions[0];
        let insts = std::mem::take(&mut f.regions[body].insts);
        let at = insts.iter().position(|i| *i == branch.inst)?;
        let (constants, before): (Vec<Inst>, Vec<Inst>) =
            insts[..at].iter().partition(|i| is_constant(f, **i));
        let regions = f.insts[branch.inst].regions.clone();
        let (taken, other) = (regions[branch.side], regions[1 - branch.side]);
        let behind = insts[at + 1..].to_vec();
        let mut used: FxHashSet<Value> = f.regions[body].term.args().iter().copied().collect();
        used.extend(f.regions[taken].term.args().iter().copied());
        let later = f.regions[taken].insts.iter().chain(&behind);
        later.for_each(|i| used.extend(used_by(f, *i)));
        let given = before.iter().flat_map(|i| f.insts[*i].results.iter());
        let given = given.copied().filter(|v| used.contains(v)).collect();
        Some(Parts {
            body,
            constants,
            before,
            branch: branch.inst,
            taken,
            other,
            is_first: branch.side == 0,
            behind,
            given,
        })
    }

    /// Makes iterations that do not reach the inner loop continue the new loop.
    fn repeat(&self, f: &mut Function, label: Label) -> Repeated {
        self.extend_other(f);
        let params = f.regions[self.body].params.clone();
        let mut ends: Vec<Region> = f.regions_in(self.other);
        for inst in &self.before {
            for region in f.insts[*inst].regions.clone() {
                ends.extend(f.regions_in(region));
            }
        }
        ends.retain(|r| matches!(&f.regions[*r].term, Term::Continue(to, _) if *to == label));
        let changes = |k: &usize| {
            let passed = |r: &Region| f.regions[*r].term.args()[*k];
            ends.iter().any(|r| passed(r) != params[*k])
        };
        let changed: Vec<usize> = (0..params.len()).filter(changes).collect();
        let own = f.fresh_label();
        for region in ends {
            let values = f.regions[region].term.args();
            let values = changed.iter().map(|k| values[*k]).collect();
            f.regions[region].term = Term::Continue(own, values);
        }
        Repeated {
            label: own,
            changed,
        }
    }

    /// Gives the other side what follows the branch.
    fn extend_other(&self, f: &mut Function) {
        let Term::Yield(values) = f.regions[self.other].term.clone() else {
            return;
        };
        let mut map = Map::of(&f.insts[self.branch].results, &values);
        for inst in &self.behind {
            let copy = clone_inst(f, *inst, &mut map);
            f.regions[self.other].insts.push(copy);
        }
        f.regions[self.other].term = map.term(&f.regions[self.body].term);
    }

    /// Builds the loop that runs until the branch is taken.
    fn search(&self, env: &mut Env, f: &mut Function, repeated: &Repeated) -> Inst {
        let params = f.regions[self.body].params.clone();
        let carried: Vec<Value> = repeated.changed.iter().map(|k| params[*k]).collect();
        let types = |values: &[Value], f: &Function| -> Vec<Type> {
            values.iter().map(|v| f.ty(*v)).collect()
        };
        let own = types(&carried, f);
        let mut results = own.clone();
        results.extend(types(&self.given, f));
        let inside = f.add_region(&own);
        let mut replaced = Substitution::new();
        for (from, to) in carried.iter().zip(f.regions[inside].params.clone()) {
            replaced.set(*from, to);
        }
        let mut out: Values = f.regions[inside].params.clone();
        out.extend(self.given.iter().copied());
        f.regions[inside].insts = self.before.clone();
        let mut b = Builder::new(env, f);
        b.region = self.body;
        b.span = b.func.spans[self.branch];
        let search = b.push_typed(Op::Loop(repeated.label), &carried, &results);
        b.region = inside;
        let condition = b.func.insts[self.branch].args[0];
        let found = b.push_typed(Op::If, &[condition], &[]);
        let end = b.region(&[], |b, _| b.end(Term::Break(repeated.label, out)));
        let sides = if self.is_first {
            [end, self.other]
        } else {
            [self.other, end]
        };
        f.insts[found].regions.extend(sides);
        f.insts[search].regions.push(inside);
        for inst in f.regions[inside].insts.clone() {
            replace_in(f, &replaced, inst);
        }
        search
    }

    /// The body continues with the side of the inner loop.
    fn rest(&self, f: &mut Function, branch: Branch, search: Inst, repeated: &Repeated) {
        let params = f.regions[self.body].params.clone();
        let from = repeated.changed.iter().map(|k| params[*k]);
        let from = from.chain(self.given.iter().copied());
        let mut replaced = Substitution::new();
        for (from, to) in from.zip(f.insts[search].results.clone()) {
            replaced.set(from, to);
        }
        let mut insts = std::mem::take(&mut f.regions[self.taken].insts);
        if let Term::Yield(values) = f.regions[self.taken].term.clone() {
            for (from, to) in f.insts[branch.inst].results.clone().iter().zip(values) {
                replaced.set(*from, to);
            }
            insts.extend(&self.behind);
        } else {
            f.regions[self.body].term = f.regions[self.taken].term.clone();
        }
        for inst in &insts {
            replace_in(f, &replaced, *inst);
        }
        replaced.apply_to_term(f, self.body);
        let mut all = self.constants.clone();
        all.push(search);
        all.extend(insts);
        f.regions[self.body].insts = all;
    }
}
