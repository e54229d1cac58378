//! A device: its memory, its turn order, and how it runs modules.

use crate::backend::cpu::launch::NativeLaunch;
use crate::backend::cpu::load::Loader;
use crate::backend::cpu::pool::Pool;
use crate::backend::cpu::tier::{Background, Remarks, Tier};
use crate::backend::cuda::engine::Engine as CudaEngine;
use crate::backend::cuda::load::CudaLoader;
use crate::backend::cuda::{self, DeviceInfo, LibdeviceChoice};
use crate::backend::interpreter::run_interpreted;
use crate::cache::{self, Cache};
use crate::guards::reset_guards;
use crate::launch::{Bindings, Outcome, check};
use crate::log::{Level, Log};
use crate::machine::Amounts;
use crate::memory::{Bytes, DeviceLock, Memory};
use crate::profile::Profiler;
use crate::program::{Code, Program};
use crate::progress::{Progress, ProgressListeners};
use crate::report::Collected;
use crate::stop::{Interrupter, Listening, StaticStop, Stop, Watchdog, on_ctrl_c, stopped};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use wuji_compile::{Cx, Options, Remark, run_pass};
use wuji_ir::interp::{Config, Order, STOPPED};
use wuji_ir::layout::{TreeData, TreeMemory};
use wuji_ir::module::Module;
use wuji_ir::{Error, Result};
use wuji_llvm::{Jit, JitOptions};

/// What runs the kernels of a device.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Backend {
    /// Machine code on the processor.
    #[default]
    Cpu,
    /// The interpreter that defines what kernels mean.
    Interpreter,
    /// An NVIDIA GPU, by its number.
    Cuda(u32),
}

#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    pub backend: Backend,
    /// All cores when `None`.
    pub threads: Option<usize>,
    pub seed: u64,
    /// Bytes that trees may take together; most of the machine's when `None`, and then no dense tree may be larger than
    /// what is available when it is made.
    pub memory_limit: Option<u64>,
    /// How good the code of kernels is, and how soon it is there.
    pub tier: Tier,
    /// Where code is kept from one run of the program to the next.
    pub cache: cache::Choice,
    /// Bytes that the cache may take; what the environment says, or [`cache::DEFAULT_LIMIT`], when `None`.
    pub cache_limit: Option<u64>,
    /// How much is told; what the environment says, or warnings, when `None`.
    pub log: Option<Level>,
    /// How long one launch may take; as long as it likes when `None`.
    pub time_limit: Option<Duration>,
    /// Whether every launch on a GPU is waited for; what the environment says when `None`.
    pub wait_for_launches: Option<bool>,
    /// Whether kernels on a GPU use functions of NVIDIA's `libdevice`.
    pub libdevice: LibdeviceChoice,
}

/// Remarks are kept of so many kernels.
const MOST_REMARKS: usize = 4096;

/// Nobody asks whether a tree of less than this fits.
const ALWAYS_THERE: u64 = 64 << 20;

/// More threads than this is a mistake.
const MAX_THREADS: usize = 1024;

/// Something that runs kernels, with the memory they work on.
#[derive(Debug)]
pub struct Device {
    pub(crate) lock: Arc<DeviceLock>,
    runner: Runner,
    threads: usize,
    seed: u64,
    stop: Arc<Stop>,
    /// The same, for handlers of signals, once one may look at it.
    static_stop: Arc<OnceLock<StaticStop>>,
    watchdog: Option<Watchdog>,
    /// Set when Ctrl-C ends launches of this device.
    listening: Mutex<Option<Listening>>,
    /// Whether every launch on a GPU is waited for.
    wait: bool,
    memory_limit: u64,
    /// Whether the user has set that limit. It may be more than there is: trees are touched page by page.
    limit_said: bool,
    /// What became of the parallel loops of all kernels so far.
    remarks: Mutex<Vec<Arc<Remarks>>>,
    log: Arc<Log>,
    profiler: Arc<Profiler>,
}

// One for each world: its size does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
enum Runner {
    Cpu {
        loader: Loader,
        pool: Pool,
        background: Background,
    },
    Cuda(CudaLoader),
    Interpreter,
}

