//! Differentiation across kernels: adjoints of fields, gradient kernels, tapes.
//!
//! `wuji_compile::autodiff` differentiates one kernel. Here fields have derivatives (`links`), launches run derived kernels
//! (`derive`, `modes`), and tapes record launches and run their gradients in reverse order (`tape`, `recorder`, `sweep`). `levels` lets a tape be around others. `saves`, `packed` and
//! `trees` keep what a gradient kernel needs and a later launch overwrites, `region` says which elements that concerns, `cells` does the same
//! for the active cells of sparse trees, and `host_writes` for what the host writes.

mod cells;
mod check;
mod checkpoints;
mod derive;
mod fields;
mod host_writes;
mod levels;
mod links;
mod modes;
mod packed;
mod param;
mod parts;
mod recorder;
mod region;
mod saves;
mod sweep;
mod tape;
mod trees;

pub(crate) use cells::CellChange;
pub use check::{Differentiable, GradReport};
pub use checkpoints::{StepPlan, StepReport};
pub use derive::ArrayDerivative;
pub(crate) use derive::{Derived, DerivedTrees, Tangents};
pub(crate) use host_writes::{Elements, Extent};
pub(crate) use links::{Derivative, Links};
pub(crate) use modes::{InMode, Mode, Modes, can_record, run};
pub(crate) use packed::{PackedCopy, PackedFields};
pub use param::Param;
pub(crate) use recorder::Recorder;
pub use recorder::SavedField;
pub(crate) use saves::Storage;
pub use tape::Tape;
pub(crate) use tape::seed_of;
pub(crate) use trees::{NodeCells, active, active_part, import};
