//! A device: the functionality that all backends share.

use crate::backend::cuda::DeviceInfo;
use crate::backend::{Backend, BackendEnv, Capabilities, CodeTime};
use crate::cache::Cache;
use crate::guards::reset_guards;
use crate::log::{Level, Log};
use crate::memory::{DeviceLock, HostBytes, Memory, MemoryLimit, Usage};
use crate::options::DeviceOptions;
use crate::profile::Profiler;
use crate::program::Program;
use crate::progress::Progress;
use crate::remarks::Remarks;
use crate::report::Collected;
use crate::stop::{Interrupter, Listening, Stop, Watchdog, on_ctrl_c};
use std::sync::{Arc, Mutex, PoisonError};
use wuji_compile::analysis::serial_loops::{SerialLoop, serial_loops};
use wuji_compile::{Options, Remark, serial_loops_left};
use wuji_ir::layout::{TreeData, TreeMemory};
use wuji_ir::module::Module;
use wuji_ir::{Error, Position, Result};

/// The code of the warning about a long loop on one thread.
const LONG_LOOP: &str = "W0313";
/// The most kernels whose remarks are kept.
const MOST_REMARKS: usize = 4096;
/// The iterations of a serial loop that is worth a warning.
const LONG_SERIAL_LOOP: u64 = 1 << 16;

/// Compiles and runs kernels, and owns their memory. Its [`Backend`] implements the differences between processors and
/// GPUs.
#[derive(Debug)]
pub struct Device {
    pub(crate) lock: Arc<DeviceLock>,
    pub(crate) backend: Box<dyn Backend>,
    capabilities: Capabilities,
    /// State shared with the backend.
    pub(crate) env: BackendEnv,
    seed: u64,
    pub(crate) watchdog: Option<Watchdog>,
    /// Set if Ctrl-C stops launches of this device.
    listening: Mutex<Option<Listening>>,
    /// Whether every launch is synchronous.
    wait: bool,
    memory_limit: MemoryLimit,
    /// Remarks of all kernels so far.
    remarks: Mutex<Vec<Arc<Remarks>>>,
}

impl BackendEnv {
    pub(crate) fn new(options: &DeviceOptions) -> Result<BackendEnv> {
        Ok(BackendEnv {
            threads: options.thread_count()?,
            tier: options.tier.or_asked()?,
            log: Arc::new(Log::new(options.log)?),
            profiler: Arc::new(Profiler::new()),
            stop: Arc::new(Stop::default()),
            print_sink: Arc::default(),
            listeners: Arc::default(),
        })
    }
}

impl Device {
    /// A device with the backend that the options select.
    pub fn new(options: &DeviceOptions) -> Result<Device> {
        Device::with_backend(options, |env| options.backend.create(options, env))
    }

    /// A device with a custom backend. `DeviceOptions::backend` is ignored.
    pub fn with_backend(
        options: &DeviceOptions,
        make: impl FnOnce(&BackendEnv) -> Result<Box<dyn Backend>>,
    ) -> Result<Device> {
        let env = BackendEnv::new(options)?;
        let watchdog = options.time_limit;
        let watchdog = watchdog.map(|limit| Watchdog::new(limit, &env.stop));
        let watchdog = watchdog.transpose()?;
        let backend = make(&env)?;
        Ok(Device {
            lock: Arc::new(DeviceLock::new(&env.print_sink)),
            capabilities: backend.capabilities(),
            backend,
            env,
            seed: options.seed,
            watchdog,
            listening: Mutex::default(),
            wait: options.waits(),
            memory_limit: MemoryLimit::new(options.memory_limit),
            remarks: Mutex::default(),
        })
    }

    /// The backend.
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// What the backend supports.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The GPU, if the device is one.
    pub fn gpu(&self) -> Option<&DeviceInfo> {
        self.backend.gpu()
    }

