//! Turns locals that are not arrays into SSA values (mem2reg), and atomics on local arrays into plain updates,
//! because a local is private to its thread.
//!
//! Every region that stores to a local passes its value on: as a result of `if` and `block`, as a carried value and
//! a result of loops. The *home* of a local is the innermost region with all its uses. If the local is always
//! stored before it is read there, nothing is passed outside of the home. Unused results are removed at the end.

mod arrays;

use super::Cx;
use crate::rewrite::{Structure, Substitution, sweep_with_reads};
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use wuji_ir::build::Builder;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Scalar, Type};
use wuji_ir::{Error, Position, Result};

/// The pass; the [module](self) describes it.
pub fn promote(module: &mut Module, cx: &mut Cx) -> Result<()> {
    for f in module.funcs.values_mut() {
        if !f.locals.is_empty() {
            promote_function(&mut module.env, f)?;
            sweep_with_reads(f, cx.options.check_reads);
        }
    }
    Ok(())
}

/// Turns the locals of one function that are not arrays into values.
pub(crate) fn promote_function(module: &mut Env, f: &mut Function) -> Result<()> {
    arrays::split_arrays(f);
    let handed_on = HandedOn::of(module, f)?;
    let entry = f.entry;
    let mut promoter = Promoter {
        b: Builder::new(module, f),
        handed_on,
        now: SecondaryMap::new(),
        leaving: SecondaryMap::new(),
        substitution: Substitution::new(),
    };
    promoter.region(entry, &[]);
    remove_promoted(f);
    Ok(())
}

fn is_variable(f: &Function, op: &Op) -> Option<Local> {
    match op.access()?.place {
        Place::Local(l) if f.locals[l].len.is_none() => Some(l),
        Place::Local(_) | Place::Field(_) | Place::Array(_) | Place::Temp(_) => None,
    }
}

/// The locals that each region stores to and passes on.
struct HandedOn {
    by_region: SecondaryMap<Region, Vec<Local>>,
    /// Locals that start as zero in each iteration of a `foreach`.
    fresh_in_iterations: Vec<Local>,
}

#[derive(Clone, Default)]
struct Uses {
    /// Innermost region with all uses.
    common: Option<Region>,
    /// The region in which the first use stores the whole local.
    set_in: Option<Region>,
    used_outside_foreach: bool,
    stored_in_foreach: Option<Inst>,
}

/// Locals that the iterations of a `foreach` store to and that are used nowhere else.
fn fresh_in_iterations(
    env: &Env,
    f: &Function,
    uses: &SecondaryMap<Local, Uses>,
) -> Result<Vec<Local>> {
    let mut fresh = Vec::new();
    for (local, u) in uses.iter() {
        let Some(inst) = u.stored_in_foreach else {
            continue;
        };
        if u.used_outside_foreach {
            let name = &f.locals[local].name;
            return Err(Error::new(
                "W0310",
                format!("`{name}` is assigned in a parallel loop, but declared outside of it"),
            )
            .at(Position::of(env, f.spans[inst]))
            .note("the iterations of a parallel loop run concurrently and have no shared variables")
            .help("add to an element of a field instead, or declare the variable in the loop"));
        }
        fresh.push(local);
    }
    Ok(fresh)
}

