//! Code in two tiers: some soon, good code once a kernel proves hot.
//!
//! A kernel is *hot* when it has run for as long as it took to make its first code: whoever waits that
//! long anyway gains by better code, and whoever does not never pays for it. Better code is made by another
//! thread while the first runs on. Both do the same to the same memory, so they change places between two
//! chunks of a loop: one long launch speeds up on its way.

use crate::pool::forks;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, OnceLock, PoisonError, Weak};
use std::time::Duration;
use wuji_compile::{Lowered, Remark};
use wuji_ir::{Error, Result};
use wuji_llvm::abi::TaskFn;
use wuji_llvm::{CompiledKernel, Effort, Jit};

/// How good the code of kernels is, and how soon it is there.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Tier {
    /// Kernels start with code that is made quickly. Once one has run for as long as making that took, better code
    /// is made in the background and used as soon as it is there.
    #[default]
    Auto,
    /// Code that is made quickly, and no other.
    Fast,
    /// The best code from the first launch on, which waits for it.
    Best,
}

impl Tier {
    /// In place of `Auto`, what the environment variable `WUJI_TIER` asks for: `auto`, `fast` or `best`.
    pub(crate) fn or_asked(self) -> Result<Tier> {
        let Some(asked) = std::env::var_os("WUJI_TIER").filter(|_| self == Tier::Auto) else {
            return Ok(self);
        };
        match asked.to_str() {
            Some("" | "auto") => Ok(Tier::Auto),
            Some("fast") => Ok(Tier::Fast),
            Some("best") => Ok(Tier::Best),
            _ => Err(
                Error::new("W0115", format!("WUJI_TIER is {asked:?}, which is no tier"))
                    .help("the tiers are `auto`, `fast` and `best`"),
            ),
        }
    }

    /// What kernels are compiled with when they are first launched.
    pub(crate) fn first_effort(self) -> Effort {
        match self {
            Tier::Auto | Tier::Fast => Effort::Fast,
            Tier::Best => Effort::Full,
        }
    }
}

/// What became of the parallel loops of a kernel, as soon as that is known.
#[derive(Debug)]
pub(crate) struct Remarks {
    known: OnceLock<Vec<Remark>>,
    lowered: Weak<Lowered>,
}

impl Remarks {
    pub(crate) fn of(lowered: &Arc<Lowered>, tier: Tier) -> Remarks {
        let known = OnceLock::new();
        if tier == Tier::Best {
            // It is new.
            let _ = known.set(lowered.remarks().to_vec());
        }
        Remarks {
            known,
            lowered: Arc::downgrade(lowered),
        }
    }

    /// The remarks; the passes that make them run for it when they have not yet.
    pub(crate) fn get(&self) -> Vec<Remark> {
        let find = || {
            let lowered = self.lowered.upgrade()?;
            wuji_compile::improve(&lowered).ok()
        };
        if self.known.get().is_none()
            && let Some(better) = find()
        {
            self.set(&better);
        }
        self.known.get().cloned().unwrap_or_default()
    }

    fn set(&self, better: &Lowered) {
        // Whoever comes second has found the same.
        let _ = self.known.set(better.remarks().to_vec());
    }
}

/// Kernels are never hot before they have run this long, nor cold after the other.
const HOT_AT_LEAST: Duration = Duration::from_millis(1);
const HOT_AT_MOST: Duration = Duration::from_millis(250);

/// The machine code of a kernel, which may be exchanged for better code at any time.
#[derive(Debug)]
pub(crate) struct TieredCode {
    first: CompiledKernel,
    first_tier: Tier,
    better: OnceLock<CompiledKernel>,
    /// Whether launches look at the clock: the code is the first, and nobody works on better.
    watched: AtomicBool,
    /// Nanoseconds in the first code.
    spent: AtomicU64,
    hot_after: u64,
    /// Whether there is an error that nobody was told.
    failed: AtomicBool,
    progress: Mutex<Progress>,
    changed: Condvar,
    remarks: Option<Arc<Remarks>>,
}

#[derive(Debug)]
enum Progress {
    /// Better code can be made from this.
    Cold(Arc<Lowered>),
    Waiting(Arc<Lowered>),
    Compiling,
    /// There will be no better code than there is.
    Settled,
    Failed(Error),
}

impl TieredCode {
    /// Code that stays.
    pub(crate) fn settled(code: CompiledKernel, tier: Tier) -> TieredCode {
        TieredCode::new(code, tier, Progress::Settled, None)
    }

    /// First code of a kernel, for which there may be better.
    pub(crate) fn first(
        code: CompiledKernel,
        lowered: Arc<Lowered>,
        remarks: Arc<Remarks>,
    ) -> TieredCode {
        TieredCode::new(code, Tier::Fast, Progress::Cold(lowered), Some(remarks))
    }

