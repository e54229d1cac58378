//! Tests across crates, in one binary to save link time. The filetests are a separate binary, because their names are
//! paths of files.

mod fuzz;
mod math;
mod ptx;
mod semantics;
mod world;
