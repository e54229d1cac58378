//! Takes vectors, matrices and structs apart, so that only scalars are left, and vectors whose components are the lanes of
//! a register ([`keep`]).
//!
//! Parameters, results, carried values and arguments become as many as they have scalars, in the order
//! of [`Structs::flatten`](wuji_ir::types::Structs::flatten). A local becomes one local per scalar.
//! Memory is touched once per scalar. `Module::params` keeps its types: it says what a launch passes,
//! and a function of a task takes the slots of it one by one.

mod access;
mod algebra;
mod keep;

use super::Cx;
use algebra::Parts;
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use keep::Kept;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wuji_ir::build::Builder;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Scalar, Type};
use wuji_ir::{Error, Position, Result};

/// The pass; the [module](self) describes it.
pub fn scalarize(module: &mut Module, cx: &mut Cx) -> Result<()> {
    if module.funcs.values().all(is_scalar) {
        return Ok(());
    }
    let mut kept: SecondaryMap<Func, Kept> = SecondaryMap::new();
    for func in module.funcs.keys() {
        kept[func] = Kept::choose(module, func, cx);
    }
    // All signatures first, so that calls fit while bodies are rebuilt.
    for func in module.funcs.keys() {
        let Signature { params, results } = module.funcs[func].signature();
        module.signatures[func] = Signature {
            params: flatten(module, &params),
            results: flatten(module, &results),
        };
    }
    for (func, f) in module.funcs.iter_mut() {
        let Signature { params, results } = &module.env.signatures[func];
        let mut new = Function::new(f.name.clone(), params, results);
        new.traits = f.traits;
        rebuild(&mut module.env, f, &mut new, kept[func])?;
        *f = new;
    }
    Ok(())
}

/// Nothing to scalarize, and no update of a local to expand.
fn is_scalar(f: &Function) -> bool {
    let mut plain = true;
    f.walk(|inst| {
        let op = &f.insts[inst].op;
        if matches!(op, Op::Atomic(..) | Op::CompareExchange(_)) {
            plain &= !matches!(op.access().map(|a| a.place), Some(Place::Local(_)));
        }
    });
    plain
        && f.values.values().all(|v| v.ty.as_scalar().is_some())
        && f.locals.values().all(|l| l.ty.as_scalar().is_some())
        && f.results.iter().all(|t| t.as_scalar().is_some())
}

fn flatten(module: &Env, types: &[Type]) -> Vec<Type> {
    types
        .iter()
        .flat_map(|t| module.structs.flatten(*t))
        .map(Type::Scalar)
        .collect()
}

fn rebuild(module: &mut Env, old: &Function, new: &mut Function, kept: Kept) -> Result<()> {
    new.labels = old.labels;
    let mut locals: SecondaryMap<Local, Vec<Local>> = SecondaryMap::new();
    for (local, data) in old.locals.iter() {
        let mut scalars = module.structs.flatten(data.ty);
        if scalars.is_empty() && data.len.is_some() {
            // Nothing is stored there, but reports name it.
            scalars.push(Scalar::Bool);
        }
        for (k, s) in scalars.iter().enumerate() {
            let name = match scalars.len() {
                1 => data.name.clone(),
                _ => format!("{}.{k}", data.name),
            };
            locals[local].push(new.locals.push(LocalData {
                name,
                ty: Type::Scalar(*s),
                len: data.len,
                shared: data.shared,
                role: data.role,
            }));
        }
    }
    let entry = new.entry;
    let params = new.params().to_vec();
    let mut s = Scalarizer {
        b: Builder::new(module, new),
        old,
        kept,
        whole: SecondaryMap::new(),
        parts: SecondaryMap::new(),
        pool: Vec::with_capacity(old.values.len() * 2),
        locals,
        sites: FxHashMap::default(),
    };
    s.b.region = entry;
    s.name_all(&old.regions[old.entry].params, &params, Lists::Flat);
    s.fill(old.entry, entry)
}

struct Scalarizer<'a> {
    b: Builder<'a>,
    old: &'a Function,
    kept: Kept,
    /// The new vectors of old ones that stay vectors.
    whole: SecondaryMap<Value, PackedOption<Value>>,
    /// Where the scalars of an old value start in the pool, and how many there are.
    parts: SecondaryMap<Value, (u32, u32)>,
    pool: Vec<Value>,
    locals: SecondaryMap<Local, Vec<Local>>,
    /// Sites that name a local by another number now.
    sites: FxHashMap<Site, Site>,
}

