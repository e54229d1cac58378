//! Control flow around parallel loops has no values of its own: carried values and results go through temps.

use super::segments::surrounds_loops;
use crate::rewrite::Substitution;
use wuji_ir::entities::{Inst, Label, Region, Temp, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{BOOL, Imm, Type};

/// Rewrites the control flow around parallel loops of a kernel.
pub(super) fn carry_in_temps(env: &mut Env, f: &mut Function) {
    let mut subst = Substitution::new();
    let mut work = vec![f.entry];
    while let Some(region) = work.pop() {
        let mut out = Vec::new();
        for inst in std::mem::take(&mut f.regions[region].insts) {
            if !surrounds_loops(f, inst) {
                out.push(inst);
                continue;
            }
            if let Op::For(label, _) = f.insts[inst].op {
                count_by_loop(f, inst, label);
            }
            let mut carrier = Carrier {
                env,
                f,
                subst: &mut subst,
            };
            out.extend(carrier.params(inst));
            out.push(inst);
            out.extend(carrier.results(inst));
            work.extend(&f.insts[inst].regions);
        }
        f.regions[region].insts = out;
    }
    subst.apply(f);
}

/// `for i in lo..hi` becomes a loop that carries `i`. Its step is 1.
fn count_by_loop(f: &mut Function, inst: Inst, label: Label) {
    let args = f.insts[inst].args.clone();
    let (hi, step) = (args[1], args[2]);
    let body = f.insts[inst].regions[0];
    let (index, span) = (f.regions[body].params[0], f.spans[inst]);
    let ty = f.ty(index);
    for r in f.regions_in(body) {
        let Term::Continue(l, values) = f.regions[r].term.clone() else {
            continue;
        };
        if l == label {
            let next = push(
                f,
                r,
                (Op::Binary(BinOp::Add), &[index, step]),
                Some(ty),
                span,
            );
            let values = next.into_iter().chain(values).collect();
            f.regions[r].term = Term::Continue(label, values);
        }
    }
    let carried: Values = f.regions[body].params[1..].iter().copied().collect();
    let rest = std::mem::take(&mut f.regions[body].insts);
    let more = push(
        f,
        body,
        (Op::Compare(CmpOp::Lt), &[index, hi]),
        Some(BOOL),
        span,
    );
    let (stay, leave) = (f.add_region(&[]), f.add_region(&[]));
    f.regions[stay].term = Term::Yield(Values::new());
    f.regions[leave].term = Term::Break(label, carried);
    let branch = f.add_inst(Op::If, more.into_iter().collect(), &[], span);
    f.insts[branch].regions.extend([stay, leave]);
    f.regions[body].insts.push(branch);
    f.regions[body].insts.extend(rest);
    let data = &mut f.insts[inst];
    data.op = Op::Loop(label);
    data.args = std::iter::once(args[0])
        .chain(args[3..].iter().copied())
        .collect();
}

fn push(
    f: &mut Function,
    region: Region,
    (op, args): (Op, &[Value]),
    result: Option<Type>,
    span: Span,
) -> Option<Value> {
    let results: Vec<Type> = result.into_iter().collect();
    let inst = f.add_inst(op, args.iter().copied().collect(), &results, span);
    f.regions[region].insts.push(inst);
    f.insts[inst].results.first().copied()
}

struct Carrier<'a> {
    env: &'a mut Env,
    f: &'a mut Function,
    subst: &'a mut Substitution,
}

impl Carrier<'_> {
    /// Replaces the carried values of a loop; returns the stores of the first ones.
    fn params(&mut self, inst: Inst) -> Vec<Inst> {
        let Op::Loop(label) = self.f.insts[inst].op else {
            return Vec::new();
        };
        let body = self.f.insts[inst].regions[0];
        let args = std::mem::take(&mut self.f.insts[inst].args);
        let params = std::mem::take(&mut self.f.regions[body].params);
        let temps = self.temps(&params);
        let is_again = |term: &Term| matches!(term, Term::Continue(l, _) if *l == label);
        self.store_at(inst, &temps, is_again);
        let loads = self.loads(&params, &temps);
        self.f.regions[body].insts.splice(0..0, loads);
        let first = temps.iter().zip(args);
        first.map(|(t, v)| self.store(*t, v)).collect()
    }

    /// Replaces the results of control flow; returns the loads of them.
    fn results(&mut self, inst: Inst) -> Vec<Inst> {
        let results = std::mem::take(&mut self.f.insts[inst].results);
        let temps = self.temps(&results);
        let own = self.f.insts[inst].op.label();
        let leaves = |term: &Term| matches!(term, Term::Break(l, _) if own == Some(*l));
        self.store_at(inst, &temps, leaves);
        if let Op::If | Op::Block(_) = self.f.insts[inst].op {
            for region in self.f.insts[inst].regions.clone() {
                if let Term::Yield(_) = self.f.regions[region].term {
                    self.store_args(region, &temps);
                }
            }
        }
        self.loads(&results, &temps)
    }

    fn temps(&mut self, values: &[Value]) -> Vec<Temp> {
        let types = values.iter().map(|v| self.f.ty(*v));
        types
            .map(|ty| self.env.temps.push(TempData { ty }))
            .collect()
    }

    /// Stores the values of some terminators below an instruction.
    fn store_at(&mut self, inst: Inst, temps: &[Temp], at: impl Fn(&Term) -> bool) {
        for region in self.f.insts[inst].regions.clone() {
            for r in self.f.regions_in(region) {
                if at(&self.f.regions[r].term) {
                    self.store_args(r, temps);
                }
            }
        }
    }

    fn store_args(&mut self, region: Region, temps: &[Temp]) {
        let values: Vec<Value> = self.f.regions[region].term.args().to_vec();
        for (temp, v) in temps.iter().zip(values) {
            let store = self.store(*temp, v);
            self.f.regions[region].insts.push(store);
        }
        let term = &mut self.f.regions[region].term;
        if let Term::Yield(values) | Term::Break(_, values) | Term::Continue(_, values) = term {
            values.clear();
        }
    }

    fn store(&mut self, temp: Temp, v: Value) -> Inst {
        let op = Op::Store(Access::write(Place::Temp(temp)));
        (self.f).add_inst(op, Values::from_slice(&[v]), &[], Span::UNKNOWN)
    }

    /// Loads that replace values.
    fn loads(&mut self, values: &[Value], temps: &[Temp]) -> Vec<Inst> {
        let mut loads = Vec::new();
        for (v, temp) in values.iter().zip(temps) {
            let op = Op::Load(Access::read(Place::Temp(*temp)));
            let ty = self.f.ty(*v);
            let load = self.f.add_inst(op, Values::new(), &[ty], Span::UNKNOWN);
            self.subst.set(*v, self.f.result(load));
            loads.push(load);
        }
        loads
    }
}

/// A constant step number.
pub(super) fn step_number(f: &mut Function, region: Region, step: u32) -> Option<Value> {
    let number = Imm::int(wuji_ir::types::Scalar::I32, i128::from(step));
    push(
        f,
        region,
        (Op::Const(number), &[]),
        Some(wuji_ir::types::I32),
        Span::UNKNOWN,
    )
}
