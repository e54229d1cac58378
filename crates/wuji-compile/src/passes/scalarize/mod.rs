//! Takes vectors, matrices and structs apart, so that only scalars are left.
//!
//! Parameters, results, carried values and arguments become as many as they have scalars, in the order
//! of [`Structs::flatten`](wuji_ir::types::Structs::flatten). A local becomes one local per scalar.
//! Memory is touched once per scalar. `Module::params` keeps its types: it says what a launch passes,
//! and a function of a task takes the slots of it one by one.

mod access;
mod algebra;

use super::Cx;
use algebra::Parts;
use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wuji_ir::build::Builder;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Scalar, Type};
use wuji_ir::{Error, Position, Result};

/// The pass; the [module](self) describes it.
pub fn scalarize(module: &mut Module, _: &mut Cx) -> Result<()> {
    if module.funcs.values().all(is_scalar) {
        return Ok(());
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
        rebuild(&mut module.env, f, &mut new)?;
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

fn rebuild(module: &mut Env, old: &Function, new: &mut Function) -> Result<()> {
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
        parts: SecondaryMap::new(),
        pool: Vec::with_capacity(old.values.len() * 2),
        locals,
        sites: FxHashMap::default(),
    };
    s.name_all(&old.regions[old.entry].params, &params);
    s.fill(old.entry, entry)
}

struct Scalarizer<'a> {
    b: Builder<'a>,
    old: &'a Function,
    /// Where the scalars of an old value start in the pool, and how many there are.
    parts: SecondaryMap<Value, (u32, u32)>,
    pool: Vec<Value>,
    locals: SecondaryMap<Local, Vec<Local>>,
    /// Sites that name a local by another number now.
    sites: FxHashMap<Site, Site>,
}

impl Scalarizer<'_> {
    fn scalars(&self, ty: Type) -> Vec<Scalar> {
        self.b.env.structs.flatten(ty)
    }

    fn width(&self, ty: Type) -> usize {
        match ty.lanes() {
            Some(n) => n as usize,
            None => self.scalars(ty).len(),
        }
    }

    fn name(&mut self, old: Value, new: &[Value]) {
        self.parts[old] = (self.pool.len() as u32, new.len() as u32);
        self.pool.extend_from_slice(new);
    }

    /// Deals a flat list of new values out to old ones.
    fn name_all(&mut self, old: &[Value], mut new: &[Value]) {
        for v in old {
            let (mine, rest) = new.split_at(self.width(self.old.ty(*v)));
            self.name(*v, mine);
            new = rest;
        }
    }

    fn get(&self, old: Value) -> Parts {
        let (start, len) = self.parts[old];
        let start = start as usize;
        self.pool[start..start + len as usize]
            .iter()
            .copied()
            .collect()
    }

    fn get_all(&self, old: &[Value]) -> Values {
        old.iter().flat_map(|v| self.get(*v)).collect()
    }

    fn types(&self, values: &[Value]) -> Vec<Type> {
        values
            .iter()
            .flat_map(|v| self.scalars(self.old.ty(*v)))
            .map(Type::Scalar)
            .collect()
    }

    /// Rebuilds the body of an old region in a new one whose parameters are there.
    fn fill(&mut self, old: Region, new: Region) -> Result<()> {
        let outer = std::mem::replace(&mut self.b.region, new);
        let f = self.old;
        for inst in &f.regions[old].insts {
            self.inst(*inst)?;
        }
        let term = match &f.regions[old].term {
            Term::Yield(v) => Term::Yield(self.get_all(v)),
            Term::Break(l, v) => Term::Break(*l, self.get_all(v)),
            Term::Continue(l, v) => Term::Continue(*l, self.get_all(v)),
            Term::Return(v) => Term::Return(self.get_all(v)),
            Term::Unreachable => Term::Unreachable,
        };
        self.b.span = f.regions[old].term_span;
        self.b.end(term);
        self.b.region = outer;
        Ok(())
    }

    /// An instruction that owns regions or calls: all lists become flat.
    fn control(&mut self, inst: Inst) -> Result<()> {
        let data = &self.old.insts[inst];
        let args = self.get_all(&data.args);
        let types = self.types(&data.results);
        let mut op = data.op.clone();
        if let Op::Report(site) = &mut op {
            *site = self.site(*site);
        }
        let new = self.b.push_typed(op, &args, &types);
        for r in &data.regions {
            let params = &self.old.regions[*r].params;
            let types = self.types(params);
            let region = self.b.func.add_region(&types);
            let values = self.b.func.regions[region].params.clone();
            self.name_all(params, &values);
            self.fill(*r, region)?;
            self.b.func.insts[new].regions.push(region);
        }
        let results = self.b.func.insts[new].results.clone();
        self.name_all(&data.results, &results);
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
            ComponentOp::Compose(_) => self.get_all(args),
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

    fn inst(&mut self, inst: Inst) -> Result<()> {
        let f = self.old;
        self.b.span = f.spans[inst];
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
            OpClass::Memory(MemoryOp::Load(space, ty)) => self.mem_load(space, ty, args),
            OpClass::Memory(MemoryOp::Store(space)) => self.mem_store(space, args),
            OpClass::Memory(MemoryOp::Atomic(atomic, space, sharing)) => {
                self.mem_atomic(atomic, space, sharing, args)
            }
            OpClass::Memory(
                MemoryOp::CompareExchange(_)
                | MemoryOp::LoadInterleaved(_)
                | MemoryOp::StoreInterleaved(_)
                | MemoryOp::AddInterleaved(_),
            )
            | OpClass::Query(_)
            | OpClass::Hint(_)
            | OpClass::Cell(..)
            | OpClass::TreeAccess(..)
            | OpClass::Control(_)
            | OpClass::Call(_)
            | OpClass::Random
            | OpClass::Thread(_)
            | OpClass::Check(CheckOp::Index(_) | CheckOp::Report(_)) => return self.control(inst),
            OpClass::Check(CheckOp::Print(_) | CheckOp::Assert(_)) => {
                // Their messages are typed by whole values; `lower_checks` takes them apart.
                if args.iter().any(|a| f.ty(*a).as_scalar().is_none()) {
                    return Err(Error::new(
                        "W0320",
                        "a message with aggregates must be lowered before `scalarize`",
                    )
                    .at(Position::of(self.b.env, f.spans[inst])));
                }
                return self.control(inst);
            }
        };
        if let Some(result) = results.first() {
            self.name(*result, &parts);
        }
        Ok(())
    }
}
