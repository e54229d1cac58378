//! The verifier.
//!
//! The interpreter, passes and backends rely on the invariants that are checked here and do not check them
//! again: ids are valid, types match, values are visible where they are used, terminators fit their owners,
//! and layouts fit in memory.

mod body;
mod ids;
mod layout;
mod packing;
mod split;
mod tables;

pub use body::is_numbered;
pub(crate) use ids::Immediate;

use crate::diag::Result;
use crate::module::Module;

/// The most components a type may have, counting inner structs too.
pub const MAX_COMPONENTS: u64 = 1 << 16;

/// The deepest that struct types may nest.
pub const MAX_STRUCT_DEPTH: u32 = 64;

/// `Ok` if the module is valid. The error is the first problem found.
pub fn verify(m: &Module) -> Result<()> {
    // In this order: later checks rely on earlier ones.
    tables::structs(m)?;
    layout::trees(m)?;
    layout::fields(m)?;
    packing::fields(m)?;
    split::fields(m)?;
    tables::places(m)?;
    tables::messages(m)?;
    tables::sites(m)?;
    tables::signatures(m)?;
    for func in m.funcs.keys() {
        body::function(m, func)?;
    }
    tables::tasks(m)
}
