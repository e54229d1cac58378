//! The profiler: times of launches, by task, and of compilations, by pass.
//!
//! Compilations are few and long, so they are always recorded. Launches are recorded while the profiler is on, which
//! costs two clock reads per task.

mod report;
mod trace;

pub use report::Report;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use wuji_ir::diag::Position;
use wuji_ir::module::Module;
use wuji_ir::{Error, Result};
use wuji_llvm::Timings;

use crate::tier::Tier;

/// The most kernels that are recorded; the oldest are dropped first.
const MOST_KERNELS: usize = 4096;
/// The most task launches in a trace.
const MOST_EVENTS: usize = 1 << 20;

/// The profiler of one world.
#[derive(Debug)]
pub struct Profiler {
    /// When the world was created.
    origin: Instant,
    on: AtomicBool,
    kernels: Mutex<VecDeque<Arc<Kernel>>>,
    events: Mutex<Events>,
}

#[derive(Debug, Default)]
struct Events {
    all: Vec<Event>,
    /// The number of dropped events.
    lost: u64,
}

/// One task of one launch.
#[derive(Debug)]
struct Event {
    kernel: Arc<Kernel>,
    task: u32,
    begin: Duration,
    time: Duration,
    iterations: u64,
    thread: u64,
}

/// The record of one kernel: one piece of code for one combination of layouts.
#[derive(Debug)]
pub(crate) struct Kernel {
    name: String,
    tasks: Vec<(String, Option<Position>)>,
    parts: OnceLock<Vec<Part>>,
    instructions: usize,
    launches: AtomicU64,
    compilations: Mutex<Vec<Compilation>>,
    times: Mutex<Vec<TaskTimes>>,
}

/// A kernel in a fused one.
#[derive(Clone, PartialEq, Debug)]
pub struct Part {
    /// The name of the kernel.
    pub kernel: String,
    /// How often it is in the fused kernel.
    pub count: u64,
    /// Its part of the time, by the number of instructions: between 0 and 1.
    pub share: f64,
}

/// How code of a kernel was compiled, or found in the cache.
#[derive(Clone, PartialEq, Debug)]
pub struct Compilation {
    /// `Fast`, `Best` or `Scalar`.
    pub tier: Tier,
    /// Whether the code was found in the cache on disk.
    pub cached: bool,
    /// Since the world was created.
    pub begin: Duration,
    /// Wall time.
    pub time: Duration,
    /// The time of each pass of Wuji, in order; empty if the code was cached.
    pub passes: Vec<(&'static str, Duration)>,
    /// The time of LLVM and the linker.
    pub backend: Timings,
    /// The size of the object code.
    pub bytes: usize,
}

/// The times of the launches of one task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskTimes {
    /// The kernel's name and the number of the task.
    pub name: String,
    /// Its loop in the source.
    pub at: Option<Position>,
    /// Launches.
    pub count: u64,
    /// Iterations of all launches.
    pub iterations: u64,
    /// The time of all launches.
    pub total: Duration,
    /// The time of the shortest launch.
    pub least: Duration,
    /// The time of the longest launch.
    pub most: Duration,
}

/// The history of a kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelHistory {
    /// The name of the kernel.
    pub name: String,
    /// The kernels that were fused into it; empty for other kernels.
    pub parts: Vec<Part>,
    /// Launches, including those while the profiler was off.
    pub launches: u64,
    /// Its compilations: one, or two if it became hot; and scalar code of tasks whose vectorized code gained little.
    pub compilations: Vec<Compilation>,
    /// The number of its tasks.
    pub task_count: usize,
    /// Instructions of its lowered IR, from which machine code is made; zero for code from the cache.
    pub instructions: usize,
    /// Tasks that were launched while the profiler was on.
    pub tasks: Vec<TaskTimes>,
}

impl Kernel {
    fn new(module: &Module) -> Kernel {
        let tasks = module.tasks.iter();
        let tasks = tasks.map(|t| (t.name.clone(), Position::of(module, t.span)));
        Kernel {
            name: module.name.clone(),
            tasks: tasks.collect(),
            parts: OnceLock::new(),
            instructions: instructions(module),
            launches: AtomicU64::new(0),
            compilations: Mutex::default(),
            times: Mutex::default(),
        }
    }

