//! The engine: the window, the plans that were made so far, and how they run.

use super::{LazyStatistics, Pending};
use crate::launch::Compiled;
use crate::layout::TreeBody;
use crate::world::{World, lock};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread::ThreadId;
use std::time::Duration;
use wuji_compile::Options;
use wuji_flow::summary::{Bound, Space};
use wuji_flow::{Bank, LaunchPlan, Run, Switches, Task, TaskId, Window};
use wuji_ir::{Error, Result};
use wuji_runtime::log::Level;
use wuji_runtime::{Bindings, Memory};

/// A window that has this many launches runs.
const MOST_LAUNCHES: usize = 64;
/// The most plans that are kept. A program whose windows never repeat starts again.
const MOST_PLANS: usize = 256;

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
}

#[derive(Debug)]
struct Planner {
    bank: Bank,
    switches: Switches,
    limit: usize,
    plans: FxHashMap<Vec<u64>, Arc<Ready>>,
    code: FxHashMap<TaskId, Arc<Compiled>>,
    statistics: LazyStatistics,
}

/// A plan with its code.
#[derive(Debug)]
struct Ready {
    steps: Vec<Step>,
    /// What the key names by address.
    _kernels: Vec<Arc<Compiled>>,
}

#[derive(Debug)]
enum Step {
    /// A launch as it is.
    Launch(usize),
    Task {
        compiled: Arc<Compiled>,
        /// Numbers of trees in the window.
        trees: Vec<u32>,
        /// The launches whose parameters it has, one after the other.
        launches: Vec<usize>,
    },
}

impl Lazy {
    /// Without `fuse`, every launch keeps its tasks: a time limit is that of one launch.
    pub(crate) fn new(options: &Options, limit: Option<usize>, fuse: bool) -> Lazy {
        let mut switches = Switches::without(&options.without);
        switches.fusion &= fuse;
        Lazy {
            waiting: AtomicBool::new(false),
            pending: Mutex::default(),
            planner: Mutex::new(Planner {
                bank: Bank::new(options),
                switches,
                limit: limit.unwrap_or(MOST_LAUNCHES).max(1),
                plans: FxHashMap::default(),
                code: FxHashMap::default(),
                statistics: LazyStatistics::default(),
            }),
            running: Mutex::default(),
            runner: Mutex::default(),
            kept: Mutex::default(),
        }
    }

    pub(crate) fn statistics(&self) -> LazyStatistics {
        let planner = lock(&self.planner);
        LazyStatistics {
            made: planner.bank.made(),
            ..planner.statistics
        }
    }

    /// The tasks of a kernel.
    pub(crate) fn tasks_of(&self, compiled: &Compiled) -> Result<Arc<[Arc<Task>]>> {
        compiled.tasks(|module| lock(&self.planner).bank.tasks_of(module))
    }

    /// The launches that wait.
    pub(crate) fn window(&self) -> Vec<Pending> {
        lock(&self.pending).clone()
    }

    pub(crate) fn optimized(&self, window: &Window) -> (wuji_flow::Graph, wuji_flow::Graph) {
        let mut planner = lock(&self.planner);
        let switches = planner.switches;
        (
            window.graph(),
            window.optimized(&mut planner.bank, &switches),
        )
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
        self.run(world, |pending| {
            let end = repetition(pending).unwrap_or(pending.len());
            pending.drain(..end).collect()
        })
    }

