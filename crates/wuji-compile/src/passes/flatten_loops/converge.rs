//! Lets lanes converge behind a branch or strip: every lane leaves it at its end, with the number of the jump that it makes next.
//!
//! ```text
//! X { .. break L (v) .. }; Y   ->   n, v = block B { X { .. break B (1, v) .. }; break B (0) }; if n == 0 { Y } else { break L (v) }
//! ```
//!
//! A backend lets lanes converge at the immediate post-dominator of a branch, which a jump out of a loop moves far away. So that
//! it does not thread jumps through the join, there is an `active_mask`, which is convergent: it must not be duplicated.

use super::flatten::{replace_in, zeros};
use crate::rewrite::{Structure, Substitution};
use rustc_hash::FxHashSet;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Label, Region, Value};
use wuji_ir::module::{Env, Function, Term, Values};
use wuji_ir::ops::{CmpOp, Op, ThreadOp};
use wuji_ir::types::{I32, Scalar, Type};

/// Lets the lanes that execute an instruction with regions converge behind it.
pub(super) fn converge(env: &mut Env, f: &mut Function, inst: Inst) {
    let Some(region) = Structure::of(f).region_of[inst].expand() else {
        return;
    };
    let insts = std::mem::take(&mut f.regions[region].insts);
    let at = insts.iter().position(|i| *i == inst).unwrap_or(0);
    let (before, rest) = (&insts[..at], &insts[at + 1..]);
    f.regions[region].insts = before.to_vec();
    let jumps = Jumps::of(f, inst);
    let mut b = Builder::new(env, f);
    b.region = region;
    if jumps.targets.is_empty() {
        b.func.regions[region].insts.push(inst);
        b.push(Op::Thread(ThreadOp::ActiveMask), &[]);
        f.regions[region].insts.extend(rest);
        return;
    }
    let contained = jumps.contain(&mut b, inst);
    b.push(Op::Thread(ThreadOp::ActiveMask), &[]);
    let none = b.int(Scalar::I32, 0);
    let falls_through = b.compare(CmpOp::Eq, contained.number, none);
    let after = b.func.add_region(&[]);
    b.func.regions[after].insts = rest.to_vec();
    let results = f.insts[inst].results.clone();
    let mut replaced = Substitution::new();
    for (from, to) in results.iter().zip(&contained.results) {
        replaced.set(*from, *to);
    }
    for inst in rest {
        replace_in(f, &replaced, *inst);
    }
    replaced.apply_to_term(f, region);
    let term = std::mem::replace(&mut f.regions[region].term, Term::Unreachable);
    let yielded: Vec<Type> = match &term {
        Term::Yield(values) => values.iter().map(|v| f.ty(*v)).collect(),
        Term::Break(..) | Term::Continue(..) | Term::Return(_) | Term::Unreachable => Vec::new(),
    };
    let yields = matches!(term, Term::Yield(_));
    f.regions[after].term = term;
    let mut b = Builder::new(env, f);
    b.region = region;
    let other = jumps.dispatch(&mut b, &contained, 0);
    let branch = b.push_typed(Op::If, &[falls_through], &yielded);
    f.insts[branch].regions.extend([after, other]);
    if yields {
        f.regions[region].term = Term::Yield(f.insts[branch].results.iter().copied().collect());
    }
}

/// What a jump out of an instruction leads to.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum JumpTarget {
    Break(Label),
    Continue(Label),
    Return,
}

impl JumpTarget {
    fn of(term: &Term) -> Option<JumpTarget> {
        match term {
            Term::Break(label, _) => Some(JumpTarget::Break(*label)),
            Term::Continue(label, _) => Some(JumpTarget::Continue(*label)),
            Term::Return(_) => Some(JumpTarget::Return),
            Term::Yield(_) | Term::Unreachable => None,
        }
    }

    fn label(self) -> Option<Label> {
        match self {
            JumpTarget::Break(label) | JumpTarget::Continue(label) => Some(label),
            JumpTarget::Return => None,
        }
    }

    fn with(self, values: Values) -> Term {
        match self {
            JumpTarget::Break(label) => Term::Break(label, values),
            JumpTarget::Continue(label) => Term::Continue(label, values),
            JumpTarget::Return => Term::Return(values),
        }
    }
}

/// A value that a jump passes on.
#[derive(Copy, Clone, Debug)]
enum Passed {
    /// The same value from outside, for all jumps to the target.
    Same(Value),
    /// A result of the block, by its number among those for jumps.
    Slot(usize),
}

/// The jumps out of an instruction.
struct Jumps {
    /// Each with the regions that end so.
    targets: Vec<(JumpTarget, Vec<Region>)>,
    /// For each target, what is passed on.
    passed: Vec<Vec<Passed>>,
    /// The types of the slots.
    slots: Vec<Type>,
}

/// The results of a block around an instruction.
struct Contained {
    /// The number of the jump that is next; 0 for none.
    number: Value,
    results: Vec<Value>,
    slots: Vec<Value>,
}

