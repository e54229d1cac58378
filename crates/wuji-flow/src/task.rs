//! Tasks: kernels with one parallel loop or a stretch of serial code.

use crate::summary::Summary;
use std::sync::Arc;
use wuji_ir::module::Module;

/// The number of a task in its bank.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TaskId(pub u32);

/// A kernel, or a task of one, in a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPart {
    /// The name of the kernel.
    pub kernel: Arc<str>,
    /// Estimated instructions of an iteration, before it was fused; of all iterations in a task of tasks side by side.
    pub cost: u64,
}

/// A kernel that rules treat as a unit. It is a module before offloading, without unused trees.
#[derive(Debug)]
pub struct Task {
    /// What it was made of.
    pub id: TaskId,
    /// The task as a module of its own.
    pub module: Arc<Module>,
    /// Its effects.
    pub summary: Summary,
    /// For each tree of the module, which tree of the kernel, or of the tasks, it was made from.
    pub trees: Vec<u32>,
    /// The same for each array.
    pub arrays: Vec<u32>,
    /// The kernels in it.
    pub parts: Vec<TaskPart>,
    /// Depth of the tree of fusions that made it.
    pub depth: usize,
    /// A kernel that could not be split into tasks.
    pub whole: bool,
    /// Its iterations are those of several small tasks.
    pub side_by_side: bool,
}

impl Task {
    /// A name for profiles and listings.
    pub fn name(&self) -> &str {
        &self.module.name
    }
}
