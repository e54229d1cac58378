//! Removes the activation from writes to the current cell of a loop over active cells.

use crate::analysis::affine::{Affine, AffineAnalysis};
use crate::passes::Cx;
use crate::rewrite::Structure;
use wuji_ir::Result;
use wuji_ir::entities::{Field, Func, Inst, Tree, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;

/// The pass; the [module](self) describes it.
pub fn activations(m: &mut Module, cx: &mut Cx) -> Result<()> {
    for t in 0..m.tasks.len() {
        let TaskKind::Cells { field, .. } = m.tasks[t].kind else {
            continue;
        };
        let (func, tree) = (m.tasks[t].func, m.fields[field].tree);
        if !m.trees[tree].is_sparse() || deactivates(m, func, tree) {
            continue;
        }
        let found = own_writes(m, &m.funcs[func], field);
        for inst in found {
            if !cx.fuel() {
                break;
            }
            if let Some(access) = m.funcs[func].insts[inst].op.access_mut() {
                access.activation = Activation::KnownActive;
            }
        }
    }
    Ok(())
}

/// Whether a task or its callees may deactivate cells of a tree.
fn deactivates(m: &Module, func: Func, tree: Tree) -> bool {
    let mut found = false;
    let f = &m.funcs[func];
    f.walk(|inst| {
        let op = &f.insts[inst].op;
        if let Op::Cell(CellOp::Deactivate | CellOp::DeactivateChunk, field) = op {
            found |= m.fields[*field].tree == tree;
        }
        found |= op.callee().is_some();
    });
    found
}

fn own_writes(m: &Env, f: &Function, over: Field) -> Vec<Inst> {
    let structure = Structure::of(f);
    let mut affine = AffineAnalysis::new(f, &structure);
    let indices: Vec<Value> = f.params()[m.params.len()..].to_vec();
    let mut found = Vec::new();
    f.walk(|inst| {
        let data = &f.insts[inst];
        let Some(access) = data.op.written_access() else {
            return;
        };
        let Place::Field(field) = access.place else {
            return;
        };
        let exprs: Vec<Affine> = data.args[..m.fields[field].rank()]
            .iter()
            .map(|v| affine.expr(*v))
            .collect();
        if access.activation == Activation::IfAbsent && is_own(m, over, &indices, field, &exprs) {
            found.push(inst);
        }
    });
    found
}

/// Whether every cell on the path to an element of `field` is also on the path to the loop's current element.
fn is_own(m: &Env, over: Field, indices: &[Value], field: Field, exprs: &[Affine]) -> bool {
    let (own, other) = (&m.fields[over], &m.fields[field]);
    if own.tree != other.tree {
        return false;
    }
    let tree = &m.trees[own.tree];
    let path = tree.sparse_path(own.node);
    let to = tree.sparse_path(other.node);
    let Some(last) = to.last() else { return false };
    path.starts_with(&to)
        && tree.axes(*last).iter().all(|axis| {
            let at = |d: &wuji_ir::layout::FieldData| d.axes.iter().position(|a| a.0 == *axis);
            let (Some(k), Some(n)) = (at(own), at(other)) else {
                return false;
            };
            exprs[n] == Affine::atom(indices[k])
                && own.axes[k].1 == other.axes[n].1
                && tree.extent(own.node, *axis) == tree.extent(other.node, *axis)
        })
}
