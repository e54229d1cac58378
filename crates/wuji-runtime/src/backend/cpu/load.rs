//! Loads modules on the CPU: code from the cache, or from the compiler.

use super::program::NativeProgram;
use super::tiered::{Origin, RevivedCode, TieredCode};
use super::versions::CodeVersion;
use crate::backend::{BackendEnv, CodeTime, DeferredExecutable, Loaded};
use crate::cache::{Cache, CacheSlot, Entry, KeptTask};
use crate::flush::Flush;
use crate::interrupt::{self, ROOM_TO_COMPILE};
use crate::log::{Level, Log};
use crate::profile::{Compilation, Kernel, Profiler};
use crate::progress::StepReporter;
use crate::remarks::Remarks;
use crate::stack::with_room;
use crate::tier::Tier;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use wuji_compile::{Lowered, Options, PASSES};
use wuji_ir::Result;
use wuji_ir::module::Module;
use wuji_llvm::{CompiledKernel, Jit, Object};

/// Loads modules for the CPU.
#[derive(Clone)]
pub(crate) struct Loader {
    pub(crate) jit: Arc<Jit>,
    pub(crate) cache: Option<Arc<Cache>>,
    pub(crate) env: BackendEnv,
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader")
            .field("tier", &self.env.tier)
            .finish_non_exhaustive()
    }
}

impl Loader {
    pub(crate) fn load(&self, module: Module, options: &Options, when: CodeTime) -> Result<Loaded> {
        let mut options = options.clone();
        if options.vector_bits == 0 {
            options.vector_bits = self.jit.vector_bits();
        }
        options.fma = self.jit.host().has("fma");
        options.threads = self.env.threads as u32;
        // The time of a tier switch depends on the clock, and so would the last bits.
        let tier = match self.env.tier {
            Tier::Auto if options.deterministic => Tier::Best,
            tier => tier,
        };
        let slot = CacheSlot::of(self.cache.as_ref(), &module, &options, || {
            Ok(self.jit.identity())
        })?;
        let tiers: &[Tier] = match tier {
            Tier::Auto => &[Tier::Best, Tier::Fast],
            Tier::Fast => &[Tier::Fast],
            Tier::Best => &[Tier::Best],
            Tier::Scalar => &[Tier::Scalar],
        };
        if let Some(slot) = &slot {
            for found in tiers {
                if let Some(entry) = slot.cache.get(&slot.key, *found, &self.env.log)
                    && let Some(made) = self.revive(entry, (*found, tier), &module, &options, slot)
                {
                    return Ok(made);
                }
            }
        }
        self.compile(module, options, tier, slot, when)
    }

    /// A program from the cache; `None` if its code cannot be used here.
    fn revive(
        &self,
        entry: Entry,
        (found, wanted): (Tier, Tier),
        module: &Module,
        options: &Options,
        slot: &CacheSlot,
    ) -> Option<Loaded> {
        let begin = self.env.profiler.now();
        let name = module.name.clone();
        let kernel = self.jit.load(&entry.object);
        let kernel = kernel.inspect_err(|why| {
            self.env.log.say(Level::Info, || {
                format!(
                    "code of `{name}` from the cache does not load: {}",
                    why.message
                )
            });
        });
        let kernel = kernel.ok()?;
        let noted = self.env.profiler.enter(&entry.launch);
        noted.compiled(Compilation {
            tier: found,
            cached: true,
            begin,
            time: self.env.profiler.now().saturating_sub(begin),
            passes: Vec::new(),
            backend: *kernel.timings(),
            bytes: size(&entry.object),
        });
        let origin = || {
            Arc::new(Origin::source(
                module.clone(),
                options.clone(),
                &entry.launch,
                Some(slot.clone()),
            ))
        };
        let (code, remarks) = match (wanted, found) {
            (Tier::Auto, Tier::Fast) => {
                let origin = origin();
                let remarks = Arc::new(origin.remarks());
                let code = TieredCode::first(kernel, origin, remarks.clone(), noted.clone());
                (code, remarks)
            }
            (Tier::Auto, _) => {
                let remarks = Arc::new(Remarks::known(entry.remarks.clone()));
                let code = self.with_decisions(kernel, slot);
                let (origin, noted) = (origin(), noted.clone());
                let code = TieredCode::revived(code, &entry.launch, origin, remarks.clone(), noted);
                (code, remarks)
            }
            (Tier::Fast | Tier::Best | Tier::Scalar, _) => {
                let remarks = Arc::new(Remarks::known(entry.remarks));
                (TieredCode::settled(kernel, found), remarks)
            }
        };
        self.env.log.say(Level::Info, || {
            format!("kernel `{name}`: code found in the cache")
        });
        let program = NativeProgram::new(
            &entry.launch,
            code,
            options.deterministic,
            Flush::of(options.math),
        )
        .ok()?;
        Some(program.loaded(entry.launch, noted, remarks))
    }

