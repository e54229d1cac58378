//! Loads modules on a GPU: code from the cache, or from the compiler.

use super::engine::CudaEngine;
use super::launch::unsupported;
use super::program::{CudaProgram, Image};
use crate::backend::tasks::LaunchPlan;
use crate::backend::{BackendEnv, Loaded};
use crate::cache::{Cache, CacheSlot, Entry};
use crate::interrupt;
use crate::log::Level;
use crate::profile::{Compilation, Kernel};
use crate::tier::Tier;
use std::fmt;
use std::sync::Arc;
use wuji_compile::{Functions, Libdevice, Options, PASSES};
use wuji_ir::Result;
use wuji_ir::module::Module;

/// Loads modules for a GPU.
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

    pub(super) fn load(&self, module: Module, options: &Options) -> Result<Loaded> {
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
        self.compile(module, &options, sm, slot)
    }

    /// A program from the cache; `None` if its code cannot be used.
    fn revive(&self, entry: Entry) -> Option<Loaded> {
        let begin = self.env.profiler.now();
        let name = entry.launch.name.clone();
        let image = Image::of_object(entry.object)?;
        let bytes = image.bytes();
        let noted = self.env.profiler.enter(&entry.launch);
        let loaded = self.program(entry.launch, image, noted.clone());
        let loaded = loaded.inspect_err(|why| {
            self.env.log.say(Level::Info, || {
                let why = &why.message;
                format!("code of `{name}` from the cache does not load: {why}")
            });
        });
        let loaded = loaded.ok()?;
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
        Some(loaded)
    }

    /// Loads the code of a lowered module on the GPU.
    fn program(&self, module: Module, image: Image, kernel: Arc<Kernel>) -> Result<Loaded> {
        let plan = LaunchPlan::of(&module)?;
        let program = CudaProgram::new(&self.engine, &module, image, plan)?;
        Ok(Loaded {
            kernel: Some(kernel),
            ..Loaded::new(module, Box::new(program))
        })
    }

    fn compile(
        &self,
        module: Module,
        options: &Options,
        sm: u32,
        slot: Option<CacheSlot>,
    ) -> Result<Loaded> {
        let begin = self.env.profiler.now();
        let name = module.name.clone();
        let mut reporter = self
            .env
            .listeners
            .reporter(&name, PASSES.len(), Tier::Best, false);
        let lowered = wuji_compile::compile_with_progress(module, options, false, &mut |pass| {
            reporter.pass(pass)
        })?;
        interrupt::check()?;
        let ptx = wuji_llvm::cuda::ptx(&lowered, sm)?;
        let linking = self.env.profiler.now();
        let image = Image::new(lowered.module(), &ptx);
        reporter.machine_code();
        let mut backend = ptx.timings;
        let noted = self.env.profiler.enter(lowered.module());
        if let Some(slot) = &slot {
            slot.keep(&lowered, &image.object(backend), Tier::Best, &self.env.log);
        }
        let bytes = image.bytes();
        let launch = lowered.module().clone();
        let loaded = self.program(launch, image, noted.clone())?;
        let now = self.env.profiler.now();
        backend.link = now.saturating_sub(linking);
        backend.total += backend.link;
        let time = now.saturating_sub(begin);
        noted.compiled(Compilation {
            tier: Tier::Best,
            cached: false,
            begin,
            time,
            passes: lowered.timings().iter().map(|t| (t.pass, t.time)).collect(),
            backend,
            bytes,
        });
        self.env.log.say(Level::Info, || {
            let ms = time.as_secs_f64() * 1e3;
            format!("kernel `{name}`: compiled in {ms:.1} ms")
        });
        Ok(loaded)
    }
}
