//! Activity analysis: the values, locals and temps that depend on an input with a tangent.
//!
//! It does not depend on the order of instructions, and follows calls: a function has tangents of those parameters that
//! some call gives one.

use crate::autodiff::Derivatives;
use crate::autodiff::partials::is_differentiable;
use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Structs, Type};

/// What is varied, for one seed.
#[derive(Debug, Default)]
pub(super) struct Activity {
    values: FxHashSet<(Func, Value)>,
    locals: FxHashSet<(Func, Local)>,
    pub(super) temps: FxHashSet<Temp>,
    /// Results of functions, by number.
    results: FxHashSet<(Func, usize)>,
}

/// Whether a type has floats, and so a tangent.
pub(super) fn has_float(structs: &Structs, ty: Type) -> bool {
    match ty {
        Type::Scalar(s) | Type::Vector(s, _) | Type::Matrix(s, _, _) => s.is_float(),
        Type::Struct(id) => structs.0[id].fields.iter().any(|f| has_float(structs, f.1)),
    }
}

impl Activity {
    pub(super) fn of(module: &Module, seed: &Derivatives) -> Activity {
        let mut found = Activity::default();
        let owners: Vec<Owners> = module.funcs.values().map(Owners::of).collect();
        loop {
            let before = found.size();
            for ((func, f), owners) in module.funcs.iter().zip(&owners) {
                let mut visitor = Visitor {
                    module,
                    seed,
                    func,
                    f,
                    owners,
                    found: &mut found,
                };
                visitor.function();
            }
            if found.size() == before {
                return found;
            }
        }
    }

    fn size(&self) -> usize {
        self.values.len() + self.locals.len() + self.temps.len() + self.results.len()
    }

    pub(super) fn value(&self, func: Func, value: Value) -> bool {
        self.values.contains(&(func, value))
    }

    pub(super) fn local(&self, func: Func, local: Local) -> bool {
        self.locals.contains(&(func, local))
    }

    pub(super) fn result(&self, func: Func, number: usize) -> bool {
        self.results.contains(&(func, number))
    }
}

/// The instructions that regions and labels belong to.
struct Owners {
    regions: FxHashMap<Region, Inst>,
    labels: FxHashMap<Label, Inst>,
}

impl Owners {
    fn of(f: &Function) -> Owners {
        let mut owners = Owners {
            regions: FxHashMap::default(),
            labels: FxHashMap::default(),
        };
        f.walk(|inst| {
            let data = &f.insts[inst];
            owners
                .regions
                .extend(data.regions.iter().map(|r| (*r, inst)));
            owners.labels.extend(data.op.label().map(|l| (l, inst)));
        });
        owners
    }
}

struct Visitor<'a> {
    module: &'a Module,
    seed: &'a Derivatives,
    func: Func,
    f: &'a Function,
    owners: &'a Owners,
    found: &'a mut Activity,
}

