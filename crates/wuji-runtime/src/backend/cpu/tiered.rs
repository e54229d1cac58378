//! Code in two tiers: a fast compilation first, and the best code once a kernel is hot.
//!
//! A kernel is *hot* when it has run for as long as its first compilation took: such kernels gain from better code, and
//! others do not pay for it. A background thread compiles the best tier while the first one runs. Both have the same
//! effect on memory, so the switch can happen between two chunks of a loop: a single long launch speeds up while it
//! runs.

use super::load::note_better;
use super::pool::forks;
use crate::backend::BackendEnv;
use crate::cache::CacheSlot;
use crate::interrupt;
use crate::log::Log;
use crate::profile::{Kernel, Profiler};
use crate::progress::ProgressListeners;
use crate::remarks::Remarks;
use crate::tier::Tier;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use wuji_compile::{FIRST_PASSES, LATE_PASSES, Lowered, Options};
use wuji_ir::module::Module;
use wuji_ir::{Error, Result};
use wuji_llvm::abi::TaskFn;
use wuji_llvm::{CompiledKernel, Effort, Jit, is_exiting};

/// The input of a best-tier compilation, and its cache slot.
#[derive(Debug)]
pub(crate) struct Origin {
    made_from: MadeFrom,
    slot: Option<CacheSlot>,
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
    fn work(&self) -> (&str, usize) {
        match &self.made_from {
            MadeFrom::Lowered(lowered) => (&lowered.module().name, LATE_PASSES),
            MadeFrom::Source(module, ..) => (&module.name, FIRST_PASSES + LATE_PASSES),
        }
    }

