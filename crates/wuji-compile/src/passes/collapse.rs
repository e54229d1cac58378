//! Loop collapse: a serial loop whose iterations are independent becomes a dimension of the parallel loop around it.
//!
//! `for i in range(n): for j in range(m): y[i, j] = ...` has a parallel loop over `i` only. As one loop over both, it
//! has more iterations for threads, and passes can choose the loop that runs along memory.

use crate::analysis::independence::{Accesses, Reductions, runs_to_its_end};
use crate::passes::Cx;
use crate::rewrite::{Structure, Substitution};
use rustc_hash::FxHashSet;
use wuji_ir::Result;
use wuji_ir::entities::{Inst, Label, Region, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::Imm;

/// Loops with fewer iterations stay inside: as the innermost dimension they would leave most lanes of a vector, or of a warp, unused.
const FEWEST: i128 = 32;

/// The most work before an inner loop, which every iteration of it would repeat.
const MOST_REPEATED: u64 = 16;

/// The pass; the [module](self) describes it.
pub fn collapse(m: &mut Module, cx: &mut Cx) -> Result<()> {
    let Some(kernel) = m.kernel else {
        return Ok(());
    };
    let nests = find(&m.env, &m.funcs[kernel], cx.options.deterministic);
    let f = &mut m.funcs[kernel];
    let mut subst = Substitution::new();
    for nest in nests {
        if cx.fuel() {
            nest.apply(f, &mut subst);
        }
    }
    subst.apply(f);
    Ok(())
}

/// The nests that can be collapsed.
fn find(m: &Env, f: &Function, in_order: bool) -> Vec<Nest> {
    let mut nests: Vec<Nest> = f
        .insts_in(f.entry)
        .filter_map(|inst| Nest::of(f, inst))
        .collect();
    if nests.is_empty() {
        return nests;
    }
    let structure = Structure::of(f);
    let mut affine = crate::analysis::affine::AffineAnalysis::new(f, &structure);
    nests.retain_mut(|nest| {
        let body = f.insts[nest.foreach].regions[0];
        let Some(accesses) = Accesses::of(m, f, body) else {
            return false;
        };
        let reductions = if in_order {
            Reductions::InOrder
        } else {
            Reductions::OfOneElement(body)
        };
        let legal = nest.inner.iter().take_while(|inner| {
            nest_bounds(f, &structure, body, **inner).is_some()
                && accesses.are_independent(&mut affine, **inner, reductions)
        });
        let depth = legal.count();
        nest.inner.truncate(depth);
        for inner in &nest.inner {
            nest.bounds.extend(
                nest_bounds(f, &structure, body, *inner)
                    .into_iter()
                    .flatten(),
            );
        }
        let read_only = nest.prefixes(f).all(|i| accesses.can_repeat(f, i));
        depth > 0 && read_only && nest.is_cheap(f)
    });
    nests
}

/// Whether an instruction divides by a constant, which takes no division. Periodic indices do.
fn is_short_remainder(f: &Function, inst: Inst) -> bool {
    let data = &f.insts[inst];
    let is_constant = || f.constant(data.args[1]).and_then(Imm::as_int).is_some();
    matches!(data.op, Op::Binary(BinOp::Rem | BinOp::Div)) && is_constant()
}

/// A parallel loop, and the perfectly nested loops inside that become dimensions of it.
struct Nest {
    foreach: Inst,
    label: Label,
    /// From the outermost to the innermost.
    inner: Vec<Inst>,
    /// Instructions of the body that compute bounds and move before the loop.
    bounds: FxHashSet<Inst>,
}

impl Nest {
    /// A nest of the right shape, if there is one; whether its iterations are independent is not known yet.
    fn of(f: &Function, foreach: Inst) -> Option<Nest> {
        let Op::ForEach(label, Domain::Range { rank }, hints) = &f.insts[foreach].op else {
            return None;
        };
        if hints.serial || hints.cooperative || hints.block_size.is_some() {
            return None;
        }
        let mut inner = Vec::new();
        let mut body = f.insts[foreach].regions[0];
        while let Some(next) = only_loop(f, body)
            && usize::from(*rank) + inner.len() < usize::from(u8::MAX)
        {
            inner.push(next);
            body = f.insts[next].regions[0];
        }
        (!inner.is_empty()).then_some(Nest {
            foreach,
            label: *label,
            inner,
            bounds: FxHashSet::default(),
        })
    }

    /// The instructions before each inner loop, except for those that compute bounds.
    fn prefixes<'a>(&'a self, f: &'a Function) -> impl Iterator<Item = Inst> + 'a {
        let around = std::iter::once(&self.foreach).chain(&self.inner);
        let before = around.zip(&self.inner).flat_map(move |(outer, inner)| {
            let region = f.insts[*outer].regions[0];
            let insts = f.regions[region].insts.iter().copied();
            insts.filter(move |i| i != inner)
        });
        before.filter(|i| !self.bounds.contains(i))
    }

    fn is_cheap(&self, f: &Function) -> bool {
        let work = |inst| {
            if is_short_remainder(f, inst) {
                return CostClass::Cheap.units();
            }
            f.insts[inst].op.cost().units()
        };
        self.prefixes(f).map(work).sum::<u64>() <= MOST_REPEATED
    }

    fn apply(&self, f: &mut Function, subst: &mut Substitution) {
        let body = f.insts[self.foreach].regions[0];
        let (moved, mut insts): (Vec<Inst>, Vec<Inst>) = self
            .all_prefixes(f)
            .into_iter()
            .partition(|i| self.bounds.contains(i));
        let mut last = body;
        for inner in &self.inner {
            let data = f.insts[*inner].clone();
            last = data.regions[0];
            let old = f.regions[last].params[0];
            let new = f.add_region_param(body, f.ty(old));
            subst.set(old, new);
            f.insts[self.foreach]
                .args
                .extend_from_slice(&data.args[..2]);
            if let Op::ForEach(_, Domain::Range { rank }, _) = &mut f.insts[self.foreach].op {
                *rank += 1;
            }
            if let Some(old) = data.op.label() {
                relabel(f, last, old, self.label);
            }
        }
        insts.append(&mut f.regions[last].insts);
        f.regions[body].insts = insts;
        f.regions[body].term = f.regions[last].term.clone();
        for region in f.walk_regions() {
            let insts = &mut f.regions[region].insts;
            if let Some(at) = insts.iter().position(|i| *i == self.foreach) {
                insts.splice(at..at, moved);
                break;
            }
        }
    }

    /// The instructions before each inner loop.
    fn all_prefixes(&self, f: &Function) -> Vec<Inst> {
        let around = std::iter::once(&self.foreach).chain(&self.inner);
        around
            .zip(&self.inner)
            .flat_map(|(outer, inner)| {
                let insts = &f.regions[f.insts[*outer].regions[0]].insts;
                insts.iter().copied().filter(move |i| i != inner)
            })
            .collect()
    }
}

/// The loop that is all of a body, except for instructions before it. It counts up by one from iteration to iteration,
/// carries no values, and nothing leaves it early.
fn only_loop(f: &Function, body: Region) -> Option<Inst> {
    let (inst, before) = f.regions[body].insts.split_last()?;
    let data = &f.insts[*inst];
    let Op::For(label, ForKind::Serial) = data.op else {
        return None;
    };
    let number = |k: usize| f.constant(data.args[k]).and_then(Imm::as_int);
    let short = number(1)
        .zip(number(0))
        .is_some_and(|(hi, lo)| hi - lo < FEWEST);
    let movable = |i: &Inst| {
        let op = &f.insts[*i].op;
        op.effect() == Effect::Pure || matches!(op, Op::Load(_))
    };
    let inside = data.regions[0];
    let perfect = matches!(f.regions[body].term, Term::Continue(..))
        && matches!(f.regions[inside].term, Term::Continue(l, _) if l == label)
        && data.args.len() == 3
        && !short
        && before.iter().all(movable)
        && runs_to_its_end(f, *inst);
    perfect.then_some(*inst)
}

/// The instructions that compute the bounds of a loop inside `body`, if they can move before it.
fn nest_bounds(
    f: &Function,
    structure: &Structure,
    body: Region,
    inner: Inst,
) -> Option<Vec<Inst>> {
    let mut found = Vec::new();
    let mut work: Vec<Value> = f.insts[inner].args[..2].to_vec();
    while let Some(v) = work.pop() {
        if structure.is_invariant(f, v, body) {
            continue;
        }
        let inst = f.def(v)?;
        let data = &f.insts[inst];
        if !data.is_pure() {
            return None;
        }
        if !found.contains(&inst) {
            found.push(inst);
            work.extend(&data.args);
        }
    }
    Some(found)
}

/// Jumps to `old` inside a region become jumps to `new`.
fn relabel(f: &mut Function, region: Region, old: Label, new: Label) {
    for r in f.regions_in(region) {
        if let Term::Continue(l, _) = &mut f.regions[r].term
            && *l == old
        {
            *l = new;
        }
    }
}
