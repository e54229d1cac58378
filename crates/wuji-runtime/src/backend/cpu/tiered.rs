//! Code in tiers: a fast compilation first, and the best code once a kernel is hot.
//!
//! A kernel is *hot* when it has run for as long as its first compilation took: such kernels gain from better code, and
//! others do not pay for it. A background thread compiles the best tier while the first one runs. Both have the same
//! effect on memory, so the switch can happen between two chunks of a loop: a single long launch speeds up while it
//! runs. Better code must prove itself: [`super::versions`] keeps the faster version of each task.

use super::versions::{CodeVersion, KeptVersion, Measurement, NextStep, Versions};
use crate::cache::{CacheSlot, KeptEntry, KeptTask};
use crate::profile::Kernel;
use crate::remarks::Remarks;
use crate::tier::Tier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wuji_compile::{FIRST_PASSES, LATE_PASSES, Lowered, Options, Remark};
use wuji_ir::module::Module;
use wuji_ir::{Error, Result};
use wuji_llvm::{CompiledKernel, CompiledTask, Object};

/// The input of a best-tier compilation, and its cache slot.
#[derive(Debug)]
pub(crate) struct Origin {
    made_from: MadeFrom,
    pub(super) slot: Option<CacheSlot>,
}

// One per cold kernel: its size does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
enum MadeFrom {
    Lowered(Arc<Lowered>),
    /// The first tier was cached, so nothing was lowered; also the launch plan of that code, as text.
    Source(Module, Options, String),
}

impl Origin {
    pub(crate) fn lowered(lowered: Arc<Lowered>, slot: Option<CacheSlot>) -> Origin {
        Origin {
            made_from: MadeFrom::Lowered(lowered),
            slot,
        }
    }

    pub(crate) fn source(
        module: Module,
        options: Options,
        launch: &Module,
        slot: Option<CacheSlot>,
    ) -> Origin {
        Origin {
            made_from: MadeFrom::Source(module, options, launch.to_string()),
            slot,
        }
    }

    /// Remarks about the best tier. Its passes run on demand.
    pub(crate) fn remarks(self: &Arc<Origin>) -> Remarks {
        let origin = Arc::downgrade(self);
        Remarks::later(move || {
            let better = origin.upgrade()?.improve(&mut |_| {}).ok()?;
            Some(better.remarks().to_vec())
        })
    }

    /// The name of the kernel, and the number of passes that remain.
    pub(super) fn work(&self) -> (&str, usize) {
        match &self.made_from {
            MadeFrom::Lowered(lowered) => (&lowered.module().name, LATE_PASSES),
            MadeFrom::Source(module, ..) => (&module.name, FIRST_PASSES + LATE_PASSES),
        }
    }

