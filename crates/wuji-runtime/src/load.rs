//! Making programs of modules: with code from the cache where there is some, else from the compiler.

use crate::cache::{Cache, Entry, Key};
use crate::cuda::code::Image;
use crate::cuda::engine::Engine;
use crate::cuda::launch::unsupported;
use crate::log::{Level, Log};
use crate::memory::DeviceLock;
use crate::profile::{Compilation, Kernel, Profiler};
use crate::program::Program;
use crate::progress::ProgressListeners;
use crate::tier::{Origin, Remarks, Slot, Tier, TieredCode};
use std::fmt;
use std::sync::Arc;
use wuji_compile::{Functions, Libdevice, Lowered, Options, PASSES};
use wuji_ir::module::{Copies, Module};
use wuji_ir::ops::{Activation, Guard, Op};
use wuji_ir::{Error, Result};
use wuji_llvm::{Jit, Object};

/// What a device loads modules with.
pub(crate) struct Loader {
    pub(crate) jit: Arc<Jit>,
    pub(crate) cache: Option<Arc<Cache>>,
    pub(crate) log: Arc<Log>,
    pub(crate) profiler: Arc<Profiler>,
    pub(crate) tier: Tier,
    pub(crate) threads: u32,
    pub(crate) listeners: Arc<ProgressListeners>,
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader")
            .field("tier", &self.tier)
            .finish_non_exhaustive()
    }
}

impl Loader {
    /// A program for a module that can be trusted, and what became of its loops.
    pub(crate) fn load(
        &self,
        lock: &Arc<DeviceLock>,
        module: Module,
        options: &Options,
    ) -> Result<(Program, Arc<Remarks>)> {
        let mut options = options.clone();
        if options.vector_bits == 0 {
            options.vector_bits = self.jit.vector_bits();
        }
        options.threads = self.threads;
        // When code changes depends on the clock, and so would the last bits.
        let tier = match self.tier {
            Tier::Auto if options.deterministic => Tier::Best,
            tier => tier,
        };
        let slot = self
            .cache
            .as_ref()
            .filter(|_| !listens())
            .map(|cache| Slot {
                cache: cache.clone(),
                key: Key::of(&module, &options, &self.jit),
            });
        let tiers: &[Tier] = match tier {
            Tier::Auto => &[Tier::Best, Tier::Fast],
            Tier::Fast => &[Tier::Fast],
            Tier::Best => &[Tier::Best],
        };
        if let Some(slot) = &slot {
            for found in tiers {
                if let Some(entry) = slot.cache.get(&slot.key, *found, &self.log)
                    && let Some(made) =
                        self.revive(lock, entry, *found, tier, &module, &options, slot)
                {
                    return Ok(made);
                }
            }
        }
        self.compile(lock, module, options, tier, slot)
    }

    /// A program from the cache; `None` when its code cannot be used here after all.
    // Only `load` calls it, with all that it knows.
    #[allow(clippy::too_many_arguments)]
    fn revive(
        &self,
        lock: &Arc<DeviceLock>,
        entry: Entry,
        found: Tier,
        wanted: Tier,
        module: &Module,
        options: &Options,
        slot: &Slot,
    ) -> Option<(Program, Arc<Remarks>)> {
        let begin = self.profiler.now();
        let name = module.name.clone();
        let kernel = self.jit.load(&entry.object);
        let kernel = kernel.inspect_err(|why| {
            self.log.say(Level::Info, || {
                format!(
                    "code of `{name}` from the cache does not load: {}",
                    why.message
                )
            });
        });
        let kernel = kernel.ok()?;
        let noted = self.profiler.enter(&entry.launch);
        noted.compiled(Compilation {
            tier: found,
            cached: true,
            begin,
            time: self.profiler.now().saturating_sub(begin),
            passes: Vec::new(),
            backend: *kernel.timings(),
            bytes: size(&entry.object),
        });
        let (code, remarks) = if wanted == Tier::Auto && found == Tier::Fast {
            let origin = Arc::new(Origin::source(
                module.clone(),
                options.clone(),
                &entry.launch,
                Some(slot.clone()),
            ));
            let remarks = Arc::new(Remarks::later(&origin));
            (
                TieredCode::first(kernel, origin, remarks.clone(), noted.clone()),
                remarks,
            )
        } else {
            let remarks = Arc::new(Remarks::known(entry.remarks));
            (TieredCode::settled(kernel, found), remarks)
        };
        self.log.say(Level::Info, || {
            format!("kernel `{name}`: code found in the cache")
        });
        let mut program = Program::native(lock, entry.launch, code, noted).ok()?;
        program.deterministic = options.deterministic;
        Some((program, remarks))
    }

