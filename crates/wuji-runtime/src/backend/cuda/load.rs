//! Loads modules on a GPU: code from the cache, or from the compiler.

use super::engine::CudaEngine;
use super::launch::unsupported;
use super::program::{CudaProgram, Image};
use crate::backend::tasks::LaunchPlan;
use crate::backend::{BackendEnv, CodeTime, DeferredExecutable, Loaded};
use crate::cache::{Cache, CacheSlot, Entry};
use crate::interrupt::{self, ROOM_TO_COMPILE};
use crate::log::Level;
use crate::profile::{Compilation, Kernel};
use crate::progress::StepReporter;
use crate::stack::with_room;
use crate::tier::Tier;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use wuji_compile::{Functions, Libdevice, Lowered, Options, PASSES};
use wuji_ir::Result;
use wuji_ir::module::Module;

/// Loads modules for a GPU.
#[derive(Clone)]
pub(super) struct CudaLoader {
    pub(super) engine: Arc<CudaEngine>,
    /// NVIDIA's `libdevice`, if it is used.
    pub(super) libdevice: Option<Arc<Libdevice>>,
    pub(super) cache: Option<Arc<Cache>>,
    pub(super) env: BackendEnv,
}

impl fmt::Debug for CudaLoader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaLoader")
            .field("device", self.engine.context().info())
            .finish_non_exhaustive()
    }
}

impl CudaLoader {
    /// Whether kernels can be compiled with these options.
    pub(super) fn allows(options: &Options) -> Result<()> {
        if !options.deterministic {
            return Ok(());
        }
        Err(unsupported("a deterministic world")
            .note("threads of a GPU update floats in any order")
            .help("use a world on the CPU"))
    }

    pub(super) fn load(&self, module: Module, options: &Options, when: CodeTime) -> Result<Loaded> {
        CudaLoader::allows(options)?;
        let (major, minor) = self.engine.context().info().capability;
        let sm = major * 10 + minor;
        let mut options = options.clone();
        if let (Functions::System, Some(library)) = (&options.functions, &self.libdevice) {
            options.functions = Functions::Libdevice(library.clone());
        }
        let options = options.for_cuda(sm);
        let slot = CacheSlot::of(self.cache.as_ref(), &module, &options, || {
            let llvm = wuji_llvm::llvm_version()?;
            Ok(format!("cuda sm_{sm}, LLVM {llvm}"))
        })?;
        if let Some(slot) = &slot
            && let Some(entry) = slot.cache.get(&slot.key, Tier::Best, &self.env.log)
            && let Some(program) = self.revive(entry)
        {
            return Ok(program);
        }
        self.compile(module, &options, sm, slot, when)
    }

    /// A program from the cache; `None` if its code cannot be used.
    fn revive(&self, entry: Entry) -> Option<Loaded> {
        let begin = self.env.profiler.now();
        let name = entry.launch.name.clone();
        let image = Image::of_object(entry.object)?;
        let bytes = image.bytes();
        let noted = self.env.profiler.enter(&entry.launch);
        let program = self.program(&entry.launch, image);
        let program = program.inspect_err(|why| {
            self.env.log.say(Level::Info, || {
                let why = &why.message;
                format!("code of `{name}` from the cache does not load: {why}")
            });
        });
        let program = program.ok()?;
        noted.compiled(Compilation {
            tier: Tier::Best,
            cached: true,
            begin,
            time: self.env.profiler.now().saturating_sub(begin),
            passes: Vec::new(),
            backend: wuji_llvm::Timings::default(),
            bytes,
        });
        self.env.log.say(Level::Info, || {
            format!("kernel `{name}`: code found in the cache")
        });
        Some(Loaded {
            kernel: Some(noted),
            ..Loaded::new(entry.launch, program)
        })
    }

    /// Loads the code of a lowered module on the GPU.
    fn program(&self, module: &Module, image: Image) -> Result<CudaProgram> {
        CudaProgram::new(&self.engine, module, image, LaunchPlan::of(module)?)
    }

    /// Runs the passes. Machine code is made at the time `when`.
    fn compile(
        &self,
        module: Module,
        options: &Options,
        sm: u32,
        slot: Option<CacheSlot>,
        when: CodeTime,
    ) -> Result<Loaded> {
        let begin = self.env.profiler.now();
        let name = module.name.clone();
        let mut reporter = self.reporter(&name);
        let lowered = with_room(ROOM_TO_COMPILE, || {
            wuji_compile::compile_with_progress(module, options, false, &mut |pass| {
                reporter.pass(pass);
            })
        })??;
        let module = lowered.module().clone();
        CudaEngine::suits(&module)?;
        let noted = self.env.profiler.enter(&module);
        let first = FirstCode {
            loader: self.clone(),
            lowered,
            sm,
            slot,
            noted: noted.clone(),
            passes: (begin, self.env.profiler.now().saturating_sub(begin)),
        };
        Ok(Loaded {
            kernel: Some(noted),
            ..Loaded::new(module, DeferredExecutable::new(when, move || first.make())?)
        })
    }

    fn reporter<'a>(&self, name: &'a str) -> StepReporter<'a> {
        let listeners = &self.env.listeners;
        listeners.reporter(name, PASSES.len(), Tier::Best, false)
    }
}

/// Makes the machine code of a lowered module.
struct FirstCode {
    loader: CudaLoader,
    lowered: Lowered,
    sm: u32,
    slot: Option<CacheSlot>,
    noted: Arc<Kernel>,
    /// When its passes began, and how long they took.
    passes: (Duration, Duration),
}

impl FirstCode {
    fn make(&self) -> Result<CudaProgram> {
        let (env, lowered) = (&self.loader.env, &self.lowered);
        let begin = env.profiler.now();
        let name = &lowered.module().name;
        interrupt::check()?;
        let ptx = wuji_llvm::cuda::ptx(lowered, self.sm)?;
        let linking = env.profiler.now();
        let image = Image::new(lowered.module(), &ptx);
        self.loader.reporter(name).machine_code();
        let mut backend = ptx.timings;
        if let Some(slot) = &self.slot {
            slot.keep(lowered, &image.object(backend), Tier::Best, &env.log);
        }
        let bytes = image.bytes();
        let program = self.loader.program(lowered.module(), image)?;
        let now = env.profiler.now();
        backend.link = now.saturating_sub(linking);
        backend.total += backend.link;
        let time = now.saturating_sub(begin) + self.passes.1;
        self.noted.compiled(Compilation {
            tier: Tier::Best,
            cached: false,
            begin: self.passes.0,
            time,
            passes: lowered.timings().iter().map(|t| (t.pass, t.time)).collect(),
            backend,
            bytes,
        });
        env.log.say(Level::Info, || {
            let ms = time.as_secs_f64() * 1e3;
            format!("kernel `{name}`: compiled in {ms:.1} ms")
        });
        Ok(program)
    }
}
