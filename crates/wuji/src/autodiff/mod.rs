//! Differentiation across kernels: adjoints of fields, gradient kernels, tapes.
//!
//! `wuji_compile::autodiff` differentiates one kernel. Here fields have derivatives (`links`), launches run derived kernels
//! (`derive`, `modes`), and tapes record launches and run their gradients in reverse order (`tape`, `recorder`). `saves` keeps what a
//! gradient kernel needs and a later launch overwrites, `region` says which elements that concerns,
//! and `host_writes` does the same for what the host writes.

mod checkpoints;
mod derive;
mod fields;
mod host_writes;
mod links;
mod modes;
mod recorder;
mod region;
mod saves;
mod tape;

pub use checkpoints::StepReport;
pub use derive::ArrayDerivative;
pub(crate) use derive::{Derived, DerivedTrees};
pub(crate) use host_writes::Extent;
pub(crate) use links::{Derivative, Links};
pub(crate) use modes::{InMode, Mode, Modes, can_record, run};
pub(crate) use recorder::Recorder;
pub use recorder::SavedField;
pub use tape::Tape;
pub(crate) use tape::seed_of;
