//! Reductions: atomics on an address that is constant throughout a chunk go to an accumulator, and to memory once
//! at the end of the chunk.
//!
//! There may be any number of targets, scalars or vectors, under any condition. The accumulator is a local that the
//! backend keeps in registers. Its role is `accumulator`, so the backend may reassociate its sums and products, as
//! for atomics.

use crate::analysis::uses::used_values;
use crate::passes::Cx;
use crate::rewrite::{Map, Structure, clone_inst, combine, identity};
use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Local, Region, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{BOOL, Imm, Type};

/// The pass; the [module](self) describes it.
pub fn reductions(m: &mut Module, cx: &mut Cx) -> Result<()> {
    for t in 0..m.tasks.len() {
        // Cooperative threads may exit one by one: none waits for another at the end of a task.
        if let TaskKind::Chunks { hints, .. } = m.tasks[t].kind
            && !hints.cooperative
        {
            let func = m.tasks[t].func;
            reduce(&mut m.env, &mut m.funcs[func], cx);
        }
    }
    Ok(())
}

/// One target of a reduction, and its atomics.
struct ReductionTarget {
    op: AtomicOp,
    access: Access,
    /// Indices, with constants resolved.
    indices: Vec<Index>,
    atomics: Vec<Inst>,
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Index {
    Const(i128),
    Value(Value),
}

fn reduce(m: &mut Env, f: &mut Function, cx: &mut Cx) {
    let structure = Structure::of(f);
    for target in targets(m, f, &structure) {
        if cx.fuel() {
            accumulate(m, f, &structure, &target);
        }
    }
}

fn targets(m: &Env, f: &Function, structure: &Structure) -> Vec<ReductionTarget> {
    let used = used_values(f);
    let mut targets: Vec<ReductionTarget> = Vec::new();
    // Fields that are accessed in another way keep their atomics, and so do mixed operations.
    let mut spoiled: FxHashSet<Place> = FxHashSet::default();
    let mut op_of: FxHashMap<Place, AtomicOp> = FxHashMap::default();
    f.walk(|inst| {
        let data = &f.insts[inst];
        let Some(access) = data.op.access() else {
            return;
        };
        let place = access.place;
        let reducible = if let Op::Atomic(op, a) = &data.op
            && *op != AtomicOp::Exchange
            && !used.contains(&data.results[0])
        {
            let same_op = *op_of.entry(place).or_insert(*op) == *op;
            (same_op && a.dynamic_steps() == 0).then_some(*op)
        } else {
            None
        };
        // The final update of a chunk without contributions must not activate a cell.
        let absent = matches!(place, Place::Field(f)
            if !m.trees[m.fields[f].tree].sparse_path(m.fields[f].node).is_empty());
        let overlaps = absent || matches!(place, Place::Array(a) if !m.arrays[a].unaliased);
        let Some(op) = reducible.filter(|_| !overlaps) else {
            spoiled.insert(place);
            return;
        };
        let rank = m.place_elem(f, place).1;
        let indices: Option<Vec<Index>> = data.args[..rank]
            .iter()
            .map(|v| match f.constant(*v).and_then(Imm::as_int) {
                Some(c) => Some(Index::Const(c)),
                None => (structure.def_region(f, *v) == Some(f.entry)).then_some(Index::Value(*v)),
            })
            .collect();
        // An address that varies between iterations keeps its atomic.
        let Some(indices) = indices else { return };
        let in_loop = structure.region_of[inst].expand() != Some(f.entry);
        if !in_loop {
            return;
        }
        match targets.iter_mut().find(|t| {
            t.op == op
                && t.access.place == place
                && t.access.path == access.path
                && t.indices == indices
        }) {
            Some(t) => t.atomics.push(inst),
            None => {
                targets.push(ReductionTarget {
                    op,
                    access: access.clone(),
                    indices,
                    atomics: vec![inst],
                });
            }
        }
    });
    targets.retain(|t| {
        !spoiled.contains(&t.access.place) && !matches!(t.access.place, Place::Local(_))
    });
    targets
}

fn accumulate(m: &mut Env, f: &mut Function, structure: &Structure, target: &ReductionTarget) {
    let first = target.atomics[0];
    let ty = f.ty(f.result(first));
    let number = f.locals.len();
    let acc = f.locals.push(LocalData {
        name: format!("acc.{number}"),
        ty,
        len: None,
        shared: false,
        role: LocalRole::Accumulator,
    });
    // If the address may be out of range, track whether any iteration contributed.
    let sure = in_domain(m, f, target);
    let touched = (!sure).then(|| {
        f.locals.push(LocalData {
            name: format!("touched.{number}"),
            ty: BOOL,
            len: None,
            shared: false,
            role: LocalRole::Variable,
        })
    });
    start(m, f, target.op, acc, ty);
    for &inst in &target.atomics {
        // Instructions are replaced within their region, so regions do not change.
        if let Some(region) = structure.region_of[inst].expand() {
            contribute(m, f, region, inst, target.op, acc, touched);
        }
    }
    finish(m, f, target, first, acc, touched);
}

fn in_domain(m: &Env, f: &Function, target: &ReductionTarget) -> bool {
    match target.access.place {
        Place::Temp(_) => true,
        Place::Field(field) => {
            let domain = m.fields[field].domain(&m.trees);
            target
                .indices
                .iter()
                .zip(domain)
                .all(|(i, (lo, extent))| match i {
                    Index::Const(c) => {
                        (i128::from(lo)..i128::from(lo) + i128::from(extent)).contains(c)
                    }
                    Index::Value(_) => false,
                })
        }
        Place::Array(_) => false,
        Place::Local(l) => f.locals[l].len.is_none(),
    }
}

/// `acc = identity` at the start of the chunk.
fn start(m: &mut Env, f: &mut Function, op: AtomicOp, acc: Local, ty: Type) {
    let entry = f.entry;
    let rest = std::mem::take(&mut f.regions[entry].insts);
    let mut b = Builder::new(m, f);
    let identity = identity(&mut b, op, ty);
    b.store(Place::Local(acc), &[], identity);
    f.regions[entry].insts.extend(rest);
}

/// The atomic becomes an update of the accumulator.
fn contribute(
    m: &mut Env,
    f: &mut Function,
    region: Region,
    inst: Inst,
    op: AtomicOp,
    acc: Local,
    touched: Option<Local>,
) {
    let Some(at) = f.regions[region].insts.iter().position(|i| *i == inst) else {
        return;
    };
    let rest = f.regions[region].insts.split_off(at);
    let value = f.insts[inst].args[f.insts[inst].args.len() - 1];
    let mut b = Builder::new(m, f);
    b.region = region;
    b.span = b.func.spans[inst];
    let old = b.load(Place::Local(acc), &[]);
    let new = combine(&mut b, op, old, value);
    b.store(Place::Local(acc), &[], new);
    if let Some(t) = touched {
        let yes = b.bool(true);
        b.store(Place::Local(t), &[], yes);
    }
    f.regions[region].insts.extend(&rest[1..]);
}

/// One atomic at the end of the chunk.
fn finish(
    m: &mut Env,
    f: &mut Function,
    target: &ReductionTarget,
    first: Inst,
    acc: Local,
    touched: Option<Local>,
) {
    let args = f.insts[first].args.clone();
    let span = f.spans[first];
    let ty = f.ty(f.result(first));
    // Constant indices were defined inside the loop.
    let mut address = Values::new();
    for v in &args[..target.indices.len()] {
        let copy = match f.def(*v).filter(|_| f.constant(*v).is_some()) {
            Some(def) => {
                let copy = clone_inst(f, def, &mut Map::new());
                let entry = f.entry;
                f.regions[entry].insts.push(copy);
                f.result(copy)
            }
            None => *v,
        };
        address.push(copy);
    }
    let mut b = Builder::new(m, f);
    b.span = span;
    let op = Op::Atomic(target.op, target.access.clone());
    let add = |b: &mut Builder| {
        let value = b.load(Place::Local(acc), &[]);
        let mut args = address.clone();
        args.push(value);
        b.push_typed(op, &args, &[ty]);
        Values::new()
    };
    match touched {
        None => {
            add(&mut b);
        }
        Some(t) => {
            let any = b.load(Place::Local(t), &[]);
            b.if_else(any, &[], add, |_| Values::new());
        }
    }
}