impl Visitor<'_> {
    fn function(&mut self) {
        if self.module.kernel == Some(self.func) {
            for (k, param) in self.f.params().iter().enumerate() {
                if self.seed.params.contains_key(&(k as u32)) {
                    self.mark(*param);
                }
            }
        }
        for inst in self.f.insts_in(self.f.entry) {
            self.instruction(&self.f.insts[inst]);
        }
        for region in self.f.walk_regions() {
            self.terminator(region);
        }
    }

    fn mark(&mut self, value: Value) {
        if has_float(&self.module.structs, self.f.ty(value)) {
            self.found.values.insert((self.func, value));
        }
    }

    fn varied(&self, value: Value) -> bool {
        self.found.value(self.func, value)
    }

    fn flow(&mut self, from: &[Value], to: &[Value]) {
        for (a, b) in from.iter().zip(to) {
            if self.varied(*a) {
                self.mark(*b);
            }
        }
    }

    fn instruction(&mut self, data: &InstData) {
        match data.op.class() {
            OpClass::Elementwise(op) => {
                let mut args = data.args.iter().enumerate();
                if args.any(|(k, a)| self.varied(*a) && is_differentiable(op, k)) {
                    self.mark(data.results[0]);
                }
            }
            OpClass::Component(_)
            | OpClass::Reduce(_)
            | OpClass::Algebra(_)
            | OpClass::Thread(_) => {
                if data.args.iter().any(|a| self.varied(*a)) {
                    data.results.iter().for_each(|r| self.mark(*r));
                }
            }
            OpClass::Access(op, access) => self.access(data, op, access.place),
            OpClass::Control(op) => self.control(data, op),
            OpClass::Call(callee) => self.call(data, callee),
            OpClass::Constant(_)
            | OpClass::Query(_)
            | OpClass::Hint(_)
            | OpClass::Cell(..)
            | OpClass::TreeAccess(..)
            | OpClass::Memory(_)
            | OpClass::Random
            | OpClass::Check(_) => {}
        }
    }

    fn access(&mut self, data: &InstData, op: AccessOp, place: Place) {
        let operands = &data.args[data.args.len() - op.operands()..];
        if operands.iter().any(|a| self.varied(*a)) {
            match place {
                Place::Field(_) | Place::Array(_) => {}
                Place::Local(l) => {
                    self.found.locals.insert((self.func, l));
                }
                Place::Temp(t) => {
                    self.found.temps.insert(t);
                }
            }
        }
        let has_tangent = match place {
            Place::Field(f) => self.seed.fields.contains_key(&f),
            Place::Array(a) => self.seed.arrays.contains_key(&a),
            Place::Local(l) => self.found.local(self.func, l),
            Place::Temp(t) => self.found.temps.contains(&t),
        };
        if has_tangent {
            data.results.iter().for_each(|r| self.mark(*r));
        }
    }

    fn control(&mut self, data: &InstData, op: ControlOp<'_>) {
        match op {
            ControlOp::If | ControlOp::Block(_) | ControlOp::ForEach(..) => {}
            ControlOp::Loop(_) => {
                let f = self.f;
                self.flow(&data.args, &f.regions[data.regions[0]].params);
            }
            // At the end of the range, the results are the carried values.
            ControlOp::For(..) => {
                let f = self.f;
                let carried = &f.regions[data.regions[0]].params[1..];
                self.flow(&data.args[3..], carried);
                self.flow(carried, &data.results);
                self.flow(&data.results, carried);
            }
        }
    }

    fn call(&mut self, data: &InstData, callee: Func) {
        let g = &self.module.funcs[callee];
        for (a, p) in data.args.iter().zip(g.params()) {
            if self.varied(*a) {
                self.found.values.insert((callee, *p));
            }
        }
        for (k, r) in data.results.iter().enumerate() {
            if self.found.result(callee, k) {
                self.mark(*r);
            }
        }
    }

    fn terminator(&mut self, region: Region) {
        let f = self.f;
        match &f.regions[region].term {
            Term::Yield(values) => {
                if let Some(owner) = self.owners.regions.get(&region) {
                    self.flow(values, &f.insts[*owner].results);
                }
            }
            Term::Break(label, values) => {
                if let Some(owner) = self.owners.labels.get(label) {
                    self.flow(values, &f.insts[*owner].results);
                }
            }
            Term::Continue(label, values) => {
                if let Some(owner) = self.owners.labels.get(label) {
                    self.flow(values, carried(f, *owner));
                }
            }
            Term::Return(values) => {
                for (k, v) in values.iter().enumerate() {
                    if self.varied(*v) {
                        self.found.results.insert((self.func, k));
                    }
                }
            }
            Term::Unreachable => {}
        }
    }
}

/// The parameters of a loop that `continue` sets.
pub(super) fn carried(f: &Function, owner: Inst) -> &[Value] {
    let data = &f.insts[owner];
    let params = || &f.regions[data.regions[0]].params;
    match data.op.control() {
        Some(ControlOp::Loop(_)) => params(),
        Some(ControlOp::For(..)) => &params()[1..],
        Some(ControlOp::If | ControlOp::Block(_) | ControlOp::ForEach(..)) | None => &[],
    }
}
