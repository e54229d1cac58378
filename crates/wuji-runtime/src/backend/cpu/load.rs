//! Making programs of modules: with code from the cache where there is some, else from the compiler.

use crate::backend::cpu::tier::{Origin, Remarks, Slot, Tier, TieredCode};
use crate::cache::{Cache, Entry, Key};
use crate::log::{Level, Log};
use crate::memory::DeviceLock;
use crate::profile::{Compilation, Kernel, Profiler};
use crate::program::Program;
use crate::progress::ProgressListeners;
use std::fmt;
use std::sync::Arc;
use wuji_compile::{Lowered, Options, PASSES};
use wuji_ir::Result;
use wuji_ir::module::Module;
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
pub(crate) fn listens() -> bool {
    ["WUJI_PRINT_AFTER", "WUJI_EXPLAIN", "WUJI_PERF", "WUJI_GDB"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|v| !v.is_empty() && v != "0"))
}
