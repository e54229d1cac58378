//! Keeps large vectors and matrices in memory: a variable is an array of scalars, and an operation on it a loop.
//!
//! Every scalar of a small one becomes a value of its own (`scalarize`), which is what makes it fast. Of a large one that
//! would be thousands, and a run-time component would be a choice among all of them. Small ones are left as they are.
//!
//! Large values that are arguments, results or carried values stay values at those places, taken apart on one side and put
//! together on the other.

mod operations;
mod plan;

use super::Cx;
use crate::rewrite::{Substitution, sweep_with_reads};
use plan::{Plan, Scope};
use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar, Type};

/// Vectors and matrices of more components are large. More than 8 rows of 8: no code in the inner loop of a simulation has
/// them in registers.
const MAX_COMPONENTS: u32 = 64;

/// The pass; the [module](self) describes it.
pub fn large_values(module: &mut Module, cx: &mut Cx) -> Result<()> {
    for f in module.funcs.values_mut() {
        let any =
            f.values.values().any(|v| is_large(v.ty)) || f.locals.values().any(|l| is_large(l.ty));
        if any {
            rewrite(&mut module.env, f);
            sweep_with_reads(f, cx.options.check_reads);
        }
    }
    Ok(())
}

/// The element type and number of components of a large vector or matrix.
fn large(ty: Type) -> Option<(Scalar, u32)> {
    let n = ty.lanes().filter(|n| *n > MAX_COMPONENTS)?;
    Some((ty.elem()?, n))
}

fn is_large(ty: Type) -> bool {
    large(ty).is_some()
}

fn rewrite(env: &mut Env, f: &mut Function) {
    let plan = Plan::of(f);
    let arrays = plan.arrays.clone();
    for local in &arrays {
        if let Some((s, n)) = large(f.locals[*local].ty) {
            f.locals[*local].ty = Type::Scalar(s);
            f.locals[*local].len = Some(n);
        }
    }
    let entry = f.entry;
    let mut r = Rewriter {
        b: Builder::new(env, f),
        plan,
        values: FxHashMap::default(),
        homes: FxHashMap::default(),
        aliases: FxHashMap::default(),
        free: FxHashMap::default(),
        substitution: Substitution::new(),
        done: FxHashSet::default(),
    };
    r.region(entry, Vec::new());
    let substitution = std::mem::take(&mut r.substitution);
    substitution.apply(f);
}

struct Rewriter<'a> {
    b: Builder<'a>,
    plan: Plan,
    /// The array that a large value is in.
    values: FxHashMap<Value, Local>,
    /// The array that takes the place of a variable in a parallel loop.
    homes: FxHashMap<Local, Local>,
    /// Values that are read from the array of their variable, which does not change as long as they are used.
    aliases: FxHashMap<Value, Local>,
    /// Arrays that hold nothing any more, by type and length.
    free: FxHashMap<(Scalar, u32), Vec<Local>>,
    substitution: Substitution,
    /// Stores that have been done by the operation in front of them.
    done: FxHashSet<Inst>,
}

