//! The engine: the window, the plans that were made so far, and how they run.

use super::planner::{Numbered, Planner};
use super::replay::Bound;
use super::{HeldArray, LazyStatistics, Pending};
use crate::launch::{Compiled, Launched};
use crate::world::{World, lock};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread::ThreadId;
use std::time::Duration;
use wuji_compile::Options;
use wuji_flow::rules::fusion::{Unfused, unfused};
use wuji_flow::{Bank, Graph, Switches, Task, Window};
use wuji_ir::module::ArrayShape;
use wuji_ir::{Error, Result};
use wuji_runtime::{Bindings, Memory};

/// A window that has this many launches runs.
const MOST_LAUNCHES: usize = 64;

/// The lazy part of a world.
#[derive(Debug)]
pub(crate) struct Lazy {
    waiting: AtomicBool,
    pending: Mutex<Vec<Pending>>,
    planner: Mutex<Planner>,
    /// Held while a window runs, so that no other thread passes it.
    running: Mutex<()>,
    runner: Mutex<Option<ThreadId>>,
    /// The error of launches that ran in a call that cannot return it.
    kept: Mutex<Option<Error>>,
    /// Whether windows that come again are replayed as graphs where a device can.
    capture: bool,
}

impl Lazy {
    /// Without `fuse`, every launch keeps its tasks: a time limit is that of one launch.
    pub(crate) fn new(options: &Options, limit: Option<usize>, fuse: bool) -> Lazy {
        let mut switches = Switches::without(&options.without);
        switches.fusion &= fuse;
        Lazy {
            waiting: AtomicBool::new(false),
            pending: Mutex::default(),
            planner: Mutex::new(Planner::new(
                Bank::new(options),
                switches,
                limit.unwrap_or(MOST_LAUNCHES).max(1),
            )),
            running: Mutex::default(),
            runner: Mutex::default(),
            kept: Mutex::default(),
            capture: fuse && !options.without.iter().any(|w| w == "window_replay"),
        }
    }

    pub(crate) fn statistics(&self) -> LazyStatistics {
        let planner = lock(&self.planner);
        LazyStatistics {
            made: planner.bank.made(),
            ..planner.statistics
        }
    }

    /// The tasks of a kernel for arrays of these shapes; `None` if it has too many already.
    pub(crate) fn tasks_of(
        &self,
        compiled: &Compiled,
        shapes: &[ArrayShape],
    ) -> Result<Option<Arc<[Arc<Task>]>>> {
        compiled.tasks(shapes, |module| lock(&self.planner).bank.tasks_of(module))
    }

    /// Whether launches wait that this thread may run.
    pub(crate) fn may_run_with_others(&self) -> bool {
        let here = Some(std::thread::current().id());
        self.waiting.load(Ordering::Acquire) && *lock(&self.runner) != here
    }

    /// The launches that wait.
    pub(crate) fn window(&self) -> Vec<Pending> {
        lock(&self.pending).clone()
    }

    /// The graph of a window before and after all rules, and what was not fused.
    pub(crate) fn optimized(&self, window: &Window) -> (Graph, Graph, Vec<Unfused>) {
        let mut planner = lock(&self.planner);
        let switches = planner.switches;
        let after = window.optimized(&mut planner.bank, &switches);
        let unfused = if switches.fusion {
            unfused(&after, planner.bank.options())
        } else {
            Vec::new()
        };
        (window.graph(), after, unfused)
    }

    /// Adds a launch, and runs the window if it is full.
    pub(crate) fn add(&self, world: &World, launch: Pending) -> Result<()> {
        let limit = lock(&self.planner).limit;
        let full = {
            let mut pending = lock(&self.pending);
            pending.push(launch);
            self.waiting.store(true, Ordering::Release);
            pending.len() >= limit
        };
        if !full {
            return Ok(());
        }
        let ran = self.run(world, |pending| {
            let end = repetition(pending).unwrap_or(pending.len());
            pending.drain(..end).collect()
        })?;
        ran.done()
    }

    /// Runs everything that waits and a launch whose result is needed, as one window.
    pub(crate) fn run_with(&self, world: &World, launch: Pending) -> Result<Launched> {
        let ran = self.run(world, |pending| {
            let mut launches = std::mem::take(pending);
            launches.push(launch);
            launches
        })?;
        let kept = lock(&self.kept).take();
        Ok(Launched {
            result: ran.result,
            error: both(kept, ran.error),
        })
    }

    /// Runs everything that waits.
    pub(crate) fn flush(&self, world: &World) -> Result<()> {
        // Another thread may be running launches that this one has to wait for.
        if !self.waiting.load(Ordering::Acquire) && self.running.try_lock().is_ok() {
            return Ok(());
        }
        let done = self.run(world, std::mem::take);
        let error = done.and_then(Ran::done).err();
        let kept = lock(&self.kept).take();
        both(kept, error).map_or(Ok(()), Err)
    }

