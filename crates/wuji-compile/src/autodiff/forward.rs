//! Forward mode: a kernel that computes tangents next to its values.
//!
//! The structure of the kernel stays the same. Every varied value gets a tangent for each seed: of an operation, it
//! follows the operation; of a parameter, a result or a carried value, it is one more of these. Memory has its tangents
//! in memory of the same shape, which is read and written at the same places.

mod access;
mod activity;
mod operations;

use super::Derivatives;
use crate::options::{Math, Options};
use crate::passes::Cx;
use activity::{Activity, carried, has_float};
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use rustc_hash::FxHashMap;
use wuji_ir::build::Builder;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::Type;
use wuji_ir::{Error, Result};

/// The kernel that also computes the tangents of its outputs, once for each entry of `tangents`.
pub(super) fn forward(module: &Module, tangents: &[Derivatives]) -> Result<Module> {
    tangents.iter().try_for_each(|t| check(module, t))?;
    let mut module = prepared(module)?;
    let seeds: Vec<Seed> = tangents.iter().map(|t| Seed::new(&mut module, t)).collect();
    let interfaces = interfaces(&module, &seeds);
    let mut funcs = std::mem::take(&mut module.funcs);
    for (func, f) in funcs.iter_mut() {
        let is_kernel = module.kernel == Some(func);
        let mut rewriter = Forward::new(&mut module.env, f, func, is_kernel, &seeds, &interfaces);
        rewriter.function()?;
    }
    module.set_funcs(funcs);
    module.env.name += ".tangent";
    wuji_ir::verify::verify(&module)?;
    Ok(module)
}

/// The module with functions inlined and variables as values, so that few values are varied.
fn prepared(module: &Module) -> Result<Module> {
    let mut module = module.clone();
    let mut cx = Cx::new(&Options {
        math: Math::Strict,
        ..Options::default()
    });
    for pass in ["large_values", "promote", "inline"] {
        crate::run_pass(pass, &mut module, &mut cx)?;
    }
    Ok(module)
}

/// Refuses tangents of another type than their values.
fn check(module: &Module, tangents: &Derivatives) -> Result<()> {
    let wrong = |what: &str| {
        Err(Error::new(
            "W0302",
            format!(
                "the tangents of kernel `{}` do not match its {what}",
                module.name
            ),
        )
        .note("this is a bug in the compiler, not in the kernel"))
    };
    let element = |f: Field| (module.fields[f].elem, module.fields[f].rank());
    for (f, t) in &tangents.fields {
        if element(*f) != element(*t) {
            return wrong("fields");
        }
    }
    for (a, t) in &tangents.arrays {
        let (a, t) = (&module.arrays[*a], &module.arrays[*t]);
        if a.elem != t.elem || a.rank != t.rank || a.writable && !t.writable {
            return wrong("arrays");
        }
    }
    for (k, t) in &tangents.params {
        if module.params.get(*k as usize).map(|p| (p.ty, 0)) != Some(element(*t)) {
            return wrong("parameters");
        }
    }
    let results = module.kernel_func().map_or(&[][..], |f| &f.results);
    if let Some(t) = tangents.result
        && results.first().map(|ty| (*ty, 0)) != Some(element(t))
    {
        return wrong("result");
    }
    Ok(())
}

/// One seed: where its tangents are, and what has one.
struct Seed<'a> {
    given: &'a Derivatives,
    activity: Activity,
    temps: FxHashMap<Temp, Temp>,
}

impl<'a> Seed<'a> {
    fn new(module: &mut Module, given: &'a Derivatives) -> Seed<'a> {
        let activity = if given.constant {
            Activity::default()
        } else {
            Activity::of(module, given)
        };
        let mut varied: Vec<Temp> = activity.temps.iter().copied().collect();
        varied.sort_unstable();
        let env = &mut module.env;
        let temps = varied
            .into_iter()
            .map(|t| (t, env.temps.push(env.temps[t].clone())))
            .collect();
        Seed {
            given,
            activity,
            temps,
        }
    }
}

/// A tangent that is passed on next to its value: the seed, and the position of the value.
type Extra = (usize, usize);

/// The tangents among the parameters and results of a function.
#[derive(Clone, Debug, Default)]
struct Interface {
    params: Vec<Extra>,
    results: Vec<Extra>,
}

/// The kernel itself has none: its parameters and its result have their tangents in fields.
fn interfaces(module: &Module, seeds: &[Seed]) -> SecondaryMap<Func, Interface> {
    let mut interfaces: SecondaryMap<Func, Interface> = SecondaryMap::new();
    for (func, f) in module.funcs.iter() {
        if module.kernel == Some(func) {
            continue;
        }
        for (s, seed) in seeds.iter().enumerate() {
            let params = f.params().iter().enumerate();
            let params = params.filter(|(_, p)| seed.activity.value(func, **p));
            interfaces[func].params.extend(params.map(|(k, _)| (s, k)));
            let results = (0..f.results.len()).filter(|k| seed.activity.result(func, *k));
            interfaces[func].results.extend(results.map(|k| (s, k)));
        }
    }
    interfaces
}

/// The tangents that `break` and `continue` to a label pass on.
#[derive(Clone, Debug, Default)]
struct JumpTarget {
    breaks: Vec<Extra>,
    continues: Vec<Extra>,
}

struct Forward<'a> {
    b: Builder<'a>,
    func: Func,
    is_kernel: bool,
    seeds: &'a [Seed<'a>],
    interfaces: &'a SecondaryMap<Func, Interface>,
    /// For each seed.
    tangents: Vec<SecondaryMap<Value, PackedOption<Value>>>,
    locals: Vec<FxHashMap<Local, Local>>,
    targets: FxHashMap<Label, JumpTarget>,
    /// Whether several threads may run the code at once.
    parallel: bool,
}

