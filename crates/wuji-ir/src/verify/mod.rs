//! Whether a module makes sense.
//!
//! Everything behind the verifier (interpreter, passes, backends) relies on what is checked here and
//! checks none of it again: ids are valid, types fit, values are visible where they are used, regions
//! end as their owners allow, and layouts fit in memory.

mod body;
mod ids;
mod layout;
mod tables;

use crate::diag::Result;
use crate::module::Module;

/// The most components a type may have, counting inner structs too.
pub const MAX_COMPONENTS: u64 = 1 << 16;

/// The deepest that struct types may nest.
pub const MAX_STRUCT_DEPTH: u32 = 64;

/// `Ok` when the module means something. The first problem found is the error.
pub fn verify(m: &Module) -> Result<()> {
    // In this order: what comes later relies on what came before.
    tables::structs(m)?;
    layout::trees(m)?;
    layout::fields(m)?;
    tables::places(m)?;
    tables::messages(m)?;
    tables::sites(m)?;
    tables::signatures(m)?;
    for func in m.funcs.keys() {
        body::function(m, func)?;
    }
    tables::tasks(m)
}
