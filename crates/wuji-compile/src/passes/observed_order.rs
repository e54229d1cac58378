//! In deterministic worlds: rejects code whose results depend on the order of parallel iterations.
//!
//! Such results are the old values of atomics and the indices that `append` returns. Updates whose old value is
//! unused are fine: later passes apply them in a fixed order. So are lists of which each iteration has its own.

use crate::analysis::uses::used_values;
use crate::passes::Cx;
use rustc_hash::FxHashSet;
use wuji_ir::diag::Position;
use wuji_ir::entities::{Field, Func, Inst, Value};
use wuji_ir::module::{Env, Function, Module, TaskKind};
use wuji_ir::ops::{CellOp, Op, Place};
use wuji_ir::{Error, Result};

/// The pass; the [module](self) describes it.
pub fn observed_order(m: &mut Module, cx: &mut Cx) -> Result<()> {
    if !cx.options.deterministic {
        return Ok(());
    }
    let mut seen: FxHashSet<Func> = FxHashSet::default();
    for task in &m.tasks {
        let parallel = match &task.kind {
            TaskKind::Serial => false,
            TaskKind::Range { hints, .. }
            | TaskKind::Cells { hints, .. }
            | TaskKind::Chunks { hints, .. } => !hints.serial,
        };
        if !parallel {
            continue;
        }
        let indices = match &task.kind {
            TaskKind::Range { .. } | TaskKind::Cells { .. } => {
                &m.funcs[task.func].params()[m.params.len()..]
            }
            TaskKind::Serial | TaskKind::Chunks { .. } => &[],
        };
        for func in m.reachable([task.func]) {
            if seen.insert(func) {
                let own = if func == task.func { indices } else { &[] };
                check(m, &m.funcs[func], own)?;
            }
        }
    }
    Ok(())
}

/// `indices` are those of the loop, in the function of a task.
fn check(m: &Env, f: &Function, indices: &[Value]) -> Result<()> {
    let used = used_values(f);
    let mut first = None;
    f.walk(|inst| {
        let data = &f.insts[inst];
        let observed = data.results.iter().any(|r| used.contains(r));
        if !observed {
            return;
        }
        let error = if let Op::Atomic(_, a) | Op::CompareExchange(a) = &data.op {
            match a.place {
                Place::Local(_) => return,
                Place::Field(_) | Place::Array(_) | Place::Temp(_) => old_value(m, a.place),
            }
        } else if let Op::Cell(CellOp::Append, field) = data.op {
            if owns_list(m, f, indices, (field, &data.args)) {
                return;
            }
            let name = &m.fields[field].name;
            Error::new(
                "W0341",
                format!(
                    "the index that an append to `{name}` returns depends on the order of iterations"
                ),
            )
            .note("in a deterministic world no result may depend on it")
            .help("compute the index from the loop index, or use a serial loop")
        } else {
            return;
        };
        if first.is_none() {
            first = Some(error.at(Position::of(m, f.spans[inst])));
        }
    });
    first.map_or(Ok(()), Err)
}

/// Whether only this iteration appends to the list: all appends to such lists name it by every index of the loop.
fn owns_list(m: &Env, f: &Function, indices: &[Value], (field, at): (Field, &[Value])) -> bool {
    let list = |field: Field| (m.fields[field].tree, m.fields[field].node);
    let is_same = |inst: Inst| {
        let data = &f.insts[inst];
        if let Op::Cell(CellOp::Append, other) = data.op {
            return list(other) != list(field) || data.args[..] == *at;
        }
        !matches!(data.op, Op::Call(_))
    };
    !indices.is_empty()
        && indices.iter().all(|v| at.contains(v))
        && f.insts_in(f.entry).all(is_same)
}

fn old_value(m: &Env, place: Place) -> Error {
    let what = match place {
        Place::Field(f) => format!("`{}`", m.fields[f].name),
        Place::Array(a) => format!("`{}`", m.arrays[a].name),
        Place::Local(_) | Place::Temp(_) => "a variable".to_owned(),
    };
    Error::new(
        "W0340",
        format!("the old value of an atomic on {what} depends on the order of iterations"),
    )
    .note("in a deterministic world no result may depend on it")
    .help("do not use the old value, or use a serial loop")
}
