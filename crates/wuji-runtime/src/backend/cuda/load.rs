//! Loads modules on a GPU: code from the cache, or else from the compiler.

use super::code::Image;
use super::engine::Engine;
use super::launch::unsupported;
use crate::backend::cpu::load::listens;
use crate::backend::cpu::tier::{Slot, Tier};
use crate::cache::{Cache, Entry, Key};
use crate::log::{Level, Log};
use crate::memory::DeviceLock;
use crate::profile::{Compilation, Profiler};
use crate::program::Program;
use crate::progress::ProgressListeners;
use std::fmt;
use std::sync::Arc;
use wuji_compile::{Functions, Libdevice, Options, PASSES};
use wuji_ir::Result;
use wuji_ir::module::Module;

/// What a GPU loads modules with.
pub(crate) struct CudaLoader {
    pub(crate) engine: Arc<Engine>,
    /// NVIDIA's mathematical functions, if they are used.
    pub(crate) libdevice: Option<Arc<Libdevice>>,
    pub(crate) cache: Option<Arc<Cache>>,
    pub(crate) log: Arc<Log>,
    pub(crate) profiler: Arc<Profiler>,
    pub(crate) listeners: Arc<ProgressListeners>,
}

impl fmt::Debug for CudaLoader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaLoader")
            .field("device", self.engine.context().info())
            .finish_non_exhaustive()
    }
}

impl CudaLoader {
    /// Whether kernels can be compiled so.
    pub(crate) fn allows(options: &Options) -> Result<()> {
        match options.deterministic {
            false => Ok(()),
            true => Err(unsupported("a deterministic world")
                .note("threads of a GPU update floats in any order")
                .help("use a world on the CPU")),
        }
    }

    /// A program for a module that can be trusted.
    pub(crate) fn load(
        &self,
        lock: &Arc<DeviceLock>,
        module: Module,
        options: &Options,
    ) -> Result<Program> {
        CudaLoader::allows(options)?;
        let (major, minor) = self.engine.context().info().capability;
        let sm = major * 10 + minor;
        let mut options = options.clone();
        if let (Functions::System, Some(library)) = (&options.functions, &self.libdevice) {
            options.functions = Functions::Libdevice(library.clone());
        }
        let options = options.for_cuda(sm);
        let slot = match self.cache.as_ref().filter(|_| !listens()) {
            None => None,
            Some(cache) => {
                let llvm = wuji_llvm::llvm_version()?;
                let gpu = format!("cuda sm_{sm}, LLVM {llvm}");
                Some(Slot {
                    cache: cache.clone(),
                    key: Key::for_gpu(&module, &options, &gpu),
                })
            }
        };
        if let Some(slot) = &slot
            && let Some(entry) = slot.cache.get(&slot.key, Tier::Best, &self.log)
            && let Some(program) = self.revive(lock, entry)
        {
            return Ok(program);
        }
        self.compile(lock, module, &options, sm, slot)
    }

    /// A program from the cache; `None` when its code cannot be used after all.
    fn revive(&self, lock: &Arc<DeviceLock>, entry: Entry) -> Option<Program> {
        let begin = self.profiler.now();
        let name = entry.launch.name.clone();
        let image = Image::of_object(entry.object)?;
        let bytes = image.bytes();
        let noted = self.profiler.enter(&entry.launch);
        let program = Program::cuda(lock, &self.engine, entry.launch, image, noted.clone());
        let program = program.inspect_err(|why| {
            self.log.say(Level::Info, || {
                let why = &why.message;
                format!("code of `{name}` from the cache does not load: {why}")
            });
        });
        let program = program.ok()?;
        noted.compiled(Compilation {
            tier: Tier::Best,
            cached: true,
            begin,
            time: self.profiler.now().saturating_sub(begin),
            passes: Vec::new(),
            backend: wuji_llvm::Timings::default(),
            bytes,
        });
        self.log.say(Level::Info, || {
            format!("kernel `{name}`: code found in the cache")
        });
        Some(program)
    }

    fn compile(
        &self,
        lock: &Arc<DeviceLock>,
        module: Module,
        options: &Options,
        sm: u32,
        slot: Option<Slot>,
    ) -> Result<Program> {
        let begin = self.profiler.now();
        let name = module.name.clone();
        let mut story = self.listeners.story(&name, PASSES.len(), Tier::Best, false);
        let lowered =
            wuji_compile::compile_telling(module, options, false, &mut |pass| story.pass(pass))?;
        let ptx = wuji_llvm::cuda::ptx(&lowered, sm)?;
        let linking = self.profiler.now();
        let image = Image::new(lowered.module(), &ptx);
        story.machine_code();
        let mut backend = ptx.timings;
        let noted = self.profiler.enter(lowered.module());
        if let Some(slot) = &slot {
            slot.keep(&lowered, &image.object(backend), Tier::Best, &self.log);
        }
        let bytes = image.bytes();
        let launch = lowered.module().clone();
        let program = Program::cuda(lock, &self.engine, launch, image, noted.clone())?;
        let now = self.profiler.now();
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
        self.log.say(Level::Info, || {
            let ms = time.as_secs_f64() * 1e3;
            format!("kernel `{name}`: compiled in {ms:.1} ms")
        });
        Ok(program)
    }
}
