//! Turns an atomic into a plain load, operation and store if no other iteration can access the address.
//!
//! In serial code that is always so.

use crate::analysis::ownership::Ownership;
use crate::passes::Cx;
use crate::rewrite::{all_atomics, demote};
use wuji_ir::Result;
use wuji_ir::entities::Inst;
use wuji_ir::module::*;
use wuji_ir::ops::*;

/// The pass; the [module](self) describes it.
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
    let owned = Ownership::of(m, f, first_index, |place| [place]);
    let arrays_overlap = |place: Place| match place {
        Place::Array(a) => !m.arrays[a].unaliased,
        Place::Field(_) | Place::Local(_) | Place::Temp(_) => false,
    };
    let mut atomics = all_atomics(f);
    atomics.retain(|i| {
        f.insts[*i].op.access().is_some_and(|a| {
            let own = matches!(a.place, Place::Local(l) if !f.locals[l].shared);
            own || (!arrays_overlap(a.place) && owned.contains(&a.place))
        })
    });
    atomics
}
