//! Unroll-and-jam of loops whose vectors are those of the program.
//!
//! A sum of such vectors is one register, and every addition waits for the one before it. Several iterations side by side
//! hide that latency, and share what they load alike. Iterations are independent, so they may run in lockstep.
//!
//! Where an iteration begins with a condition, the ones for which it does not hold repeat another one of their group: they
//! load and store what that one does, so nothing has to be masked. If it holds for none, the group does nothing.

use super::innermost;
use crate::analysis::cost::trips;
use crate::passes::Cx;
use crate::rewrite::Structure;
use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::build::Builder;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{I64, Type};

/// Sums that are in registers at a time.
const REGISTERS: usize = 16;
/// The most instructions of all copies.
const MOST_INSTS: usize = 4096;
/// Vector operations for each sum: longer bodies have enough of them to hide the latency.
const MOST_WORK: usize = 2;

/// Jams the innermost parallel loops of a function. Returns the number of iterations for each.
pub(super) fn jam(m: &mut Env, f: &mut Function, cx: &mut Cx) -> Vec<u8> {
    let old = f.clone();
    let structure = Structure::of(&old);
    let mut found = Vec::new();
    for inst in innermost(&old) {
        let plan = JamPlan::of(&old, inst, cx.options.vector_bits);
        let copies = match (plan, structure.region_of[inst].expand()) {
            (Some(plan), Some(parent)) if cx.fuel() => {
                apply(m, f, &old, inst, parent, &plan);
                plan.copies
            }
            _ => 1,
        };
        found.push(copies as u8);
    }
    found
}

/// How a loop is jammed.
struct JamPlan {
    copies: usize,
    /// The position of the condition that an iteration begins with.
    guard: Option<usize>,
}

impl JamPlan {
    fn of(f: &Function, inst: Inst, vector_bits: u32) -> Option<JamPlan> {
        let data = &f.insts[inst];
        let label = data.op.label()?;
        let body = data.regions[0];
        let count = trips(f, inst)?;
        let step = f.constant(data.args[2])?.as_int()?;
        if step != 1 || f.ty(data.args[0]) != I64 || data.args.len() != 3 {
            return None;
        }
        let ends =
            matches!(&f.regions[body].term, Term::Continue(l, v) if *l == label && v.is_empty());
        if !ends {
            return None;
        }
        let guard = guard(f, body, label);
        let mut facts = Facts {
            f,
            register: vector_bits,
            varying: FxHashSet::default(),
            sums: 0,
            work: 0,
        };
        facts.varying.insert(f.regions[body].params[0]);
        for (k, i) in f.regions[body].insts.iter().enumerate() {
            if guard != Some(k) {
                facts.inst(*i, guard.is_some_and(|g| k < g))?;
            }
        }
        if facts.sums == 0 || facts.work > MOST_WORK * facts.sums {
            return None;
        }
        let insts = f.insts_in(body).count();
        let fits = |copies: &usize| {
            count % *copies as u64 == 0
                && facts.sums * copies <= REGISTERS
                && insts * copies <= MOST_INSTS
        };
        let copies = [4, 2].into_iter().find(fits)?;
        Some(JamPlan { copies, guard })
    }
}

/// The position of `if c { yield } else { continue }` in the body of a loop.
fn guard(f: &Function, body: Region, label: Label) -> Option<usize> {
    f.regions[body].insts.iter().position(|i| {
        let data = &f.insts[*i];
        let [then, otherwise] = &data.regions[..] else {
            return false;
        };
        let (then, otherwise) = (&f.regions[*then], &f.regions[*otherwise]);
        data.op == Op::If
            && data.results.is_empty()
            && then.insts.is_empty()
            && otherwise.insts.is_empty()
            && matches!(then.term, Term::Yield(_))
            && matches!(&otherwise.term, Term::Continue(l, _) if *l == label)
    })
}

/// What the instructions of a loop say about jamming it.
struct Facts<'a> {
    f: &'a Function,
    register: u32,
    /// Values that differ between iterations.
    varying: FxHashSet<Value>,
    /// Registers that loops carry, at most.
    sums: usize,
    /// Operations on vectors in the loop that carries them.
    work: usize,
}

