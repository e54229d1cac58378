//! Errors that stop the interpreter. Run-time problems of a correct module are reports instead.

use crate::Error;

/// The limit on steps was reached.
pub const TOO_LONG: &str = "W0490";
/// An access that the compiler had marked `inbounds` was out of range.
pub const NOT_INSIDE: &str = "W0491";
/// A lowered access touched bytes that it does not own, or was misaligned.
pub const BAD_ADDRESS: &str = "W0493";
/// The module is not runnable in this form.
pub const NOT_RUNNABLE: &str = "W0494";
/// Parameters or arrays do not match the module.
pub const BAD_LAUNCH: &str = "W0495";
/// The program exceeds the memory limit of the interpreter.
pub const TOO_LARGE: &str = "W0496";

/// A race in a parallel task, if races are checked.
pub const RACE: &str = "W0497";
/// Iterations have the same value where the user says that they differ.
pub const NOT_UNIQUE: &str = "W0498";
/// The run was interrupted.
pub const STOPPED: &str = "W0405";

pub(super) fn stop(code: &'static str, message: impl Into<String>) -> Error {
    Error::new(code, message)
}