    /// Forgets what waits.
    pub(crate) fn discard(&self) {
        lock(&self.pending).clear();
        self.waiting.store(false, Ordering::Release);
    }

    /// The same, in a call that cannot return an error: the next one does.
    pub(crate) fn flush_for_later(&self, world: &World) {
        if let Err(error) = self.flush(world) {
            lock(&self.kept).get_or_insert(error);
            self.waiting.store(true, Ordering::Release);
        }
    }

    fn run(
        &self,
        world: &World,
        take: impl FnOnce(&mut Vec<Pending>) -> Vec<Pending>,
    ) -> Result<Ran> {
        let here = std::thread::current().id();
        // A function that a launch calls on this thread, such as the receiver of printed lines.
        if *lock(&self.runner) == Some(here) {
            return Ok(Ran::default());
        }
        let running = self.begin()?;
        *lock(&self.runner) = Some(here);
        let launches = {
            let mut pending = lock(&self.pending);
            let launches = take(&mut pending);
            self.waiting.store(!pending.is_empty(), Ordering::Release);
            launches
        };
        let done = self.run_window(world, &launches);
        *lock(&self.runner) = None;
        drop(running);
        done
    }

    /// Waits for a window that another thread runs, unless this one is interrupted.
    fn begin(&self) -> Result<MutexGuard<'_, ()>> {
        loop {
            match self.running.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(guard)) => return Ok(guard.into_inner()),
                Err(TryLockError::WouldBlock) => {
                    wuji_runtime::check_interrupt()?;
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        }
    }

    fn run_window(&self, world: &World, launches: &[Pending]) -> Result<Ran> {
        if launches.is_empty() {
            return Ok(Ran::default());
        }
        let numbered = Numbered::of(launches);
        let ready = lock(&self.planner).ready(world, launches, &numbered);
        let before = world.device().launches();
        let window = ready.bind(launches, &numbered)?;
        // A graph gives no result, so that launch comes after it.
        let at = window.iter().position(|b| b.compiled.has_result());
        let graph = &window[..at.unwrap_or(window.len())];
        let replayed = if self.capture {
            lock(&ready.replay).run(world, graph)
        } else {
            None
        };
        let mut ran = Ran::default();
        let left = match replayed {
            Some(done) => {
                lock(&self.planner).statistics.replays += 1;
                ran.error = done.err();
                &window[graph.len()..]
            }
            None => &window[..],
        };
        for bound in left {
            ran.add(run(world, bound));
        }
        // Random numbers depend on how many launches there were before.
        world.device().set_launches(before + launches.len() as u64);
        Ok(ran)
    }
}

/// What launches that ran leave. If one fails, the others still run.
#[derive(Debug, Default)]
struct Ran {
    /// Of the launch that has one.
    result: SmallVec<[u64; 4]>,
    error: Option<Error>,
}

impl Ran {
    fn add(&mut self, launched: Result<Launched>) {
        let error = match launched {
            Ok(launched) => {
                self.result.extend(launched.result);
                launched.error
            }
            Err(error) => Some(error),
        };
        self.error = both(self.error.take(), error);
    }

    fn done(self) -> Result<()> {
        self.error.map_or(Ok(()), Err)
    }
}

/// The first of two errors, with the message of the second.
fn both(first: Option<Error>, second: Option<Error>) -> Option<Error> {
    match (first, second) {
        (Some(first), Some(second)) => Some(first.note(format!("also: {}", second.message))),
        (first, second) => first.or(second),
    }
}

/// Where a window that is full is cut, so that the next one begins like this one: programs repeat themselves.
fn repetition(pending: &[Pending]) -> Option<usize> {
    let first = pending.first()?;
    let same = |p: &Pending| {
        Arc::ptr_eq(&p.compiled, &first.compiled)
            && p.trees.len() == first.trees.len()
            && (p.trees.iter().zip(&first.trees)).all(|(a, b)| Arc::ptr_eq(a, b))
            && (p.arrays.iter().map(HeldArray::address))
                .eq(first.arrays.iter().map(HeldArray::address))
    };
    let last = pending.iter().rposition(same)?;
    (last > pending.len() / 2).then_some(last)
}

fn run(world: &World, bound: &Bound<'_>) -> Result<Launched> {
    let memories: SmallVec<[&Memory; 4]> = bound.trees.iter().map(|b| &b.memory).collect();
    let bindings = Bindings {
        params: &bound.params,
        trees: &memories,
        arrays: &bound.arrays,
    };
    let device = world.device();
    let outcome = device.run(bound.compiled.program(), &bindings)?;
    if let Some(collected) = &outcome.collected {
        device.print(collected)?;
    }
    let error = bound
        .compiled
        .error_of(&bound.trees, &bound.arrays, &outcome);
    Ok(Launched {
        result: outcome.result,
        error,
    })
}
