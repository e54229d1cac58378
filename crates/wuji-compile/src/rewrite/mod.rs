//! Tools that passes rewrite functions with: copying regions, replacing values, sweeping what is
//! dead, and finding out what encloses what.

mod copy;
mod structure;
mod substitute;
mod sweep;

pub use copy::{Map, clone_body, clone_inst, clone_region, copy_body, copy_inst, copy_region};
pub use structure::Structure;
pub use substitute::{Substitution, replace_uses};
pub use sweep::sweep;