impl Device {
    pub fn new(options: &DeviceOptions) -> Result<Device> {
        let threads = match options.threads {
            Some(0) => {
                return Err(Error::new("W0115", "a world needs at least one thread")
                    .help("leave the number out to use all cores"));
            }
            Some(n) if n > MAX_THREADS => {
                return Err(Error::new(
                    "W0115",
                    format!("{n} threads are more than the {MAX_THREADS} a world can have"),
                ));
            }
            Some(n) => n,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let tier = options.tier.or_asked()?;
        let log = Arc::new(Log::new(options.log)?);
        let profiler = Arc::new(Profiler::new());
        let stop = Arc::new(Stop::default());
        let lock = Arc::<DeviceLock>::default();
        let watchdog = options.time_limit.map(|limit| Watchdog::new(limit, &stop));
        let watchdog = watchdog.transpose()?;
        let (runner, threads) = match options.backend {
            Backend::Cpu => {
                let jit = Arc::new(Jit::new(&JitOptions {
                    effort: tier.first_effort(),
                    ..JitOptions::default()
                })?);
                let pool = Pool::new(threads)?;
                let listeners = Arc::<ProgressListeners>::default();
                let background = Background::new(
                    jit.clone(),
                    profiler.clone(),
                    log.clone(),
                    listeners.clone(),
                );
                let cache = Cache::open(&options.cache, options.cache_limit, &log)?;
                let loader = Loader {
                    jit,
                    cache: cache.map(Arc::new),
                    log: log.clone(),
                    profiler: profiler.clone(),
                    tier,
                    threads: threads as u32,
                    listeners,
                };
                let runner = Runner::Cpu {
                    loader,
                    pool,
                    background,
                };
                (runner, threads)
            }
            Backend::Interpreter => (Runner::Interpreter, 1),
            Backend::Cuda(ordinal) => {
                let limit = options.time_limit;
                let libdevice = options.libdevice.read()?;
                if let Some(library) = &libdevice {
                    let path = library.path().display();
                    log.say(Level::Info, || {
                        format!("mathematical functions of `{path}`")
                    });
                }
                let loader = CudaLoader {
                    engine: CudaEngine::new(ordinal as usize, &lock.print_sink, &stop, limit)?,
                    cache: Cache::open(&options.cache, options.cache_limit, &log)?.map(Arc::new),
                    log: log.clone(),
                    profiler: profiler.clone(),
                    listeners: Arc::default(),
                    libdevice,
                };
                (Runner::Cuda(loader), 1)
            }
        };
        Ok(Device {
            lock,
            runner,
            threads,
            seed: options.seed,
            stop,
            static_stop: Arc::default(),
            watchdog,
            listening: Mutex::default(),
            wait: options.wait_for_launches.unwrap_or_else(blocking),
            memory_limit: options.memory_limit.unwrap_or_else(default_memory_limit),
            limit_said: options.memory_limit.is_some(),
            remarks: Mutex::default(),
            log,
            profiler,
        })
    }

    pub fn backend(&self) -> Backend {
        match self.runner {
            Runner::Cpu { .. } => Backend::Cpu,
            Runner::Interpreter => Backend::Interpreter,
            Runner::Cuda(ref loader) => {
                Backend::Cuda(loader.engine.context().info().ordinal as u32)
            }
        }
    }

    /// The GPU that it is, if it is one.
    pub fn gpu(&self) -> Option<&DeviceInfo> {
        match &self.runner {
            Runner::Cuda(loader) => Some(loader.engine.context().info()),
            Runner::Cpu { .. } | Runner::Interpreter => None,
        }
    }

    /// Waits until everything is done that was asked for. An error is that of a launch that nobody had waited for.
    pub fn synchronize(&self) -> Result<()> {
        let turn = self.lock.take();
        let done = match &self.runner {
            Runner::Cuda(loader) => loader.engine.finish(),
            Runner::Cpu { .. } | Runner::Interpreter => Ok(()),
        };
        drop(turn);
        self.lock.print_sink.flush();
        done
    }

    pub(crate) fn engine(&self) -> Option<&Arc<CudaEngine>> {
        match &self.runner {
            Runner::Cuda(loader) => Some(&loader.engine),
            Runner::Cpu { .. } | Runner::Interpreter => None,
        }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether every launch on a GPU is waited for.
    pub(crate) fn waits(&self) -> bool {
        self.wait
    }

    /// Whether kernels can be compiled so here.
    pub fn allows(&self, options: &Options) -> Result<()> {
        match self.runner {
            Runner::Cuda(_) => CudaLoader::allows(options),
            Runner::Cpu { .. } | Runner::Interpreter => Ok(()),
        }
    }

    /// The handle of the stream that launches on a GPU go to, for other libraries.
    pub fn stream(&self) -> Option<usize> {
        match &self.runner {
            Runner::Cuda(loader) => Some(loader.engine.stream.raw()),
            Runner::Cpu { .. } | Runner::Interpreter => None,
        }
    }

    /// What is launched from now on waits for what another stream of the GPU was told so far. On the CPU there is nothing to wait for.
    ///
    /// # Safety
    /// It is the handle of a stream of the same GPU that lives (1 is the legacy default stream, 2 that of the thread).
    pub unsafe fn wait_for_stream(&self, raw: usize) -> Result<()> {
        let _guard = self.lock.take();
        match &self.runner {
            // SAFETY: the caller's promise.
            Runner::Cuda(loader) => unsafe { loader.engine.wait_for_stream(raw) },
            Runner::Cpu { .. } | Runner::Interpreter => Ok(()),
        }
    }

    /// Another stream of the GPU waits for what was launched here so far.
    ///
    /// # Safety
    /// As for [`Device::wait_for_stream`].
    pub unsafe fn stream_waits(&self, raw: usize) -> Result<()> {
        let _guard = self.lock.take();
        match &self.runner {
            // SAFETY: the caller's promise.
            Runner::Cuda(loader) => unsafe { loader.engine.stream_waits(raw) },
            Runner::Cpu { .. } | Runner::Interpreter => Ok(()),
        }
    }

    /// Hands every line that kernels print to a function, instead of standard output.
    pub fn on_print(&self, print: impl Fn(&str) + Send + Sync + 'static) {
        self.lock.print_sink.set(print);
    }

    /// Hands problems of these codes that come out of launches which nobody waits for to a function; they are no errors then.
    pub fn on_async_error(
        &self,
        codes: &'static [&'static str],
        listener: impl Fn(&Error) + Send + Sync + 'static,
    ) {
        self.lock.print_sink.on_async_error(codes, listener);
    }

    /// Prints the lines of a launch.
    pub fn print(&self, collected: &Collected) {
        self.lock.print_sink.print(collected);
    }

    pub fn threads(&self) -> usize {
        self.threads
    }

    /// What this device says that is no error.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Where the time goes.
    pub fn profiler(&self) -> &Profiler {
        &self.profiler
    }

    /// Has somebody told how far compilations are, step by step; of better code for hot kernels, by the thread that
    /// makes it.
    pub fn on_compile(&self, listener: impl Fn(&Progress<'_>) + Send + Sync + 'static) {
        match &self.runner {
            Runner::Cpu { loader, .. } => loader.listeners.listen(listener),
            Runner::Cuda(loader) => loader.listeners.listen(listener),
            Runner::Interpreter => {}
        }
    }

    /// The cache of kernels, if there is one.
    pub fn cache(&self) -> Option<&Cache> {
        match &self.runner {
            Runner::Cpu { loader, .. } => loader.cache.as_deref(),
            Runner::Cuda(loader) => loader.cache.as_deref(),
            Runner::Interpreter => None,
        }
    }

    pub fn interrupter(&self) -> Interrupter {
        Interrupter(self.stop.clone(), self.static_stop.clone())
    }

    /// From now on, Ctrl-C ends the launch that is running here instead of the process.
    pub fn stop_on_ctrl_c(&self) -> Result<()> {
        let mut listening = self
            .listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if listening.is_none() {
            *listening = Some(on_ctrl_c(&self.stop)?);
        }
        Ok(())
    }

    /// Zeroed memory of this device.
    pub fn reserve(&self, size: u64) -> Result<Memory> {
        match &self.runner {
            Runner::Cuda(loader) => {
                // Zeros are written by the stream, which is not to be in a graph just now.
                let _guard = self.lock.take();
                Memory::on_device_plain(&self.lock, &loader.engine, size)
            }
            Runner::Cpu { .. } | Runner::Interpreter => Memory::reserve(&self.lock, size),
        }
    }

    /// Zeroed memory for a tree of this device.
    pub fn reserve_tree(&self, tree: &TreeData, layout: &TreeMemory) -> Result<Memory> {
        if let Runner::Cuda(loader) = &self.runner {
            // Where nobody has set a limit, the device knows what it has.
            if self.limit_said && !tree.is_sparse() {
                self.allow_dense(layout.size)?;
            }
            let limit = match self.limit_said {
                true => self.memory_limit.saturating_sub(self.lock.used()),
                false => u64::MAX,
            };
            let _guard = self.lock.take();
            return Memory::for_device_tree(&self.lock, &loader.engine, tree, layout, limit);
        }
        // Sparse trees take what their cells need, and are told the limit at every launch.
        if !tree.is_sparse() {
            self.allow_dense(layout.size)?;
        }
        Memory::for_tree(&self.lock, tree, layout)
    }

    /// Whether a dense tree fits. The system gives memory when it is touched, and kills whoever touches more than there
    /// is: so that is said here, where it can still be said.
    fn allow_dense(&self, size: u64) -> Result<()> {
        const HELP: &str = "make the extents smaller, use sparse nodes, or raise `memory_limit`";
        let shown = Bytes(size);
        if size > self.memory_limit.saturating_sub(self.lock.used()) {
            let (limit, used) = (Bytes(self.memory_limit), Bytes(self.lock.used()));
            let of_what = match self.limit_said {
                true => "",
                false => ", nine tenths of the memory there is for this process",
            };
            return Err(Error::new(
                "W0110",
                format!("a tree of {shown} is more than this world may still take"),
            )
            .note(format!(
                "its limit is {limit}{of_what}, of which {used} are taken"
            ))
            .help(HELP));
        }
        if self.limit_said || size < ALWAYS_THERE {
            return Ok(());
        }
        let Amounts { total, available } = Amounts::now();
        if size > available {
            let (total, available) = (Bytes(total), Bytes(available));
            return Err(Error::new(
                "W0110",
                format!("a tree of {shown} is more than the memory that is available"),
            )
            .note(format!(
                "of {total}, {available} are available at the moment"
            ))
            .help(HELP));
        }
        Ok(())
    }

    /// Bytes of all memory of this device that is still alive.
    pub fn memory_used(&self) -> u64 {
        self.lock.used()
    }

    pub(crate) fn owns(&self, memory: &Memory) -> bool {
        memory.belongs_to(&self.lock)
    }

    /// Makes a kernel ready to run here. It is a module before any pass; accesses that it says are
    /// `inbounds` are checked all the same.
    pub fn load(&self, mut module: Module, options: &Options) -> Result<Program> {
        reset_guards(&mut module)?;
        // Compiled code relies on what the verifier sees, such as that read-only arrays are.
        wuji_ir::verify::verify(&module)?;
        match &self.runner {
            Runner::Cpu { loader, .. } => {
                let (program, remarks) = loader.load(&self.lock, module, options)?;
                self.note(remarks);
                Ok(program)
            }
            Runner::Cuda(loader) => loader.load(&self.lock, module, options),
            Runner::Interpreter => {
                let mut cx = Cx::new(options);
                run_pass("overflow", &mut module, &mut cx)?;
                let noted = self.profiler.enter(&module);
                Program::interpreted(&self.lock, module, noted)
            }
        }
    }

    fn note(&self, remarks: Arc<Remarks>) {
        let mut all = self.remarks.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MOST_REMARKS {
            all.push(remarks);
        }
    }

    /// What became of the parallel loops of the kernels loaded so far, in order; of the first thousands. Of kernels that
    /// have their first code only: what will, in their best.
    pub fn remarks(&self) -> Vec<Remark> {
        let all = self.remarks.lock().unwrap_or_else(PoisonError::into_inner);
        let all = all.clone();
        all.iter().flat_map(|r| r.get()).collect()
    }

    /// Waits until a program has the best code it can get, hot or not. The error is that of the compilation, unless
    /// a launch has told it already; the program goes on with the code that it has.
    pub fn finish_compiling(&self, program: &Program) -> Result<()> {
        match (&program.code, &self.runner) {
            (Code::Native(native), Runner::Cpu { background, .. }) => {
                background.finish(&native.code)
            }
            (Code::Native(_), Runner::Interpreter | Runner::Cuda(_))
            | (Code::Cuda(_) | Code::Interpreted, _) => Ok(()),
        }
    }

    /// Runs a program once, after everything that this device was asked to do before. On a GPU it may still be at work when this
    /// returns, if it gives no result and no array of the host is among its arguments; what it reports then comes out of whatever
    /// waits for it.
    pub fn run(&self, program: &Program, bindings: &Bindings<'_>) -> Result<Outcome> {
        self.run_with(program, bindings, None, self.wait)
    }

    /// The same, to its end.
    pub fn run_to_end(&self, program: &Program, bindings: &Bindings<'_>) -> Result<Outcome> {
        self.run_with(program, bindings, None, true)
    }

    /// Runs a program to its end as if the device had this seed and the launch this number, for random numbers.
    pub fn run_as(
        &self,
        program: &Program,
        bindings: &Bindings<'_>,
        seed: u64,
        launch: u64,
    ) -> Result<Outcome> {
        self.run_with(program, bindings, Some((seed, launch)), true)
    }

    fn run_with(
        &self,
        program: &Program,
        bindings: &Bindings<'_>,
        random: Option<(u64, u64)>,
        wait: bool,
    ) -> Result<Outcome> {
        let mut turn = self.lock.take();
        let random = random.unwrap_or((self.seed, *turn));
        let outcome = self.run_locked(program, bindings, random, wait, &mut turn);
        drop(turn);
        self.lock.print_sink.flush();
        outcome
    }

    fn run_locked(
        &self,
        program: &Program,
        bindings: &Bindings<'_>,
        (seed, launch): (u64, u64),
        wait: bool,
        turn: &mut u64,
    ) -> Result<Outcome> {
        if !Arc::ptr_eq(&program.lock, &self.lock) {
            return Err(Error::new(
                "W0118",
                "the program was loaded on another device",
            ));
        }
        check(self, program, bindings)?;
        if let Code::Native(native) = &program.code
            && let Some(error) = native.code.take_error()
        {
            return Err(error);
        }
        *turn += 1;
        program.kernel.count_launch();
        self.log.say(Level::Debug, || {
            format!("launch of kernel `{}`", program.module.name)
        });
        if let Code::Cuda(code) = &program.code {
            let run = cuda::launch::Run {
                seed,
                launch,
                wait,
                profiler: self.profiler.is_on().then_some(&*self.profiler),
            };
            let outcome = cuda::launch::run_cuda(&run, program, code, bindings);
            for memory in bindings.trees {
                if let Some(tree) = memory.on_device() {
                    memory.count(tree.used());
                }
            }
            return outcome;
        }
        self.allow_memory(program, bindings);
        if let Some(watchdog) = &self.watchdog {
            watchdog.begin()?;
        }
        self.stop.begin();
        let outcome = self.run_code(program, bindings, (seed, launch));
        if let Some(watchdog) = &self.watchdog {
            watchdog.end();
        }
        match self.stop.end() {
            None => outcome,
            Some(reason) => {
                // What went wrong by itself is told first.
                if let Err(error) = outcome
                    && error.code != STOPPED
                {
                    return Err(error);
                }
                let limit = self.watchdog.as_ref().map(Watchdog::limit);
                Err(stopped(
                    std::slice::from_ref(&program.module.name),
                    reason,
                    limit,
                ))
            }
        }
    }

    fn run_code(
        &self,
        program: &Program,
        bindings: &Bindings<'_>,
        (seed, launch): (u64, u64),
    ) -> Result<Outcome> {
        match (&program.code, &self.runner) {
            (
                Code::Native(native),
                Runner::Cpu {
                    pool, background, ..
                },
            ) => {
                let launch = NativeLaunch {
                    pool,
                    background,
                    threads: self.threads as u64,
                    interrupt: self.stop.word(),
                    seed,
                    number: launch,
                    profiler: self.profiler.is_on().then_some(&*self.profiler),
                    program,
                    native,
                    bindings,
                };
                let outcome = launch.run();
                for (memory, plan) in bindings.trees.iter().zip(&program.sparse) {
                    if let Some(plan) = plan {
                        memory.count(plan.used(memory));
                    }
                }
                outcome
            }
            (Code::Native(_), Runner::Interpreter | Runner::Cuda(_))
            | (Code::Cuda(_) | Code::Interpreted, _) => {
                let config = Config {
                    order: Order::Serial,
                    seed,
                    launch,
                    ..Config::default()
                };
                let begin = self.profiler.is_on().then(|| self.profiler.now());
                let outcome = run_interpreted(program, bindings, config, self.stop.word());
                if let Some(begin) = begin {
                    self.profiler.task(&program.kernel, 0, 1, begin);
                }
                outcome
            }
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.settle();
    }
}

impl Device {
    /// Waits for pending launches. Their errors go to the log.
    pub fn settle(&self) {
        let Runner::Cuda(loader) = &self.runner else {
            return;
        };
        if loader.engine.is_settled() {
            return;
        }
        // Nobody is left who could be given the error.
        if let Err(error) = self.synchronize() {
            self.log.say(Level::Warn, || {
                format!("a launch that nobody waited for: {error}")
            });
        }
    }
}

/// Whether the environment asks for launches to be waited for.
fn blocking() -> bool {
    ["WUJI_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|v| v == "1"))
}

impl Device {
    /// Shares what is left of the memory among the sparse trees of a launch.
    fn allow_memory(&self, program: &Program, bindings: &Bindings<'_>) {
        let trees = program.sparse.iter().flatten().count() as u64;
        // On a device, the room that the host has made for cells is the limit.
        if trees == 0 || matches!(self.runner, Runner::Cuda(_)) {
            return;
        }
        let left = self.memory_limit.saturating_sub(self.lock.used()) / trees;
        for (memory, plan) in bindings.trees.iter().zip(&program.sparse) {
            if let Some(plan) = plan {
                plan.allow(memory, left);
            }
        }
    }
}

/// Most of the memory of the machine, or of the group of processes this one is in.
fn default_memory_limit() -> u64 {
    Amounts::now().total / 10 * 9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(body: &str) -> Result<Program> {
        let text = format!(
            "module \"m\"\ntree T0 {{ dense S1 [i: 4] {{ place f0 }} }}\nfield f0 \"x\": i32 in T0.S1 (i)\nkernel fn0 \"m\"() {{\n{body}\nreturn\n}}\n"
        );
        let device = Device::new(&DeviceOptions {
            backend: Backend::Interpreter,
            ..DeviceOptions::default()
        })?;
        device.load(wuji_ir::text::parse(&text, "m.wir")?, &Options::default())
    }

    #[test]
    fn lists_are_refused() {
        let device = Device::new(&DeviceOptions {
            backend: Backend::Interpreter,
            ..DeviceOptions::default()
        })
        .unwrap();
        let load = |node: &str| {
            let text = format!(
                "module \"m\"\ntree T0 {{ pointer S1 [i: 4] {{ place f0 }} }}\nfield f0: i32 in T0.S1 (i)\n\
                 fn fn0 \"list\"(v0: i64, v1: i64) {{\nreturn\n}}\n\
                 task \"list\" chunks (0..4) unit 1 fn0 ordinal 1 lists T0.{node}\n"
            );
            device.load(
                wuji_ir::text::parse(&text, "m.wir").unwrap(),
                &Options::default(),
            )
        };
        assert_eq!(load("S1").unwrap_err().code, "W0128");
        let text = "tree T0 { place f0 }\nfield f0: i32 in T0.S0 ()\nfn fn0 \"x\"(v0: i64, v1: i64) {\nreturn\n}\ntask \"x\" chunks (0..4) unit 1 fn0 ordinal 1 lists T0.S0\n";
        let m = wuji_ir::text::parse(text, "m.wir").unwrap();
        assert_eq!(wuji_ir::verify::verify(&m).unwrap_err().code, "W0020");
    }

    #[test]
    fn copies_are_refused() {
        let device = Device::new(&DeviceOptions {
            backend: Backend::Interpreter,
            ..DeviceOptions::default()
        })
        .unwrap();
        let text = "tree T0 { place f0 }\nfield f0: i32 in T0.S0 ()\nfn fn0 \"x\"(v0: i64, v1: i64) {\nreturn\n}\ntask \"x\" chunks (0..4) unit 1 fn0 ordinal 1 merges T0\n";
        let m = wuji_ir::text::parse(text, "m.wir").unwrap();
        let error = device.load(m, &Options::default()).unwrap_err();
        assert_eq!(error.code, "W0128");
    }

    #[test]
    fn byte_offsets_are_refused() {
        let error = load("v0: i64 = const 800\nv1: i32 = memload T0.f0 [v0]").unwrap_err();
        assert_eq!(error.code, "W0128");
        assert!(load("v0: i64 = const 800\nv1: i32 = load.inbounds f0[v0]").is_ok());
    }
}