    /// Runs the remaining passes, and calls `progress` after each.
    fn improve(&self, progress: &mut dyn FnMut(&'static str)) -> Result<Lowered> {
        match &self.made_from {
            MadeFrom::Lowered(lowered) => wuji_compile::improve(lowered, progress),
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
                wuji_compile::improve(&lowered, progress)
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
    better: OnceLock<CompiledKernel>,
    /// Whether launches read the clock: the code is the first tier, and the best tier is not being compiled.
    watched: AtomicBool,
    /// Nanoseconds spent in the first tier.
    spent: AtomicU64,
    hot_after: u64,
    /// Whether there is an error that no call has returned yet.
    failed: AtomicBool,
    progress: Mutex<TierState>,
    changed: Condvar,
    remarks: Option<Arc<Remarks>>,
    kernel: Option<Arc<Kernel>>,
}

#[derive(Debug)]
enum TierState {
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
        TieredCode::new(code, tier, TierState::Settled, None, None)
    }

    /// First-tier code, which may be replaced.
    pub(crate) fn first(
        code: CompiledKernel,
        origin: Arc<Origin>,
        remarks: Arc<Remarks>,
        kernel: Arc<Kernel>,
    ) -> TieredCode {
        let cold = TierState::Cold(origin);
        TieredCode::new(code, Tier::Fast, cold, Some(remarks), Some(kernel))
    }

    fn new(
        first: CompiledKernel,
        first_tier: Tier,
        progress: TierState,
        remarks: Option<Arc<Remarks>>,
        kernel: Option<Arc<Kernel>>,
    ) -> TieredCode {
        let took = first.timings().total.clamp(HOT_AT_LEAST, HOT_AT_MOST);
        TieredCode {
            first,
            first_tier,
            better: OnceLock::new(),
            watched: AtomicBool::new(matches!(progress, TierState::Cold(_))),
            spent: AtomicU64::new(0),
            hot_after: took.as_nanos() as u64,
            failed: AtomicBool::new(false),
            progress: Mutex::new(progress),
            changed: Condvar::new(),
            remarks,
            kernel,
        }
    }

    /// The best code available now.
    pub(crate) fn now(&self) -> &CompiledKernel {
        self.better.get().unwrap_or(&self.first)
    }

    /// The tier of the current code.
    pub(crate) fn tier(&self) -> Tier {
        match self.better.get() {
            Some(_) => Tier::Best,
            None => self.first_tier,
        }
    }

    pub(crate) fn task(&self, index: usize) -> Option<TaskFn> {
        self.now().task(index)
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

    fn progress(&self) -> MutexGuard<'_, TierState> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the caller should request the compilation.
    fn ask(&self) -> bool {
        self.watched.store(false, Ordering::Relaxed);
        let mut progress = self.progress();
        match std::mem::replace(&mut *progress, TierState::Settled) {
            TierState::Cold(origin) => {
                *progress = TierState::Waiting(origin);
                true
            }
            other => {
                *progress = other;
                false
            }
        }
    }

    /// Starts the compilation; returns its input.
    fn begin(&self) -> Option<Arc<Origin>> {
        let mut progress = self.progress();
        match std::mem::replace(&mut *progress, TierState::Compiling) {
            TierState::Waiting(origin) => Some(origin),
            other => {
                *progress = other;
                None
            }
        }
    }

    fn end(&self, made: Result<CompiledKernel>) {
        let outcome = match made {
            Ok(code) => {
                // Only the thread that began gets here, and only once.
                let _ = self.better.set(code);
                TierState::Settled
            }
            Err(error) => TierState::Failed(
                error.note("the kernel continues with its current code, which is slower"),
            ),
        };
        let failed = matches!(outcome, TierState::Failed(_));
        *self.progress() = outcome;
        self.failed.store(failed, Ordering::Release);
        self.changed.notify_all();
    }
}

/// Compiles the best tier for the hot kernels of a device, on a thread that exists while the queue is not empty.
#[derive(Debug)]
pub(crate) struct Background {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    jit: Arc<Jit>,
    profiler: Arc<Profiler>,
    log: Arc<Log>,
    listeners: Arc<ProgressListeners>,
    queue: Mutex<Queue>,
    /// The device was dropped: no launch uses the code any more.
    closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Weak<TieredCode>>,
    /// Set while a thread serves the queue: the number of forks when it started.
    served: Option<u32>,
}

impl Background {
    pub(crate) fn new(jit: Arc<Jit>, env: &BackendEnv) -> Background {
        Background {
            shared: Arc::new(Shared {
                jit,
                profiler: env.profiler.clone(),
                log: env.log.clone(),
                listeners: env.listeners.clone(),
                queue: Mutex::default(),
                closed: AtomicBool::new(false),
            }),
        }
    }

    /// Queues a kernel for better code, unless it was queued before.
    pub(crate) fn ask(&self, code: &Arc<TieredCode>) {
        if code.ask() {
            self.shared.queue().jobs.push_back(Arc::downgrade(code));
            self.start();
        }
    }

    /// Starts the thread that serves the queue, if there is none.
    fn start(&self) {
        let mut queue = self.shared.queue();
        // A thread of the parent process does not exist here.
        if queue.served == Some(forks()) || queue.jobs.is_empty() {
            return;
        }
        queue.served = Some(forks());
        drop(queue);
        let shared = self.shared.clone();
        let started = std::thread::Builder::new()
            .name("wuji-tier-up".into())
            .spawn(move || shared.serve());
        if let Err(e) = started {
            let why = Error::new("W0507", "cannot start a compiler thread").note(e.to_string());
            let mut queue = self.shared.queue();
            queue.served = None;
            let jobs: Vec<Weak<TieredCode>> = queue.jobs.drain(..).collect();
            drop(queue);
            for code in jobs.iter().filter_map(Weak::upgrade) {
                if code.begin().is_some() {
                    code.end(Err(why.clone()));
                }
            }
        }
    }

    /// Requests the best tier for a kernel, hot or not, and waits for it.
    pub(crate) fn finish(&self, code: &Arc<TieredCode>) -> Result<()> {
        self.ask(code);
        let forked = forks();
        let mut progress = code.progress();
        loop {
            match &*progress {
                TierState::Settled => return Ok(()),
                TierState::Failed(_) => {
                    drop(progress);
                    return code.take_error().map_or(Ok(()), Err);
                }
                TierState::Compiling if self.shared.queue().served != Some(forked) => {
                    return Err(Error::new(
                        "W0509",
                        "this process was forked while its parent compiled a kernel",
                    )
                    .help("make a new world after the fork"));
                }
                TierState::Cold(_) | TierState::Waiting(_) | TierState::Compiling => {}
            }
            drop(progress);
            self.start();
            progress = code.progress();
            if matches!(*progress, TierState::Waiting(_) | TierState::Compiling) {
                // No thread wakes us in a forked process, so we poll.
                let waited = code
                    .changed
                    .wait_timeout(progress, Duration::from_millis(100));
                progress = waited.unwrap_or_else(PoisonError::into_inner).0;
                drop(progress);
                interrupt::check()?;
                progress = code.progress();
            }
        }
    }
}

impl Background {
    /// No better code is made from now on.
    pub(crate) fn close(&self) {
        self.shared.closed.store(true, Ordering::Relaxed);
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        while let Some(code) = self.next() {
            if let Some(origin) = code.begin() {
                let made = catch_unwind(AssertUnwindSafe(|| self.compile(&code, &origin)));
                let panicked = || Err(Error::new("W0507", "a compiler thread has panicked"));
                code.end(made.unwrap_or_else(|_| panicked()));
            }
        }
    }

    /// The next kernel that still exists; with none left, the thread ends.
    fn next(&self) -> Option<Arc<TieredCode>> {
        let mut queue = self.queue();
        while !self.is_stopped() {
            match queue.jobs.pop_front() {
                Some(job) => {
                    if let Some(code) = job.upgrade() {
                        return Some(code);
                    }
                }
                None => break,
            }
        }
        queue.served = None;
        None
    }

    fn is_stopped(&self) -> bool {
        self.closed.load(Ordering::Relaxed) || is_exiting()
    }

    fn compile(&self, code: &TieredCode, origin: &Origin) -> Result<CompiledKernel> {
        let begin = self.profiler.now();
        let (name, passes) = origin.work();
        let mut reporter = self.listeners.reporter(name, passes, Tier::Best, true);
        let better = origin.improve(&mut |pass| reporter.pass(pass))?;
        if let Some(remarks) = &code.remarks {
            remarks.set(better.remarks());
        }
        let stopped = || self.is_stopped();
        let object = self
            .jit
            .build_in_background(&better, Effort::Full, &stopped)?;
        reporter.machine_code();
        let made = self.jit.load(&object)?;
        if let Some(kernel) = &code.kernel {
            let noted_by = (&**kernel, &*self.profiler, &*self.log);
            note_better(noted_by, begin, &better, &object, *made.timings());
        }
        if let Some(slot) = &origin.slot {
            slot.keep(&better, &object, Tier::Best, &self.log);
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::DeviceOptions;
    use wuji_llvm::JitOptions;

    fn code(jit: &Jit) -> Arc<TieredCode> {
        let text = "tree T0 { dense S1 [i: 4] { place f0 } }\nfield f0 \"x\": i32 in T0.S1 (i)\nkernel fn0 \"m\"() {\nreturn\n}\n";
        let module = wuji_ir::text::parse(text, "m.wir").unwrap();
        let lowered = wuji_compile::compile(module, &wuji_compile::Options::default()).unwrap();
        let kernel = jit.compile_with(&lowered, Effort::Fast).unwrap();
        let noted = Profiler::new().enter(lowered.module());
        let origin = Arc::new(Origin::lowered(Arc::new(lowered), None));
        let remarks = Arc::new(origin.remarks());
        Arc::new(TieredCode::first(kernel, origin, remarks, noted))
    }

    fn background_of(jit: &Arc<Jit>) -> Background {
        let env = BackendEnv::new(&DeviceOptions::default()).unwrap();
        Background::new(jit.clone(), &env)
    }

    #[test]
    fn an_error_is_returned_once_and_the_code_stays() {
        let jit = Arc::new(Jit::new(&JitOptions::default()).unwrap());
        let background = background_of(&jit);
        let code = code(&jit);
        assert!(code.ask() && !code.ask());
        assert!(code.begin().is_some() && code.begin().is_none());
        code.end(Err(Error::new(
            "W0503",
            "LLVM could not compile the kernel",
        )));
        let reported = background.finish(&code).unwrap_err();
        assert_eq!(reported.code, "W0503");
        assert!(reported.notes[0].contains("continues with its current code"));
        assert!(code.take_error().is_none() && background.finish(&code).is_ok());
        assert_eq!(code.tier(), Tier::Fast);
    }

    #[test]
    fn the_best_tier_is_compiled_once() {
        let jit = Arc::new(Jit::new(&JitOptions::default()).unwrap());
        let background = background_of(&jit);
        let code = code(&jit);
        assert!(code.is_watched() && code.tier() == Tier::Fast);
        background.finish(&code).unwrap();
        assert!(!code.is_watched() && code.tier() == Tier::Best);
        background.ask(&code);
        background.finish(&code).unwrap();
        // The thread ends when the queue is empty.
        while background.shared.queue().served.is_some() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn kernels_are_hot_after_the_time_of_the_first_compilation() {
        let jit = Jit::new(&JitOptions::default()).unwrap();
        let code = code(&jit);
        assert!(!code.hot_after(Duration::ZERO));
        assert!(code.hot_after(HOT_AT_MOST));
        code.add_spent(HOT_AT_MOST);
        assert!(code.hot_after(Duration::ZERO));
    }

    #[test]
    fn dropped_kernels_are_not_compiled() {
        let jit = Arc::new(Jit::new(&JitOptions::default()).unwrap());
        let background = background_of(&jit);
        let gone = code(&jit);
        assert!(gone.ask());
        background
            .shared
            .queue()
            .jobs
            .push_back(Arc::downgrade(&gone));
        drop(gone);
        let code = code(&jit);
        background.finish(&code).unwrap();
        assert_eq!(code.tier(), Tier::Best);
    }
}
