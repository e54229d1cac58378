//! The Wuji intermediate representation.
//!
//! A [`Module`](module::Module) is one kernel with everything it refers to: struct types, layout trees,
//! fields, host arrays and functions. Bodies are typed SSA with structured control flow. `docs/ir.md` defines
//! the semantics of every instruction; the interpreter here is that definition in executable form, and the
//! reference for every backend.
//!
//! Architecture invariant: this crate does not depend on passes, backends or frontends.

pub mod build;
pub mod codes;
pub mod diag;
pub mod entities;
pub mod enums;
pub mod env;
pub mod eval;
pub mod format;
pub mod infer;
pub mod interp;
pub mod layout;
pub mod message;
pub mod module;
pub mod ops;
pub mod quant;
pub mod random;
pub mod text;
pub mod transfer;
pub mod types;
pub mod verify;
pub mod walk;

pub use diag::{Error, Position, Result};