impl HandedOn {
    fn of(module: &Env, f: &Function) -> Result<HandedOn> {
        let structure = Structure::of(f);
        let mut depth: SecondaryMap<Region, u32> = SecondaryMap::new();
        let mut in_foreach: SecondaryMap<Region, bool> = SecondaryMap::new();
        let mut uses: SecondaryMap<Local, Uses> = SecondaryMap::new();
        let mut stores: Vec<(Local, Region)> = Vec::new();
        let up = |r: Region| {
            structure.owner[r]
                .expand()
                .and_then(|owner| structure.region_of[owner].expand())
        };
        f.walk(|inst| {
            let Some(region) = structure.region_of[inst].expand() else {
                return;
            };
            let data = &f.insts[inst];
            for r in &data.regions {
                depth[*r] = depth[region] + 1;
                in_foreach[*r] = in_foreach[region] || matches!(data.op, Op::ForEach(..));
            }
            let Some(local) = is_variable(f, &data.op) else {
                return;
            };
            let writes = !matches!(data.op, Op::Load(_));
            if writes {
                stores.push((local, region));
            }
            let u = &mut uses[local];
            match u.common {
                None => {
                    let whole = data.op.access().is_some_and(|a| a.path.is_empty());
                    if matches!(data.op, Op::Store(_)) && whole {
                        u.set_in = Some(region);
                    }
                    u.common = Some(region);
                }
                Some(other) => {
                    let (mut a, mut b) = (other, region);
                    while a != b {
                        let deeper = if depth[a] >= depth[b] { &mut a } else { &mut b };
                        match up(*deeper) {
                            Some(r) => *deeper = r,
                            None => break,
                        }
                    }
                    u.common = Some(a);
                }
            }
            if !in_foreach[region] {
                u.used_outside_foreach = true;
            } else if writes && u.stored_in_foreach.is_none() {
                u.stored_in_foreach = Some(inst);
            }
        });

        let fresh_in_iterations = fresh_in_iterations(module, f, &uses)?;
        let mut seen: FxHashSet<(Region, Local)> = FxHashSet::default();
        let mut by_region: SecondaryMap<Region, Vec<Local>> = SecondaryMap::new();
        for (local, mut region) in stores {
            let home = match &uses[local] {
                u if u.set_in.is_some() && u.set_in == u.common => u.set_in,
                _ => None,
            };
            while Some(region) != home && seen.insert((region, local)) {
                let Some(owner) = structure.owner[region].expand() else {
                    break;
                };
                if matches!(f.insts[owner].op, Op::ForEach(..)) {
                    break;
                }
                by_region[region].push(local);
                match structure.region_of[owner].expand() {
                    Some(r) => region = r,
                    None => break,
                }
            }
        }
        Ok(HandedOn {
            by_region,
            fresh_in_iterations,
        })
    }

    /// The locals that an instruction with these regions passes on.
    fn by_all(&self, regions: &[Region]) -> Vec<Local> {
        let mut locals: Vec<Local> = regions
            .iter()
            .flat_map(|r| self.by_region[*r].iter().copied())
            .collect();
        locals.sort_unstable();
        locals.dedup();
        locals
    }
}

struct Promoter<'a> {
    b: Builder<'a>,
    handed_on: HandedOn,
    /// The current value of each local; `None` is zero.
    now: SecondaryMap<Local, PackedOption<Value>>,
    /// The locals that exits through a label pass on.
    leaving: SecondaryMap<Label, Vec<Local>>,
    substitution: Substitution,
}