    /// Waits for all pending launches. Returns the error of one of them.
    pub fn synchronize(&self) -> Result<()> {
        let guard = self.lock.take()?;
        let done = self.backend.synchronize();
        drop(guard);
        done.and(self.lock.print_sink.flush())
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether every launch is synchronous.
    pub(crate) fn waits(&self) -> bool {
        self.wait
    }

    /// Whether kernels can be compiled with these options.
    pub fn allows(&self, options: &Options) -> Result<()> {
        self.backend.allows(options)
    }

    /// The handle of the GPU stream for launches, for other libraries.
    pub fn stream(&self) -> Option<usize> {
        self.backend.stream()
    }

    /// Later launches wait for the current work of another stream of the GPU. A no-op on the CPU.
    ///
    /// # Safety
    /// It is the handle of a live stream of the same GPU (1 is the legacy default stream, 2 that of the thread).
    pub unsafe fn wait_for_stream(&self, raw: usize) -> Result<()> {
        let _guard = self.lock.take()?;
        // SAFETY: guaranteed by the caller.
        unsafe { self.backend.wait_for_stream(raw) }
    }

    /// Another stream of the GPU waits for the launches so far.
    ///
    /// # Safety
    /// As for [`Device::wait_for_stream`].
    pub unsafe fn stream_waits(&self, raw: usize) -> Result<()> {
        let _guard = self.lock.take()?;
        // SAFETY: guaranteed by the caller.
        unsafe { self.backend.stream_waits(raw) }
    }

    /// Passes every text that kernels print to a function, instead of standard output.
    pub fn on_print(&self, print: impl Fn(&str) + Send + Sync + 'static) {
        self.set_printer(move |line| {
            print(line);
            Ok(())
        });
    }

    /// The same with a function that may fail. Lines after the first that fails are dropped, and its error is that of the launch.
    pub fn set_printer(&self, print: impl Fn(&str) -> Result<()> + Send + Sync + 'static) {
        self.lock.print_sink.set(print);
    }

    /// Passes errors of asynchronous launches with these codes to a function, instead of returning them from later
    /// calls.
    pub fn on_async_error(
        &self,
        codes: &'static [&'static str],
        listener: impl Fn(&Error) + Send + Sync + 'static,
    ) {
        self.lock.print_sink.on_async_error(codes, listener);
    }

    /// Prints the lines of a launch.
    pub fn print(&self, collected: &Collected) -> Result<()> {
        self.lock.print_sink.print(collected)
    }

    /// Host threads that run kernels.
    pub fn threads(&self) -> usize {
        self.capabilities.threads
    }

    /// The log for messages that are not errors.
    pub fn log(&self) -> &Log {
        &self.env.log
    }

    /// The measurements.
    pub fn profiler(&self) -> &Profiler {
        &self.env.profiler
    }