impl Facts<'_> {
    /// `None` if copies of the instruction cannot run side by side.
    fn inst(&mut self, inst: Inst, before_guard: bool) -> Option<()> {
        let data = &self.f.insts[inst];
        match data.op.class() {
            OpClass::Constant(_)
            | OpClass::Elementwise(_)
            | OpClass::Component(_)
            | OpClass::Reduce(_)
            | OpClass::Query(_)
            | OpClass::Memory(MemoryOp::MemLoad(..)) => {
                if data.args.iter().any(|a| self.varying.contains(a)) {
                    self.varying.extend(data.results.iter().copied());
                }
                Some(())
            }
            OpClass::Memory(MemoryOp::MemStore(_)) => (!before_guard).then_some(()),
            OpClass::Control(ControlOp::For(label, ForKind::Serial)) if !before_guard => {
                self.sum(data, label)
            }
            OpClass::Memory(_)
            | OpClass::Control(_)
            | OpClass::Algebra(_)
            | OpClass::Hint(_)
            | OpClass::Access(..)
            | OpClass::Cell(..)
            | OpClass::TreeAccess(..)
            | OpClass::Call(_)
            | OpClass::Random
            | OpClass::Thread(_)
            | OpClass::Check(_) => None,
        }
    }

    /// A serial loop with the same bounds in all iterations.
    fn sum(&mut self, data: &InstData, label: Label) -> Option<()> {
        let f = self.f;
        let body = &f.regions[data.regions[0]];
        let bounds = &data.args[..3];
        let ends = matches!(&body.term, Term::Continue(l, _) if *l == label);
        if !ends || bounds.iter().any(|b| self.varying.contains(b)) {
            return None;
        }
        self.varying.extend(data.results.iter().copied());
        self.varying.extend(body.params[1..].iter().copied());
        let register = self.register.max(1);
        let registers = |v: &Value| match f.ty(*v) {
            Type::Vector(s, n) => (u32::from(n) * s.bits()).div_ceil(register) as usize,
            Type::Scalar(_) | Type::Matrix(..) | Type::Struct(_) => 0,
        };
        let sums: usize = data.results.iter().map(registers).sum();
        let mut work = 0;
        for i in &body.insts {
            let inner = &f.insts[*i];
            if let OpClass::Elementwise(_) = inner.op.class() {
                work += inner.results.iter().map(registers).sum::<usize>();
            }
            self.inst(*i, false)?;
        }
        if sums > self.sums {
            (self.sums, self.work) = (sums, work);
        }
        Some(())
    }
}

fn apply(
    m: &mut Env,
    f: &mut Function,
    old: &Function,
    inst: Inst,
    parent: Region,
    plan: &JamPlan,
) {
    let Some(at) = f.regions[parent].insts.iter().position(|i| *i == inst) else {
        return;
    };
    let body = old.insts[inst].regions[0];
    let mut b = Builder::new(m, f);
    b.span = old.spans[inst];
    let after = b.func.regions[parent].insts.split_off(at);
    b.region = parent;
    let step = b.i64(plan.copies as i64);
    b.func.regions[parent].insts.extend(after);
    let region = b.func.add_region(&[I64]);
    b.region = region;
    let first = b.func.regions[region].params[0];
    let mut jam = Jam {
        b,
        old,
        copies: vec![FxHashMap::default(); plan.copies],
    };
    jam.body(body, first, plan.guard);
    jam.b.span = old.regions[body].term_span;
    jam.b.end(old.regions[body].term.clone());
    f.insts[inst].args[2] = step;
    f.insts[inst].regions[0] = region;
}

/// Copies of a loop body, side by side.
struct Jam<'a> {
    b: Builder<'a>,
    old: &'a Function,
    /// The new values of old ones, in every copy; values from outside are not there.
    copies: Vec<FxHashMap<Value, Value>>,
}

