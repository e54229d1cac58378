//! In deterministic worlds: tasks whose floats are still updated by atomics on shared memory run on one thread, where
//! the order of the updates is that of the iterations.

use crate::passes::Cx;
use rustc_hash::FxHashSet;
use wuji_ir::Result;
use wuji_ir::entities::Func;
use wuji_ir::module::{Module, TaskKind};
use wuji_ir::ops::{AtomicOp, Op, Sharing, Space};

pub fn one_thread(m: &mut Module, cx: &mut Cx) -> Result<()> {
    if !cx.options.deterministic {
        return Ok(());
    }
    for t in 0..m.tasks.len() {
        let func = m.tasks[t].func;
        if !updates_floats(m, func) {
            continue;
        }
        if let TaskKind::Chunks { hints, .. } = &mut m.tasks[t].kind {
            hints.serial = true;
            own(m, func);
        }
    }
    Ok(())
}

/// Whether a function, or one that it calls, updates floats that other threads may update too.
fn updates_floats(m: &Module, func: Func) -> bool {
    let mut seen: FxHashSet<Func> = [func].into_iter().collect();
    let mut work = vec![func];
    let mut found = false;
    while let Some(id) = work.pop() {
        let f = &m.funcs[id];
        f.walk(|inst| {
            let data = &f.insts[inst];
            match data.op {
                Op::MemAtomic(op, _, Sharing::Shared) => {
                    let scalars = m.structs.flatten(f.ty(data.args[1]));
                    found |= op != AtomicOp::Exchange && scalars.iter().any(|s| s.is_float());
                }
                Op::Call(callee) if seen.insert(callee) => work.push(callee),
                _ => {}
            }
        });
    }
    found
}

/// What one thread runs needs no atomics on elements. Those on nodes stay: their functions are shared.
fn own(m: &mut Module, func: Func) {
    for inst in m.funcs[func].insts.values_mut() {
        if let Op::MemAtomic(_, Space::Tree(..) | Space::Array(_) | Space::Temps, sharing) =
            &mut inst.op
        {
            *sharing = Sharing::Owned;
        }
    }
}
