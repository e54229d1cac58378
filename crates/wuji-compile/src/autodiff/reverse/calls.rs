//! Calls of functions that are not inlined: recursive ones.

use super::adjoint::Adjoint;
use super::{Reverse, Shared};
use crate::autodiff::activity::Activity;
use crate::autodiff::shape::has_floats;
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Inst, Value};
use wuji_ir::module::{Env, Function, Term, Values};
use wuji_ir::ops::Op;
use wuji_ir::types::Type;

impl Reverse<'_, '_> {
    /// The results of a call, without its side effects.
    pub(super) fn forward_call(&mut self, inst: Inst, callee: Func) -> Result<()> {
        let data = &self.f.insts[inst];
        let args = self.values(&data.args)?;
        self.b.span = self.f.spans[inst];
        let values = match self.shared.funcs[callee].reverse {
            Some(_) => callee,
            None => values_of(self.shared, self.b.env, callee)?,
        };
        let copy = self.b.push(Op::Call(values), &args);
        let new = self.b.func.insts[copy].results.clone();
        self.map.extend(data.results.iter().copied().zip(new));
        Ok(())
    }

    /// The reverse sweep of a call is a call.
    pub(super) fn call(&mut self, inst: Inst, callee: Func) -> Result<()> {
        let data = &self.f.insts[inst];
        let mut args = self.values(&data.args)?;
        let given = self.shared.funcs[callee].reverse;
        if given.is_some() {
            args.extend(self.values(&data.results)?);
        }
        for r in &data.results {
            if has_floats(&self.b.env.structs, self.f.ty(*r)) {
                args.push(self.take_or_zero(*r));
            }
        }
        let reversed = match given {
            Some(given) => given,
            None => reversed_of(self.shared, self.b.env, callee)?,
        };
        let call = self.b.push(Op::Call(reversed), &args);
        let structs = &self.b.env.structs;
        let of = |a: &Value| has_floats(structs, self.f.ty(*a));
        let inputs: Vec<Value> = data.args.iter().copied().filter(of).collect();
        let adjoints = self.adjoints_of_call(call, inputs.len());
        for (a, adjoint) in inputs.into_iter().zip(adjoints) {
            self.add(a, Adjoint::Whole(adjoint));
        }
        Ok(())
    }

    /// The results of a call, or the members of the struct that it returns in place of so many.
    fn adjoints_of_call(&mut self, call: Inst, count: usize) -> Values {
        let results = self.b.func.insts[call].results.clone();
        match results[..] {
            [all] if count > 1 => (0..count as u32)
                .map(|k| self.b.value(Op::Extract(k), &[all]))
                .collect(),
            _ => results.into_iter().collect(),
        }
    }
}

/// A function with the reverse sweep of another: it takes the arguments and the adjoints of the results, and gives
/// the adjoints of the parameters.
fn reversed_of(shared: &mut Shared<'_>, env: &mut Env, callee: Func) -> Result<Func> {
    if let Some(known) = shared.reversed.get(&callee) {
        return Ok(*known);
    }
    let funcs = shared.funcs;
    let f = &funcs[callee];
    let inputs: Vec<Type> = f.params().iter().map(|p| f.ty(*p)).collect();
    let floats = |list: &[Type]| -> Vec<Type> {
        list.iter()
            .copied()
            .filter(|t| has_floats(&env.structs, *t))
            .collect()
    };
    let (adjoints, results) = (floats(&f.results), floats(&inputs));
    let params: Vec<Type> = inputs.iter().copied().chain(adjoints).collect();
    let declared = env.declare(&params, &results);
    shared.reversed.insert(callee, declared);
    let activity = Activity::of(env, funcs, f, shared.adjoints, false)?;
    let mut g = Function::new(format!("{} reversed", f.name), &params, &results);
    let seeds: Vec<Value> = g.params()[inputs.len()..].to_vec();
    let mut reverse = Reverse::new(shared, f, &activity, Builder::new(env, &mut g));
    reverse.forward(f.entry)?;
    let mut seeds = seeds.into_iter();
    if let Term::Return(values) = &f.regions[f.entry].term {
        for v in values {
            if has_floats(&reverse.b.env.structs, f.ty(*v))
                && let Some(seed) = seeds.next()
            {
                reverse.add(*v, Adjoint::Whole(seed));
            }
        }
    }
    reverse.reverse(f.entry)?;
    let mut out = Values::new();
    for p in f.params() {
        if has_floats(&reverse.b.env.structs, f.ty(*p)) {
            out.push(reverse.take_or_zero(*p));
        }
    }
    reverse.b.end(Term::Return(out));
    env.define(declared, g);
    Ok(declared)
}

/// A copy of a function that only computes its results.
fn values_of(shared: &mut Shared<'_>, env: &mut Env, callee: Func) -> Result<Func> {
    if let Some(known) = shared.values.get(&callee) {
        return Ok(*known);
    }
    let funcs = shared.funcs;
    let f = &funcs[callee];
    let params: Vec<Type> = f.params().iter().map(|p| f.ty(*p)).collect();
    let declared = env.declare(&params, &f.results);
    shared.values.insert(callee, declared);
    let activity = Activity::of_results(env, funcs, f, shared.adjoints)?;
    let mut g = Function::new(format!("{} values", f.name), &params, &f.results);
    let mut reverse = Reverse::new(shared, f, &activity, Builder::new(env, &mut g));
    reverse.forward(f.entry)?;
    let values = reverse.values(f.regions[f.entry].term.args())?;
    reverse.b.end(Term::Return(values));
    env.define(declared, g);
    Ok(declared)
}