/// What a list of parameters, results or arguments has for a vector that stays one.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Lists {
    /// The vector: in control flow.
    Whole,
    /// Its scalars: where another function or the runtime reads the list.
    Flat,
}

impl Scalarizer<'_> {
    fn keeps(&self, old: Value) -> bool {
        self.kept.contains(self.old.ty(old))
    }

    fn scalars(&self, ty: Type) -> Vec<Scalar> {
        self.b.env.structs.flatten(ty)
    }

    fn width(&self, ty: Type) -> usize {
        match ty.lanes() {
            Some(n) => n as usize,
            None => self.scalars(ty).len(),
        }
    }

    /// Names the scalars of an old value.
    fn name(&mut self, old: Value, new: &[Value]) {
        if self.keeps(old) {
            let ty = self.old.ty(old);
            let vector = self.b.value(Op::Compose(ty), new);
            self.whole[old] = vector.into();
            return;
        }
        self.parts[old] = (self.pool.len() as u32, new.len() as u32);
        self.pool.extend_from_slice(new);
    }

    /// Deals a list of new values out to old ones.
    fn name_all(&mut self, old: &[Value], mut new: &[Value], lists: Lists) {
        for v in old {
            let whole = lists == Lists::Whole && self.keeps(*v);
            let width = if whole {
                1
            } else {
                self.width(self.old.ty(*v))
            };
            let (mine, rest) = new.split_at(width);
            match mine {
                [vector] if whole => self.whole[*v] = (*vector).into(),
                scalars => self.name(*v, scalars),
            }
            new = rest;
        }
    }

    /// The scalars of an old value.
    fn get(&mut self, old: Value) -> Parts {
        if let Some(vector) = self.whole[old].expand() {
            let lanes = self.old.ty(old).lanes().unwrap_or(1);
            return (0..lanes)
                .map(|k| self.b.value(Op::Extract(k), &[vector]))
                .collect();
        }
        let (start, len) = self.parts[old];
        let start = start as usize;
        self.pool[start..start + len as usize]
            .iter()
            .copied()
            .collect()
    }

    /// The vector that an old one stays, or a scalar.
    fn get_whole(&mut self, old: Value) -> Value {
        match self.whole[old].expand() {
            Some(vector) => vector,
            None => self.get(old)[0],
        }
    }

    fn get_all(&mut self, old: &[Value], lists: Lists) -> Values {
        let mut all = Values::new();
        for v in old {
            match self.whole[*v].expand() {
                Some(vector) if lists == Lists::Whole => all.push(vector),
                _ => all.extend(self.get(*v)),
            }
        }
        all
    }

    fn types(&self, values: &[Value], lists: Lists) -> Vec<Type> {
        let mut all = Vec::new();
        for v in values {
            let ty = self.old.ty(*v);
            if lists == Lists::Whole && self.kept.contains(ty) {
                all.push(ty);
            } else {
                all.extend(self.scalars(ty).into_iter().map(Type::Scalar));
            }
        }
        all
    }

    /// Rebuilds the body of an old region in a new one whose parameters are there.
    fn fill(&mut self, old: Region, new: Region) -> Result<()> {
        let outer = std::mem::replace(&mut self.b.region, new);
        let f = self.old;
        for inst in &f.regions[old].insts {
            self.inst(*inst)?;
        }
        self.b.span = f.regions[old].term_span;
        let term = match &f.regions[old].term {
            Term::Yield(v) => Term::Yield(self.get_all(v, Lists::Whole)),
            Term::Break(l, v) => Term::Break(*l, self.get_all(v, Lists::Whole)),
            Term::Continue(l, v) => Term::Continue(*l, self.get_all(v, Lists::Whole)),
            Term::Return(v) => Term::Return(self.get_all(v, Lists::Flat)),
            Term::Unreachable => Term::Unreachable,
        };
        self.b.end(term);
        self.b.region = outer;
        Ok(())
    }

    /// An instruction that owns regions or calls, with all its lists.
    fn control(&mut self, inst: Inst, lists: Lists) -> Result<()> {
        let data = &self.old.insts[inst];
        let args = self.get_all(&data.args, lists);
        let types = self.types(&data.results, lists);
        let mut op = data.op.clone();
        if let Op::Report(site) = &mut op {
            *site = self.site(*site);
        }
        let new = self.b.push_typed(op, &args, &types);
        for r in &data.regions {
            let params = &self.old.regions[*r].params;
            let types = self.types(params, lists);
            let region = self.b.func.add_region(&types);
            let values = self.b.func.regions[region].params.clone();
            self.name_all(params, &values, lists);
            self.fill(*r, region)?;
            self.b.func.insts[new].regions.push(region);
        }
        let results = self.b.func.insts[new].results.clone();
        self.name_all(&data.results, &results, lists);
        Ok(())
    }

    /// The site with a local array's new name.
    fn site(&mut self, site: Site) -> Site {
        let (SiteKind::OutOfRange(Place::Local(old)) | SiteKind::ReadOutOfRange(Place::Local(old))) =
            self.b.env.sites[site].kind
        else {
            return site;
        };
        match self.locals[old].first() {
            Some(new) if *new != old => *self.sites.entry(site).or_insert_with(|| {
                let mut data = self.b.env.sites[site].clone();
                if let SiteKind::OutOfRange(place) | SiteKind::ReadOutOfRange(place) =
                    &mut data.kind
                {
                    *place = Place::Local(*new);
                }
                self.b.env.sites.push(data)
            }),
            Some(_) | None => site,
        }
    }

    /// Flat index of the first scalar of a component, and how many scalars it has.
    fn component(&self, ty: Type, k: u32) -> std::ops::Range<usize> {
        let mut at = 0;
        for i in 0..k {
            at += self
                .b
                .env
                .structs
                .component(ty, i)
                .map_or(0, |t| self.width(t));
        }
        let len = self
            .b
            .env
            .structs
            .component(ty, k)
            .map_or(0, |t| self.width(t));
        at..at + len
    }

    /// One new instruction per scalar, on corresponding scalars of the arguments.
    fn each(&mut self, op: &Op, args: &[Value], width: usize) -> Parts {
        let args: Vec<Parts> = args.iter().map(|a| self.get(*a)).collect();
        (0..width)
            .map(|k| {
                // A scalar among vectors stands for all components (the condition of `select`).
                let lane: Values = args
                    .iter()
                    .map(|a| if a.len() == 1 { a[0] } else { a[k] })
                    .collect();
                self.b.value(op.clone(), &lane)
            })
            .collect()
    }

    /// The scalars of an aggregate that is composed or decomposed.
    fn component_op(&mut self, op: ComponentOp<'_>, args: &[Value], result: Type) -> Parts {
        match op {
            ComponentOp::Splat(to) => {
                let scalar = self.get(args[0]);
                (0..self.width(to)).map(|_| scalar[0]).collect()
            }
            ComponentOp::Compose(_) => self.get_all(args, Lists::Flat).into_iter().collect(),
            ComponentOp::Extract(k) => {
                let range = self.component(self.old.ty(args[0]), k);
                self.get(args[0])[range].iter().copied().collect()
            }
            ComponentOp::Insert(k) => {
                let range = self.component(self.old.ty(args[0]), k);
                let mut whole = self.get(args[0]);
                let part = self.get(args[1]);
                whole[range].copy_from_slice(&part);
                whole
            }
            ComponentOp::ExtractDyn => {
                let (x, i) = (self.get(args[0]), self.get(args[1]));
                let s = self.scalars(result)[0];
                [algebra::extract(&mut self.b, &x, i[0], s)]
                    .into_iter()
                    .collect()
            }
            ComponentOp::InsertDyn => {
                let (x, i, new) = (self.get(args[0]), self.get(args[1]), self.get(args[2]));
                algebra::insert(&mut self.b, &x, i[0], new[0])
            }
            ComponentOp::Shuffle(mask) => {
                let x = self.get(args[0]);
                mask.iter().map(|k| x[usize::from(*k)]).collect()
            }
        }
    }

    /// An operation on vectors that stay vectors, if it is one.
    fn whole(&mut self, data: &InstData) -> Option<Option<Value>> {
        let InstData {
            op, args, results, ..
        } = data;
        let stays = |s: &Self, v: Option<&Value>| v.is_some_and(|v| s.keeps(*v));
        match op.class() {
            OpClass::Elementwise(_) if !self.kept.is_whole(self.old, data) => None,
            OpClass::Elementwise(_)
            | OpClass::Component(ComponentOp::Splat(_))
            | OpClass::Memory(MemoryOp::MemLoad(..))
                if stays(self, results.first()) =>
            {
                let args: Values = args.iter().map(|a| self.get_whole(*a)).collect();
                Some(Some(self.b.value(op.clone(), &args)))
            }
            OpClass::Component(ComponentOp::Extract(_)) if stays(self, args.first()) => {
                let vector = self.get_whole(args[0]);
                Some(Some(self.b.value(op.clone(), &[vector])))
            }
            OpClass::Memory(MemoryOp::MemStore(_)) if stays(self, args.get(1)) => {
                let args: Values = args.iter().map(|a| self.get_whole(*a)).collect();
                self.b.push(op.clone(), &args);
                Some(None)
            }
            OpClass::Constant(_)
            | OpClass::Elementwise(_)
            | OpClass::Component(_)
            | OpClass::Reduce(_)
            | OpClass::Algebra(_)
            | OpClass::Query(_)
            | OpClass::Hint(_)
            | OpClass::Access(..)
            | OpClass::Cell(..)
            | OpClass::TreeAccess(..)
            | OpClass::Memory(_)
            | OpClass::Control(_)
            | OpClass::Call(_)
            | OpClass::Random
            | OpClass::Thread(_)
            | OpClass::Check(_) => None,
        }
    }

    fn inst(&mut self, inst: Inst) -> Result<()> {
        let f = self.old;
        self.b.span = f.spans[inst];
        if let Some(value) = self.whole(&f.insts[inst]) {
            if let (Some(old), Some(value)) = (f.insts[inst].results.first(), value) {
                self.name_all(&[*old], &[value], Lists::Whole);
            }
            return Ok(());
        }
        let InstData {
            op, args, results, ..
        } = &f.insts[inst];
        let parts: Parts = match op.class() {
            OpClass::Constant(imm) => [self.b.imm(imm)].into_iter().collect(),
            OpClass::Elementwise(_) => {
                let width = self.width(f.ty(results[0]));
                self.each(op, args, width)
            }
            OpClass::Component(op) => self.component_op(op, args, f.ty(results[0])),
            OpClass::Reduce(op) => {
                let x = self.get(args[0]);
                let mut sum = x[0];
                for v in &x[1..] {
                    sum = self.b.binary(op.binary(), sum, *v);
                }
                [sum].into_iter().collect()
            }
            OpClass::Algebra(op) => {
                let args: SmallVec<[(Type, Parts); 2]> =
                    args.iter().map(|a| (f.ty(*a), self.get(*a))).collect();
                algebra::lower(&mut self.b, op, &args)
            }
            OpClass::Access(op, a) => self.access(op, a, args),
            OpClass::Memory(MemoryOp::MemLoad(space, ty)) => self.mem_load(space, ty, args),
            OpClass::Memory(MemoryOp::MemStore(space)) => self.mem_store(space, args),
            OpClass::Memory(MemoryOp::MemAtomic(atomic, space, sharing)) => {
                self.mem_atomic(atomic, space, sharing, args)
            }
            OpClass::Memory(
                MemoryOp::MemCompareExchange(_)
                | MemoryOp::LoadInterleaved(_)
                | MemoryOp::StoreInterleaved(_)
                | MemoryOp::AddInterleaved(_),
            )
            | OpClass::Query(_)
            | OpClass::Hint(_)
            | OpClass::Cell(..)
            | OpClass::TreeAccess(..)
            | OpClass::Call(_)
            | OpClass::Random
            | OpClass::Thread(_)
            | OpClass::Check(CheckOp::CheckIndex(_) | CheckOp::Report(_)) => {
                return self.control(inst, Lists::Flat);
            }
            OpClass::Control(_) => return self.control(inst, Lists::Whole),
            OpClass::Check(CheckOp::Print(_) | CheckOp::Assert(_)) => {
                // Their messages are typed by whole values; `lower_checks` takes them apart.
                if args.iter().any(|a| f.ty(*a).as_scalar().is_none()) {
                    return Err(Error::new(
                        "W0320",
                        "a message with aggregates must be lowered before `scalarize`",
                    )
                    .at(Position::of(self.b.env, f.spans[inst])));
                }
                return self.control(inst, Lists::Flat);
            }
        };
        if let Some(result) = results.first() {
            self.name(*result, &parts);
        }
        Ok(())
    }
}
