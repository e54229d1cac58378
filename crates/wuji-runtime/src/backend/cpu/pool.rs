//! Worker threads that share the units of a parallel task.
//!
//! A launch opens a *gate*. Workers that see it open join, take chunks, and leave. Each worker has a share of
//! neighbouring chunks, the same in every launch of equal size, so that its data is still in its caches; a worker whose
//! share is done steals chunks from others. The caller takes chunks too, closes the gate when none are left, and waits
//! for the workers that joined. It does not wait for workers that were asleep, so a short launch costs no more than
//! waking them. Idle workers spin for some microseconds before they sleep.

use crate::interrupt::park_until;
use crate::stop::is_reason;
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};
use wuji_ir::{Error, Result};
use wuji_llvm::MOST_STACK;

/// How long an idle thread spins before it sleeps: longer than a wake-up takes, but short enough that an idle pool
/// costs nothing.
const SPIN: Duration = Duration::from_micros(20);

/// Kernels recurse, and keep arrays on the stack: every task fits.
const STACK_BYTES: usize = 8 << 20;
const _: () = assert!(MOST_STACK + (1 << 20) <= STACK_BYTES as u64);

/// A fixed number of threads, the caller of [`Pool::run`] included.
///
/// ```
/// use std::sync::atomic::{AtomicI64, Ordering};
/// use wuji_runtime::Pool;
/// let pool = Pool::new(2)?;
/// let sum = AtomicI64::new(0);
/// pool.run(1000, 64, &|begin, end| {
///     sum.fetch_add((begin..end).sum::<i64>(), Ordering::Relaxed);
/// })?;
/// assert_eq!(sum.into_inner(), 499_500);
/// # Ok::<(), wuji_ir::Error>(())
/// ```
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    /// How many there are besides the caller, until the pool is closed.
    count: usize,
    workers: Mutex<Vec<JoinHandle<()>>>,
    /// Held during a launch: one at a time.
    turn: Mutex<()>,
    /// The number of forks when the threads were started.
    forks: u32,
}

/// Worker number, begin and end of the units.
type Work<'a> = &'a (dyn Fn(usize, i64, i64) + Sync);

/// The job of a launch. The lifetime of `work` is extended unsafely: `run` returns only when the gate is closed and
/// every worker that joined has left.
struct Job {
    work: Work<'static>,
    /// Not zero: chunks that no worker has taken are left out.
    stop: Option<&'static AtomicU32>,
    cut: Cut,
    /// Only workers with smaller numbers are woken.
    helpers: usize,
    /// Workers with larger numbers do not take part.
    most: usize,
    caller: Thread,
}

/// The most shares: more threads share one, so that a launch need not touch a cache line per thread.
const MOST_SHARES: usize = 16;

/// The division of units into chunks, and of chunks into shares.
#[derive(Copy, Clone, Debug)]
struct Cut {
    total: u64,
    grain: u64,
    shares: u64,
}

impl Cut {
    /// The first chunk of a share; past the last share, the number of chunks.
    fn first(self, share: u64) -> u64 {
        let chunks = self.total.div_ceil(self.grain);
        let (each, more) = (chunks / self.shares, chunks % self.shares);
        share * each + share.min(more)
    }

    /// The units of a chunk.
    fn units(self, chunk: u64) -> (i64, i64) {
        let begin = chunk * self.grain;
        let end = begin.saturating_add(self.grain).min(self.total);
        (begin as i64, end as i64)
    }
}

#[repr(align(128))]
#[derive(Debug, Default)]
struct OwnCacheLine<T>(T);

struct Shared {
    gate: OwnCacheLine<AtomicU64>,
    /// The first chunk of each share that no worker has taken.
    next: Box<[OwnCacheLine<AtomicU64>]>,
    /// Written by the caller while the gate is closed and no worker is inside; read by those inside.
    job: UnsafeCell<Option<Job>>,
    stop: AtomicBool,
    /// The first panic of a launch.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    workers: OnceLock<Vec<Thread>>,
    spin: Duration,
}

