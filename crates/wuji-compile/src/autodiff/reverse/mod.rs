//! Reverse mode: the gradient kernel of a normalized kernel.
//!
//! `forward` has the forward sweep, which computes needed values again; the other files have the reverse sweep:
//! `rules` for pure operations, `memory` for accesses, `control` for branches and parallel loops, `loops` for the
//! others, `calls` for recursive functions.

mod adjoint;
mod calls;
mod control;
mod forward;
mod loops;
mod memory;
mod rules;

use super::activity::{Activity, Needed};
use super::shape::{Flow, flow_of};
use super::{Derivatives, shape};
use crate::remark::{Decision, Remark, Reversal};
use adjoint::Adjoint;
pub(super) use rules::algebra_needs;

/// Adjoints that a region adds to.
type Frame = BTreeMap<Value, Adjoint>;
use cranelift_entity::PrimaryMap;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Inst, Region, Temp, Value};
use wuji_ir::module::{Env, Function, Term};
use wuji_ir::ops::{AtomicOp, Op};
use wuji_ir::{Error, Position, Result};

/// What the gradient functions of a module share.
struct Shared<'m> {
    /// The normalized functions.
    funcs: &'m PrimaryMap<Func, Function>,
    adjoints: &'m Derivatives,
    /// The functions with the reverse sweeps of others.
    reversed: FxHashMap<Func, Func>,
    /// Copies of functions without side effects.
    values: FxHashMap<Func, Func>,
    /// The adjoints of temps.
    temps: BTreeMap<Temp, Temp>,
    remarks: Vec<Remark>,
}

/// One gradient function under construction.
struct Reverse<'a, 'm> {
    shared: &'a mut Shared<'m>,
    /// The function to differentiate.
    f: &'m Function,
    activity: &'a Activity,
    b: Builder<'a>,
    /// Values of `f` that are computed in the gradient function at this point.
    map: FxHashMap<Value, Value>,
    /// What is computed again at this point.
    needed: Needed,
    /// Adjoints, a frame for each region around this point.
    frames: Vec<BTreeMap<Value, Adjoint>>,
}

/// The function that replaces the kernel.
pub(super) fn gradient(
    env: &mut Env,
    funcs: &PrimaryMap<Func, Function>,
    kernel: Func,
    adjoints: &Derivatives,
) -> Result<(Function, Vec<Remark>)> {
    let f = &funcs[kernel];
    let activity = Activity::of(env, funcs, f, adjoints, true)?;
    let params: Vec<_> = f.params().iter().map(|p| f.ty(*p)).collect();
    let mut g = Function::new(format!("{} gradient", f.name), &params, &[]);
    let mut shared = Shared {
        funcs,
        adjoints,
        reversed: FxHashMap::default(),
        values: FxHashMap::default(),
        temps: BTreeMap::new(),
        remarks: Vec::new(),
    };
    let mut reverse = Reverse::new(&mut shared, f, &activity, Builder::new(env, &mut g));
    reverse.kernel()?;
    let temps = std::mem::take(&mut shared.temps);
    let remarks = std::mem::take(&mut shared.remarks);
    clear_temps(env, &mut g, temps.into_values());
    Ok((g, remarks))
}

/// Adjoints of temps are zero in the beginning.
fn clear_temps(env: &mut Env, g: &mut Function, temps: impl Iterator<Item = Temp>) {
    let entry = g.entry;
    let rest = std::mem::take(&mut g.regions[entry].insts);
    let mut b = Builder::new(env, g);
    for temp in temps {
        let ty = b.env.temps[temp].ty;
        let zero = b.zero(ty);
        b.store(wuji_ir::ops::Place::Temp(temp), &[], zero);
    }
    g.regions[entry].insts.extend(rest);
}

impl<'a, 'm> Reverse<'a, 'm> {
    fn new(
        shared: &'a mut Shared<'m>,
        f: &'m Function,
        activity: &'a Activity,
        b: Builder<'a>,
    ) -> Reverse<'a, 'm> {
        let params = b.func.params().iter().copied();
        let map = f.params().iter().copied().zip(params).collect();
        Reverse {
            shared,
            f,
            activity,
            b,
            map,
            needed: activity.needed().clone(),
            frames: vec![BTreeMap::new()],
        }
    }

    fn kernel(&mut self) -> Result<()> {
        let entry = self.f.entry;
        self.forward(entry)?;
        if let (Some(field), Term::Return(values)) =
            (self.shared.adjoints.result, &self.f.regions[entry].term)
        {
            for v in values {
                let seed = self.b.load(wuji_ir::ops::Place::Field(field), &[]);
                self.add(*v, Adjoint::Whole(seed));
            }
        }
        self.reverse(entry)?;
        for (k, p) in self.f.params().iter().enumerate() {
            let field = self.shared.adjoints.params.get(&(k as u32)).copied();
            if let (Some(field), Some(adjoint)) = (field, self.take(*p)) {
                let x = adjoint.whole(&mut self.b, self.f.ty(*p));
                let place = wuji_ir::ops::Place::Field(field);
                let access = wuji_ir::ops::Access::write(place);
                self.b.push(Op::Atomic(AtomicOp::Add, access), &[x]);
            }
        }
        self.b.end(Term::Return(Default::default()));
        Ok(())
    }