    /// Runs everything that waits.
    pub(crate) fn flush(&self, world: &World) -> Result<()> {
        // Another thread may be running launches that this one has to wait for.
        if !self.waiting.load(Ordering::Acquire) && self.running.try_lock().is_ok() {
            return Ok(());
        }
        let done = self.run(world, std::mem::take);
        let kept = lock(&self.kept).take();
        match (kept, done) {
            (None, done) => done,
            (Some(kept), Ok(())) => Err(kept),
            (Some(kept), Err(error)) => Err(kept.note(format!("also: {}", error.message))),
        }
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
    ) -> Result<()> {
        let here = std::thread::current().id();
        // A function that a launch calls on this thread, such as the receiver of printed lines.
        if *lock(&self.runner) == Some(here) {
            return Ok(());
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

    fn run_window(&self, world: &World, launches: &[Pending]) -> Result<()> {
        if launches.is_empty() {
            return Ok(());
        }
        let (numbers, bodies) = number_trees(launches);
        let ready = lock(&self.planner).ready(world, launches, &numbers);
        let before = world.device().launches();
        let mut first: Option<Error> = None;
        let mut keep = |done: Result<()>| {
            if let Err(error) = done {
                first = Some(match first.take() {
                    None => error,
                    Some(earlier) => earlier.note(format!("also: {}", error.message)),
                });
            }
        };
        for step in &ready.steps {
            match step {
                Step::Launch(k) => {
                    let launch = &launches[*k];
                    let trees: SmallVec<[&TreeBody; 4]> =
                        launch.trees.iter().map(|t| &**t).collect();
                    keep(run(world, &launch.compiled, &trees, &launch.params));
                }
                Step::Task {
                    compiled,
                    trees,
                    launches: parts,
                } => {
                    let trees: SmallVec<[&TreeBody; 4]> =
                        trees.iter().map(|t| bodies[*t as usize]).collect();
                    let params: SmallVec<[u64; 32]> = (parts.iter())
                        .flat_map(|k| launches[*k].params.iter().copied())
                        .collect();
                    keep(run(world, compiled, &trees, &params));
                }
            }
        }
        // Random numbers depend on how many launches there were before.
        world.device().set_launches(before + launches.len() as u64);
        first.map_or(Ok(()), Err)
    }
}

/// Where a window that is full is cut, so that the next one begins like this one: programs repeat themselves.
fn repetition(pending: &[Pending]) -> Option<usize> {
    let first = pending.first()?;
    let same = |p: &Pending| {
        Arc::ptr_eq(&p.compiled, &first.compiled)
            && p.trees.len() == first.trees.len()
            && (p.trees.iter().zip(&first.trees)).all(|(a, b)| Arc::ptr_eq(a, b))
    };
    let last = pending.iter().rposition(same)?;
    (last > pending.len() / 2).then_some(last)
}

/// A number for each tree of a window, for each launch, and the trees.
fn number_trees(launches: &[Pending]) -> (Vec<Vec<u32>>, Vec<&TreeBody>) {
    let mut known: FxHashMap<usize, u32> = FxHashMap::default();
    let mut bodies: Vec<&TreeBody> = Vec::new();
    let numbers = launches.iter().map(|launch| {
        let trees = launch.trees.iter().map(|tree| {
            *known.entry(Arc::as_ptr(tree).addr()).or_insert_with(|| {
                bodies.push(tree);
                bodies.len() as u32 - 1
            })
        });
        trees.collect()
    });
    let numbers = numbers.collect();
    (numbers, bodies)
}

/// The launches as rules see them.
pub(super) fn window_of(launches: &[Pending]) -> (Window, Vec<&TreeBody>) {
    let (numbers, bodies) = number_trees(launches);
    let launches = launches.iter().zip(numbers);
    let launches = launches.map(|(launch, trees)| wuji_flow::Launch {
        tasks: launch.tasks.clone(),
        trees,
        params: launch.params.to_vec(),
    });
    let window = Window {
        launches: launches.collect(),
    };
    (window, bodies)
}

fn run(world: &World, compiled: &Compiled, trees: &[&TreeBody], params: &[u64]) -> Result<()> {
    let memories: SmallVec<[&Memory; 4]> = trees.iter().map(|b| &b.memory).collect();
    let bindings = Bindings {
        params,
        trees: &memories,
        arrays: &[],
    };
    let device = world.device();
    let outcome = device.run(compiled.program(), &bindings)?;
    if let Some(collected) = &outcome.collected {
        device.print(collected)?;
    }
    match compiled.error_of(trees, &[], &outcome) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

impl Planner {
    /// The plan of a window, from the table or a new one.
    fn ready(&mut self, world: &World, launches: &[Pending], trees: &[Vec<u32>]) -> Arc<Ready> {
        let tasks: usize = launches.iter().map(|l| l.tasks.len()).sum();
        self.statistics.windows += 1;
        self.statistics.launches += launches.len() as u64;
        self.statistics.launched_tasks += tasks as u64;
        let key = key(launches, trees);
        let ready = match self.plans.get(&key) {
            Some(known) => {
                self.statistics.known_windows += 1;
                known.clone()
            }
            None => {
                let ready = Arc::new(self.plan(world, launches));
                if self.plans.len() >= MOST_PLANS {
                    self.plans.clear();
                    self.code.clear();
                }
                self.plans.insert(key, ready.clone());
                ready
            }
        };
        let ran = ready.steps.iter().map(|step| match step {
            Step::Launch(k) => launches[*k].tasks.len() as u64,
            Step::Task { .. } => 1,
        });
        self.statistics.tasks += ran.sum::<u64>();
        ready
    }

    fn plan(&mut self, world: &World, launches: &[Pending]) -> Ready {
        let (window, _) = window_of(launches);
        let plan = window.plan(&mut self.bank, &self.switches);
        let steps = self.load(world, plan).unwrap_or_else(|error| {
            // The launches themselves have code already.
            world.device().log().say(Level::Warn, || {
                format!("launches run as they are, because code for them together could not be made: {error}")
            });
            (0..launches.len()).map(Step::Launch).collect()
        });
        Ready {
            steps,
            _kernels: launches.iter().map(|l| l.compiled.clone()).collect(),
        }
    }

    /// Code for everything in a plan.
    fn load(&mut self, world: &World, plan: LaunchPlan) -> Result<Vec<Step>> {
        let runs = plan.runs.into_iter();
        runs.map(|run| match run {
            Run::Launch(k) => Ok(Step::Launch(k)),
            Run::Task(node) => Ok(Step::Task {
                compiled: self.code(world, &node.task)?,
                trees: node.trees,
                launches: node.launches,
            }),
        })
        .collect()
    }

    fn code(&mut self, world: &World, task: &Task) -> Result<Arc<Compiled>> {
        if let Some(known) = self.code.get(&task.id) {
            return Ok(known.clone());
        }
        let module = (*task.module).clone();
        let first: Vec<u32> = (module.trees.keys())
            .map(|tree| {
                let own = module.fields.iter().find(|(_, data)| data.tree == tree);
                own.map_or(0, |(field, _)| field.as_u32())
            })
            .collect();
        let compiled = world.load_kernel(module, &first)?;
        self.code.insert(task.id, compiled.clone());
        Ok(compiled)
    }
}

/// What a plan depends on: kernels, which trees are the same, and the bounds of loops.
fn key(launches: &[Pending], trees: &[Vec<u32>]) -> Vec<u64> {
    let mut key = Vec::with_capacity(launches.len() * 4);
    for (launch, trees) in launches.iter().zip(trees) {
        key.push(Arc::as_ptr(&launch.compiled).addr() as u64);
        key.extend(trees.iter().map(|t| u64::from(*t)));
        for task in launch.tasks.iter() {
            if let Space::Box(bounds) = &task.summary.space {
                for bound in bounds.iter().flat_map(|(lo, hi)| [lo, hi]) {
                    if let Bound::Param(n) = bound {
                        let slots = task.module.param_slots();
                        let slot = slots.get(*n as usize).copied().unwrap_or(0);
                        key.push(launch.params.get(slot).copied().unwrap_or(0));
                    }
                }
            }
        }
    }
    key
}
