//! Which float operations belong to a reduction.
//!
//! The `reductions` pass keeps partial results in locals named `acc.…`. Their updates may be applied
//! in any order and association, in every math mode, which is what lets LLVM vectorize the loop.

use std::collections::HashSet;
use wuji_ir::entities::{Inst, Local, Value};
use wuji_ir::module::Function;
use wuji_ir::ops::{BinOp, Op, Place};

/// The names of accumulators start with this.
const PREFIX: &str = "acc.";

/// How many operations deep an update is looked into.
const MAX_CHAIN: usize = 8;

pub(super) fn operations(f: &Function) -> HashSet<Inst> {
    let mut found = HashSet::new();
    if !f.locals.values().any(|l| l.name.starts_with(PREFIX)) {
        return found;
    }
    f.walk(|inst| {
        let data = &f.insts[inst];
        let Op::Store(access) = &data.op else { return };
        let Place::Local(local) = access.place else {
            return;
        };
        let is_float = f.locals[local].ty.elem().is_some_and(|s| s.is_float());
        if f.locals[local].len.is_none() && is_float && f.locals[local].name.starts_with(PREFIX) {
            mark(f, local, data.args[0], None, MAX_CHAIN, &mut found);
        }
    });
    // A minimum in a branch of a loop is not left to LLVM: its reductions with conditions forget operands when
    // they start at NaN.
    for inst in in_branches(f) {
        if let Op::Binary(BinOp::Min | BinOp::Max) = f.insts[inst].op {
            found.remove(&inst);
        }
    }
    found
}

/// Instructions that a turn of the loop around them may leave out.
fn in_branches(f: &Function) -> Vec<Inst> {
    let mut out = Vec::new();
    let mut work = vec![(f.entry, false)];
    while let Some((region, branch)) = work.pop() {
        // What follows an early end of the turn is in a branch, too.
        let mut branch = branch;
        for inst in &f.regions[region].insts {
            let data = &f.insts[*inst];
            if branch {
                out.push(*inst);
            }
            match data.op {
                Op::If | Op::Block(_) => {
                    work.extend(data.regions.iter().map(|r| (*r, true)));
                    branch = true;
                }
                _ => work.extend(data.regions.iter().map(|r| (*r, false))),
            }
        }
    }
    out
}

/// Marks the chain of one operation that leads from the stored value back to the accumulator.
fn mark(
    f: &Function,
    local: Local,
    value: Value,
    op: Option<BinOp>,
    depth: usize,
    found: &mut HashSet<Inst>,
) -> bool {
    let (Some(inst), true) = (f.def(value), depth > 0) else {
        return false;
    };
    let data = &f.insts[inst];
    match &data.op {
        Op::Load(access) => access.place == Place::Local(local),
        Op::Binary(b @ (BinOp::Add | BinOp::Mul | BinOp::Min | BinOp::Max))
            if op.is_none_or(|op| op == *b) =>
        {
            let leads = data
                .args
                .iter()
                .any(|a| mark(f, local, *a, Some(*b), depth - 1, found));
            if leads {
                found.insert(inst);
            }
            leads
        }
        _ => false,
    }
}
