//! What a gradient kernel has to compute: which values have adjoints, and which values derivatives need.
//!
//! A value is *varied* if it depends on memory with an adjoint, and *useful* if such memory depends on it. It is
//! *active*, and has an adjoint, if it is both. A value is *needed* if the reverse sweep reads it, or if such a value
//! is computed from it.

use super::Derivatives;
use super::partials::{Needs, needs};
use super::reverse::algebra_needs;
use super::shape::{Flow, Pure, exit_of, flow_of, has_floats, passes_on};
use crate::rewrite::Structure;
use cranelift_entity::{EntitySet, PrimaryMap, SecondaryMap};
use rustc_hash::FxHashSet;
use wuji_ir::entities::{Func, Inst, Region, Temp, Value};
use wuji_ir::module::{Env, Function, Term, ValueDef};
use wuji_ir::ops::{AccessOp, AtomicOp, CellOp, ComponentOp, ControlOp, OpClass, Place, ReduceOp};
use wuji_ir::{Error, Position, Result};

#[derive(Debug)]
pub(super) struct Activity {
    varied: EntitySet<Value>,
    useful: EntitySet<Value>,
    varied_temps: FxHashSet<Temp>,
    useful_temps: FxHashSet<Temp>,
    /// Instructions whose reverse sweep is not empty.
    reversed: SecondaryMap<Inst, bool>,
    needed: Needed,
}

/// What a reverse sweep reads, and all that it is computed from.
#[derive(Clone, Debug, Default)]
pub(super) struct Needed {
    values: EntitySet<Value>,
    temps: FxHashSet<Temp>,
}

impl Needed {
    pub(super) fn contains(&self, v: Value) -> bool {
        self.values.contains(v)
    }

    pub(super) fn contains_temp(&self, t: Temp) -> bool {
        self.temps.contains(&t)
    }
}

impl Activity {
    /// The parameters of the kernel are constants, unless they have adjoints; those of other functions are varied.
    pub(super) fn of(
        env: &Env,
        funcs: &PrimaryMap<Func, Function>,
        f: &Function,
        d: &Derivatives,
        kernel: bool,
    ) -> Result<Activity> {
        let mut scan = Scan::new(env, funcs, f, d, kernel);
        scan.run()?;
        Ok(scan.out)
    }

    /// Nothing has an adjoint, and the results of the function are needed.
    pub(super) fn of_results(
        env: &Env,
        funcs: &PrimaryMap<Func, Function>,
        f: &Function,
        d: &Derivatives,
    ) -> Result<Activity> {
        let mut scan = Scan::new(env, funcs, f, d, false);
        scan.need_all(f.regions[f.entry].term.args())?;
        Ok(scan.out)
    }

    /// Whether a value has an adjoint.
    pub(super) fn is_active(&self, v: Value) -> bool {
        self.varied.contains(v) && self.useful.contains(v)
    }

    pub(super) fn is_reversed(&self, inst: Inst) -> bool {
        self.reversed[inst]
    }

    /// For the whole function.
    pub(super) fn needed(&self) -> &Needed {
        &self.needed
    }

    /// What the reverse sweep of a region alone needs.
    pub(super) fn needed_in(
        &self,
        env: &Env,
        funcs: &PrimaryMap<Func, Function>,
        f: &Function,
        d: &Derivatives,
        region: Region,
    ) -> Result<Needed> {
        let mut scan = Scan::new(env, funcs, f, d, false);
        scan.out = Activity {
            varied: self.varied.clone(),
            useful: self.useful.clone(),
            varied_temps: self.varied_temps.clone(),
            useful_temps: self.useful_temps.clone(),
            reversed: self.reversed.clone(),
            needed: Needed::default(),
        };
        for inst in f.insts_in(region) {
            if scan.out.reversed[inst] {
                scan.need_for(inst)?;
            }
        }
        Ok(scan.out.needed)
    }
}

struct Scan<'a> {
    env: &'a Env,
    funcs: &'a PrimaryMap<Func, Function>,
    f: &'a Function,
    d: &'a Derivatives,
    kernel: bool,
    structure: Structure,
    out: Activity,
    changed: bool,
}

