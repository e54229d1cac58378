//! The passes of the Wuji compiler and the one pipeline that orders them.

pub mod options;
pub mod pipeline;

pub use options::{Bounds, Math, Options};
pub use pipeline::{Lowered, compile};
