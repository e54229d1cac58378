//! Turns an atomic into a plain load, operation and store where no other iteration can touch the
//! address.
//!
//! In serial code that is everywhere. In a parallel loop an address belongs to one iteration when its
//! indices are the loop's own, each exactly once, give or take constants, and every other write to the
//! place in this task uses the same indices; functions that are still called write nowhere there.

use crate::analysis::affine::{Affine, AffineAnalysis};
use crate::passes::Cx;
use crate::rewrite::{Structure, Substitution};
use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Inst, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::Scalar;

pub fn demote_atomics(m: &mut Module, cx: &mut Cx) -> Result<()> {
    for t in 0..m.tasks.len() {
        let task = &m.tasks[t];
        let func = task.func;
        let alone = match &task.kind {
            TaskKind::Serial => None,
            TaskKind::Range { .. } | TaskKind::Cells { .. } => Some(m.params.len()),
            TaskKind::Chunks { .. } => continue,
        };
        let found = match alone {
            None => all_atomics(&m.funcs[func]),
            Some(first_index) => owned_atomics(m, &m.funcs[func], first_index),
        };
        demote(&mut m.env, &mut m.funcs[func], &found, || cx.fuel());
    }
    Ok(())
}

/// Local arrays that are not shared belong to one activation: no backend needs to know atomics on them.
pub fn demote_local_atomics(m: &mut Module) {
    for f in m.funcs.values_mut() {
        let mut found = all_atomics(f);
        found.retain(|i| {
            let place = f.insts[*i].op.access().map(|a| a.place);
            matches!(place, Some(Place::Local(l)) if !f.locals[l].shared)
        });
        demote(&mut m.env, f, &found, || true);
    }
}

fn all_atomics(f: &Function) -> Vec<Inst> {
    let mut found = Vec::new();
    f.walk(|i| {
        if matches!(f.insts[i].op, Op::Atomic(..) | Op::CompareExchange(_)) {
            found.push(i);
        }
    });
    found
}

/// The atomics whose address belongs to the iteration.
fn owned_atomics(m: &Module, f: &Function, first_index: usize) -> Vec<Inst> {
    let indices = &f.params()[first_index..];
    let structure = Structure::of(f);
    let mut affine = AffineAnalysis::new(f, &structure);
    // Per place: the one set of indices that all writes use, as long as there is just one.
    let mut owners: FxHashMap<Place, Option<Vec<Affine>>> = FxHashMap::default();
    let mut atomics = Vec::new();
    f.walk(|inst| {
        let data = &f.insts[inst];
        let access = match &data.op {
            Op::Store(a) => a,
            Op::Atomic(_, a) | Op::CompareExchange(a) => {
                atomics.push(inst);
                a
            }
            _ => return,
        };
        let rank = m.place_elem(f, access.place).1;
        let exprs: Vec<Affine> = data.args[..rank].iter().map(|v| affine.expr(*v)).collect();
        let distinct = data.args[..rank].iter().zip(&exprs).all(|(v, expr)| {
            let (lo, hi) = affine.range_of(expr);
            let bits = f.ty(*v).as_scalar().map_or(0, Scalar::bits);
            hi.saturating_sub(lo) < 1i128 << bits
        });
        let own = (distinct && belongs_to_iteration(&exprs, indices)).then_some(exprs);
        owners
            .entry(access.place)
            .and_modify(|o| {
                if *o != own {
                    *o = None;
                }
            })
            .or_insert(own);
    });
    let arrays_overlap = |place: Place| match place {
        Place::Array(a) => !m.arrays[a].unaliased,
        Place::Field(_) | Place::Local(_) | Place::Temp(_) => false,
    };
    let by_others = written_by_calls(m, f);
    atomics.retain(|i| {
        f.insts[*i].op.access().is_some_and(|a| {
            let own = matches!(a.place, Place::Local(l) if !f.locals[l].shared);
            own || (!arrays_overlap(a.place)
                && !by_others.contains(&a.place)
                && owners.get(&a.place).is_some_and(Option::is_some))
        })
    });
    atomics
}