impl Jam<'_> {
    fn get(&self, copy: usize, old: Value) -> Value {
        self.copies[copy].get(&old).copied().unwrap_or(old)
    }

    fn args(&self, copy: usize, old: &[Value]) -> Values {
        old.iter().map(|v| self.get(copy, *v)).collect()
    }

    fn set(&mut self, copy: usize, old: &[Value], new: &[Value]) {
        self.copies[copy].extend(old.iter().copied().zip(new.iter().copied()));
    }

    /// The body of the parallel loop, for the iterations from `first` on.
    fn body(&mut self, body: Region, first: Value, guard: Option<usize>) {
        let index = self.old.regions[body].params[0];
        let insts = &self.old.regions[body].insts;
        for copy in 0..self.copies.len() {
            let number = self.b.i64(copy as i64);
            let at = self.b.binary(BinOp::Add, first, number);
            self.set(copy, &[index], &[at]);
        }
        let Some(guard) = guard else {
            return self.insts(insts);
        };
        self.insts(&insts[..guard]);
        self.only_active(insts[guard], index);
        self.insts(&insts[..guard]);
        self.insts(&insts[guard + 1..]);
    }

    /// Leaves the group if the condition holds for no iteration; otherwise those for which it does not hold become one for
    /// which it does.
    fn only_active(&mut self, guard: Inst, index: Value) {
        let data = &self.old.insts[guard];
        let state: Vec<(Value, Value)> = (0..self.copies.len())
            .map(|copy| (self.get(copy, data.args[0]), self.get(copy, index)))
            .collect();
        self.b.span = self.old.spans[guard];
        let (mut any, mut active) = state[0];
        for (condition, at) in &state[1..] {
            active = self.b.select(*condition, *at, active);
            any = self.b.binary(BinOp::Or, any, *condition);
        }
        let leave = self.b.push_typed(Op::If, &[any], &[]);
        for r in &data.regions {
            let region = self.b.func.add_region(&[]);
            self.b.func.regions[region].term = self.old.regions[*r].term.clone();
            self.b.func.regions[region].term_span = self.old.regions[*r].term_span;
            self.b.func.insts[leave].regions.push(region);
        }
        for (copy, (condition, at)) in state.into_iter().enumerate() {
            let at = self.b.select(condition, at, active);
            self.set(copy, &[index], &[at]);
        }
    }

    fn insts(&mut self, insts: &[Inst]) {
        for inst in insts {
            self.b.span = self.old.spans[*inst];
            let data = &self.old.insts[*inst];
            if data.regions.is_empty() {
                self.plain(data);
            } else {
                self.serial_loop(data);
            }
        }
    }

    /// One instruction for all copies if they agree in its arguments, except for stores.
    fn plain(&mut self, data: &InstData) {
        let types: Vec<Type> = data.results.iter().map(|r| self.old.ty(*r)).collect();
        let mut last: Option<(Values, Values)> = None;
        for copy in 0..self.copies.len() {
            let args = self.args(copy, &data.args);
            let same = last
                .as_ref()
                .filter(|(of, new)| *of == args && !new.is_empty());
            let new = match same {
                Some((_, new)) => new.clone(),
                None => {
                    let inst = self.b.push_typed(data.op.clone(), &args, &types);
                    self.b.func.insts[inst].results.iter().copied().collect()
                }
            };
            self.set(copy, &data.results, &new);
            last = Some((args, new));
        }
    }

    /// One loop that carries the values of all copies.
    fn serial_loop(&mut self, data: &InstData) {
        let old = self.old;
        let (bounds, carried) = data.args.split_at(3);
        let (count, copies) = (carried.len(), self.copies.len());
        let bounds = self.args(0, bounds);
        let start: Values = (0..copies).flat_map(|c| self.args(c, carried)).collect();
        let body = &old.regions[data.regions[0]];
        let Op::For(_, kind) = data.op else { return };
        let label = self.b.func.fresh_label();
        let types: Vec<Type> = start.iter().map(|v| self.b.func.ty(*v)).collect();
        let mut args = bounds.clone();
        args.extend(start);
        let new = self.b.push_typed(Op::For(label, kind), &args, &types);
        let mut params = vec![old.ty(body.params[0])];
        params.extend(&types);
        let region = self.b.func.add_region(&params);
        let params: Values = self.b.func.regions[region].params.iter().copied().collect();
        for copy in 0..copies {
            self.set(copy, &body.params[..1], &params[..1]);
            let mine = &params[1 + copy * count..][..count];
            self.set(copy, &body.params[1..], mine);
        }
        let outer = std::mem::replace(&mut self.b.region, region);
        self.insts(&body.insts);
        let next = (0..copies).flat_map(|c| self.args(c, body.term.args()));
        let next: Values = next.collect();
        self.b.span = body.term_span;
        self.b.end(Term::Continue(label, next));
        self.b.region = outer;
        self.b.func.insts[new].regions.push(region);
        let results: Values = self.b.func.insts[new].results.iter().copied().collect();
        for copy in 0..copies {
            let mine = &results[copy * count..][..count];
            self.set(copy, &data.results, mine);
        }
    }
}
