//! Integration tests of the runtime, in one binary to save link time.

mod backend;
mod fork;
mod interpreted;
mod process;
mod refused;
mod run;
mod sparse;
mod tiers;
