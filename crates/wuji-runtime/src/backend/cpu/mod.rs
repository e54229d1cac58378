//! Machine code on the threads of the host.

pub(crate) mod copies;
pub(crate) mod launch;
pub(crate) mod load;
pub mod pool;
pub mod tier;