impl Promoter<'_> {
    fn region(&mut self, region: Region, yields: &[Local]) {
        let insts = std::mem::take(&mut self.b.func.regions[region].insts);
        let outer = std::mem::replace(&mut self.b.region, region);
        for inst in insts {
            self.b.span = self.b.func.spans[inst];
            self.substitution.apply_to_inst(self.b.func, inst);
            self.inst(inst);
        }
        self.substitution.apply_to_term(self.b.func, region);
        let extra: Vec<Local> = match &self.b.func.regions[region].term {
            Term::Yield(_) => yields.to_vec(),
            Term::Break(label, _) | Term::Continue(label, _) => self.leaving[*label].clone(),
            Term::Return(_) | Term::Unreachable => Vec::new(),
        };
        let extra = self.values_of(&extra);
        match &mut self.b.func.regions[region].term {
            Term::Yield(v) | Term::Break(_, v) | Term::Continue(_, v) => v.extend(extra),
            Term::Return(_) | Term::Unreachable => {}
        }
        self.b.region = outer;
    }

    fn values_of(&mut self, locals: &[Local]) -> Values {
        locals.iter().map(|l| self.value_of(*l)).collect()
    }

    fn value_of(&mut self, local: Local) -> Value {
        match self.now[local].expand() {
            Some(v) => v,
            // Created where it is needed: a zero from elsewhere might not dominate this point.
            None => {
                let ty = self.b.func.locals[local].ty;
                self.b.zero(ty)
            }
        }
    }

    fn keep(&mut self, inst: Inst) {
        self.b.func.regions[self.b.region].insts.push(inst);
    }

    fn inst(&mut self, inst: Inst) {
        let InstData { op, args, .. } = self.b.func.insts[inst].clone();
        if let OpClass::Access(kind, access) = op.class() {
            return match is_variable(self.b.func, &op) {
                Some(local) => self.access(inst, local, kind, access, &args),
                None => self.element(inst, kind, access, &args),
            };
        }
        match op.control() {
            Some(ControlOp::If | ControlOp::Block(_)) => self.branches(inst),
            Some(ControlOp::Loop(_) | ControlOp::For(..)) => self.repeat(inst),
            Some(ControlOp::ForEach(label, ..)) => {
                self.keep(inst);
                self.leaving[label] = Vec::new();
                let before = self.now.clone();
                for local in &self.handed_on.fresh_in_iterations {
                    self.now[*local] = None.into();
                }
                let region = self.b.func.insts[inst].regions[0];
                self.region(region, &[]);
                self.now = before;
            }
            None => self.keep(inst),
        }
    }

    /// `if` and `block`: the locals that a region stores become results.
    fn branches(&mut self, inst: Inst) {
        let regions = self.b.func.insts[inst].regions.clone();
        let locals = self.handed_on.by_all(&regions);
        if let Some(label) = self.b.func.insts[inst].op.label() {
            self.leaving[label] = locals.clone();
        }
        let before: Vec<PackedOption<Value>> = locals.iter().map(|l| self.now[*l]).collect();
        for region in regions {
            self.region(region, &locals);
            for (l, v) in locals.iter().zip(&before) {
                self.now[*l] = *v;
            }
        }
        self.keep(inst);
        self.take_results(inst, &locals);
    }

    /// `loop` and `for`: the locals that the region stores are carried from iteration to iteration.
    fn repeat(&mut self, inst: Inst) {
        let region = self.b.func.insts[inst].regions[0];
        let locals = self.handed_on.by_all(&[region]);
        if let Some(label) = self.b.func.insts[inst].op.label() {
            self.leaving[label] = locals.clone();
        }
        let start = self.values_of(&locals);
        self.b.func.insts[inst].args.extend(start);
        for l in &locals {
            let ty = self.b.func.locals[*l].ty;
            self.now[*l] = self.b.func.add_region_param(region, ty).into();
        }
        self.region(region, &[]);
        self.keep(inst);
        self.take_results(inst, &locals);
    }

    fn take_results(&mut self, inst: Inst, locals: &[Local]) {
        for l in locals {
            let ty = self.b.func.locals[*l].ty;
            self.now[*l] = self.b.func.add_result(inst, ty).into();
        }
    }

    fn access(&mut self, inst: Inst, local: Local, op: AccessOp, access: &Access, args: &[Value]) {
        let (components, operands) = args.split_at(access.dynamic_steps());
        let mut components = components.iter();
        let path: Path = access
            .path
            .iter()
            .filter_map(|step| match step {
                Step::Const(k) => Some(Part::Const(*k)),
                Step::Dynamic => components.next().map(|i| Part::Dynamic(*i)),
            })
            .collect();
        let old = if op == AccessOp::Store && path.is_empty() {
            None
        } else {
            let whole = self.value_of(local);
            Some((whole, self.get(whole, &path)))
        };
        if let (Some((_, part)), Some(result)) = (old, self.b.func.insts[inst].results.first()) {
            self.substitution.set(*result, part);
        }
        let Some(new) = self.updated(op, old.map(|(_, part)| part), operands) else {
            return;
        };
        let whole = match old {
            Some((whole, _)) => self.put(whole, &path, new),
            None => new,
        };
        self.now[local] = whole.into();
    }

    /// An access that stays one. Atomics on private local arrays become a load and a store: out of range the load
    /// gives zero, and the store is dropped and reported, like the atomic.
    fn element(&mut self, inst: Inst, op: AccessOp, access: &Access, args: &[Value]) {
        let operands = match op {
            AccessOp::Load | AccessOp::Store => 0,
            AccessOp::Atomic(_) | AccessOp::CompareExchange => op.operands(),
        };
        let own = match access.place {
            Place::Local(local) => !self.b.func.locals[local].shared,
            Place::Field(_) | Place::Array(_) | Place::Temp(_) => false,
        };
        if operands == 0 || !own {
            return self.keep(inst);
        }
        let (at, operands) = args.split_at(args.len() - operands);
        let read = Access {
            activation: Activation::Never,
            ..access.clone()
        };
        let old = self.b.value(Op::Load(read), at);
        let new = self.updated(op, Some(old), operands).unwrap_or(old);
        let mut args: Values = at.iter().copied().collect();
        args.push(new);
        self.b.push(Op::Store(access.clone()), &args);
        self.substitution.set(self.b.func.result(inst), old);
    }

    /// The new value of an atomic on private memory.
    fn updated(&mut self, op: AccessOp, old: Option<Value>, operands: &[Value]) -> Option<Value> {
        match op {
            AccessOp::Load => None,
            AccessOp::Store => Some(operands[0]),
            AccessOp::Atomic(op) => Some(self.combine(op, old?, operands[0])),
            AccessOp::CompareExchange => {
                let same = self.same_bits(old?, operands[0]);
                Some(self.b.select(same, operands[1], old?))
            }
        }
    }

    fn get(&mut self, whole: Value, path: &[Part]) -> Value {
        path.iter().fold(whole, |v, part| match part {
            Part::Const(k) => self.b.value(Op::Extract(*k), &[v]),
            Part::Dynamic(i) => self.b.value(Op::ExtractDyn, &[v, *i]),
        })
    }

    fn put(&mut self, whole: Value, path: &[Part], new: Value) -> Value {
        let Some((first, rest)) = path.split_first() else {
            return new;
        };
        let inner = if rest.is_empty() {
            new
        } else {
            let part = self.get(whole, std::slice::from_ref(first));
            self.put(part, rest, new)
        };
        match first {
            Part::Const(k) => self.b.value(Op::Insert(*k), &[whole, inner]),
            Part::Dynamic(i) => self.b.value(Op::InsertDyn, &[whole, *i, inner]),
        }
    }

    fn combine(&mut self, op: AtomicOp, old: Value, operand: Value) -> Value {
        let binary = match op {
            AtomicOp::Add => BinOp::Add,
            AtomicOp::Mul => BinOp::Mul,
            AtomicOp::Min => BinOp::Min,
            AtomicOp::Max => BinOp::Max,
            AtomicOp::And => BinOp::And,
            AtomicOp::Or => BinOp::Or,
            AtomicOp::Xor => BinOp::Xor,
            AtomicOp::Exchange => return operand,
        };
        let ty = self.b.func.ty(old);
        if !matches!(ty, Type::Struct(_)) {
            return self.b.binary(binary, old, operand);
        }
        let parts: Vec<Value> = (0..self.b.env.structs.arity(ty))
            .map(|k| {
                let a = self.b.value(Op::Extract(k), &[old]);
                let b = self.b.value(Op::Extract(k), &[operand]);
                self.combine(op, a, b)
            })
            .collect();
        self.b.value(Op::Compose(ty), &parts)
    }

    fn same_bits(&mut self, a: Value, b: Value) -> Value {
        let bits = match self.b.func.ty(a).as_scalar() {
            Some(Scalar::F16) => Scalar::U16,
            Some(Scalar::F32) => Scalar::U32,
            Some(Scalar::F64) => Scalar::U64,
            _ => return self.b.compare(CmpOp::Eq, a, b),
        };
        let a = self.b.value(Op::Bitcast(bits), &[a]);
        let b = self.b.value(Op::Bitcast(bits), &[b]);
        self.b.compare(CmpOp::Eq, a, b)
    }
}

#[derive(Copy, Clone)]
enum Part {
    Const(u32),
    Dynamic(Value),
}

type Path = SmallVec<[Part; 2]>;

/// Removes promoted locals from the table.
fn remove_promoted(f: &mut Function) {
    let mut arrays: PrimaryMap<Local, LocalData> = PrimaryMap::new();
    let mut renamed: SecondaryMap<Local, Local> = SecondaryMap::with_default(Local::new(0));
    for (local, data) in f.locals.iter() {
        if data.len.is_some() {
            renamed[local] = arrays.push(data.clone());
        }
    }
    let mut insts = Vec::new();
    f.walk(|inst| insts.push(inst));
    for inst in insts {
        if let Some(access) = f.insts[inst].op.access_mut()
            && let Place::Local(l) = &mut access.place
        {
            *l = renamed[*l];
        }
    }
    f.locals = arrays;
}
