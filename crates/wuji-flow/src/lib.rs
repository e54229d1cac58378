//! Optimization across launches.
//!
//! A *window* is a sequence of launches that have not run yet. Each kernel is split into tasks; a task is a kernel of its own,
//! with one parallel loop or a stretch of serial code, and a summary of its effects that is computed once. The
//! [state-flow graph](graph::Graph) orders the tasks of a window by the states that they read and write. The [rules](rules)
//! change the graph; what is left is a [plan](window::LaunchPlan): tasks in an order that gives the same results.
//!
//! Tasks that rules make are modules before any pass, as if a user had written them, so this crate knows nothing of
//! backends.

pub mod activation;
pub mod bank;
mod beside;
mod combine;
mod dataflow;
mod expression;
pub mod graph;
mod modules;
mod numbering;
pub mod print;
mod recompute;
pub mod rules;
mod split;
pub mod storage;
pub mod summary;
pub mod task;
pub mod window;

pub use bank::Bank;
pub use graph::Graph;
pub use storage::Storage;
pub use task::{Task, TaskId};
pub use window::{Launch, LaunchPlan, Run, Switches, Window};