impl<'a> Forward<'a> {
    fn new(
        env: &'a mut Env,
        f: &'a mut Function,
        func: Func,
        is_kernel: bool,
        seeds: &'a [Seed<'a>],
        interfaces: &'a SecondaryMap<Func, Interface>,
    ) -> Forward<'a> {
        let locals = seeds.iter().map(|s| tangent_locals(f, func, s)).collect();
        Forward {
            b: Builder::new(env, f),
            func,
            is_kernel,
            seeds,
            interfaces,
            tangents: vec![SecondaryMap::new(); seeds.len()],
            locals,
            targets: FxHashMap::default(),
            parallel: !is_kernel,
        }
    }

    fn function(&mut self) -> Result<()> {
        let entry = self.b.func.entry;
        let params = self.b.func.params().to_vec();
        let insts = std::mem::take(&mut self.b.func.regions[entry].insts);
        let interfaces = self.interfaces;
        let interface = &interfaces[self.func];
        self.add_params(entry, &params, &interface.params);
        if self.is_kernel {
            self.load_params(&params);
        }
        self.body(entry, insts, &[])?;
        let results = interface.results.iter();
        let types: Vec<Type> = results.map(|(_, k)| self.b.func.results[*k]).collect();
        self.b.func.results.extend(types);
        Ok(())
    }

    /// The tangents of a kernel's parameters are in fields.
    fn load_params(&mut self, params: &[Value]) {
        for (s, seed) in self.seeds.iter().enumerate() {
            for (k, param) in params.iter().enumerate() {
                if let Some(field) = seed.given.params.get(&(k as u32))
                    && self.varied(s, *param)
                {
                    let tangent = self.b.load(Place::Field(*field), &[]);
                    self.set_tangent(s, *param, tangent);
                }
            }
        }
    }

    fn region(&mut self, region: Region, yields: &[Extra]) -> Result<()> {
        let insts = std::mem::take(&mut self.b.func.regions[region].insts);
        self.body(region, insts, yields)
    }

    fn body(&mut self, region: Region, insts: Vec<Inst>, yields: &[Extra]) -> Result<()> {
        let outer = std::mem::replace(&mut self.b.region, region);
        for inst in insts {
            self.b.span = self.b.func.spans[inst];
            self.instruction(inst)?;
        }
        self.b.span = self.b.func.regions[region].term_span;
        self.terminator(region, yields);
        self.b.region = outer;
        Ok(())
    }

    fn instruction(&mut self, inst: Inst) -> Result<()> {
        let data = self.b.func.insts[inst].clone();
        match data.op.class() {
            OpClass::Control(op) => self.control(inst, &data, op),
            OpClass::Call(callee) => {
                self.call(inst, &data, callee);
                Ok(())
            }
            OpClass::Access(op, access) => {
                self.keep(inst);
                self.access(&data, op, access)
            }
            OpClass::Cell(op, field) => {
                self.keep(inst);
                self.cell(&data, op, field)
            }
            OpClass::Elementwise(_)
            | OpClass::Component(_)
            | OpClass::Reduce(_)
            | OpClass::Algebra(_)
            | OpClass::Thread(_) => {
                self.keep(inst);
                self.operation(&data);
                Ok(())
            }
            // They have no tangents.
            OpClass::Constant(_)
            | OpClass::Query(_)
            | OpClass::Hint(_)
            | OpClass::Random
            | OpClass::Check(_)
            | OpClass::TreeAccess(..)
            | OpClass::Memory(_) => {
                self.keep(inst);
                Ok(())
            }
        }
    }

    /// Appends an instruction of the kernel.
    fn keep(&mut self, inst: Inst) {
        let region = self.b.region;
        self.b.func.regions[region].insts.push(inst);
    }

    fn control(&mut self, inst: Inst, data: &InstData, op: ControlOp<'_>) -> Result<()> {
        let results = self.extras(&data.results);
        let params = carried(self.b.func, inst).to_vec();
        let continues = self.extras(&params);
        let initial = match op {
            ControlOp::Loop(_) => &data.args[..],
            ControlOp::For(..) => &data.args[3..],
            ControlOp::If | ControlOp::Block(_) | ControlOp::ForEach(..) => &[],
        };
        let initial = self.extra_values(&continues, initial);
        self.b.func.insts[inst].args.extend(initial);
        self.keep(inst);
        self.add_results(inst, &data.results, &results);
        if let Some(region) = data.regions.first() {
            self.add_params(*region, &params, &continues);
        }
        if let Some(label) = op.label() {
            let target = JumpTarget {
                breaks: results.clone(),
                continues,
            };
            self.targets.insert(label, target);
        }
        let outer = self.parallel;
        if let ControlOp::ForEach(_, _, hints) = op {
            self.parallel = !hints.serial;
        }
        for region in &data.regions {
            self.region(*region, &results)?;
        }
        self.parallel = outer;
        Ok(())
    }

    fn call(&mut self, inst: Inst, data: &InstData, callee: Func) {
        let interfaces = self.interfaces;
        let interface = &interfaces[callee];
        let args = self.extra_values(&interface.params, &data.args);
        self.b.func.insts[inst].args.extend(args);
        self.keep(inst);
        self.add_results(inst, &data.results, &interface.results);
    }

    fn terminator(&mut self, region: Region, yields: &[Extra]) {
        let mut term = self.b.func.regions[region].term.clone();
        let interfaces = self.interfaces;
        match &mut term {
            Term::Yield(values) => self.extend(values, yields),
            Term::Break(label, values) => {
                let extras = self.target(*label).breaks;
                self.extend(values, &extras);
            }
            Term::Continue(label, values) => {
                let extras = self.target(*label).continues;
                self.extend(values, &extras);
            }
            Term::Return(values) if self.is_kernel => self.store_result(values),
            Term::Return(values) => self.extend(values, &interfaces[self.func].results),
            Term::Unreachable => {}
        }
        self.b.func.regions[region].term = term;
    }

    fn target(&self, label: Label) -> JumpTarget {
        self.targets.get(&label).cloned().unwrap_or_default()
    }

    /// The tangent of the kernel's result is in a field.
    fn store_result(&mut self, values: &[Value]) {
        for (s, seed) in self.seeds.iter().enumerate() {
            if let (Some(field), Some(value)) = (seed.given.result, values.first())
                && self.has_float(*value)
            {
                let tangent = self.tangent_or_zero(s, *value);
                self.b.store(Place::Field(field), &[], tangent);
            }
        }
    }

    fn extend(&mut self, values: &mut Values, extras: &[Extra]) {
        let tangents = self.extra_values(extras, values);
        values.extend(tangents);
    }

    /// The varied ones of some values.
    fn extras(&self, values: &[Value]) -> Vec<Extra> {
        let mut extras = Vec::new();
        for s in 0..self.seeds.len() {
            let varied = values
                .iter()
                .enumerate()
                .filter(|(_, v)| self.varied(s, **v));
            extras.extend(varied.map(|(k, _)| (s, k)));
        }
        extras
    }

    fn extra_values(&mut self, extras: &[Extra], values: &[Value]) -> Values {
        let tangents = extras
            .iter()
            .map(|(s, k)| self.tangent_or_zero(*s, values[*k]));
        tangents.collect()
    }

    fn add_results(&mut self, inst: Inst, results: &[Value], extras: &[Extra]) {
        for (s, k) in extras {
            let ty = self.b.func.ty(results[*k]);
            let tangent = self.b.func.add_result(inst, ty);
            self.set_tangent(*s, results[*k], tangent);
        }
    }

    fn add_params(&mut self, region: Region, params: &[Value], extras: &[Extra]) {
        for (s, k) in extras {
            let ty = self.b.func.ty(params[*k]);
            let tangent = self.b.func.add_region_param(region, ty);
            self.set_tangent(*s, params[*k], tangent);
        }
    }

    fn varied(&self, seed: usize, value: Value) -> bool {
        self.seeds[seed].activity.value(self.func, value)
    }

    fn has_float(&self, value: Value) -> bool {
        has_float(&self.b.env.structs, self.b.func.ty(value))
    }

    fn tangent(&self, seed: usize, value: Value) -> Option<Value> {
        self.tangents[seed][value].expand()
    }

    fn tangent_or_zero(&mut self, seed: usize, value: Value) -> Value {
        match self.tangent(seed, value) {
            Some(tangent) => tangent,
            None => self.b.zero(self.b.func.ty(value)),
        }
    }

    fn set_tangent(&mut self, seed: usize, value: Value, tangent: Value) {
        self.tangents[seed][value] = tangent.into();
    }
}

/// A local of the same shape for each varied one.
fn tangent_locals(f: &mut Function, func: Func, seed: &Seed) -> FxHashMap<Local, Local> {
    let locals: Vec<Local> = f.locals.keys().collect();
    let varied = locals.into_iter().filter(|l| seed.activity.local(func, *l));
    varied
        .map(|l| {
            let mut data = f.locals[l].clone();
            data.name = format!("{}'", data.name);
            (l, f.locals.push(data))
        })
        .collect()
}
