//! Turns an atomic into a plain load, operation and store if no other iteration can access the address.
//!
//! In serial code that is always so. In a parallel loop an address belongs to one iteration if its indices are the
//! loop's own, each exactly once up to a constant offset, if all other writes to the field in this task use the
//! same indices along these axes, and if no callee writes to it.

use crate::analysis::affine::{Affine, AffineAnalysis};
use crate::passes::Cx;
use crate::rewrite::{Structure, all_atomics, demote};
use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::Result;
use wuji_ir::entities::{Inst, Value};
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

/// The atomics whose address belongs to one iteration.
fn owned_atomics(m: &Module, f: &Function, first_index: usize) -> Vec<Inst> {
    let indices = &f.params()[first_index..];
    let structure = Structure::of(f);
    let mut affine = AffineAnalysis::new(f, &structure);
    // For each place: the axes with the loop's indices, and the indices that all writes use there, if they are the same.
    let mut owners: FxHashMap<Place, Option<Vec<(usize, Affine)>>> = FxHashMap::default();
    let mut atomics = Vec::new();
    f.walk(|inst| {
        let data = &f.insts[inst];
        let Some(access) = data.op.written_access() else {
            return;
        };
        if !matches!(data.op, Op::Store(_)) {
            atomics.push(inst);
        }
        let rank = m.place_elem(f, access.place).1;
        let exprs: Vec<Affine> = data.args[..rank].iter().map(|v| affine.expr(*v)).collect();
        let distinct = data.args[..rank].iter().zip(&exprs).all(|(v, expr)| {
            let (lo, hi) = affine.range_of(expr);
            let bits = f.ty(*v).as_scalar().map_or(0, Scalar::bits);
            hi.saturating_sub(lo) < 1i128 << bits
        });
        let own = distinct && belongs_to_iteration(&exprs, indices);
        let own = own.then(|| {
            let axes = exprs.into_iter().enumerate();
            let own = |expr: &Affine| indices.iter().any(|index| expr.coefficient(*index) != 0);
            axes.filter(|(_, expr)| own(expr)).collect()
        });
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

/// Places that callees write to; their indices are not analyzed.
fn written_by_calls(m: &Module, f: &Function) -> FxHashSet<Place> {
    let mut places = FxHashSet::default();
    for id in m.called_from(f) {
        let g = &m.funcs[id];
        g.walk(|inst| places.extend(g.insts[inst].op.written_access().map(|a| a.place)));
    }
    places
}

/// Whether different iterations have different indices: every loop index occurs in exactly one of them, with
/// coefficient 1 or -1, plus a constant.
fn belongs_to_iteration(exprs: &[Affine], indices: &[Value]) -> bool {
    indices.iter().all(|index| {
        exprs.iter().filter(|f| f.coefficient(*index) != 0).count() == 1
            && exprs
                .iter()
                .any(|f| f.terms.len() == 1 && f.terms[0].0 == *index && f.terms[0].1.abs() == 1)
    })
}
