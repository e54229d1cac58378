//! Worlds: a device with its memory and its kernels.

mod builder;
mod cached;
mod closing;
mod kernels;

pub use builder::WorldBuilder;

use crate::autodiff::Modes;
use crate::dynamic::FreedWithWorld;
use crate::graph::{Recorder, RecorderCell};
use crate::launch::{Compiled, Key};
use crate::layout::{TreeInner, TreeShape};
use crate::lazy::Lazy;
use crate::services::ServiceKey;
use crate::specialize::Budget;
use crate::tune::WatchCell;
use rustc_hash::FxHashMap;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use wuji_compile::{Options, Remark};
use wuji_ir::entities;
use wuji_ir::types::Structs;
use wuji_ir::{Error, Position, Result};
use wuji_runtime::cache::Cache;
use wuji_runtime::log::Level;
use wuji_runtime::profile::{KernelHistory, Profiler};
use wuji_runtime::{Device, Interrupter, Progress};

/// One device, its memory and its kernels. A reference-counted handle: the world lives as long as any
/// clone of it, or any field in it. Worlds share nothing with each other.
///
/// Launches on one world run one after the other, from whichever thread they come.
///
/// ```
/// use wuji::prelude::*;
/// # fn main() -> wuji::Result<()> {
/// let world = World::builder().threads(2).math(Math::Fast).seed(7).build()?;
/// let x = world.field::<f64, 3>("x", [16, 16, 4])?;
/// assert_eq!(world.memory_used(), 8 * 16 * 16 * 4);
/// drop(x);
/// assert_eq!(world.memory_used(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct World {
    inner: Arc<Inner>,
}

struct Inner {
    device: Device,
    seed: u64,
    options: Options,
    shapes: Mutex<FxHashMap<String, Arc<TreeShape>>>,
    kernels: RwLock<FxHashMap<Key, Arc<Compiled>>>,
    /// Compiled kernels for host access to sparse trees.
    services: RwLock<FxHashMap<ServiceKey, Arc<Compiled>>>,
    /// Those that may still be alive, the oldest first.
    trees: Mutex<Vec<Weak<TreeInner>>>,
    arrays: Mutex<Vec<Weak<dyn FreedWithWorld>>>,
    /// Kernels that frontends have loaded as modules, and how many there were.
    loaded: Mutex<(usize, Vec<Weak<Compiled>>)>,
    closed: AtomicBool,
    /// The graph that a thread records, and whether one may be.
    recorder: RecorderCell,
    recording: AtomicBool,
    /// The launches that wait, in a lazy world.
    lazy: Option<Lazy>,
    /// Of a world that compiles kernels for the loop bounds and array shapes that they are launched with.
    specialization: Option<Budget>,
    /// What launches do instead of running: tapes, gradients.
    modes: Modes,
    /// Who observes launches.
    watch: WatchCell,
    /// Remarks about the loops of gradient kernels.
    gradient_remarks: Mutex<Vec<Remark>>,
}

impl World {
    /// A world on the processor: kernels become machine code and run on all cores.
    #[track_caller]
    pub fn cpu() -> Result<World> {
        World::builder().build()
    }

    /// A world that interprets kernels, with every check on. Slow, and the definition of what a
    /// kernel means.
    #[track_caller]
    pub fn interpreter() -> Result<World> {
        World::builder().interpreter().build()
    }

    /// A world on an NVIDIA GPU, by its number; the first is 0. An error where there is no driver or no such device.
    ///
    /// ```no_run
    /// use wuji::prelude::*;
    ///
    /// #[kernel]
    /// fn double(x: &Field<f32, 1>) {
    ///     for [i] in x {
    ///         x[[i]] *= 2.0;
    ///     }
    /// }
    ///
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::cuda(0)?;
    /// let x = world.field::<f32, 1>("x", [1 << 20])?;
    /// double(&x)?; // asynchronous
    /// println!("{}", x.get(0)?); // synchronizes
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn cuda(device: u32) -> Result<World> {
        World::builder().cuda(device).build()
    }

    /// A world on the best GPU there is: the one with the most multiprocessors. An error where there is none.
    #[track_caller]
    pub fn gpu() -> Result<World> {
        let devices = wuji_runtime::cuda::devices()?;
        let best = devices.iter().max_by_key(|d| d.multiprocessors);
        World::cuda(best.map_or(0, |d| d.ordinal as u32))
    }

