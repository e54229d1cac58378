//! The interface between a device and its backend.
//!
//! A [`Backend`] owns code, memory and execution. It compiles modules to its own type of [`Executable`], allocates its
//! own type of [`Storage`], and runs the former on the latter. [`Device`](crate::Device) implements what is common: the
//! lock, checks of arguments, time limits, the log, the profiler and the memory limit.
//!
//! There is one folder per backend: `interpreter`, `cpu` and `cuda`. `tasks` is shared by backends with compiled code.
//! `docs/how-to/add-a-backend.md` explains how to add one.

pub(crate) mod cpu;
pub mod cuda;
mod executable;
pub(crate) mod interpreter;
mod kind;
pub(crate) mod tasks;

pub use executable::{CodeTime, DeferredExecutable, Executable};
pub use interpreter::InterpreterBackend;
pub use kind::BackendKind;

pub(crate) use executable::expect_executable;

use crate::array::Owner;
use crate::cache::Cache;
use crate::launch::{Bindings, Outcome};
use crate::log::Log;
use crate::memory::Storage;
use crate::print_sink::PrintSink;
use crate::profile::{Kernel, Profiler};
use crate::program::Program;
use crate::progress::ProgressListeners;
use crate::remarks::Remarks;
use crate::stop::{Stop, StopFlag};
use crate::tier::Tier;
use cuda::DeviceInfo;
use std::fmt;
use std::sync::Arc;
use wuji_compile::Options;
use wuji_ir::Result;
use wuji_ir::layout::{TreeData, TreeMemory};
use wuji_ir::module::Module;

/// Compiles and runs the kernels of a device.
///
/// The device holds its lock for all calls that access memory or launch: one call at a time. [`Backend::load`] and
/// [`Backend::finish_compiling`] may be called from several threads concurrently.
pub trait Backend: fmt::Debug + Send + Sync {
    /// A short name, for the debug output of a world.
    fn name(&self) -> String;

    /// Properties that do not change. The device queries them once.
    fn capabilities(&self) -> Capabilities;

    /// Whether kernels can be compiled with these options.
    fn allows(&self, options: &Options) -> Result<()> {
        let _ = options;
        Ok(())
    }

    /// Compiles a module, which is verified and has all its accesses guarded. All passes run now, so that errors of the kernel
    /// are found; `when` says when machine code is made.
    fn load(&self, module: Module, options: &Options, when: CodeTime) -> Result<Loaded>;

    /// Waits until a program has the best code.
    fn finish_compiling(&self, program: &Program) -> Result<()> {
        let _ = program;
        Ok(())
    }

    /// Storage for zeroed bytes.
    fn allocate(&self, size: u64) -> Result<Box<dyn Storage>>;

    /// Storage for a tree. The cells of a sparse tree may take up to `limit` bytes; a backend that uses host memory
    /// gets the remaining amount at every launch.
    fn allocate_tree(
        &self,
        tree: &TreeData,
        layout: &TreeMemory,
        limit: u64,
    ) -> Result<Box<dyn Storage>>;