    /// The instructions of a region, from the last to the first.
    fn reverse(&mut self, region: Region) -> Result<()> {
        for inst in self.f.regions[region].insts.iter().rev() {
            if self.activity.is_reversed(*inst) {
                self.b.span = self.f.spans[*inst];
                self.reverse_inst(*inst)?;
            }
        }
        Ok(())
    }

    fn reverse_inst(&mut self, inst: Inst) -> Result<()> {
        let data = &self.f.insts[inst];
        match flow_of(&data.op) {
            Flow::Control(op) => self.control(inst, op),
            Flow::Call(callee) => self.call(inst, callee),
            Flow::Access(op, access) => self.access(inst, op, access),
            Flow::Pure(op) => {
                if let Some(adjoint) = self.take(data.results[0]) {
                    self.pure(inst, op, &adjoint)?;
                }
                Ok(())
            }
            Flow::Constant => Ok(()),
        }
    }

    // ---- values and adjoints ----

    /// The value in the gradient function.
    fn value(&self, v: Value) -> Result<Value> {
        self.map.get(&v).copied().ok_or_else(|| {
            let what = format!("the gradient of `{}` lacks a value", self.f.name);
            let span = self.f.def(v).map(|inst| self.f.spans[inst]);
            let at = span.and_then(|span| Position::of(self.b.env, span));
            Error::new("W0330", what).at(at)
        })
    }

    fn values(&self, list: &[Value]) -> Result<wuji_ir::module::Values> {
        list.iter().map(|v| self.value(*v)).collect()
    }

    /// Adds to the adjoint of a value, if it has one.
    fn add(&mut self, v: Value, more: Adjoint) {
        if !self.activity.is_active(v) {
            return;
        }
        let frame = self.frames.len() - 1;
        let sum = match self.frames[frame].remove(&v) {
            Some(old) => old.add(&mut self.b, &more),
            None => more,
        };
        self.frames[frame].insert(v, sum);
    }

    /// Adds to one component of an adjoint.
    fn add_part(&mut self, v: Value, k: usize, more: Value) {
        let arity = self.b.env.structs.arity(self.f.ty(v)) as usize;
        let mut parts = vec![None; arity];
        parts[k] = Some(more);
        self.add(v, Adjoint::Parts(parts));
    }

    /// The adjoint of a value, complete when everything that uses the value has been visited.
    fn take(&mut self, v: Value) -> Option<Adjoint> {
        self.frames.last_mut()?.remove(&v)
    }

    fn take_whole(&mut self, v: Value) -> Option<Value> {
        let ty = self.f.ty(v);
        self.take(v).map(|a| a.whole(&mut self.b, ty))
    }

    fn take_or_zero(&mut self, v: Value) -> Value {
        let ty = self.f.ty(v);
        match self.take_whole(v) {
            Some(adjoint) => adjoint,
            None => self.b.zero(ty),
        }
    }

    /// Runs `fill` in a new region and a new frame, and gives both. `fill` need not end the region.
    fn region(
        &mut self,
        params: &[wuji_ir::types::Type],
        fill: impl FnOnce(&mut Self, &[Value]) -> Result<()>,
    ) -> Result<(Region, BTreeMap<Value, Adjoint>)> {
        let region = self.b.func.add_region(params);
        let outer = std::mem::replace(&mut self.b.region, region);
        self.frames.push(BTreeMap::new());
        let values = self.b.func.regions[region].params.clone();
        let filled = fill(self, &values);
        let frame = self.frames.pop().unwrap_or_default();
        self.b.region = outer;
        filled.map(|()| (region, frame))
    }

    /// Runs `fill` at the end of another region.
    fn within<T>(&mut self, region: Region, fill: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.b.region, region);
        let out = fill(self);
        self.b.region = outer;
        out
    }

    fn remark(&mut self, inst: Inst, reversal: Reversal) {
        let remark = Remark {
            task: self.f.name.clone(),
            at: Position::of(self.b.env, self.f.spans[inst]),
            decision: Decision::Reversed(reversal),
        };
        if !self.shared.remarks.contains(&remark) {
            self.shared.remarks.push(remark);
        }
    }

    fn refuse(&self, inst: Inst, code: &'static str, what: &str, help: &str) -> Error {
        let kernel = &self.b.env.name;
        Error::new(code, format!("kernel `{kernel}`: {what}"))
            .at(Position::of(self.b.env, self.f.spans[inst]))
            .help(help.to_owned())
    }

    fn exit(&self, body: Region) -> Result<shape::Exit<'m>> {
        shape::exit_of(self.f, body).ok_or_else(|| {
            let what = format!("a loop of `{}` was not normalized", self.f.name);
            Error::new("W0330", what)
        })
    }
}