    /// Calls a function after every step of a compilation. For background compilations, the compiling thread calls it.
    pub fn on_compile(&self, listener: impl Fn(&Progress<'_>) + Send + Sync + 'static) {
        self.env.listeners.listen(listener);
    }

    /// The kernel cache, if there is one.
    pub fn cache(&self) -> Option<&Cache> {
        self.backend.cache()
    }

    /// A handle that ends what runs on the device.
    pub fn interrupter(&self) -> Interrupter {
        Interrupter(self.env.stop.clone())
    }

    /// From now on, Ctrl-C stops the running launch instead of the process.
    pub fn stop_on_ctrl_c(&self) -> Result<()> {
        let mut listening = self
            .listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if listening.is_none() {
            *listening = Some(on_ctrl_c(&self.env.stop)?);
        }
        Ok(())
    }

    /// Zeroed memory of this device.
    pub fn reserve(&self, size: u64) -> Result<Memory> {
        let storage = self.allocate(|backend| backend.allocate(size))?;
        Memory::plain(&self.lock, size, storage)
    }

    /// Zeroed bytes of the host, for an array. They count as memory of this device.
    pub fn host_bytes(&self, size: u64) -> Result<HostBytes> {
        self.memory_limit.allow_array(size, self.lock.used())?;
        HostBytes::new(size, Some(Usage::new(&self.lock, size)))
    }

    /// Zeroed memory for a tree of this device.
    pub fn reserve_tree(&self, tree: &TreeData, layout: &TreeMemory) -> Result<Memory> {
        // Without a limit, a device with its own memory uses its own size.
        let (limit, own) = (&self.memory_limit, !self.capabilities.works_on_host());
        if limit.is_set() || !own {
            // Of a sparse tree, what is there from the start: the cells of bitmasked nodes below the root are.
            let size = if tree.is_sparse() {
                layout.cell_size[tree.root()]
            } else {
                layout.size
            };
            limit.allow_dense(size, self.lock.used())?;
        }
        let left = if limit.is_set() {
            self.memory_left()
        } else {
            u64::MAX
        };
        let storage = self.allocate(|backend| backend.allocate_tree(tree, layout, left))?;
        Memory::for_tree(&self.lock, tree, layout, storage)
    }

    /// A GPU clears memory on its stream, which another thread may be capturing, so this takes the lock.
    fn allocate<S>(&self, allocate: impl FnOnce(&dyn Backend) -> Result<S>) -> Result<S> {
        let own = !self.capabilities.works_on_host();
        let _guard = own.then(|| self.lock.take()).transpose()?;
        allocate(&*self.backend)
    }

    /// Bytes of all live memory of this device.
    pub fn memory_used(&self) -> u64 {
        self.lock.used()
    }

    /// Bytes that may still be allocated.
    pub fn memory_left(&self) -> u64 {
        self.memory_limit.left(self.lock.used())
    }

    pub(crate) fn owns(&self, memory: &Memory) -> bool {
        memory.belongs_to(&self.lock)
    }

    /// Compiles a kernel. It is a module before any pass; accesses that it declares `inbounds` are checked
    /// nevertheless.
    pub fn load(&self, module: Module, options: &Options) -> Result<Program> {
        self.load_at(module, options, CodeTime::Load)
    }

    /// The same; `when` says when its machine code is made.
    pub fn load_at(
        &self,
        mut module: Module,
        options: &Options,
        when: CodeTime,
    ) -> Result<Program> {
        self.ensure_not_forked()?;
        reset_guards(&mut module)?;
        // Compiled code relies on the invariants that the verifier checks, such as read-only arrays.
        wuji_ir::verify::verify(&module)?;
        wuji_llvm::room_for_passes(&module)?;
        self.warn_of_serial_loops(&module, options);
        let mut loaded = self.backend.load(module, options, when)?;
        if let Some(remarks) = loaded.remarks.take() {
            self.note(remarks);
        }
        Program::new(&self.lock, &self.env.profiler, loaded)
    }

    /// Long loops on one thread are rarely meant.
    fn warn_of_serial_loops(&self, module: &Module, options: &Options) {
        let long = |l: &SerialLoop| l.iterations.is_some_and(|n| n >= LONG_SERIAL_LOOP);
        let spans: Vec<_> = serial_loops(module).into_iter().filter(long).collect();
        if spans.is_empty() {
            return;
        }
        let long: Vec<_> = (spans.iter())
            .map(|l| Position::of(module, l.span))
            .collect();
        let remarks = serial_loops_left(module, options);
        for remark in remarks.into_iter().filter(|r| long.contains(&r.at)) {
            self.env
                .log
                .say(Level::Warn, || format!("warning[{LONG_LOOP}]: {remark}"));
        }
    }

    fn note(&self, remarks: Arc<Remarks>) {
        let mut all = self.remarks.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MOST_REMARKS {
            all.push(remarks);
        }
    }

    /// Remarks about the parallel loops of the kernels loaded so far, in order; limited to some thousand kernels. For
    /// kernels that only have first-tier code: the remarks of their best tier.
    pub fn remarks(&self) -> Vec<Remark> {
        let all = self.remarks.lock().unwrap_or_else(PoisonError::into_inner);
        let all = all.clone();
        all.iter().flat_map(|r| r.get()).collect()
    }

    /// Waits until a program has the best code, hot or not. Returns the error of the compilation, unless a launch has
    /// returned it already; the program keeps its current code then.
    pub fn finish_compiling(&self, program: &Program) -> Result<()> {
        self.ensure_not_forked()?;
        program.check_owner(&self.lock)?;
        // A program that never ran has no code to improve.
        if !program.has_code() {
            return Ok(());
        }
        self.backend.finish_compiling(program)
    }

    /// An error in a process that was forked after the device was made: it has none of its threads.
    pub fn ensure_not_forked(&self) -> Result<()> {
        self.lock.ensure_not_forked()
    }

    /// How many launches there were, as random numbers count them.
    pub fn launches(&self) -> u64 {
        self.lock.launches()
    }

    /// Sets how many launches there were, after others ran instead of them.
    pub fn set_launches(&self, launches: u64) {
        self.lock.set_launches(launches);
    }

    /// Waits until no launch runs.
    pub fn wait_for_launch(&self) -> Result<()> {
        self.lock.take().map(|_| ())
    }

    /// Waits until no launch runs, and ends the threads of the device. Nothing can be launched afterwards.
    pub fn close(&self) -> Result<()> {
        let _guard = self.lock.take()?;
        self.backend.close();
        Ok(())
    }

    /// Waits for pending launches. Their errors go to the log.
    pub fn settle(&self) {
        // In a forked process, launches are those of the parent.
        if self.ensure_not_forked().is_err() || self.backend.is_idle() {
            return;
        }
        // No caller is left to return the error to.
        if let Err(error) = self.synchronize() {
            self.log()
                .say(Level::Warn, || format!("an asynchronous launch: {error}"));
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.settle();
    }
}