    /// Waits for all pending launches. Host access to a field does the same. On a GPU it returns the error of a pending launch.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        let at = here(Location::caller());
        let done = self.before_host_access();
        let done = done.and_then(|()| self.inner.device.synchronize());
        done.map_err(|e| e.or_at(at))
    }

    /// The CUDA stream of this world (`CUstream`), for other libraries that launch on it or make their streams wait for it. It does
    /// not change during the life of the world. `None` on the CPU.
    ///
    /// ```
    /// # fn main() -> wuji::Result<()> {
    /// assert_eq!(wuji::World::cpu()?.cuda_stream(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cuda_stream(&self) -> Option<usize> {
        self.inner.device.stream()
    }

    /// A world with settings of its own.
    pub fn builder() -> WorldBuilder {
        WorldBuilder::default()
    }

    /// Bytes of all trees of this world: dense trees in full, sparse trees as far as cells are allocated.
    pub fn memory_used(&self) -> u64 {
        self.run_pending_for_later();
        self.inner.device.memory_used()
    }

    /// Whether its kernels run on a GPU.
    pub fn is_on_gpu(&self) -> bool {
        self.inner.device.gpu().is_some()
    }

    /// How many threads run a parallel loop.
    pub fn threads(&self) -> usize {
        self.inner.device.threads()
    }

    /// A handle that interrupts the running launch from another thread.
    pub fn interrupter(&self) -> Interrupter {
        self.inner.device.interrupter()
    }

    /// From now on, Ctrl-C ends the kernel that is running in this world, with an error, instead of the process. While none is
    /// running, or pressed again before the kernel has ended, it does what it did before. Programs that have a
    /// handler of their own call [`Interrupter::interrupt`] there.
    #[track_caller]
    pub fn stop_on_ctrl_c(&self) -> Result<()> {
        let at = here(Location::caller());
        let listening = self.inner.device.stop_on_ctrl_c();
        listening.map_err(|e| e.at(Some(at)))
    }

    /// Hands every text that kernels print to a function, instead of standard output. The text of a `println!` ends with a line break.
    pub fn on_print(&self, print: impl Fn(&str) + Send + Sync + 'static) {
        self.inner.device.on_print(print);
    }

    /// The compiler's decisions about each parallel loop so far: how wide it was vectorized, or why not; and which fields tapes have saved, and
    /// why. Each prints as a line of
    /// text; `WUJI_EXPLAIN=1` in the environment prints them to standard error.
    ///
    /// ```
    /// use wuji::prelude::*;
    ///
    /// #[kernel]
    /// fn double(x: &Field<f32, 1>) {
    ///     for [i] in x {
    ///         x[[i]] *= 2.0;
    ///     }
    /// }
    ///
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::cpu()?;
    /// let x = world.field::<f32, 1>("x", [1 << 20])?;
    /// double(&x)?;
    /// for line in world.explain() {
    ///     println!("{line}"); // src/main.rs:5:5: double.1: 16 lanes, 4 vectors at a time
    /// }
    /// # assert!(world.explain()[0].is_vector());
    /// # Ok(())
    /// # }
    /// ```
    pub fn explain(&self) -> Vec<Remark> {
        self.run_pending_for_later();
        let mut remarks = self.inner.device.remarks();
        remarks.extend(lock(&self.inner.gradient_remarks).iter().cloned());
        remarks.into_iter().filter(|r| r.at.is_some()).collect()
    }

    /// Adds remarks about the loops of a gradient kernel.
    pub(crate) fn add_remarks(&self, remarks: &[Remark]) {
        let mut all = lock(&self.inner.gradient_remarks);
        for remark in remarks {
            if !all.contains(remark) {
                all.push(remark.clone());
            }
        }
    }

    /// The profiler: compilations always, launches by task once it is started.
    ///
    /// ```
    /// use wuji::prelude::*;
    ///
    /// #[kernel]
    /// fn double(x: &Field<f32, 1>) {
    ///     for [i] in x {
    ///         x[[i]] *= 2.0;
    ///     }
    /// }
    ///
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::cpu()?;
    /// let x = world.field::<f32, 1>("x", [1 << 16])?;
    /// world.profiler().start();
    /// for _ in 0..10 {
    ///     double(&x)?;
    /// }
    /// let report = world.profiler().report();
    /// println!("{report}"); // a table of tasks, one of compilations, one of the compiler's passes
    /// assert_eq!(report.tasks()[0].count, 10);
    /// # let folder = std::env::temp_dir();
    /// world.profiler().write_trace(folder.join("wuji-trace.json"))?; // for ui.perfetto.dev
    /// # std::fs::remove_file(folder.join("wuji-trace.json")).ok();
    /// # Ok(())
    /// # }
    /// ```
    pub fn profiler(&self) -> &Profiler {
        self.run_pending_for_later();
        self.inner.device.profiler()
    }

    /// All kernels of this world in order of compilation, with their launch counts and how they were compiled. Host operations on
    /// fields (fill, copy, count) are kernels, too.
    pub fn kernel_history(&self) -> Vec<KernelHistory> {
        self.run_pending_for_later();
        self.inner.device.profiler().kernels()
    }

    /// Sends log messages (compilations, an unusable cache) to a function instead of standard error.
    pub fn on_log(&self, listener: impl Fn(Level, &str) + Send + Sync + 'static) {
        self.inner.device.log().listen(listener);
    }

    /// Sets the log level.
    pub fn set_log_level(&self, level: Level) {
        self.inner.device.log().set_level(level);
    }

    /// The folder of the kernel cache, if there is one.
    pub fn cache(&self) -> Option<&Cache> {
        self.inner.device.cache()
    }

    /// Calls a function at every step of every compilation, for a progress bar. [`Progress::tier`] is the tier, and
    /// [`Progress::background`] tells whether a launch waits for it. Background compilation calls it from its own thread.
    ///
    /// ```
    /// use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::builder().cache(wuji::CacheChoice::Off).build()?;
    /// world.on_compile(|p| {
    ///     if !p.background {
    ///         eprint!("\rcompiling {} ({}/{}) ", p.kernel, p.done, p.of);
    ///     }
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_compile(&self, listener: impl Fn(&Progress<'_>) + Send + Sync + 'static) {
        self.inner.device.on_compile(listener);
    }

    pub(crate) fn enter_tree(&self, tree: &Arc<TreeInner>) {
        let mut trees = lock(&self.inner.trees);
        // Half of them at least are alive, so this costs little.
        if trees.len() == trees.capacity() {
            trees.retain(|t| t.strong_count() > 0);
        }
        trees.push(Arc::downgrade(tree));
    }

    /// The trees that are alive, the oldest first.
    pub(crate) fn trees(&self) -> Vec<Arc<TreeInner>> {
        lock(&self.inner.trees)
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Number of kernels compiled so far; each combination of instance and layout counts.
    pub fn kernels(&self) -> usize {
        let kernels = self.inner.kernels.read();
        let loaded = lock(&self.inner.loaded).0;
        kernels.unwrap_or_else(PoisonError::into_inner).len() + loaded
    }

    /// Closes the world and frees its memory, even if handles to it remain. Later accesses and launches are errors.
    ///
    /// ```
    /// use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::cpu()?;
    /// let x = world.field::<f32, 1>("x", 1000)?;
    /// world.close();
    /// assert_eq!(x.get(0).unwrap_err().code, "W0132");
    /// assert_eq!(world.field::<f32, 1>("y", 1).unwrap_err().code, "W0132");
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(&self) {
        // It fails in a forked process, which has no launches to wait for, and where a frontend lets a thread give up waiting.
        let _ = self.try_close();
    }

    pub(crate) fn recorder(&self) -> MutexGuard<'_, Option<Recorder>> {
        lock(&self.inner.recorder)
    }

    pub(crate) fn specialization(&self) -> Option<&Budget> {
        self.inner.specialization.as_ref()
    }

    pub(crate) fn lazy(&self) -> Option<&Lazy> {
        self.inner.lazy.as_ref()
    }

    pub(crate) fn modes(&self) -> &Modes {
        &self.inner.modes
    }

    pub(crate) fn may_record(&self) -> bool {
        self.inner.recording.load(Ordering::Relaxed)
    }

    pub(crate) fn set_recording(&self, recording: bool) {
        self.inner.recording.store(recording, Ordering::Relaxed);
    }

    /// An error when the world was closed.
    pub(crate) fn ensure_open(&self) -> Result<()> {
        self.inner.device.ensure_not_forked()?;
        if self.inner.closed.load(Ordering::Relaxed) {
            Err(Error::new("W0132", "this world was closed")
                .note("its fields and kernels went with it")
                .help("make a new world"))
        } else {
            Ok(())
        }
    }

    pub(crate) fn watch_cell(&self) -> &WatchCell {
        &self.inner.watch
    }

    pub(crate) fn device(&self) -> &Device {
        &self.inner.device
    }

    /// The seed of `random`.
    pub(crate) fn seed(&self) -> u64 {
        self.inner.seed
    }

    /// The one shape of this world that has this structure.
    pub(crate) fn intern(&self, shape: TreeShape) -> Arc<TreeShape> {
        let mut structs = Structs::default();
        let fields: Vec<_> = shape
            .describe(entities::Tree::from_u32(0), &mut structs, &[])
            .collect();
        let key = format!("{:?}{fields:?}{structs:?}", shape.data);
        let mut shapes = lock(&self.inner.shapes);
        shapes.entry(key).or_insert_with(|| Arc::new(shape)).clone()
    }
}

/// Whether two handles refer to the same world.
impl PartialEq for World {
    fn eq(&self, other: &World) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for World {}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field(
                "backend",
                &format_args!("{}", self.inner.device.backend().name()),
            )
            .field("threads", &self.threads())
            .field("options", &self.inner.options)
            .finish()
    }
}

/// The user's line, as errors show it.
pub(crate) fn here(location: &Location<'_>) -> Position {
    Position {
        file: location.file().to_owned(),
        line: location.line(),
        column: location.column(),
    }
}

/// Locks a mutex whose contents no panic can leave inconsistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