    pub(crate) fn count_launch(&self) {
        self.launches.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells what was fused into it, once.
    pub(crate) fn set_parts(&self, parts: Vec<Part>) {
        let _ = self.parts.set(parts);
    }

    pub(crate) fn compiled(&self, compilation: Compilation) {
        lock(&self.compilations).push(compilation);
    }

    /// The name of a task, by its index in the code.
    pub(crate) fn task(&self, number: u32) -> (&str, Option<&Position>) {
        match self.tasks.get(number as usize) {
            Some((name, at)) if !name.is_empty() => (name, at.as_ref()),
            _ => (&self.name, None),
        }
    }

    fn history(&self) -> KernelHistory {
        let times = lock(&self.times);
        KernelHistory {
            name: self.name.clone(),
            parts: self.parts.get().cloned().unwrap_or_default(),
            launches: self.launches.load(Ordering::Relaxed),
            compilations: lock(&self.compilations).clone(),
            task_count: self.tasks.len(),
            instructions: self.instructions,
            tasks: times.iter().filter(|t| t.count > 0).cloned().collect(),
        }
    }

    fn add(&self, task: u32, iterations: u64, time: Duration) {
        let mut times = lock(&self.times);
        let at = task as usize;
        while times.len() <= at {
            let (name, at) = self.task(times.len() as u32);
            let times_of = TaskTimes {
                name: name.to_owned(),
                at: at.cloned(),
                count: 0,
                iterations: 0,
                total: Duration::ZERO,
                least: Duration::MAX,
                most: Duration::ZERO,
            };
            times.push(times_of);
        }
        let own = &mut times[at];
        own.count += 1;
        own.iterations = own.iterations.saturating_add(iterations);
        own.total += time;
        own.least = own.least.min(time);
        own.most = own.most.max(time);
    }
}

impl Profiler {
    pub(crate) fn new() -> Profiler {
        Profiler {
            origin: Instant::now(),
            on: AtomicBool::new(false),
            kernels: Mutex::default(),
            events: Mutex::default(),
        }
    }

    /// Starts recording the time of every task.
    pub fn start(&self) {
        self.on.store(true, Ordering::Relaxed);
    }

    /// Stops recording launches; the records are kept.
    pub fn stop(&self) {
        self.on.store(false, Ordering::Relaxed);
    }

    /// Whether launches are measured.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Removes the records of all launches. Those of compilations are kept.
    pub fn clear(&self) {
        *lock(&self.events) = Events::default();
        for kernel in lock(&self.kernels).iter() {
            lock(&kernel.times).clear();
        }
    }

    /// The kernels of the world in the order of compilation; limited to the last few thousand. In a lazy world, kernels that only ran
    /// fused with others have no machine code, and are not among them.
    pub fn kernels(&self) -> Vec<KernelHistory> {
        let kernels = lock(&self.kernels);
        let kernels = kernels.iter().map(|k| k.history());
        kernels
            .filter(|k| k.launches > 0 || !k.compilations.is_empty())
            .collect()
    }

    /// The profile as tables.
    pub fn report(&self) -> Report {
        Report::new(self.kernels())
    }

    /// Compilations and launches as a Chrome trace, for Perfetto and `chrome://tracing`.
    pub fn trace(&self) -> String {
        let kernels: Vec<Arc<Kernel>> = lock(&self.kernels).iter().cloned().collect();
        trace::json(&kernels, &lock(&self.events))
    }

    /// Writes [`Profiler::trace`] to a file.
    pub fn write_trace(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        std::fs::write(path, self.trace()).map_err(|e: io::Error| {
            Error::new(
                "W0513",
                format!("cannot write the trace to {}", path.display()),
            )
            .note(e.to_string())
        })
    }

    /// Time since the world was created.
    pub(crate) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    pub(crate) fn enter(&self, module: &Module) -> Arc<Kernel> {
        let kernel = Arc::new(Kernel::new(module));
        let mut kernels = lock(&self.kernels);
        if kernels.len() == MOST_KERNELS {
            kernels.pop_front();
        }
        kernels.push_back(kernel.clone());
        kernel
    }

    /// Records a task that ends now.
    pub(crate) fn task(&self, kernel: &Arc<Kernel>, task: usize, iterations: u64, begin: Duration) {
        let time = self.now().saturating_sub(begin);
        self.timed(kernel, task, iterations, (begin, time));
    }

    /// Records a task with a time from another clock.
    pub(crate) fn timed(
        &self,
        kernel: &Arc<Kernel>,
        task: usize,
        iterations: u64,
        (begin, time): (Duration, Duration),
    ) {
        kernel.add(task as u32, iterations, time);
        let mut events = lock(&self.events);
        if events.all.len() == MOST_EVENTS {
            events.lost += 1;
            return;
        }
        events.all.push(Event {
            kernel: kernel.clone(),
            task: task as u32,
            begin,
            time,
            iterations,
            thread: thread_number(),
        });
    }
}

/// The instructions of all functions of a module.
fn instructions(module: &Module) -> usize {
    let mut count = 0;
    for function in module.funcs.values() {
        function.walk(|_| count += 1);
    }
    count
}

/// A small number that identifies the calling thread.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local!(static OWN: u64 = NEXT.fetch_add(1, Ordering::Relaxed));
    OWN.try_with(|n| *n).unwrap_or(0)
}

/// These locks never leave inconsistent state, so poisoning is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Display for KernelHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} launches", self.name, self.launches)?;
        for c in &self.compilations {
            let how = if c.cached {
                "found in the cache"
            } else {
                "compiled"
            };
            let tier = c.tier.label();
            let ms = c.time.as_secs_f64() * 1e3;
            write!(f, "; {tier} code {how} in {ms:.1} ms")?;
        }
        Ok(())
    }
}
