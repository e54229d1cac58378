//! Utilities for rewriting functions: copying regions, replacing values, removing dead code, and finding enclosing
//! regions.

mod affine;
mod atomics;
mod copy;
mod dynamic_components;
mod indices;
mod structure;
mod substitute;
mod sweep;
mod unsigned;

pub use affine::materialize;
pub use atomics::{
    all_atomics, bits_equal, combine, demote, demote_local_atomics, identity, scalar_identity,
};
pub use copy::{Map, clone_body, clone_inst, clone_region, copy_body, copy_inst, copy_region};
pub use dynamic_components::expand_dynamic_components;
pub use indices::make_scalar;
pub use structure::Structure;
pub use substitute::{Substitution, replace_uses};
pub use sweep::{sweep, sweep_with_reads};
pub use unsigned::count_unsigned;
