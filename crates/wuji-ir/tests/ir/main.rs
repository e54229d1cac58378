//! Integration tests of the IR, in one binary to save link time.

mod operations;
mod text;
mod verify;
