//! Finds the float operations of reductions.
//!
//! The `reductions` pass keeps partial results in locals of the role `accumulator`. Their updates may be applied
//! in any order and association, in every math mode, which is what lets LLVM vectorize the loop.

use rustc_hash::FxHashSet;
use wuji_ir::entities::{Inst, Local, Value};
use wuji_ir::module::{Function, LocalRole};
use wuji_ir::ops::{BinOp, Op, Place};

/// The longest chain of operations to search for an update.
const MAX_CHAIN: usize = 8;

/// The sums and products that update accumulators.
pub fn accumulations(f: &Function) -> FxHashSet<Inst> {
    let mut found = FxHashSet::default();
    if !f.locals.values().any(|l| l.role == LocalRole::Accumulator) {
        return found;
    }
    f.walk(|inst| {
        let data = &f.insts[inst];
        let Op::Store(access) = &data.op else { return };
        let Place::Local(local) = access.place else {
            return;
        };
        let is_float = f.locals[local].ty.elem().is_some_and(|s| s.is_float());
        if f.locals[local].len.is_none()
            && is_float
            && f.locals[local].role == LocalRole::Accumulator
        {
            mark(f, local, data.args[0], None, MAX_CHAIN, &mut found);
        }
    });
    found
}

/// Marks the chain of equal operations from the stored value back to the accumulator.
fn mark(
    f: &Function,
    local: Local,
    value: Value,
    op: Option<BinOp>,
    depth: usize,
    found: &mut FxHashSet<Inst>,
) -> bool {
    let (Some(inst), true) = (f.def(value), depth > 0) else {
        return false;
    };
    let data = &f.insts[inst];
    if let Op::Load(access) = &data.op {
        return access.place == Place::Local(local);
    }
    let Op::Binary(b @ (BinOp::Add | BinOp::Mul)) = data.op else {
        return false;
    };
    if op.is_some_and(|op| op != b) {
        return false;
    }
    let leads = data
        .args
        .iter()
        .any(|a| mark(f, local, *a, Some(b), depth - 1, found));
    if leads {
        found.insert(inst);
    }
    leads
}