    fn compile(
        &self,
        lock: &Arc<DeviceLock>,
        module: Module,
        options: Options,
        tier: Tier,
        slot: Option<Slot>,
    ) -> Result<(Program, Arc<Remarks>)> {
        let begin = self.profiler.now();
        let deterministic = options.deterministic;
        let quickly = tier != Tier::Best;
        let first = if quickly { Tier::Fast } else { Tier::Best };
        let name = module.name.clone();
        let mut story = self.listeners.story(&name, PASSES.len(), first, false);
        let lowered = wuji_compile::compile_telling(module, &options, quickly, &mut |pass| {
            story.pass(pass);
        })?;
        let object = self.jit.build_with(&lowered, tier.first_effort())?;
        story.machine_code();
        let kernel = self.jit.load(&object)?;
        let noted = self.profiler.enter(lowered.module());
        let time = self.profiler.now().saturating_sub(begin);
        noted.compiled(Compilation {
            tier: first,
            cached: false,
            begin,
            time,
            passes: lowered.timings().iter().map(|t| (t.pass, t.time)).collect(),
            backend: *kernel.timings(),
            bytes: size(&object),
        });
        let name = &lowered.module().name;
        self.log.say(Level::Info, || {
            let ms = time.as_secs_f64() * 1e3;
            format!("kernel `{name}`: compiled in {ms:.1} ms")
        });
        if let Some(slot) = &slot {
            slot.keep(&lowered, &object, first, &self.log);
        }
        let module = lowered.module().clone();
        let (code, remarks) = match tier {
            Tier::Auto => {
                let origin = Arc::new(Origin::lowered(lowered, slot));
                let remarks = Arc::new(Remarks::later(&origin));
                (
                    TieredCode::first(kernel, origin, remarks.clone(), noted.clone()),
                    remarks,
                )
            }
            Tier::Fast | Tier::Best => {
                let remarks = Arc::new(Remarks::known(lowered.remarks().to_vec()));
                (TieredCode::settled(kernel, tier), remarks)
            }
        };
        let mut program = Program::native(lock, module, code, noted)?;
        program.deterministic = deterministic;
        Ok((program, remarks))
    }
}

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

/// Notes that better code was made, in the profile of its kernel and in the log.
pub(crate) fn note_better(
    (kernel, profiler, log): (&Kernel, &Profiler, &Log),
    begin: std::time::Duration,
    better: &Lowered,
    object: &Object,
    backend: wuji_llvm::Timings,
) {
    let time = profiler.now().saturating_sub(begin);
    kernel.compiled(Compilation {
        tier: Tier::Best,
        cached: false,
        begin,
        time,
        passes: better.timings().iter().map(|t| (t.pass, t.time)).collect(),
        backend,
        bytes: size(object),
    });
    log.say(Level::Info, || {
        let ms = time.as_secs_f64() * 1e3;
        format!(
            "kernel `{}`: better code was made in {ms:.1} ms",
            better.module().name
        )
    });
}

fn size(object: &Object) -> usize {
    object.code.iter().map(Vec::len).sum()
}

/// Whether the environment asks to see the compiler at work: then it has to work.
fn listens() -> bool {
    ["WUJI_PRINT_AFTER", "WUJI_EXPLAIN", "WUJI_PERF", "WUJI_GDB"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|v| !v.is_empty() && v != "0"))
}

/// Whoever wrote a module may have claimed that accesses are inside: here everything is compared
/// again. Accesses by byte offset cannot be, so they are refused.
pub(crate) fn reset_guards(module: &mut Module) -> Result<()> {
    // Only the compiler knows how a list of cells is made.
    if module.tasks.iter().any(|t| t.lists.is_some()) {
        return Err(Error::new(
            "W0128",
            "a module that is loaded makes lists of active cells itself",
        )
        .help("write `foreach ... in f0`; the compiler makes the lists"));
    }
    if module.tasks.iter().any(|t| t.copies != Copies::None) {
        return Err(Error::new(
            "W0128",
            "a module that is loaded uses copies of trees itself",
        )
        .help("write `atomic add f0[i], x`; the compiler decides who has a copy"));
    }
    for f in module.funcs.values_mut() {
        for inst in f.insts.values_mut() {
            if let Some(access) = inst.op.access_mut() {
                access.guard = Guard::Checked;
                if access.activation == Activation::KnownActive {
                    access.activation = Activation::IfAbsent;
                }
            }
            if let Op::MemLoad(..)
            | Op::MemStore(_)
            | Op::MemAtomic(..)
            | Op::MemCompareExchange(_)
            | Op::LoadInterleaved(_)
            | Op::StoreInterleaved(_)
            | Op::AddInterleaved(_)
            | Op::TreeAccess(..) = inst.op
            {
                return Err(Error::new(
                    "W0128",
                    "a module that is loaded accesses memory by byte offset",
                )
                .help("write `load f0[i]`; the compiler turns it into offsets"));
            }
        }
    }
    Ok(())
}