/// What the functions that a task calls write to, at indices nobody looks at here.
fn written_by_calls(m: &Module, f: &Function) -> FxHashSet<Place> {
    let mut places = FxHashSet::default();
    let mut work = callees(f);
    let mut seen: FxHashSet<Func> = work.iter().copied().collect();
    while let Some(id) = work.pop() {
        let g = &m.funcs[id];
        g.walk(|inst| match &g.insts[inst].op {
            Op::Store(a) | Op::Atomic(_, a) | Op::CompareExchange(a) => {
                places.insert(a.place);
            }
            _ => {}
        });
        work.extend(callees(g).into_iter().filter(|id| seen.insert(*id)));
    }
    places
}

fn callees(f: &Function) -> Vec<Func> {
    let mut found = Vec::new();
    f.walk(|inst| {
        if let Op::Call(g) = f.insts[inst].op {
            found.push(g);
        }
    });
    found
}

/// Different iterations have different indices: every loop index occurs in exactly one of them, with
/// coefficient 1 or -1 and nothing but constants beside it.
fn belongs_to_iteration(exprs: &[Affine], indices: &[Value]) -> bool {
    indices.iter().all(|index| {
        exprs.iter().filter(|f| f.coefficient(*index) != 0).count() == 1
            && exprs
                .iter()
                .any(|f| f.terms.len() == 1 && f.terms[0].0 == *index && f.terms[0].1.abs() == 1)
    })
}

fn demote(m: &mut Env, f: &mut Function, found: &[Inst], mut fuel: impl FnMut() -> bool) {
    if found.is_empty() {
        return;
    }
    let structure = Structure::of(f);
    let mut subst = Substitution::new();
    for &inst in found {
        if !fuel() {
            break;
        }
        let Some(region) = structure.region_of[inst].expand() else {
            continue;
        };
        let Some(at) = f.regions[region].insts.iter().position(|i| *i == inst) else {
            continue;
        };
        let rest = f.regions[region].insts.split_off(at);
        let data = f.insts[inst].clone();
        let mut b = Builder::new(m, f);
        b.region = region;
        b.span = b.func.spans[inst];
        let old = replacement(&mut b, &data);
        subst.set(data.results[0], old);
        f.regions[region].insts.extend(&rest[1..]);
    }
    subst.apply(f);
}

fn replacement(b: &mut Builder, data: &InstData) -> Value {
    let (access, operands) = match &data.op {
        Op::Atomic(_, a) => (a, 1),
        Op::CompareExchange(a) => (a, 2),
        _ => unreachable!("only atomics are demoted"),
    };
    let (address, values) = data.args.split_at(data.args.len() - operands);
    let load = Access {
        activation: Activation::Never,
        ..access.clone()
    };
    let old = b.value(Op::Load(load), address);
    let new = match &data.op {
        Op::Atomic(op, _) => combine(b, *op, old, values[0]),
        _ => {
            let same = bits_equal(b, old, values[0]);
            b.select(same, values[1], old)
        }
    };
    let mut args: Values = address.into();
    args.push(new);
    b.push(Op::Store(access.clone()), &args);
    old
}

/// What an atomic leaves in memory.
pub fn combine(b: &mut Builder, op: AtomicOp, old: Value, value: Value) -> Value {
    let binary = match op {
        AtomicOp::Add => BinOp::Add,
        AtomicOp::Mul => BinOp::Mul,
        AtomicOp::Min => BinOp::Min,
        AtomicOp::Max => BinOp::Max,
        AtomicOp::And => BinOp::And,
        AtomicOp::Or => BinOp::Or,
        AtomicOp::Xor => BinOp::Xor,
        AtomicOp::Exchange => return value,
    };
    let ty = b.func.ty(old);
    if ty.elem().is_some() {
        return b.binary(binary, old, value);
    }
    let parts: Values = (0..b.env.structs.arity(ty))
        .map(|k| {
            let x = b.value(Op::Extract(k), &[old]);
            let y = b.value(Op::Extract(k), &[value]);
            combine(b, op, x, y)
        })
        .collect();
    b.value(Op::Compose(ty), &parts)
}

fn bits_equal(b: &mut Builder, x: Value, y: Value) -> Value {
    let to = match b.func.ty(x).as_scalar() {
        Some(Scalar::F16) => Some(Scalar::U16),
        Some(Scalar::F32) => Some(Scalar::U32),
        Some(Scalar::F64) => Some(Scalar::U64),
        _ => None,
    };
    let (x, y) = match to {
        Some(s) => (b.value(Op::Bitcast(s), &[x]), b.value(Op::Bitcast(s), &[y])),
        None => (x, y),
    };
    b.compare(CmpOp::Eq, x, y)
}
