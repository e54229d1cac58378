//! Why the interpreter stops. None of these is something that a correct program does at run time:
//! those are reports.

use crate::Error;

/// The limit on steps was reached.
pub const TOO_LONG: &str = "W0490";
/// An access that the compiler had marked as proved was outside.
pub const NOT_INSIDE: &str = "W0491";
/// A lowered access touched bytes that are not its own, or misaligned ones.
pub const BAD_ADDRESS: &str = "W0493";
/// The module does something that it cannot do in this form.
pub const NOT_RUNNABLE: &str = "W0494";
/// Parameters or arrays do not fit the module.
pub const BAD_LAUNCH: &str = "W0495";
/// Needs more memory than the interpreter gives.
pub const TOO_LARGE: &str = "W0496";

/// A parallel task races where it is watched for that.
pub const RACE: &str = "W0497";
/// Somebody has asked for it.
pub const STOPPED: &str = "W0405";

pub(super) fn stop(code: &'static str, message: impl Into<String>) -> Error {
    Error::new(code, message)
}
