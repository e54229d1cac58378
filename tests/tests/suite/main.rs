//! Tests across crates, as one program: each further program is linked once more.
//! The filetests are a program of their own, because their names are paths of files.

mod fuzz;
mod math;
mod ptx;
mod semantics;
mod world;
