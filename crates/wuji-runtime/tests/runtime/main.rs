//! Integration tests of the runtime, as one program: each further program is linked once more.

mod backend;
mod fork;
mod interpreted;
mod process;
mod refused;
mod run;
mod sparse;
mod tiers;