// SAFETY: `job` is only written under the rule of its comment, which the gate enforces.
unsafe impl Sync for Shared {}
// SAFETY: `Job` holds a reference to a `Sync` closure and a thread handle.
unsafe impl Send for Shared {}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("gate", &self.gate.0)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

/// The gate in one word: number of the launch (high half), whether workers may join, whether the caller
/// sleeps until the last one has left, and how many are inside.
#[derive(Copy, Clone, PartialEq, Eq)]
struct Gate(u64);

impl Gate {
    const OPEN: u64 = 1 << 31;
    const CALLER_SLEEPS: u64 = 1 << 30;
    const INSIDE: u64 = Gate::CALLER_SLEEPS - 1;

    fn launch(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn is_open(self) -> bool {
        self.0 & Gate::OPEN != 0
    }

    fn caller_sleeps(self) -> bool {
        self.0 & Gate::CALLER_SLEEPS != 0
    }

    fn inside(self) -> u64 {
        self.0 & Gate::INSIDE
    }

    fn next_open(self) -> Gate {
        Gate((u64::from(self.launch().wrapping_add(1)) << 32) | Gate::OPEN)
    }
}

thread_local! {
    /// Set while this thread runs units: a launch from inside one runs on this thread alone.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

impl Pool {
    /// As many threads as there are cores for this process.
    pub fn default_threads() -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// A pool of `threads`, of which one is the caller of [`Pool::run`].
    pub fn new(threads: usize) -> Result<Pool> {
        let workers = threads.max(1) - 1;
        let spin = if threads > Pool::default_threads() {
            // Spinning would take a core from another thread.
            Duration::ZERO
        } else {
            SPIN
        };
        let pool = Pool {
            shared: Arc::new(Shared {
                gate: OwnCacheLine::default(),
                next: (0..threads.clamp(1, MOST_SHARES))
                    .map(|_| OwnCacheLine::default())
                    .collect(),
                job: UnsafeCell::new(None),
                stop: AtomicBool::new(false),
                panic: Mutex::new(None),
                workers: OnceLock::new(),
                spin,
            }),
            count: workers,
            workers: Mutex::default(),
            turn: Mutex::new(()),
            forks: forks(),
        };
        for number in 0..workers {
            let shared = pool.shared.clone();
            // On an error the pool is dropped, which stops those that have started.
            let worker = std::thread::Builder::new()
                .name(format!("wuji-worker-{number}"))
                .stack_size(STACK_BYTES)
                .spawn(move || shared.serve(number))
                .map_err(|e| {
                    Error::new("W0508", format!("cannot start worker thread {number}"))
                        .note(e.to_string())
                        .help("ask for fewer threads")
                })?;
            pool.handles().push(worker);
        }
        let handles = pool.handles().iter().map(|w| w.thread().clone()).collect();
        // Set once, here.
        let _ = pool.shared.workers.set(handles);
        Ok(pool)
    }

    /// The number of threads, with the one that launches.
    pub fn threads(&self) -> usize {
        self.count + 1
    }

    fn handles(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the worker threads, after a launch that is under way. Later launches run on their callers.
    pub fn close(&self) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.end_workers();
    }

    fn end_workers(&self) {
        let workers = std::mem::take(&mut *self.handles());
        if self.forks != forks() {
            // The threads are in the parent process.
            std::mem::forget(workers);
            return;
        }
        self.shared.stop.store(true, Ordering::Release);
        for worker in &workers {
            worker.thread().unpark();
        }
        for worker in workers {
            // A worker catches the panics of its work.
            let _ = worker.join();
        }
    }

    /// Calls `work(begin, end)` on chunks of `0..total` with about `grain` units each, on all threads, and returns when
    /// all are done. Launches from several threads are serialized. A panic in `work` ends the launch early and is
    /// propagated to the caller.
    pub fn run(&self, total: i64, grain: i64, work: &(dyn Fn(i64, i64) + Sync)) -> Result<()> {
        self.run_on(usize::MAX, total, grain, None, &|_, begin, end| {
            work(begin, end);
        })
    }

    /// Like [`Pool::run`], on at most `most` threads, each of which passes its number to `work`: the caller is 0. When `stop` is no
    /// longer zero, the remaining chunks are skipped, however many they are.
    pub fn run_on(
        &self,
        most: usize,
        total: i64,
        grain: i64,
        stop: Option<&AtomicU32>,
        work: Work<'_>,
    ) -> Result<()> {
        if total <= 0 {
            return Ok(());
        }
        let (total, threads) = (total as u64, self.threads() as u64);
        let grain = (grain.max(1) as u64).min(total.div_ceil(threads));
        let chunks = total.div_ceil(grain);
        let closed = self.shared.stop.load(Ordering::Acquire);
        if self.count == 0 || closed || chunks == 1 || most < 2 || INSIDE.get() {
            run_alone(total, grain, stop, work);
            return Ok(());
        }
        if self.forks != forks() {
            return Err(Error::new(
                "W0509",
                "this process was forked after its worker threads had started",
            )
            .note("only the forking thread exists in the new process")
            .help("make a new world after the fork, or start a new process instead"));
        }
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let helpers = (self.count as u64).min(chunks - 1) as usize;
        let helpers = helpers.min(most - 1);
        let cut = Cut {
            total,
            grain,
            shares: (helpers + 1).min(MOST_SHARES) as u64,
        };
        self.shared.launch(work, stop, cut, helpers, most - 1);
        let panic = self.shared.take_panic();
        drop(turn);
        match panic {
            Some(panic) => resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.end_workers();
    }
}

/// Sets [`INSIDE`] during its lifetime.
struct Inside(bool);

impl Inside {
    fn enter() -> Inside {
        Inside(INSIDE.replace(true))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

/// Whether the launch is to end early.
fn is_stopped(stop: Option<&AtomicU32>) -> bool {
    stop.is_some_and(is_reason)
}

fn run_alone(total: u64, grain: u64, stop: Option<&AtomicU32>, work: Work<'_>) {
    let _inside = Inside::enter();
    let mut begin = 0;
    while begin < total && !is_stopped(stop) {
        let end = (begin + grain).min(total);
        work(0, begin as i64, end as i64);
        begin = end;
    }
}

impl Shared {
    /// One launch, on the calling thread.
    fn launch(
        &self,
        work: Work<'_>,
        stop: Option<&AtomicU32>,
        cut: Cut,
        helpers: usize,
        most: usize,
    ) {
        // SAFETY: only the lifetime changes; see `Job`.
        let work = unsafe { std::mem::transmute::<Work<'_>, Work<'static>>(work) };
        // SAFETY: as above.
        let stop = stop.map(|s| unsafe { &*std::ptr::from_ref(s) });
        let job = Job {
            work,
            stop,
            cut,
            helpers,
            most,
            caller: std::thread::current(),
        };
        for (share, next) in (0..cut.shares).zip(&self.next) {
            next.0.store(cut.first(share), Ordering::Relaxed);
        }
        // SAFETY: we hold the lock and the gate is closed with no worker inside, so no thread reads it.
        unsafe { *self.job.get() = Some(job) };
        let gate = Gate(self.gate.0.load(Ordering::Relaxed));
        self.gate.0.store(gate.next_open().0, Ordering::Release);
        self.wake(0, helpers);
        self.take_chunks(0, work, stop, cut);
        self.close();
        // SAFETY: the gate is closed and no worker is inside.
        unsafe { *self.job.get() = None };
    }

    /// Wakes a worker, which wakes two more.
    fn wake(&self, number: usize, helpers: usize) {
        if number < helpers
            && let Some(worker) = self.workers.get().and_then(|w| w.get(number))
        {
            worker.unpark();
        }
    }

    /// Runs chunks until none are left, those of its own share first. A panic is kept for the caller.
    fn take_chunks(&self, worker: usize, work: Work<'_>, stop: Option<&AtomicU32>, cut: Cut) {
        let _inside = Inside::enter();
        let shares = cut.shares as usize;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for share in (0..shares).map(|k| (worker + k) % shares) {
                let (next, end) = (&self.next[share].0, cut.first(share as u64 + 1));
                // A thread without work does not write to the cache line.
                while next.load(Ordering::Relaxed) < end && !is_stopped(stop) {
                    let chunk = next.fetch_add(1, Ordering::Relaxed);
                    if chunk >= end {
                        break;
                    }
                    let (begin, end) = cut.units(chunk);
                    work(worker, begin, end);
                }
            }
        }));
        if let Err(panic) = outcome {
            for (share, next) in (0..cut.shares).zip(&self.next) {
                next.0.store(cut.first(share + 1), Ordering::Relaxed);
            }
            let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(panic);
        }
    }

    fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panic
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Closes the gate and waits until all workers have left.
    fn close(&self) {
        let mut gate = Gate(self.gate.0.fetch_and(!Gate::OPEN, Ordering::AcqRel));
        let mut wait = SpinWait::new(self.spin);
        while gate.inside() > 0 {
            if !wait.spin() {
                self.gate.0.fetch_or(Gate::CALLER_SLEEPS, Ordering::AcqRel);
                break;
            }
            gate = Gate(self.gate.0.load(Ordering::Acquire));
        }
        park_until(|| Gate(self.gate.0.load(Ordering::Acquire)).inside() == 0);
    }

    /// The main loop of a worker.
    fn serve(&self, number: usize) {
        let mut seen = 0;
        while let Some(gate) = self.wait_for_launch(seen) {
            seen = gate.launch();
            if !self.join(seen) {
                continue;
            }
            // SAFETY: we are inside, so the job stays until we leave.
            if let Some(job) = unsafe { &*self.job.get() } {
                self.wake(2 * number + 1, job.helpers);
                self.wake(2 * number + 2, job.helpers);
                if number < job.most {
                    self.take_chunks(number + 1, job.work, job.stop, job.cut);
                }
            }
            self.leave();
        }
    }

    /// The gate once it is open for a launch not seen yet; `None` when the pool is dropped.
    fn wait_for_launch(&self, seen: u32) -> Option<Gate> {
        let mut wait = SpinWait::new(self.spin);
        loop {
            let gate = Gate(self.gate.0.load(Ordering::Acquire));
            if gate.is_open() && gate.launch() != seen {
                return Some(gate);
            }
            if self.stop.load(Ordering::Acquire) {
                return None;
            }
            if !wait.spin() {
                // The thread that opens the gate or stops the pool does so before it wakes us.
                std::thread::park();
            }
        }
    }

    /// Joins, unless the launch is over.
    fn join(&self, launch: u32) -> bool {
        self.gate
            .0
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |word| {
                let gate = Gate(word);
                (gate.is_open() && gate.launch() == launch).then_some(word + 1)
            })
            .is_ok()
    }

    fn leave(&self) {
        // Clone the handle before leaving: afterwards the job may be gone.
        let mut caller = None;
        let left = self
            .gate
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                let gate = Gate(word);
                if gate.caller_sleeps() && gate.inside() == 1 && caller.is_none() {
                    // SAFETY: we are still inside.
                    let job = unsafe { &*self.job.get() };
                    caller = job.as_ref().map(|j| j.caller.clone());
                }
                Some(word - 1)
            });
        if let (Ok(word), Some(caller)) = (left, caller)
            && Gate(word).inside() == 1
        {
            caller.unpark();
        }
    }
}

/// Spins for a while.
struct SpinWait {
    limit: Duration,
    started: Option<Instant>,
    rounds: u32,
}

impl SpinWait {
    fn new(limit: Duration) -> SpinWait {
        SpinWait {
            limit,
            started: None,
            rounds: 0,
        }
    }

    /// Spins once; `false` if it is time to sleep.
    fn spin(&mut self) -> bool {
        if self.limit.is_zero() {
            return false;
        }
        std::hint::spin_loop();
        self.rounds = self.rounds.wrapping_add(1);
        if !self.rounds.is_multiple_of(16) {
            return true;
        }
        self.started.get_or_insert_with(Instant::now).elapsed() < self.limit
    }
}

static FORKS: AtomicU32 = AtomicU32::new(0);

/// How often this process has been forked off another, since the first pool.
pub fn forks() -> u32 {
    static ONCE: Once = Once::new();
    extern "C" fn forked() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    ONCE.call_once(|| {
        // SAFETY: the handler only increments a counter, which is allowed right after a fork.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
    FORKS.load(Ordering::Relaxed)
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
