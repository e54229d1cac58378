//! Updates that stay in one slice of a field.
//!
//! A program with a time axis updates `x[t + 1, i]`, which is one slice of a long field. The gradient of such a program
//! reads the adjoint of one slice, and adds to that of another one.

use super::has_workers;
use crate::analysis::affine::{Affine, AffineAnalysis};
use crate::passes::Cx;
use crate::rewrite::Structure;
use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::Result;
use wuji_ir::entities::Field;
use wuji_ir::layout::{CellOrder, FieldData};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::Scalar;

/// Distances from a parameter are smaller: so no sum that wraps is in range.
const MOST_OFFSET: u64 = 1 << 20;

/// The pass; the [module](self) describes it.
pub fn slices(m: &mut Module, cx: &mut Cx) -> Result<()> {
    if !has_workers(cx) {
        return Ok(());
    }
    for t in 0..m.tasks.len() {
        let task = &m.tasks[t];
        let found = match task.kind {
            TaskKind::Chunks { .. } => find(m, &m.funcs[task.func]),
            TaskKind::Serial | TaskKind::Range { .. } | TaskKind::Cells { .. } => continue,
        };
        if !found.is_empty() && cx.fuel() {
            m.tasks[t].slices = found;
        }
    }
    Ok(())
}

/// An index that is the same in all iterations.
type Index = (Option<u32>, i64);

/// How a task accesses a field.
#[derive(Default)]
struct Accesses {
    updates: FxHashSet<Option<Index>>,
    others: FxHashSet<Option<Index>>,
}

fn find(m: &Module, f: &Function) -> Vec<Slice> {
    let structure = Structure::of(f);
    let mut affine = AffineAnalysis::new(f, &structure);
    let mut accesses: FxHashMap<Field, Accesses> = FxHashMap::default();
    f.walk(|inst| {
        let data = &f.insts[inst];
        if let OpClass::Cell(_, field) = data.op.class() {
            accesses.entry(field).or_default().others.insert(None);
        }
        let Some(Place::Field(field)) = data.op.access().map(|a| a.place) else {
            return;
        };
        let found = accesses.entry(field).or_default();
        let index = data.args.first().filter(|_| m.fields[field].rank() > 0);
        let index = index.and_then(|v| uniform(m, f, &affine.expr(*v)));
        let list = if let Op::Atomic(..) = data.op {
            &mut found.updates
        } else {
            &mut found.others
        };
        list.insert(index);
    });
    for callee in m.called_from(f) {
        let callee = &m.funcs[callee];
        callee.walk(|inst| {
            if let Some(Place::Field(field)) = callee.insts[inst].op.access().map(|a| a.place) {
                accesses.entry(field).or_default().others.insert(None);
            }
        });
    }
    let mut out: Vec<Slice> = accesses
        .iter()
        .filter(|(field, _)| has_slices(m, &m.fields[**field]))
        .filter_map(|(field, found)| slice(*field, found))
        .collect();
    out.sort_by_key(|s| s.field);
    out
}

/// The slice with all updates, if no other access can be in it.
fn slice(field: Field, found: &Accesses) -> Option<Slice> {
    let mut updates = found.updates.iter();
    let (Some(Some((param, offset))), None) = (updates.next(), updates.next()) else {
        return None;
    };
    let elsewhere = |other: &Option<Index>| {
        other.is_some_and(|(p, distance)| p == *param && distance != *offset)
    };
    found.others.iter().all(elsewhere).then_some(Slice {
        field,
        param: *param,
        offset: *offset,
    })
}

/// An expression of a parameter and a constant.
fn uniform(m: &Env, f: &Function, expr: &Affine) -> Option<Index> {
    let offset = expr.constant;
    if offset.unsigned_abs() >= MOST_OFFSET {
        return None;
    }
    match expr.terms[..] {
        [] => Some((None, offset)),
        [(v, 1)] => {
            let number = f.params().iter().position(|p| *p == v)?;
            let is_index = matches!(f.ty(v).as_scalar(), Some(Scalar::I32 | Scalar::I64));
            (is_index && number < m.params.len()).then_some((Some(number as u32), offset))
        }
        [..] => None,
    }
}

/// Whether elements with the same first index are one piece of memory.
fn has_slices(m: &Env, field: &FieldData) -> bool {
    let tree = &m.trees[field.tree];
    let node = &tree.nodes[field.node];
    let [first, ..] = node.extents[..] else {
        return false;
    };
    tree.path(field.node).len() == 2
        && tree.sparse_path(field.node).is_empty()
        && node.order == CellOrder::RowMajor
        && field.axes.first().is_some_and(|a| a.0 == first.0)
        && (2..1 << 30).contains(&first.1)
}