    /// Adds what earlier processes measured. Decisions whose code is missing count as absent.
    fn with_decisions(&self, best: CompiledKernel, slot: &CacheSlot) -> RevivedCode {
        let count = best.tasks().len();
        let known = slot.cache.get_kept(&slot.key, &self.env.log);
        let mut tasks = known.map_or_else(Vec::new, |k| k.tasks);
        // Decisions about another kernel would have another key.
        tasks.resize_with(count, || None);
        let needs_first = |t: &KeptTask| t.kept.version == CodeVersion::First;
        let fast = if tasks.iter().flatten().any(needs_first) {
            let entry = slot.cache.get(&slot.key, Tier::Fast, &self.env.log);
            let fast = entry.and_then(|entry| self.jit.load(&entry.object).ok());
            fast.filter(|fast| fast.tasks().len() == count)
        } else {
            None
        };
        let mut scalars = Vec::new();
        let mut kept = Vec::new();
        for (number, task) in tasks.into_iter().enumerate() {
            let Some(task) = task else {
                kept.push(None);
                continue;
            };
            let usable = match (task.kept.version, task.scalar) {
                (CodeVersion::Better, _) => true,
                (CodeVersion::First, _) => fast.is_some(),
                (CodeVersion::Scalar, None) => false,
                (CodeVersion::Scalar, Some(object)) => match self.jit.load(&object) {
                    Ok(code) => {
                        scalars.push((number, object, code));
                        true
                    }
                    Err(_) => false,
                },
            };
            kept.push(usable.then_some(task.kept));
        }
        RevivedCode {
            best,
            fast,
            kept,
            scalars,
        }
    }

    /// Runs the passes. Machine code is made at the time `when`.
    fn compile(
        &self,
        module: Module,
        options: Options,
        tier: Tier,
        slot: Option<CacheSlot>,
        when: CodeTime,
    ) -> Result<Loaded> {
        let begin = self.env.profiler.now();
        let deterministic = options.deterministic;
        let flush = Flush::of(options.math);
        let quickly = tier != Tier::Best;
        let name = module.name.clone();
        let mut reporter = self.reporter(&name, tier);
        let lowered = with_room(ROOM_TO_COMPILE, || {
            wuji_compile::compile_with_progress(module, &options, quickly, &mut |pass| {
                reporter.pass(pass);
            })
        })??;
        let lowered = Arc::new(lowered);
        let noted = self.env.profiler.enter(lowered.module());
        let origin = Arc::new(Origin::lowered(lowered.clone(), slot.clone()));
        let remarks = Arc::new(match tier {
            Tier::Auto => origin.remarks(),
            Tier::Fast | Tier::Best | Tier::Scalar => Remarks::known(lowered.remarks().to_vec()),
        });
        let module = lowered.module().clone();
        let first = FirstCode {
            loader: self.clone(),
            lowered,
            origin,
            tier,
            slot,
            noted: noted.clone(),
            remarks: remarks.clone(),
            passes: (begin, self.env.profiler.now().saturating_sub(begin)),
        };
        let executable = DeferredExecutable::new(when, move || {
            let code = first.make()?;
            NativeProgram::new(first.lowered.module(), code, deterministic, flush)
        })?;
        Ok(Loaded {
            kernel: Some(noted),
            remarks: Some(remarks),
            ..Loaded::new(module, executable)
        })
    }

    fn reporter<'a>(&self, name: &'a str, tier: Tier) -> StepReporter<'a> {
        let listeners = &self.env.listeners;
        listeners.reporter(name, PASSES.len(), first_tier(tier), false)
    }
}

/// Makes the first machine code of a lowered module.
struct FirstCode {
    loader: Loader,
    lowered: Arc<Lowered>,
    /// What better code is made from.
    origin: Arc<Origin>,
    tier: Tier,
    slot: Option<CacheSlot>,
    noted: Arc<Kernel>,
    remarks: Arc<Remarks>,
    /// When its passes began, and how long they took.
    passes: (Duration, Duration),
}

impl FirstCode {
    fn make(&self) -> Result<TieredCode> {
        let Loader { jit, env, .. } = &self.loader;
        let begin = env.profiler.now();
        let lowered = &*self.lowered;
        let name = &lowered.module().name;
        let first = first_tier(self.tier);
        interrupt::check()?;
        let cancelled = interrupt::cancellation();
        let stopped = || cancelled.is_set();
        let effort = self.tier.first_effort();
        let object = match first {
            Tier::Best => jit.build_unless(lowered, effort, &stopped)?,
            Tier::Fast | Tier::Auto | Tier::Scalar => {
                let code = wuji_compile::first_code(lowered);
                jit.build_unless(&code, effort, &stopped)?
            }
        };
        self.loader.reporter(name, self.tier).machine_code();
        let kernel = jit.load(&object)?;
        let time = env.profiler.now().saturating_sub(begin) + self.passes.1;
        self.noted.compiled(Compilation {
            tier: first,
            cached: false,
            begin: self.passes.0,
            time,
            passes: lowered.timings().iter().map(|t| (t.pass, t.time)).collect(),
            backend: *kernel.timings(),
            bytes: size(&object),
        });
        env.log.say(Level::Info, || {
            let ms = time.as_secs_f64() * 1e3;
            format!("kernel `{name}`: compiled in {ms:.1} ms")
        });
        if let Some(slot) = &self.slot {
            slot.keep(lowered, &object, first, &env.log);
        }
        Ok(match self.tier {
            Tier::Auto => TieredCode::first(
                kernel,
                self.origin.clone(),
                self.remarks.clone(),
                self.noted.clone(),
            ),
            tier @ (Tier::Fast | Tier::Best | Tier::Scalar) => TieredCode::settled(kernel, tier),
        })
    }
}

/// The tier of the first code of a program.
fn first_tier(tier: Tier) -> Tier {
    match tier {
        Tier::Auto | Tier::Fast => Tier::Fast,
        Tier::Best => Tier::Best,
        Tier::Scalar => Tier::Scalar,
    }
}

/// Records a best-tier compilation in the profile of its kernel and in the log.
pub(crate) fn note_better(
    (kernel, profiler, log): (&Kernel, &Profiler, &Log),
    begin: Duration,
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
            "kernel `{}`: compiled for the best tier in {ms:.1} ms",
            better.module().name
        )
    });
}

pub(crate) fn size(object: &Object) -> usize {
    object.code.iter().map(Vec::len).sum()
}