    /// Runs the remaining passes, and calls `progress` after each.
    pub(super) fn improve(&self, progress: &mut dyn FnMut(&'static str)) -> Result<Lowered> {
        let lowered = self.lower(progress)?;
        wuji_compile::improve(&lowered, progress)
    }

    /// The kernel after the passes of the first tier.
    pub(super) fn lower(&self, progress: &mut dyn FnMut(&'static str)) -> Result<Arc<Lowered>> {
        match &self.made_from {
            MadeFrom::Lowered(lowered) => Ok(lowered.clone()),
            MadeFrom::Source(module, options, launch) => {
                let lowered =
                    wuji_compile::compile_with_progress(module.clone(), options, true, progress)?;
                if lowered.module().without_bodies().to_string() != *launch {
                    return Err(Error::new(
                        "W0302",
                        "a cached kernel has a different launch plan than the same kernel compiled",
                    )
                    .note("this is a bug in the compiler, not in the kernel")
                    .help("`wuji cache clear` removes what is cached"));
                }
                Ok(Arc::new(lowered))
            }
        }
    }
}

/// Bounds on the run time after which a kernel is hot.
const HOT_AT_LEAST: Duration = Duration::from_millis(1);
const HOT_AT_MOST: Duration = Duration::from_millis(250);

/// The machine code of a kernel, which may be replaced by better code at any time.
#[derive(Debug)]
pub(crate) struct TieredCode {
    first: CompiledKernel,
    first_tier: Tier,
    /// Code of the best tier from the cache, if `first` is something else.
    best: Option<CompiledKernel>,
    /// Whether all tasks have code of the best tier.
    is_best: AtomicBool,
    pub(super) versions: Versions,
    /// What other versions are compiled from; `None` when no more are needed.
    origin: Mutex<Option<Arc<Origin>>>,
    /// Scalar code that is used or tried, for the cache.
    scalars: Mutex<Vec<(usize, Object)>>,
    /// Whether launches read the clock: the code is the first tier, and the best tier is not being compiled.
    watched: AtomicBool,
    /// Nanoseconds spent in the first tier.
    spent: AtomicU64,
    hot_after: u64,
    /// Whether there is an error that no call has returned yet.
    failed: AtomicBool,
    progress: Mutex<TierState>,
    pub(super) changed: Condvar,
    pub(super) remarks: Option<Arc<Remarks>>,
    pub(super) kernel: Option<Arc<Kernel>>,
}

/// Whether each task of a module is vectorized.
pub(super) fn vectorized(module: &Module, remarks: &[Remark]) -> Vec<bool> {
    let is_vector = |name: &str| remarks.iter().any(|r| r.is_vector() && r.task == name);
    module.tasks.iter().map(|t| is_vector(&t.name)).collect()
}

/// Code of the best tier from the cache, and what earlier processes measured.
#[derive(Debug)]
pub(crate) struct RevivedCode {
    pub(crate) best: CompiledKernel,
    /// First code, if a task needs it.
    pub(crate) fast: Option<CompiledKernel>,
    pub(crate) kept: Vec<Option<KeptVersion>>,
    /// Scalar code of tasks.
    pub(crate) scalars: Vec<(usize, Object, CompiledKernel)>,
}

#[derive(Debug)]
pub(super) enum TierState {
    /// Can be compiled from this.
    Cold(Arc<Origin>),
    Waiting(Arc<Origin>),
    Compiling,
    /// The current code is final.
    Settled,
    Failed(Error),
}

impl TieredCode {
    /// Code that is final.
    pub(crate) fn settled(code: CompiledKernel, tier: Tier) -> TieredCode {
        TieredCode::new(code, tier, TierState::Settled)
    }

    /// First-tier code, which may be replaced.
    pub(crate) fn first(
        code: CompiledKernel,
        origin: Arc<Origin>,
        remarks: Arc<Remarks>,
        kernel: Arc<Kernel>,
    ) -> TieredCode {
        let cold = TierState::Cold(origin.clone());
        TieredCode {
            versions: Versions::new(code.tasks().len(), true),
            origin: Mutex::new(Some(origin)),
            remarks: Some(remarks),
            kernel: Some(kernel),
            ..TieredCode::new(code, Tier::Fast, cold)
        }
    }

    /// Code of the best tier from the cache. Where nothing was measured, scalar code is tried when the kernel is hot.
    pub(crate) fn revived(
        code: RevivedCode,
        launch: &Module,
        origin: Arc<Origin>,
        remarks: Arc<Remarks>,
        kernel: Arc<Kernel>,
    ) -> TieredCode {
        let vectorized = vectorized(launch, &remarks.get());
        let (first, best) = match code.fast {
            Some(fast) => (fast, Some(code.best)),
            None => (code.best, None),
        };
        let revived = TieredCode {
            best,
            hot_after: HOT_AT_MOST.as_nanos() as u64,
            remarks: Some(remarks),
            kernel: Some(kernel),
            ..TieredCode::new(first, Tier::Best, TierState::Settled)
        };
        for (task, object, code) in code.scalars {
            revived.versions.set_scalar(task, code);
            revived.add_scalar(task, object);
        }
        let is_vectorized = |task: usize| vectorized.get(task).copied().unwrap_or(false);
        if revived.versions.revive(&code.kept, is_vectorized) {
            revived.watched.store(true, Ordering::Relaxed);
            *lock(&revived.origin) = Some(origin);
        }
        for task in 0..code.kept.len() {
            revived.remark(task);
        }
        revived
    }

    fn new(first: CompiledKernel, first_tier: Tier, progress: TierState) -> TieredCode {
        let took = first.timings().total.clamp(HOT_AT_LEAST, HOT_AT_MOST);
        TieredCode {
            versions: Versions::new(first.tasks().len(), false),
            first,
            first_tier,
            best: None,
            is_best: AtomicBool::new(false),
            origin: Mutex::default(),
            scalars: Mutex::default(),
            watched: AtomicBool::new(matches!(progress, TierState::Cold(_))),
            spent: AtomicU64::new(0),
            hot_after: took.as_nanos() as u64,
            failed: AtomicBool::new(false),
            progress: Mutex::new(progress),
            changed: Condvar::new(),
            remarks: None,
            kernel: None,
        }
    }

    /// The code that the kernel started with.
    pub(crate) fn first_code(&self) -> &CompiledKernel {
        self.best.as_ref().unwrap_or(&self.first)
    }

    /// The tier of the current code.
    pub(crate) fn tier(&self) -> Tier {
        if self.is_best.load(Ordering::Acquire) {
            Tier::Best
        } else {
            self.first_tier
        }
    }

    /// The newest code of a task.
    pub(crate) fn task(&self, index: usize) -> Option<CompiledTask> {
        self.task_of(self.versions.newest(index), index)
    }

    fn task_of(&self, version: CodeVersion, index: usize) -> Option<CompiledTask> {
        match version {
            CodeVersion::First => self.first.task(index),
            CodeVersion::Better => {
                let better = self.versions.better(index);
                better.or_else(|| self.first_code().task(index))
            }
            CodeVersion::Scalar => self.versions.scalar(index),
        }
    }

    /// The code for a chunk with this many units, or for a `whole` task, and how it is measured.
    pub(crate) fn choose(
        &self,
        index: usize,
        units: u64,
        whole: bool,
    ) -> (Option<CompiledTask>, Option<Measurement>) {
        let (version, measurement) = self.versions.choose(index, units, whole);
        (self.task_of(version, index), measurement)
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// Whether the kernel would be hot after running this much longer.
    pub(crate) fn hot_after(&self, more: Duration) -> bool {
        self.spent.load(Ordering::Relaxed) + more.as_nanos() as u64 >= self.hot_after
    }

    pub(crate) fn add_spent(&self, time: Duration) {
        self.spent
            .fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// The error of the best-tier compilation; returned once.
    pub(crate) fn take_error(&self) -> Option<Error> {
        if !self.failed.load(Ordering::Relaxed) || !self.failed.swap(false, Ordering::AcqRel) {
            return None;
        }
        match &*self.progress() {
            TierState::Failed(error) => Some(error.clone()),
            TierState::Cold(_)
            | TierState::Waiting(_)
            | TierState::Compiling
            | TierState::Settled => None,
        }
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, TierState> {
        lock(&self.progress)
    }

    /// The compilation that the caller should request.
    pub(super) fn ask(&self) -> Option<NextStep> {
        self.watched.store(false, Ordering::Relaxed);
        let mut progress = self.progress();
        match std::mem::replace(&mut *progress, TierState::Settled) {
            TierState::Cold(origin) => {
                *progress = TierState::Waiting(origin);
                Some(NextStep::CompileBetter)
            }
            other => {
                *progress = other;
                let revived = lock(&self.origin).is_some();
                (revived && self.versions.ask_for_scalar()).then_some(NextStep::CompileScalar)
            }
        }
    }

    /// Starts the compilation; returns its input.
    pub(super) fn begin(&self) -> Option<Arc<Origin>> {
        let mut progress = self.progress();
        match std::mem::replace(&mut *progress, TierState::Compiling) {
            TierState::Waiting(origin) => Some(origin),
            other => {
                *progress = other;
                None
            }
        }
    }

    pub(super) fn end(&self, made: Result<()>) {
        let outcome = match made {
            Ok(()) => {
                self.is_best.store(true, Ordering::Release);
                TierState::Settled
            }
            Err(error) => TierState::Failed(
                error.note("the kernel continues with its current code, which is slower"),
            ),
        };
        let failed = matches!(outcome, TierState::Failed(_));
        if failed {
            self.versions.settle();
        }
        *self.progress() = outcome;
        self.failed.store(failed, Ordering::Release);
        self.changed.notify_all();
    }

    /// What other versions are compiled from.
    pub(super) fn origin(&self) -> Option<Arc<Origin>> {
        lock(&self.origin).clone()
    }

    /// Notes scalar code for the cache.
    pub(super) fn add_scalar(&self, task: usize, object: Object) {
        lock(&self.scalars).push((task, object));
    }

    /// The remark about the version of a task that is kept, which `explain` shows from now on.
    pub(super) fn remark(&self, task: usize) -> Option<Remark> {
        let (kept, vectorized) = self.versions.kept().into_iter().nth(task)?;
        let decision = kept?.remark(vectorized)?;
        let (name, at) = self.kernel.as_ref()?.task(task as u32);
        let remark = Remark {
            task: name.to_owned(),
            at: at.cloned(),
            decision,
        };
        if let Some(remarks) = &self.remarks {
            remarks.add_measured(remark.clone());
        }
        Some(remark)
    }

    /// All decisions, for the cache.
    pub(super) fn decisions(&self) -> KeptEntry {
        let scalars = lock(&self.scalars);
        let code_of = |task: usize| {
            let found = scalars.iter().find(|(number, _)| *number == task);
            found.map(|(_, object)| object.clone())
        };
        let kept = self.versions.kept().into_iter().enumerate();
        let tasks = kept.map(|(task, (kept, _))| {
            let kept = kept?;
            let scalar = match kept.version {
                CodeVersion::Scalar => Some(code_of(task)?),
                CodeVersion::First | CodeVersion::Better => None,
            };
            Some(KeptTask { kept, scalar })
        });
        KeptEntry {
            tasks: tasks.collect(),
        }
    }

    /// Frees what only compilations and the cache need, once all is decided.
    pub(super) fn release_origin(&self) {
        if self.versions.is_final() {
            *lock(&self.origin) = None;
            lock(&self.scalars).clear();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