    fn new(
        first: CompiledKernel,
        first_tier: Tier,
        progress: Progress,
        remarks: Option<Arc<Remarks>>,
    ) -> TieredCode {
        let took = first.timings().total.clamp(HOT_AT_LEAST, HOT_AT_MOST);
        TieredCode {
            first,
            first_tier,
            better: OnceLock::new(),
            watched: AtomicBool::new(matches!(progress, Progress::Cold(_))),
            spent: AtomicU64::new(0),
            hot_after: took.as_nanos() as u64,
            failed: AtomicBool::new(false),
            progress: Mutex::new(progress),
            changed: Condvar::new(),
            remarks,
        }
    }

    /// The best code there is now.
    pub(crate) fn now(&self) -> &CompiledKernel {
        self.better.get().unwrap_or(&self.first)
    }

    /// Of the code that is in use now.
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

    /// Whether it would be hot after running for so much longer.
    pub(crate) fn hot_after(&self, more: Duration) -> bool {
        self.spent.load(Ordering::Relaxed) + more.as_nanos() as u64 >= self.hot_after
    }

    pub(crate) fn add_spent(&self, time: Duration) {
        self.spent
            .fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Why there is no better code, to be told once.
    pub(crate) fn take_error(&self) -> Option<Error> {
        if !self.failed.load(Ordering::Relaxed) || !self.failed.swap(false, Ordering::AcqRel) {
            return None;
        }
        match &*self.progress() {
            Progress::Failed(error) => Some(error.clone()),
            Progress::Cold(_) | Progress::Waiting(_) | Progress::Compiling | Progress::Settled => {
                None
            }
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the caller is the one to have better code made.
    fn ask(&self) -> bool {
        self.watched.store(false, Ordering::Relaxed);
        let mut progress = self.progress();
        match std::mem::replace(&mut *progress, Progress::Settled) {
            Progress::Cold(lowered) => {
                *progress = Progress::Waiting(lowered);
                true
            }
            other => {
                *progress = other;
                false
            }
        }
    }

    /// What to make better code from, for the one who makes it.
    fn begin(&self) -> Option<Arc<Lowered>> {
        let mut progress = self.progress();
        match std::mem::replace(&mut *progress, Progress::Compiling) {
            Progress::Waiting(lowered) => Some(lowered),
            other => {
                *progress = other;
                None
            }
        }
    }

    fn end(&self, made: Result<CompiledKernel>) {
        let outcome = match made {
            Ok(code) => {
                // Only the one who began gets here, and only once.
                let _ = self.better.set(code);
                Progress::Settled
            }
            Err(error) => Progress::Failed(
                error.note("the kernel goes on with the code it has, which is slower"),
            ),
        };
        let failed = matches!(outcome, Progress::Failed(_));
        *self.progress() = outcome;
        self.failed.store(failed, Ordering::Release);
        self.changed.notify_all();
    }
}

/// Makes better code for the hot kernels of a device, on a thread that lives while there is something to do.
#[derive(Debug)]
pub(crate) struct Background {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    jit: Arc<Jit>,
    queue: Mutex<Queue>,
    /// The device is gone: nobody wants the code any more.
    closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Weak<TieredCode>>,
    /// Set while a thread serves the queue: how often the process had been forked when it started.
    served: Option<u32>,
}

impl Background {
    pub(crate) fn new(jit: Arc<Jit>) -> Background {
        Background {
            shared: Arc::new(Shared {
                jit,
                queue: Mutex::default(),
                closed: AtomicBool::new(false),
            }),
        }
    }

    /// Has better code made, unless that was asked for before.
    pub(crate) fn ask(&self, code: &Arc<TieredCode>) {
        if code.ask() {
            self.shared.queue().jobs.push_back(Arc::downgrade(code));
            self.start();
        }
    }

    /// Sees to it that somebody serves the queue.
    fn start(&self) {
        let mut queue = self.shared.queue();
        // A thread of the process that we were forked off is not there.
        if queue.served == Some(forks()) || queue.jobs.is_empty() {
            return;
        }
        queue.served = Some(forks());
        drop(queue);
        wait_at_exit();
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

    /// Has the best code made for a kernel, hot or not, and waits for it.
    pub(crate) fn finish(&self, code: &Arc<TieredCode>) -> Result<()> {
        self.ask(code);
        let forked = forks();
        let mut progress = code.progress();
        loop {
            match &*progress {
                Progress::Settled => return Ok(()),
                Progress::Failed(_) => {
                    drop(progress);
                    return code.take_error().map_or(Ok(()), Err);
                }
                Progress::Compiling if self.shared.queue().served != Some(forked) => {
                    return Err(Error::new(
                        "W0509",
                        "this process was forked while its parent compiled a kernel",
                    )
                    .help("make a new world after the fork"));
                }
                Progress::Cold(_) | Progress::Waiting(_) | Progress::Compiling => {}
            }
            drop(progress);
            self.start();
            progress = code.progress();
            if matches!(*progress, Progress::Waiting(_) | Progress::Compiling) {
                // Nobody wakes us in a forked process, so we look from time to time.
                let waited = code
                    .changed
                    .wait_timeout(progress, Duration::from_millis(100));
                progress = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        COMPILING.fetch_add(1, Ordering::SeqCst);
        while let Some(code) = self.next() {
            if let Some(lowered) = code.begin() {
                let made = catch_unwind(AssertUnwindSafe(|| self.compile(&code, &lowered)));
                let panicked = || Err(Error::new("W0507", "a compiler thread has panicked"));
                code.end(made.unwrap_or_else(|_| panicked()));
            }
        }
        COMPILING.fetch_sub(1, Ordering::SeqCst);
    }

    /// The next kernel that still exists; with none left, nobody serves the queue any more.
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
        self.closed.load(Ordering::Relaxed) || EXITING.load(Ordering::SeqCst)
    }

    fn compile(&self, code: &TieredCode, lowered: &Lowered) -> Result<CompiledKernel> {
        let better = wuji_compile::improve(lowered)?;
        if let Some(remarks) = &code.remarks {
            remarks.set(&better);
        }
        self.jit
            .compile_behind(&better, Effort::Full, &|| self.is_stopped())
    }
}

/// Threads in this process that make better code.
static COMPILING: AtomicUsize = AtomicUsize::new(0);
static EXITING: AtomicBool = AtomicBool::new(false);

/// At exit, LLVM takes its own globals apart: no thread may be in it then. Those that are stop after the step they
/// are at.
fn wait_at_exit() {
    static ONCE: Once = Once::new();
    static FORKS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn wait() {
        EXITING.store(true, Ordering::SeqCst);
        // Threads do not follow into a forked process.
        while COMPILING.load(Ordering::SeqCst) > 0
            && FORKS.load(Ordering::Relaxed) == forks() as usize
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    FORKS.store(forks() as usize, Ordering::Relaxed);
    ONCE.call_once(|| {
        // SAFETY: the handler touches nothing but counters, and sleeps.
        unsafe { libc::atexit(wait) };
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use wuji_llvm::JitOptions;

    fn code(jit: &Jit) -> Arc<TieredCode> {
        let text = "tree T0 { dense S1 [i: 4] { place f0 } }\nfield f0 \"x\": i32 in T0.S1 (i)\nkernel fn0 \"m\"() {\nreturn\n}\n";
        let module = wuji_ir::text::parse(text, "m.wir").unwrap();
        let lowered = wuji_compile::compile(module, &wuji_compile::Options::default()).unwrap();
        let kernel = jit.compile_with(&lowered, Effort::Fast).unwrap();
        let lowered = Arc::new(lowered);
        let remarks = Arc::new(Remarks::of(&lowered, Tier::Auto));
        Arc::new(TieredCode::first(kernel, lowered, remarks))
    }

    #[test]
    fn an_error_is_told_once_and_the_code_stays() {
        let jit = Arc::new(Jit::new(&JitOptions::default()).unwrap());
        let background = Background::new(jit.clone());
        let code = code(&jit);
        assert!(code.ask() && !code.ask());
        assert!(code.begin().is_some() && code.begin().is_none());
        code.end(Err(Error::new(
            "W0503",
            "LLVM could not compile the kernel",
        )));
        let told = background.finish(&code).unwrap_err();
        assert_eq!(told.code, "W0503");
        assert!(told.notes[0].contains("goes on with the code it has"));
        assert!(code.take_error().is_none() && background.finish(&code).is_ok());
        assert_eq!(code.tier(), Tier::Fast);
    }

    #[test]
    fn better_code_comes_once() {
        let jit = Arc::new(Jit::new(&JitOptions::default()).unwrap());
        let background = Background::new(jit.clone());
        let code = code(&jit);
        assert!(code.is_watched() && code.tier() == Tier::Fast);
        background.finish(&code).unwrap();
        assert!(!code.is_watched() && code.tier() == Tier::Best);
        background.ask(&code);
        background.finish(&code).unwrap();
        // The thread ends when there is nothing left.
        while background.shared.queue().served.is_some() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn hot_after_what_the_first_code_took() {
        let jit = Jit::new(&JitOptions::default()).unwrap();
        let code = code(&jit);
        assert!(!code.hot_after(Duration::ZERO));
        assert!(code.hot_after(HOT_AT_MOST));
        code.add_spent(HOT_AT_MOST);
        assert!(code.hot_after(Duration::ZERO));
    }

    #[test]
    fn kernels_that_are_gone_are_not_compiled() {
        let jit = Arc::new(Jit::new(&JitOptions::default()).unwrap());
        let background = Background::new(jit.clone());
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
