//! Which cells a task activates, as far as the indices of its loop tell.

use crate::expression::expression;
use crate::summary::{is_sparse, leaves_early};
use wuji_ir::entities::{Field, Inst};
use wuji_ir::module::Module;
use wuji_ir::ops::{Activation, Place};

/// A write that activates the cell it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivatingWrite {
    /// The field whose cells are activated.
    pub field: Field,
    /// The indices as expressions of loop indices, constants and parameters; `None` if they depend on anything else.
    pub indices: Option<Vec<String>>,
    /// Every iteration makes it.
    pub always: bool,
}

/// The writes of a kernel that may activate cells. `foreach` is its only loop.
pub(crate) fn activating_writes(m: &Module, foreach: Option<Inst>) -> Vec<ActivatingWrite> {
    let Some(f) = m.kernel_func() else {
        return Vec::new();
    };
    let body = foreach.map_or(f.entry, |inst| f.insts[inst].regions[0]);
    let always: Vec<Inst> = if leaves_early(f, body, foreach) {
        Vec::new()
    } else {
        f.regions[body].insts.clone()
    };
    let mut out = Vec::new();
    f.walk(|inst| {
        let Some(access) = f.insts[inst].op.written_access() else {
            return;
        };
        let Place::Field(field) = access.place else {
            return;
        };
        if access.activation == Activation::IfAbsent && is_sparse(m, field) {
            let at = &f.insts[inst].args[..m.fields[field].rank()];
            out.push(ActivatingWrite {
                field,
                indices: at.iter().map(|v| expression(f, body, *v)).collect(),
                always: always.contains(&inst),
            });
        }
    });
    out
}