impl Rewriter<'_> {
    /// Rewrites a region. `first` are large values to put into arrays at its beginning.
    fn region(&mut self, region: Region, first: Vec<(Value, Local)>) {
        let outer = std::mem::replace(&mut self.b.region, region);
        let insts = std::mem::take(&mut self.b.func.regions[region].insts);
        for (value, array) in first {
            self.take_apart(value, array);
        }
        for param in self.b.func.regions[region].params.clone() {
            self.receive(param);
        }
        for (at, inst) in insts.into_iter().enumerate() {
            self.b.span = self.b.func.spans[inst];
            self.inst(inst, at as u32);
            self.release(region, at as u32);
        }
        self.b.span = self.b.func.regions[region].term_span;
        let args = self.b.func.regions[region].term.args().to_vec();
        let args: Vec<Value> = args.into_iter().map(|a| self.whole(a)).collect();
        for (slot, new) in self.b.func.regions[region]
            .term
            .args_mut()
            .iter_mut()
            .zip(args)
        {
            *slot = new;
        }
        self.release(region, u32::MAX);
        self.b.region = outer;
    }

    /// Arrays of values that are not used behind this place.
    fn release(&mut self, region: Region, at: u32) {
        for value in self.plan.ends.remove(&(region, at)).into_iter().flatten() {
            if self.aliases.remove(&value).is_some() {
                self.values.remove(&value);
            } else if let Some(array) = self.values.remove(&value) {
                let key = self.key(array);
                self.free.entry(key).or_default().push(array);
            }
        }
    }

    fn key(&self, array: Local) -> (Scalar, u32) {
        let data = &self.b.func.locals[array];
        (data.ty.elem().unwrap_or(Scalar::F32), data.len.unwrap_or(1))
    }

    /// An array for a new value.
    fn fresh(&mut self, s: Scalar, n: u32) -> Local {
        let free = self.free.get_mut(&(s, n)).and_then(Vec::pop);
        free.unwrap_or_else(|| self.new_array(s, n))
    }

    fn new_array(&mut self, s: Scalar, n: u32) -> Local {
        self.b.func.locals.push(LocalData {
            name: "values".to_owned(),
            ty: Type::Scalar(s),
            len: Some(n),
            shared: false,
            role: LocalRole::Variable,
        })
    }

    /// The array that a local has become.
    fn array_of_local(&self, local: Local) -> Option<Local> {
        match self.homes.get(&local) {
            Some(home) => Some(*home),
            None => self.plan.arrays.contains(&local).then_some(local),
        }
    }

    fn load(&mut self, array: Local, index: Value, guard: Guard) -> Value {
        let access = Access {
            guard,
            ..Access::read(Place::Local(array))
        };
        self.b.value(Op::Load(access), &[index])
    }

    fn store(&mut self, array: Local, index: Value, value: Value) {
        let access = Access {
            guard: Guard::InBounds,
            ..Access::write(Place::Local(array))
        };
        self.b.push(Op::Store(access), &[index, value]);
    }

    fn index(&mut self, k: u32) -> Value {
        self.b.int(Scalar::I32, i128::from(k))
    }

    /// `body` for every number from 0 to `n`.
    fn each(&mut self, n: u32, body: impl FnOnce(&mut Self, Value)) {
        self.fold(0, n, None, |this, k, _| {
            body(this, k);
            None
        });
    }

    /// A loop from `lo` to `hi` that may carry a value.
    fn fold(
        &mut self,
        lo: u32,
        hi: u32,
        start: Option<Value>,
        body: impl FnOnce(&mut Self, Value, Option<Value>) -> Option<Value>,
    ) -> Option<Value> {
        let (lo, hi, step) = (self.index(lo), self.index(hi), self.index(1));
        let label = self.b.func.fresh_label();
        let types: Vec<Type> = start.iter().map(|v| self.b.func.ty(*v)).collect();
        let mut args = vec![lo, hi, step];
        args.extend(start);
        let inst = self
            .b
            .push_typed(Op::For(label, ForKind::Serial), &args, &types);
        let mut params = vec![Type::Scalar(Scalar::I32)];
        params.extend(&types);
        let region = self.b.func.add_region(&params);
        let outer = std::mem::replace(&mut self.b.region, region);
        let given = self.b.func.regions[region].params.clone();
        let next = body(self, given[0], given.get(1).copied());
        self.b
            .end(Term::Continue(label, next.into_iter().collect()));
        self.b.region = outer;
        self.b.func.insts[inst].regions.push(region);
        self.b.func.insts[inst].results.first().copied()
    }

    fn copy(&mut self, from: Local, to: Local) {
        if from == to {
            return;
        }
        let (_, n) = self.key(to);
        self.each(n, |this, k| {
            let x = this.load(from, k, Guard::InBounds);
            this.store(to, k, x);
        });
    }

    /// Stores the components of a value that is no array.
    fn take_apart(&mut self, value: Value, array: Local) {
        let (_, n) = self.key(array);
        for k in 0..n {
            let x = self.b.value(Op::Extract(k), &[value]);
            let at = self.index(k);
            self.store(array, at, x);
        }
    }

    /// A large value that comes from a place that has no arrays: it is used from one.
    fn receive(&mut self, value: Value) {
        if let Some((s, n)) = large(self.b.func.ty(value)) {
            let array = self.fresh(s, n);
            self.take_apart(value, array);
            self.values.insert(value, array);
        }
    }

    /// A value for a place that has no arrays.
    fn whole(&mut self, value: Value) -> Value {
        let Some(array) = self.values.get(&value).copied() else {
            return value;
        };
        self.compose(array, self.b.func.ty(value))
    }

    fn compose(&mut self, array: Local, ty: Type) -> Value {
        let (_, n) = self.key(array);
        let parts: Vec<Value> = (0..n)
            .map(|k| {
                let at = self.index(k);
                self.load(array, at, Guard::InBounds)
            })
            .collect();
        self.b.value(Op::Compose(ty), &parts)
    }

    /// The array of any vector or matrix; a small one is stored to a new one.
    fn array(&mut self, value: Value) -> Local {
        if let Some(array) = self.values.get(&value) {
            return *array;
        }
        let ty = self.b.func.ty(value);
        let (s, n) = (ty.elem().unwrap_or(Scalar::F32), ty.lanes().unwrap_or(1));
        let array = self.new_array(s, n);
        self.take_apart(value, array);
        array
    }

    fn inst(&mut self, inst: Inst, at: u32) {
        if self.done.contains(&inst) {
            return;
        }
        let data = &self.b.func.insts[inst];
        let touches = |v: &Value| is_large(self.b.func.ty(*v));
        let local = match data.op.access().map(|a| a.place) {
            Some(Place::Local(l)) => self.array_of_local(l),
            Some(Place::Field(_) | Place::Array(_) | Place::Temp(_)) | None => None,
        };
        let is_involved =
            local.is_some() || data.args.iter().any(touches) || data.results.iter().any(touches);
        if !is_involved && data.regions.is_empty() {
            self.b.func.regions[self.b.region].insts.push(inst);
            return;
        }
        let (op, args) = (data.op.clone(), data.args.clone());
        match op.class() {
            OpClass::Elementwise(_) => self.elementwise(inst, at, &op, &args),
            OpClass::Component(component) => self.component(inst, at, component, &args),
            OpClass::Reduce(reduce) => self.reduce(inst, reduce.binary(), args[0]),
            OpClass::Algebra(algebra) => self.algebra(inst, at, algebra, &args),
            OpClass::Access(access_op, access) => match local {
                Some(array) => self.local_access(inst, at, access_op, access, array, &args),
                None => self.access(inst, access_op, access, &args),
            },
            OpClass::Control(ControlOp::ForEach(..)) => self.foreach(inst),
            OpClass::Constant(_)
            | OpClass::Query(_)
            | OpClass::Hint(_)
            | OpClass::Cell(..)
            | OpClass::TreeAccess(..)
            | OpClass::Memory(_)
            | OpClass::Control(_)
            | OpClass::Call(_)
            | OpClass::Random
            | OpClass::Thread(_)
            | OpClass::Check(_) => self.other(inst, &args),
        }
    }

    /// An instruction that takes and gives whole values.
    fn other(&mut self, inst: Inst, args: &[Value]) {
        let args = args.iter().map(|a| self.whole(*a)).collect();
        self.b.func.insts[inst].args = args;
        self.b.func.regions[self.b.region].insts.push(inst);
        for region in self.b.func.insts[inst].regions.clone() {
            self.region(region, Vec::new());
        }
        for result in self.b.func.insts[inst].results.clone() {
            self.receive(result);
        }
    }

    /// A parallel loop has arrays of its own: what it reads from outside goes in as values.
    fn foreach(&mut self, inst: Inst) {
        let scope: Scope = self.plan.scopes.remove(&inst).unwrap_or_default();
        let mut first = Vec::new();
        let mut homes = FxHashMap::default();
        let mut inside = FxHashMap::default();
        for local in scope.locals {
            let (s, n) = match large(self.b.func.locals[local].ty) {
                Some(shape) => shape,
                None => self.key(local),
            };
            let array = self.new_array(s, n);
            if self.plan.arrays.contains(&local) && self.plan.outside.contains(&local) {
                let ty = self.plan.types[&local];
                first.push((self.compose(local, ty), array));
            }
            homes.insert(local, array);
        }
        for value in scope.values {
            if let Some((s, n)) = large(self.b.func.ty(value)) {
                let whole = self.whole(value);
                let array = self.new_array(s, n);
                first.push((whole, array));
                inside.insert(value, array);
            }
        }
        self.b.func.regions[self.b.region].insts.push(inst);
        let homes = std::mem::replace(&mut self.homes, homes);
        let values = std::mem::replace(&mut self.values, inside);
        let aliases = std::mem::take(&mut self.aliases);
        self.free.clear();
        let body = self.b.func.insts[inst].regions[0];
        self.region(body, first);
        (self.homes, self.values) = (homes, values);
        self.aliases = aliases;
        // What follows is another task, which has no array of the ones before.
        self.free.clear();
    }

    /// The array for the result of an operation: that of the variable that it is stored to next, or a free one. Where
    /// components are computed one by one from the same components, also that of an operand that ends here.
    fn target(&mut self, inst: Inst, at: u32, args: &[Value], one_by_one: bool) -> Local {
        let result = self.b.func.result(inst);
        let ty = self.b.func.ty(result);
        let (s, n) = (ty.elem().unwrap_or(Scalar::F32), ty.lanes().unwrap_or(1));
        if let Some((store, local)) = self.plan.stored.get(&result).copied()
            && let Some(array) = self.array_of_local(local)
            && self.is_unread(array, self.b.region, at, args, one_by_one)
        {
            self.done.insert(store);
            self.aliases.insert(result, array);
            return array;
        }
        if one_by_one {
            for arg in args {
                let ends = self.plan.ends.get(&(self.b.region, at));
                let dies = ends.is_some_and(|e| e.contains(arg));
                let Some(array) = self.values.get(arg).copied().filter(|_| dies) else {
                    continue;
                };
                if !self.aliases.contains_key(arg) && self.key(array) == (s, n) {
                    // It is released once, with the result.
                    if let Some(ends) = self.plan.ends.get_mut(&(self.b.region, at)) {
                        ends.retain(|v| v != arg);
                    }
                    return array;
                }
            }
        }
        self.fresh(s, n)
    }

    /// Whether the array is not read from here on, except by this operation, component by component.
    fn is_unread(
        &self,
        array: Local,
        region: Region,
        at: u32,
        args: &[Value],
        one_by_one: bool,
    ) -> bool {
        let read: Vec<Value> = self
            .aliases
            .iter()
            .filter(|(_, a)| **a == array)
            .map(|(v, _)| *v)
            .collect();
        read.iter().all(|v| {
            let ends = self.plan.ends.get(&(region, at));
            let ends = ends.is_some_and(|e| e.contains(v));
            ends && (one_by_one || !args.contains(v))
        })
    }

    fn define(&mut self, inst: Inst, array: Local) {
        let result = self.b.func.result(inst);
        if is_large(self.b.func.ty(result)) {
            self.values.insert(result, array);
        } else {
            let whole = self.compose(array, self.b.func.ty(result));
            self.substitution.set(result, whole);
        }
    }

    /// Whether an index of any integer type is a component.
    fn is_inside(&mut self, index: Value, n: u32) -> Value {
        let s = self.b.func.ty(index).as_scalar().unwrap_or(Scalar::I32);
        let fits = |x: u32| s.int_range().is_some_and(|(_, hi)| i128::from(x) <= hi);
        let zero = self.b.imm(Imm::int(s, 0));
        let from = self.b.compare(CmpOp::Ge, index, zero);
        if !fits(n) {
            return from;
        }
        let n = self.b.imm(Imm::int(s, i128::from(n)));
        let to = self.b.compare(CmpOp::Lt, index, n);
        self.b.binary(BinOp::And, from, to)
    }
}
