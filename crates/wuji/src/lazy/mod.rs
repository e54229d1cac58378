//! Lazy worlds: launches wait in a window until something needs their results, and are optimized together.
//!
//! The window keeps what a launch works on alive: the bodies of trees, which do not refer to the world, so that a world whose
//! last handle is gone takes its window with it.

mod arrays;
mod engine;
mod fill;
mod graph;
mod planner;
mod replay;

pub use graph::FlowGraph;

pub(crate) use arrays::HeldArray;
pub(crate) use engine::Lazy;

use crate::launch::{Compiled, Launch, Launched};
use crate::layout::TreeBody;
use crate::world::{World, here};
use arrays::held_arrays;
use smallvec::SmallVec;
use std::panic::Location;
use std::sync::Arc;
use wuji_flow::Task;
use wuji_ir::Result;

/// A launch that waits.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) compiled: Arc<Compiled>,
    pub(crate) tasks: Arc<[Arc<Task>]>,
    pub(crate) params: SmallVec<[u64; 16]>,
    pub(crate) trees: SmallVec<[Arc<TreeBody>; 4]>,
    pub(crate) arrays: SmallVec<[HeldArray; 2]>,
}

impl Launch<'_> {
    /// Adds the launch to the window of a lazy world, and runs the window if the host needs the result. `None`: the launch has to run
    /// alone, after those that wait.
    pub(crate) fn join_window(&self, world: &World) -> Result<Option<Launched>> {
        let Some(lazy) = world.lazy() else {
            return Ok(None);
        };
        let needed = self.compiled.has_result();
        // With a result and nothing that waits, there is nothing to optimize.
        let alone = needed && !lazy.may_run_with_others();
        if alone || world.watch().is_some() || !self.compiled.has_source() {
            return Ok(None);
        }
        let Some((arrays, shapes)) = held_arrays(world, self)? else {
            return Ok(None);
        };
        let Some(tasks) = lazy.tasks_of(self.compiled, &shapes)? else {
            return Ok(None);
        };
        // What is printed, checked or random keeps its place among the calls of the host.
        if tasks.iter().any(|task| task.summary.ordered) {
            return Ok(None);
        }
        let trees = self.trees.iter().map(|t| t.shared_body());
        let pending = Pending {
            compiled: self.compiled.clone(),
            tasks,
            params: self.params.into(),
            trees: trees.collect::<Result<_>>()?,
            arrays,
        };
        if needed {
            return lazy.run_with(world, pending).map(Some);
        }
        lazy.add(world, pending)?;
        Ok(Some(Launched {
            result: SmallVec::new(),
            error: None,
        }))
    }
}

impl World {
    /// Runs the launches that wait in the window of a lazy world. It does not wait for a GPU. Host access to a field and
    /// [`synchronize`](World::synchronize) do the same first.
    ///
    /// ```
    /// use wuji::prelude::*;
    ///
    /// #[kernel]
    /// fn add(x: &Field<f32, 1>, amount: f32) {
    ///     for [i] in x {
    ///         x[[i]] += amount;
    ///     }
    /// }
    ///
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::builder().lazy(true).build()?;
    /// let x = world.field::<f32, 1>("x", 1000)?;
    /// for _ in 0..10 {
    ///     add(&x, 0.5)?; // waits
    /// }
    /// world.flush()?; // one loop, which adds 5
    /// assert_eq!(world.lazy_statistics().tasks, 1);
    /// assert_eq!(x.get(7)?, 5.0);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn flush(&self) -> Result<()> {
        let at = here(Location::caller());
        self.run_pending().map_err(|e| e.or_at(at))
    }

    /// Runs what waits; nothing in other worlds.
    pub(crate) fn run_pending(&self) -> Result<()> {
        match self.lazy() {
            Some(lazy) => lazy.flush(self),
            None => Ok(()),
        }
    }

    /// The same, where no error can be returned: the next call that can returns it.
    pub(crate) fn run_pending_for_later(&self) {
        if let Some(lazy) = self.lazy() {
            lazy.flush_for_later(self);
        }
    }

    /// Before the host accesses memory: runs what waits, and refuses while a graph is recorded.
    pub(crate) fn before_host_access(&self) -> Result<()> {
        self.not_recording()?;
        self.run_pending()
    }

    /// What a lazy world has done so far; zeros in other worlds.
    pub fn lazy_statistics(&self) -> LazyStatistics {
        self.lazy()
            .map_or_else(LazyStatistics::default, Lazy::statistics)
    }
}

/// What a lazy world has done.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct LazyStatistics {
    /// Launches of the program that waited in windows.
    pub launches: u64,
    /// Their tasks: parallel loops and stretches of serial code.
    pub launched_tasks: u64,
    /// Tasks that ran instead of them.
    pub tasks: u64,
    /// Windows that were run.
    pub windows: u64,
    /// Windows that had been seen before.
    pub known_windows: u64,
    /// Windows that a GPU replayed as one graph, because they came again with the same arguments.
    pub replays: u64,
    /// Tasks that rules have made.
    pub made: u64,
}
