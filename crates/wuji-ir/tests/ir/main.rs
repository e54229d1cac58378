//! Integration tests of the IR, in one binary to save link time.

mod interp;
mod operations;
mod quant;
mod text;
mod transfer;
mod verify;