    /// Runs a program once. The bindings are checked.
    fn run(&self, launch: &LaunchRequest<'_>) -> Result<Outcome>;

    /// Whether a launch can be part of a graph.
    fn fits_graph(&self, program: &Program, bindings: &Bindings<'_>) -> Result<()> {
        let _ = (program, bindings);
        Ok(())
    }

    /// Captures launches that fit as one graph. `None`: the device launches them one after the other.
    fn capture(
        &self,
        steps: &[(&Program, Bindings<'_>)],
        seed: u64,
    ) -> Result<Option<Box<dyn CapturedGraph>>> {
        let _ = (steps, seed);
        Ok(None)
    }

    /// Waits for all pending launches. Returns the error of one of them.
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    /// Whether there are no pending launches and no pending errors.
    fn is_idle(&self) -> bool {
        true
    }

    /// The GPU, if there is one.
    fn gpu(&self) -> Option<&DeviceInfo> {
        None
    }

    /// The handle of the stream for launches, for other libraries.
    fn stream(&self) -> Option<usize> {
        None
    }

    /// Later launches wait for the current work of another stream.
    ///
    /// # Safety
    /// The handle is that of a live stream of the same GPU.
    unsafe fn wait_for_stream(&self, raw: usize) -> Result<()> {
        let _ = raw;
        Ok(())
    }

    /// Another stream waits for the launches so far.
    ///
    /// # Safety
    /// As for [`Backend::wait_for_stream`].
    unsafe fn stream_waits(&self, raw: usize) -> Result<()> {
        let _ = raw;
        Ok(())
    }

    /// Ends the threads of the backend. No launch follows.
    fn close(&self) {}

    /// The cache that code comes from, if there is one.
    fn cache(&self) -> Option<&Cache> {
        None
    }
}

/// Properties of a backend.
#[derive(Copy, Clone, Debug)]
pub struct Capabilities {
    /// Host threads that run kernels.
    pub threads: usize,
    /// The device whose memory kernels use. They also get host arrays, which a GPU copies.
    pub owner: Owner,
    /// Whether launches are asynchronous. Then the backend itself handles interrupts and time limits.
    pub asynchronous: bool,
    /// Whether launches can be captured as a graph.
    pub graphs: bool,
}

impl Capabilities {
    /// Whether kernels use host memory. Otherwise the backend has its own memory.
    pub fn works_on_host(&self) -> bool {
        self.owner == Owner::Host
    }
}

/// The result of [`Backend::load`].
#[derive(Debug)]
pub struct Loaded {
    /// The module as the backend runs it.
    pub module: Module,
    /// What runs.
    pub executable: DeferredExecutable,
    /// The profiler record, if the backend has registered its compilation.
    pub(crate) kernel: Option<Arc<Kernel>>,
    pub(crate) remarks: Option<Arc<Remarks>>,
}

impl Loaded {
    /// A program and what runs it.
    pub fn new(module: Module, executable: impl Into<DeferredExecutable>) -> Loaded {
        Loaded {
            module,
            executable: executable.into(),
            kernel: None,
            remarks: None,
        }
    }
}

/// One launch.
#[derive(Copy, Clone, Debug)]
pub struct LaunchRequest<'a> {
    /// The program.
    pub program: &'a Program,
    /// The backend's executable of the program.
    pub executable: &'a (dyn Executable + 'static),
    /// The arguments.
    pub bindings: &'a Bindings<'a>,
    /// Seeds the random numbers, together with the launch number.
    pub seed: u64,
    /// The number of the launch on its device, for random numbers.
    pub number: u64,
    /// Whether the launch must be synchronous.
    pub wait: bool,
    /// Kernels return early once it is set. The device says why.
    pub interrupt: StopFlag<'a>,
    /// Bytes that the sparse trees of the launch may still take, all together.
    pub memory_left: u64,
    /// Set if tasks are timed.
    pub profiler: Option<&'a Profiler>,
}

impl<'a> LaunchRequest<'a> {
    /// Downcasts the executable. An error if it is from another backend.
    pub fn executable<E: Executable>(&self) -> Result<&'a E> {
        expect_executable(self.executable)
    }
}

/// Launches that a backend has captured.
pub trait CapturedGraph: fmt::Debug + Send + Sync {
    /// Launches all of them. Returns an error if the steps are not those that were captured.
    fn replay(&self, steps: &[(&Program, Bindings<'_>)], wait: bool) -> Result<()>;
}

/// State that a device shares with its backend.
#[derive(Clone, Debug)]
pub struct BackendEnv {
    /// Where messages go.
    pub log: Arc<Log>,
    /// Where measurements go.
    pub profiler: Arc<Profiler>,
    /// Host threads that the backend may use.
    pub threads: usize,
    /// The tier of kernels.
    pub tier: Tier,
    pub(crate) stop: Arc<Stop>,
    pub(crate) print_sink: Arc<PrintSink>,
    pub(crate) listeners: Arc<ProgressListeners>,
}