impl<'a> Scan<'a> {
    fn new(
        env: &'a Env,
        funcs: &'a PrimaryMap<Func, Function>,
        f: &'a Function,
        d: &'a Derivatives,
        kernel: bool,
    ) -> Scan<'a> {
        Scan {
            env,
            funcs,
            f,
            d,
            kernel,
            structure: Structure::of(f),
            out: Activity {
                varied: EntitySet::new(),
                useful: EntitySet::new(),
                varied_temps: FxHashSet::default(),
                useful_temps: FxHashSet::default(),
                reversed: SecondaryMap::new(),
                needed: Needed::default(),
            },
            changed: true,
        }
    }

    fn run(&mut self) -> Result<()> {
        let insts: Vec<Inst> = self.f.insts_in(self.f.entry).collect();
        for (k, p) in self.f.params().iter().enumerate() {
            if !self.kernel || self.d.params.contains_key(&(k as u32)) {
                self.vary(*p);
            }
        }
        while std::mem::take(&mut self.changed) {
            for inst in &insts {
                self.vary_inst(*inst);
            }
        }
        self.changed = true;
        if (!self.kernel || self.d.result.is_some())
            && let Term::Return(values) = &self.f.regions[self.f.entry].term
        {
            for v in values {
                self.use_value(*v);
            }
        }
        while std::mem::take(&mut self.changed) {
            for inst in insts.iter().rev() {
                self.use_inst(*inst);
            }
        }
        // Inner instructions come after the ones that contain them.
        for inst in insts.iter().rev() {
            if self.is_reversed(*inst) {
                self.out.reversed[*inst] = true;
                if let Some(parent) = self.structure.parent(*inst) {
                    self.out.reversed[parent] = true;
                }
            }
        }
        for inst in &insts {
            if self.out.reversed[*inst] {
                self.need_for(*inst)?;
            }
        }
        Ok(())
    }

    // ---- varied ----

    fn vary(&mut self, v: Value) {
        if has_floats(&self.env.structs, self.f.ty(v)) {
            self.changed |= self.out.varied.insert(v);
        }
    }

    fn vary_if(&mut self, v: Value, from: Value) {
        if self.out.varied.contains(from) {
            self.vary(v);
        }
    }

    /// Whether derivatives with respect to a place exist.
    fn has_adjoint(&self, place: Place, temps: &FxHashSet<Temp>) -> bool {
        match place {
            Place::Field(f) => self.d.fields.contains_key(&f),
            Place::Array(a) => self.d.arrays.contains_key(&a),
            Place::Temp(t) => temps.contains(&t),
            Place::Local(_) => false,
        }
    }

    fn vary_inst(&mut self, inst: Inst) {
        let f = self.f;
        let data = &f.insts[inst];
        match flow_of(&data.op) {
            Flow::Control(op) => self.vary_control(inst, op),
            Flow::Access(AccessOp::Load, access) => {
                if self.has_adjoint(access.place, &self.out.varied_temps) {
                    self.vary(data.results[0]);
                }
            }
            Flow::Access(_, access) => {
                let operand = data.args.last().copied();
                if let (Place::Temp(t), Some(v)) = (access.place, operand)
                    && self.out.varied.contains(v)
                {
                    self.changed |= self.out.varied_temps.insert(t);
                }
                if self.has_adjoint(access.place, &self.out.varied_temps)
                    && let Some(old) = data.results.first()
                {
                    self.vary(*old);
                }
            }
            Flow::Call(_) => {
                for r in &data.results {
                    self.vary(*r);
                }
            }
            Flow::Pure(op) => {
                for (k, a) in data.args.iter().enumerate() {
                    if passes_on(op, k) {
                        self.vary_if(data.results[0], *a);
                    }
                }
            }
            Flow::Constant => {}
        }
    }

    fn vary_control(&mut self, inst: Inst, op: ControlOp) {
        for (to, from) in self.flows(inst, op) {
            self.vary_if(to, from);
        }
    }

    /// Values that a control instruction passes on: where to, and where from.
    fn flows(&self, inst: Inst, op: ControlOp) -> Vec<(Value, Value)> {
        let f = self.f;
        let data = &f.insts[inst];
        let mut out = Vec::new();
        let mut pairs = |to: &[Value], from: &[Value]| {
            out.extend(to.iter().copied().zip(from.iter().copied()));
        };
        match op {
            ControlOp::If => {
                for r in &data.regions {
                    if let Term::Yield(values) = &f.regions[*r].term {
                        pairs(&data.results, values);
                    }
                }
            }
            ControlOp::For(..) => {
                let body = &f.regions[data.regions[0]];
                pairs(&body.params[1..], &data.args[3..]);
                pairs(&body.params[1..], body.term.args());
                pairs(&data.results, &body.params[1..]);
            }
            ControlOp::Loop(_) => {
                let body = &f.regions[data.regions[0]];
                pairs(&body.params, &data.args);
                if let Some(exit) = exit_of(f, data.regions[0]) {
                    pairs(&body.params, exit.carried);
                    pairs(&data.results, exit.results);
                }
            }
            ControlOp::Block(_) | ControlOp::ForEach(..) => {}
        }
        out
    }

    // ---- useful ----

    fn use_value(&mut self, v: Value) {
        if has_floats(&self.env.structs, self.f.ty(v)) {
            self.changed |= self.out.useful.insert(v);
        }
    }

    fn use_inst(&mut self, inst: Inst) {
        let f = self.f;
        let data = &f.insts[inst];
        match flow_of(&data.op) {
            Flow::Control(op) => {
                for (to, from) in self.flows(inst, op) {
                    if self.out.useful.contains(to) {
                        self.use_value(from);
                    }
                }
            }
            Flow::Access(AccessOp::Load, access) => {
                if let Place::Temp(t) = access.place
                    && self.out.useful.contains(data.results[0])
                {
                    self.changed |= self.out.useful_temps.insert(t);
                }
            }
            Flow::Access(op, access) => {
                if self.has_adjoint(access.place, &self.out.useful_temps) {
                    let operands = data.args.len() - op.operands();
                    for v in &data.args[operands..] {
                        self.use_value(*v);
                    }
                }
            }
            Flow::Call(_) => {
                for a in &data.args {
                    self.use_value(*a);
                }
            }
            Flow::Pure(op) => {
                if self.out.useful.contains(data.results[0]) {
                    for (k, a) in data.args.iter().enumerate() {
                        if passes_on(op, k) {
                            self.use_value(*a);
                        }
                    }
                }
            }
            Flow::Constant => {}
        }
    }

    fn is_reversed(&self, inst: Inst) -> bool {
        let data = &self.f.insts[inst];
        let active = |v: &Value| self.out.is_active(*v);
        match flow_of(&data.op) {
            Flow::Control(_) => self.out.reversed[inst] || data.results.iter().any(active),
            Flow::Call(_) => data.results.iter().any(active) || data.args.iter().any(active),
            Flow::Access(AccessOp::Load, _) => active(&data.results[0]),
            Flow::Access(op, access) => {
                let operands = data.args.len() - op.operands();
                self.has_adjoint(access.place, &self.out.useful_temps)
                    && (data.args[operands..].iter().any(active)
                        || self.is_overwriting(op, access.place))
            }
            Flow::Pure(_) => active(&data.results[0]),
            Flow::Constant => false,
        }
    }

    /// Whether the adjoint of the old value changes, even if the operand is a constant.
    fn is_overwriting(&self, op: AccessOp, place: Place) -> bool {
        match op {
            AccessOp::Store => self.d.is_overwritten(place),
            // The adjoint of the old value is not that of the new one.
            AccessOp::Atomic(
                AtomicOp::Mul
                | AtomicOp::Min
                | AtomicOp::Max
                | AtomicOp::And
                | AtomicOp::Or
                | AtomicOp::Xor
                | AtomicOp::Exchange,
            )
            | AccessOp::CompareExchange => true,
            AccessOp::Load | AccessOp::Atomic(AtomicOp::Add) => false,
        }
    }

    // ---- needed ----

    /// Marks what the reverse sweep of an instruction reads.
    fn need_for(&mut self, inst: Inst) -> Result<()> {
        let f = self.f;
        let data = &f.insts[inst];
        match flow_of(&data.op) {
            Flow::Control(op) => self.need_control(inst, op),
            Flow::Call(callee) => {
                self.need_all(&data.args)?;
                if self.funcs[callee].reverse.is_some() {
                    self.need_all(&data.results)?;
                }
                Ok(())
            }
            Flow::Access(op, _) => {
                let operands = data.args.len() - op.operands();
                self.need_all(&data.args[..operands])?;
                if let AccessOp::Atomic(AtomicOp::Mul | AtomicOp::Min | AtomicOp::Max) = op {
                    self.need_all(&data.args[operands..])?;
                }
                Ok(())
            }
            Flow::Pure(Pure::Elementwise(op)) => self.need_operands(inst, |k| needs(op, k)),
            Flow::Pure(Pure::Component(ComponentOp::ExtractDyn | ComponentOp::InsertDyn)) => {
                self.need(data.args[1])
            }
            Flow::Pure(Pure::Component(_)) => Ok(()),
            Flow::Pure(Pure::Reduce(ReduceOp::Add)) => Ok(()),
            Flow::Pure(Pure::Reduce(_)) => self.need_all(&data.args),
            Flow::Pure(Pure::Algebra(op)) => self.need_operands(inst, |k| algebra_needs(op, k)),
            Flow::Constant => Ok(()),
        }
    }

    /// Marks what the adjoints of active arguments read.
    fn need_operands(&mut self, inst: Inst, needs: impl Fn(usize) -> Needs) -> Result<()> {
        let data = &self.f.insts[inst];
        for (k, a) in data.args.iter().enumerate() {
            if !self.out.is_active(*a) {
                continue;
            }
            let needs = needs(k);
            for (j, b) in data.args.iter().enumerate() {
                if needs.args >> j & 1 == 1 {
                    self.need(*b)?;
                }
            }
            if needs.result {
                self.need(data.results[0])?;
            }
        }
        Ok(())
    }

    /// Marks what decides which regions of an instruction run, and how often.
    fn need_control(&mut self, inst: Inst, op: ControlOp) -> Result<()> {
        let data = &self.f.insts[inst];
        match op {
            ControlOp::If => self.need(data.args[0]),
            ControlOp::For(..) => self.need_all(&data.args[..3]),
            ControlOp::Loop(_) => match exit_of(self.f, data.regions[0]) {
                Some(exit) => self.need(exit.condition),
                None => Ok(()),
            },
            ControlOp::ForEach(..) => self.need_all(&data.args),
            ControlOp::Block(_) => Ok(()),
        }
    }

    fn need_all(&mut self, values: &[Value]) -> Result<()> {
        values.iter().try_for_each(|v| self.need(*v))
    }

    fn need(&mut self, v: Value) -> Result<()> {
        let mut work = vec![v];
        while let Some(v) = work.pop() {
            if !self.out.needed.values.insert(v) {
                continue;
            }
            match self.f.values[v].def {
                ValueDef::Param(region, k) => self.need_param(region, k.into(), &mut work),
                ValueDef::Result(inst, k) => self.need_result(inst, k.into(), &mut work)?,
            }
        }
        Ok(())
    }

    fn need_param(&mut self, region: Region, k: usize, work: &mut Vec<Value>) {
        let f = self.f;
        let Some(owner) = self.structure.owner[region].expand() else {
            return;
        };
        let data = &f.insts[owner];
        match data.op.control() {
            Some(ControlOp::For(..)) => {
                work.extend(&data.args[..3]);
                if k > 0 {
                    work.push(data.args[k + 2]);
                    work.extend(f.regions[region].term.args().get(k - 1));
                }
            }
            Some(ControlOp::Loop(_)) => {
                work.push(data.args[k]);
                if let Some(exit) = exit_of(f, region) {
                    work.push(exit.condition);
                    work.extend(exit.carried.get(k));
                }
            }
            Some(ControlOp::If | ControlOp::Block(_) | ControlOp::ForEach(..)) | None => {}
        }
    }

    fn need_result(&mut self, inst: Inst, k: usize, work: &mut Vec<Value>) -> Result<()> {
        let f = self.f;
        let data = &f.insts[inst];
        match data.op.class() {
            OpClass::Control(op) => match op {
                ControlOp::If => {
                    work.push(data.args[0]);
                    for r in &data.regions {
                        work.extend(f.regions[*r].term.args().get(k));
                    }
                }
                ControlOp::For(..) => {
                    work.extend(f.regions[data.regions[0]].params.get(k + 1));
                }
                ControlOp::Loop(_) => {
                    if let Some(exit) = exit_of(f, data.regions[0]) {
                        work.push(exit.condition);
                        work.extend(exit.results.get(k));
                    }
                }
                ControlOp::Block(_) | ControlOp::ForEach(..) => {}
            },
            OpClass::Access(AccessOp::Load, access) => {
                work.extend(&data.args);
                if let Place::Temp(t) = access.place {
                    self.need_temp(t, work);
                }
            }
            OpClass::Access(..) => {
                return Err(self.refuse(
                    inst,
                    "W0701",
                    "a gradient needs the old value of an atomic, which cannot be computed again",
                    "read the element before, or mark the kernel `no_grad` and write its gradient by hand",
                ));
            }
            OpClass::Random => {
                return Err(self.refuse(
                    inst,
                    "W0702",
                    "a gradient needs a random number, which cannot be drawn again",
                    "store random numbers to a field in a kernel of their own, and read them from there",
                ));
            }
            OpClass::Cell(CellOp::Append, _) => {
                return Err(self.refuse(
                    inst,
                    "W0703",
                    "a gradient needs the number of an appended cell, which cannot be computed again",
                    "append in a kernel of its own, and store the numbers to a field",
                ));
            }
            OpClass::Thread(_) => {
                return Err(self.refuse(
                    inst,
                    "W0704",
                    "operations of thread blocks have no gradient",
                    "write the gradient of this kernel by hand",
                ));
            }
            OpClass::Constant(_)
            | OpClass::Elementwise(_)
            | OpClass::Component(_)
            | OpClass::Reduce(_)
            | OpClass::Algebra(_)
            | OpClass::Query(_)
            | OpClass::Hint(_)
            | OpClass::Cell(..)
            | OpClass::TreeAccess(..)
            | OpClass::Memory(_)
            | OpClass::Call(_)
            | OpClass::Check(_) => work.extend(&data.args),
        }
        Ok(())
    }

    /// All updates of a temp are repeated, with the control flow around them.
    fn need_temp(&mut self, t: Temp, work: &mut Vec<Value>) {
        if !self.out.needed.temps.insert(t) {
            return;
        }
        let f = self.f;
        for inst in f.insts_in(f.entry) {
            let data = &f.insts[inst];
            if data.op.written_access().map(|a| a.place) != Some(Place::Temp(t)) {
                continue;
            }
            work.extend(&data.args);
            let mut outer = self.structure.parent(inst);
            while let Some(control) = outer {
                let data = &f.insts[control];
                match data.op.control() {
                    Some(ControlOp::If) => work.push(data.args[0]),
                    Some(ControlOp::For(..)) => work.extend(&data.args[..3]),
                    Some(ControlOp::ForEach(..)) => work.extend(&data.args),
                    Some(ControlOp::Loop(_)) => {
                        work.extend(exit_of(f, data.regions[0]).map(|e| e.condition));
                    }
                    Some(ControlOp::Block(_)) | None => {}
                }
                outer = self.structure.parent(control);
            }
        }
    }

    fn refuse(&self, inst: Inst, code: &'static str, what: &str, help: &str) -> Error {
        let kernel = &self.env.name;
        Error::new(code, format!("kernel `{kernel}`: {what}"))
            .at(Position::of(self.env, self.f.spans[inst]))
            .help(help.to_owned())
    }
}
