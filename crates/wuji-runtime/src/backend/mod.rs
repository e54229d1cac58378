//! The seam between a device and what runs its kernels.
//!
//! A [`Backend`] owns code, memory and execution together. It compiles modules to an [`Executable`] of its own type,
//! allocates [`Storage`] of its own type, and runs the one on the other. [`Device`](crate::Device) does what all of them need: the lock,
//! checks of arguments, time limits, the log, the profiler and the memory limit.
//!
//! There is one folder for each backend: `interpreter`, `cpu` and `cuda`. `tasks` is what backends with compiled code share.
//! `docs/how-to/add-a-backend.md` adds another one.

pub(crate) mod cpu;
pub mod cuda;
pub(crate) mod interpreter;
mod kind;
pub(crate) mod tasks;

pub use interpreter::InterpreterBackend;
pub use kind::BackendKind;

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
use crate::stop::Stop;
use crate::tier::Tier;
use cuda::DeviceInfo;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use wuji_compile::Options;
use wuji_ir::layout::{TreeData, TreeMemory};
use wuji_ir::module::Module;
use wuji_ir::{Error, Result};
use wuji_llvm::CompiledKernel;

/// What runs the kernels of a device.
///
/// The device calls everything that touches memory or launches while it holds its lock: one call at a time.
/// [`Backend::load`] and [`Backend::finish_compiling`] may be called from several threads at once.
pub trait Backend: fmt::Debug + Send + Sync {
    /// A short name, for the debug output of a world.
    fn name(&self) -> String;

    /// What does not change while the backend lives. The device asks once.
    fn capabilities(&self) -> Capabilities;

    /// Whether kernels can be compiled with these options.
    fn allows(&self, options: &Options) -> Result<()> {
        let _ = options;
        Ok(())
    }

    /// Compiles a module. It is verified, and all its accesses are guarded.
    fn load(&self, module: Module, options: &Options) -> Result<Loaded>;

    /// Waits until a program has the best code it can get.
    fn finish_compiling(&self, program: &Program) -> Result<()> {
        let _ = program;
        Ok(())
    }

    /// Storage for so many zeroed bytes.
    fn allocate(&self, size: u64) -> Result<Box<dyn Storage>>;

    /// Storage for a tree. The cells of a sparse tree may take up to `limit` bytes; a backend whose kernels work on the bytes of
    /// the host learns at every launch how much is left.
    fn allocate_tree(
        &self,
        tree: &TreeData,
        layout: &TreeMemory,
        limit: u64,
    ) -> Result<Box<dyn Storage>>;

