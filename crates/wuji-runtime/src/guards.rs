//! Modules that come from outside are not trusted.

use wuji_ir::module::{Copies, Module};
use wuji_ir::ops::{Activation, Guard, Op};
use wuji_ir::{Error, Result};

/// Whoever wrote a module may have claimed that accesses are inside: here everything is compared
/// again. Accesses by byte offset cannot be, so they are refused.
pub(crate) fn reset_guards(module: &mut Module) -> Result<()> {
    // Only the compiler knows how a list of cells is made.
    if module.tasks.iter().any(|t| t.lists.is_some()) {
        return Err(Error::new(
            "W0128",
            "a module that is loaded makes lists of active cells itself",
        )
        .help("write `foreach ... in f0`; the compiler makes the lists"));
    }
    if module.tasks.iter().any(|t| t.copies != Copies::None) {
        return Err(Error::new(
            "W0128",
            "a module that is loaded uses copies of trees itself",
        )
        .help("write `atomic add f0[i], x`; the compiler decides who has a copy"));
    }
    for f in module.funcs.values_mut() {
        for inst in f.insts.values_mut() {
            if let Some(access) = inst.op.access_mut() {
                access.guard = Guard::Checked;
                if access.activation == Activation::KnownActive {
                    access.activation = Activation::IfAbsent;
                }
            }
            if let Op::MemLoad(..)
            | Op::MemStore(_)
            | Op::MemAtomic(..)
            | Op::MemCompareExchange(_)
            | Op::LoadInterleaved(_)
            | Op::StoreInterleaved(_)
            | Op::AddInterleaved(_)
            | Op::TreeAccess(..) = inst.op
            {
                return Err(Error::new(
                    "W0128",
                    "a module that is loaded accesses memory by byte offset",
                )
                .help("write `load f0[i]`; the compiler turns it into offsets"));
            }
        }
    }
    Ok(())
}
