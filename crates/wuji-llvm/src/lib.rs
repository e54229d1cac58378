//! The LLVM backend: compiles Wuji IR to machine code.
//!
//! [`Jit`] compiles a [`Lowered`](wuji_compile::Lowered) module for the host processor and loads it; a
//! [`CompiledKernel`] holds the addresses of its tasks and unloads them when dropped.
//!
//! Architecture invariant: everything that reaches LLVM is legal, because LLVM has undefined behavior on invalid
//! input. What the backend does not support is an error `W05xx`. Fatal errors that LLVM reports become errors, too
//! (`threads`), and its globals live as long as a thread uses them (`exit`).

#![allow(unsafe_code)]

pub mod abi;
mod codegen;
pub mod cuda;
mod diagnostics;
mod emit;
mod exit;
mod got;
mod imports;
mod jit;
mod libdevice;
mod library;
mod link;
mod optimize;
mod perf;
mod room;
mod stack;
mod target;
mod threads;

pub use abi::{ArrayView, LaunchContext, ReportFn, TREE_ALIGN, TaskFn};
pub use exit::{before_exit, is_exiting};
pub use jit::{CompiledKernel, CompiledTask, Jit, JitOptions, Object, Profile, Text, Timings};
pub use optimize::Effort;
pub use room::room_for_passes;
pub use stack::MOST_STACK;
pub use target::{Host, llvm_version};
