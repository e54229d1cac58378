//! The CPU backend on hand-written lowered modules, against the definition in `wuji_ir::eval`.

#![allow(unsafe_code)]

mod atomics;
mod control;
mod fast;
mod harness;
mod measure;
mod operators;
#[path = "../../../wuji-runtime/tests/runtime/process.rs"]
mod process;
mod refusals;
mod services;
mod shapes;
mod smoke;
