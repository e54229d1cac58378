//! Integration tests of the IR, as one program: each further program is linked once more.

mod operations;
mod text;
mod verify;