    /// Runs a program once. The bindings were checked.
    fn run(&self, launch: &LaunchRequest<'_>) -> Result<Outcome>;

    /// Whether a launch can be part of a graph.
    fn fits_graph(&self, program: &Program, bindings: &Bindings<'_>) -> Result<()> {
        let _ = (program, bindings);
        Ok(())
    }

    /// Makes one graph of launches that were found to fit. `None`: the device launches them one after the other.
    fn capture(
        &self,
        steps: &[(&Program, Bindings<'_>)],
        seed: u64,
    ) -> Result<Option<Box<dyn CapturedGraph>>> {
        let _ = (steps, seed);
        Ok(None)
    }

    /// Waits for all pending launches. The error is that of one of them.
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    /// Whether there are no pending launches, nor errors of theirs.
    fn is_idle(&self) -> bool {
        true
    }

    /// The GPU, if it is one.
    fn gpu(&self) -> Option<&DeviceInfo> {
        None
    }

    /// The handle of the stream that launches go to, for other libraries.
    fn stream(&self) -> Option<usize> {
        None
    }

    /// Later launches wait for the work that another stream has now.
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

    /// The cache that code comes from, if there is one.
    fn cache(&self) -> Option<&Cache> {
        None
    }
}

/// What a backend can do.
#[derive(Copy, Clone, Debug)]
pub struct Capabilities {
    /// Threads of the host that run kernels.
    pub threads: usize,
    /// Whose memory kernels work on. They also get arrays of the host, which a GPU copies.
    pub owner: Owner,
    /// Whether launches may return before they are done. Then the backend itself obeys interrupts and time limits.
    pub asynchronous: bool,
    /// Whether launches can be captured as a graph.
    pub graphs: bool,
}

impl Capabilities {
    /// Whether kernels work on the bytes of the host. Otherwise the backend has memory of its own.
    pub fn works_on_host(&self) -> bool {
        self.owner == Owner::Host
    }
}

/// A module that a backend has compiled. Each backend has a type of its own, and runs no other.
pub trait Executable: Any + fmt::Debug + Send + Sync {
    /// `Fast` or `Best`: of the code that is in use now. `None` where there is no code.
    fn tier(&self) -> Option<Tier> {
        None
    }

    /// The machine code of the host that is in use now.
    fn machine_code(&self) -> Option<&CompiledKernel> {
        None
    }

    /// An error of a compilation in the background, which the next launch returns once.
    fn take_error(&self) -> Option<Error> {
        None
    }
}

/// An executable as the type of a backend. An error when another backend has made it.
pub(crate) fn expect_executable<'a, E: Executable>(
    executable: &'a (dyn Executable + 'static),
) -> Result<&'a E> {
    (executable as &dyn Any)
        .downcast_ref()
        .ok_or_else(|| Error::new("W0118", "the program was loaded by another backend"))
}

/// What [`Backend::load`] returns.
#[derive(Debug)]
pub struct Loaded {
    /// The module as the backend runs it.
    pub module: Module,
    pub executable: Box<dyn Executable>,
    /// The record of the profiler, if the backend has entered its compilation there.
    pub(crate) kernel: Option<Arc<Kernel>>,
    pub(crate) remarks: Option<Arc<Remarks>>,
}

impl Loaded {
    pub fn new(module: Module, executable: Box<dyn Executable>) -> Loaded {
        Loaded {
            module,
            executable,
            kernel: None,
            remarks: None,
        }
    }
}

/// One launch.
#[derive(Copy, Clone, Debug)]
pub struct LaunchRequest<'a> {
    pub program: &'a Program,
    /// What the backend has made of the program.
    pub executable: &'a (dyn Executable + 'static),
    pub bindings: &'a Bindings<'a>,
    /// For random numbers, together with the number of the launch.
    pub seed: u64,
    pub number: u64,
    /// Whether the launch is to be done when the call returns.
    pub wait: bool,
    /// Kernels return early once it is not zero. The device says why.
    pub interrupt: &'a AtomicU32,
    /// Bytes that the sparse trees of the launch may still take, all together.
    pub memory_left: u64,
    /// Set while tasks are timed.
    pub profiler: Option<&'a Profiler>,
}

impl<'a> LaunchRequest<'a> {
    /// The executable as the type of a backend. An error when another backend has made it.
    pub fn executable<E: Executable>(&self) -> Result<&'a E> {
        expect_executable(self.executable)
    }
}

/// Launches that a backend has put together.
pub trait CapturedGraph: fmt::Debug + Send + Sync {
    /// Launches all of them. The steps are those that were captured, or an error is returned.
    fn replay(&self, steps: &[(&Program, Bindings<'_>)], wait: bool) -> Result<()>;
}

/// What a device shares with its backend.
#[derive(Clone, Debug)]
pub struct BackendEnv {
    pub log: Arc<Log>,
    pub profiler: Arc<Profiler>,
    /// Threads of the host that the backend may use.
    pub threads: usize,
    /// How good the code of kernels is to be.
    pub tier: Tier,
    pub(crate) stop: Arc<Stop>,
    pub(crate) print_sink: Arc<PrintSink>,
    pub(crate) listeners: Arc<ProgressListeners>,
}