impl Jumps {
    fn of(f: &Function, inst: Inst) -> Jumps {
        let regions: Vec<Region> = (f.insts[inst].regions.iter())
            .flat_map(|r| f.regions_in(*r))
            .collect();
        let mut labels: Vec<Label> = f.insts[inst].op.label().into_iter().collect();
        let mut inside: FxHashSet<Value> = FxHashSet::default();
        for region in &regions {
            let data = &f.regions[*region];
            inside.extend(data.params.iter().copied());
            for inst in &data.insts {
                labels.extend(f.insts[*inst].op.label());
                inside.extend(f.insts[*inst].results.iter().copied());
            }
        }
        let mut targets: Vec<(JumpTarget, Vec<Region>)> = Vec::new();
        for region in regions {
            let target = JumpTarget::of(&f.regions[region].term);
            let leaves = |t: &JumpTarget| t.label().is_none_or(|l| !labels.contains(&l));
            let Some(target) = target.filter(leaves) else {
                continue;
            };
            match targets.iter_mut().find(|(known, _)| *known == target) {
                Some((_, ends)) => ends.push(region),
                None => targets.push((target, vec![region])),
            }
        }
        let mut jumps = Jumps {
            targets,
            passed: Vec::new(),
            slots: Vec::new(),
        };
        jumps.choose_slots(f, &inside);
        jumps
    }

    fn choose_slots(&mut self, f: &Function, inside: &FxHashSet<Value>) {
        for (_, ends) in &self.targets {
            let values = |r: &Region| f.regions[*r].term.args();
            let first = values(&ends[0]);
            let mut passed = Vec::new();
            for (k, value) in first.iter().enumerate() {
                let same = ends.iter().all(|r| values(r)[k] == *value);
                passed.push(if same && !inside.contains(value) {
                    Passed::Same(*value)
                } else {
                    self.slots.push(f.ty(*value));
                    Passed::Slot(self.slots.len() - 1)
                });
            }
            self.passed.push(passed);
        }
    }

    /// Puts an instruction into a block that its jumps leave.
    fn contain(&self, b: &mut Builder, inst: Inst) -> Contained {
        let leave = b.func.fresh_label();
        let own = b.func.insts[inst].results.clone();
        let own_types: Vec<Type> = own.iter().map(|v| b.func.ty(*v)).collect();
        let types: Vec<Type> = [I32]
            .into_iter()
            .chain(own_types.iter().copied())
            .chain(self.slots.iter().copied())
            .collect();
        let own_zeros = zeros(b, &own_types);
        let slot_zeros = zeros(b, &self.slots);
        let numbers: Vec<Value> = (0..=self.targets.len())
            .map(|n| b.int(Scalar::I32, n as i128))
            .collect();
        let block = b.push_typed(Op::Block(leave), &[], &types);
        let region = b.region(&[], |b, _| {
            b.func.regions[b.region].insts.push(inst);
            let mut values: Values = [numbers[0]].into_iter().collect();
            values.extend(own.iter().chain(&slot_zeros).copied());
            b.end(Term::Break(leave, values));
        });
        let f = &mut *b.func;
        f.insts[block].regions.push(region);
        for (k, (_, ends)) in self.targets.iter().enumerate() {
            for end in ends {
                let mut slots = slot_zeros.clone();
                for (passed, value) in self.passed[k].iter().zip(f.regions[*end].term.args()) {
                    if let Passed::Slot(n) = passed {
                        slots[*n] = *value;
                    }
                }
                let mut values: Values = [numbers[k + 1]].into_iter().collect();
                values.extend(own_zeros.iter().chain(&slots).copied());
                f.regions[*end].term = Term::Break(leave, values);
            }
        }
        let results = f.insts[block].results.to_vec();
        Contained {
            number: results[0],
            results: results[1..=own.len()].to_vec(),
            slots: results[1 + own.len()..].to_vec(),
        }
    }

    /// A region that makes the jump, one of those from `k` on.
    fn dispatch(&self, b: &mut Builder, contained: &Contained, k: usize) -> Region {
        let values = (self.passed[k].iter()).map(|passed| match passed {
            Passed::Same(value) => *value,
            Passed::Slot(n) => contained.slots[*n],
        });
        let jump = self.targets[k].0.with(values.collect());
        if k + 1 == self.targets.len() {
            return b.region(&[], |b, _| b.end(jump));
        }
        let others = self.dispatch(b, contained, k + 1);
        b.region(&[], |b, _| {
            let number = b.int(Scalar::I32, k as i128 + 1);
            let is_next = b.compare(CmpOp::Eq, contained.number, number);
            let branch = b.push_typed(Op::If, &[is_next], &[]);
            let here = b.region(&[], |b, _| b.end(jump));
            b.func.insts[branch].regions.extend([here, others]);
            b.end(Term::Unreachable);
        })
    }
}
