//! Interruptible launches, waits and compilations: a thread polls a callback, which may interrupt it.
//!
//! Python runs signal handlers on its main thread only. While that thread runs a kernel, waits for one or compiles one, it calls
//! the callback every [`PERIOD`]. A waiting thread wakes up for it. For a thread in compiled code, the ticker, a thread of the
//! process, sets the word that compiled code polls; compiled code then calls [`Stop::is_left`].

use crate::backend::cpu::pool::forks;
use crate::stack::has_room;
use crate::stop::{Reason, Stop};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wuji_ir::{Error, Result};
use wuji_llvm::is_exiting;

/// How often the callback of a thread is called.
pub(crate) const PERIOD: Duration = Duration::from_millis(50);
/// Without launches for so many periods, the ticker sleeps until there is one.
const IDLE_PERIODS: u32 = 16;
/// The compiler recurses.
const STACK_BYTES: usize = 64 << 20;
/// What is enough for it on the stack of a user's thread: half of what threads in Rust have.
pub(crate) const ROOM_TO_COMPILE: u64 = 1 << 20;

/// Returns whether the thread continues; `false` interrupts it.
type Callback = dyn Fn() -> bool;

#[derive(Copy, Clone)]
struct Polled {
    callback: *const Callback,
    /// When it was called last.
    called: Option<Instant>,
    /// The callback returned `false`: everything up to the end of [`with_poll`] is interrupted.
    interrupted: bool,
    /// What stops the launch that runs on this thread.
    launch: *const Stop,
}

thread_local! {
    static POLLED: Cell<Option<Polled>> = const { Cell::new(None) };
    /// Whether the compilation on this thread is still wanted.
    static COMPILATION: RefCell<Cancellation> = RefCell::default();
}

/// Whether the thread that requested a compilation has cancelled it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancellation(Option<Arc<AtomicBool>>);

impl Cancellation {
    pub(crate) fn is_set(&self) -> bool {
        (self.0.as_ref()).is_some_and(|flag| flag.load(Ordering::Relaxed) || is_exiting())
    }
}

/// That of the compilation on this thread, for the threads that it uses.
pub(crate) fn cancellation() -> Cancellation {
    COMPILATION.with_borrow(Clone::clone)
}

/// Restores the callback that the thread had before.
struct Restore(Option<Polled>);

impl Drop for Restore {
    fn drop(&mut self) {
        POLLED.set(self.0);
    }
}

/// Runs `work` with a callback that the thread calls every [`PERIOD`] while it launches, waits or compiles. When the callback
/// returns `false`, the work ends early, with an error.
pub fn with_poll<R>(callback: &dyn Fn() -> bool, work: impl FnOnce() -> R) -> R {
    let callback: *const (dyn Fn() -> bool + '_) = callback;
    // SAFETY: only the lifetime changes; the pointer is not used after `work`, because `Restore` removes it.
    let callback =
        unsafe { std::mem::transmute::<*const (dyn Fn() -> bool + '_), *const Callback>(callback) };
    let _restore = Restore(POLLED.replace(Some(Polled {
        callback,
        called: None,
        interrupted: false,
        launch: std::ptr::null(),
    })));
    work()
}

/// Whether this thread has a callback.
pub(crate) fn is_polled() -> bool {
    POLLED.get().is_some()
}

/// Calls the callback of this thread. Returns whether to continue; otherwise a launch on this thread is stopped.
pub(crate) fn poll() -> bool {
    let Some(mut now) = POLLED.get() else {
        return true;
    };
    if !now.interrupted {
        // While it runs, the thread has no callback, unless it sets one itself.
        POLLED.set(None);
        let restore = Restore(Some(now));
        // SAFETY: `with_poll` keeps it alive.
        now.interrupted = !unsafe { &*now.callback }();
        now.called = Some(Instant::now());
        std::mem::forget(restore);
        POLLED.set(Some(now));
    }
    if now.interrupted {
        // SAFETY: a launch on this thread keeps it alive, and removes the pointer at its end.
        let stop = unsafe { now.launch.as_ref() };
        if let Some(stop) = stop {
            stop.now(Reason::Given);
        }
    }
    !now.interrupted
}

/// Calls the callback if that is due. An error where it interrupts the work.
pub fn check() -> Result<()> {
    let Some(now) = POLLED.get() else {
        return Ok(());
    };
    let due = now.called.is_none_or(|at| at.elapsed() >= PERIOD);
    if (due || now.interrupted) && !poll() {
        return Err(interrupted());
    }
    Ok(())
}

/// The error of interrupted work.
pub(crate) fn interrupted() -> Error {
    Error::new("W0405", "waiting was interrupted").note("the handler of a signal ended it")
}

/// Sleeps until a condition holds; another thread unparks this one when it does.
pub(crate) fn park_until(is_so: impl Fn() -> bool) {
    if !is_polled() {
        while !is_so() {
            std::thread::park();
        }
        return;
    }
    let _awake = Paused::begin();
    while !is_so() {
        std::thread::park_timeout(PERIOD);
        if !is_so() {
            poll();
        }
    }
}

/// A launch on this thread, which the ticker asks to poll.
pub(crate) struct PolledLaunch {
    stop: Arc<Stop>,
    before: *const Stop,
}

impl PolledLaunch {
    /// `None` when this thread has no callback.
    pub(crate) fn begin(stop: &Arc<Stop>) -> Result<Option<PolledLaunch>> {
        let Some(mut now) = POLLED.get() else {
            return Ok(None);
        };
        ticker().begin(stop)?;
        let before = std::mem::replace(&mut now.launch, Arc::as_ptr(stop));
        POLLED.set(Some(now));
        Ok(Some(PolledLaunch {
            stop: stop.clone(),
            before,
        }))
    }
}

impl Drop for PolledLaunch {
    fn drop(&mut self) {
        ticker().end(&self.stop);
        if let Some(mut now) = POLLED.get() {
            now.launch = self.before;
            POLLED.set(Some(now));
        }
    }
}

/// While the thread of a launch waits, it needs no ticker.
struct Paused(*const Stop);

impl Paused {
    fn begin() -> Paused {
        let launch = POLLED.get().map_or(std::ptr::null(), |now| now.launch);
        // SAFETY: a launch on this thread keeps it alive.
        if let Some(stop) = unsafe { launch.as_ref() } {
            ticker().pause(stop, true);
            stop.unask();
        }
        Paused(launch)
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        // SAFETY: as above: the launch ends after this.
        if let Some(stop) = unsafe { self.0.as_ref() } {
            ticker().pause(stop, false);
        }
    }
}

/// Asks long launches to poll.
#[derive(Debug)]
struct Ticker {
    state: Mutex<TickerState>,
    woken: Condvar,
    /// How often the process had been forked when it was made. In a forked process there is another one.
    forks: u32,
}

#[derive(Debug, Default)]
struct TickerState {
    launches: Vec<Ticked>,
    started: bool,
    asleep: bool,
}

#[derive(Debug)]
struct Ticked {
    stop: Arc<Stop>,
    /// It was there at the tick before.
    is_long: bool,
    paused: bool,
}

/// The ticker of this process; never freed.
fn ticker() -> &'static Ticker {
    static TICKER: AtomicPtr<Ticker> = AtomicPtr::new(std::ptr::null_mut());
    let found = TICKER.load(Ordering::Acquire);
    // SAFETY: what was put there is never freed.
    if let Some(ticker) = unsafe { found.as_ref() }
        && ticker.forks == forks()
    {
        return ticker;
    }
    let made = Box::into_raw(Box::new(Ticker {
        state: Mutex::default(),
        woken: Condvar::new(),
        forks: forks(),
    }));
    match TICKER.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: as above.
        Ok(_) => unsafe { &*made },
        Err(other) => {
            // SAFETY: no other code has the pointer that was made here; the other one is never freed.
            unsafe {
                drop(Box::from_raw(made));
                &*other
            }
        }
    }
}

impl Ticker {
    fn state(&self) -> MutexGuard<'_, TickerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&'static self, stop: &Arc<Stop>) -> Result<()> {
        let mut state = self.state();
        if !state.started {
            std::thread::Builder::new()
                .name("wuji-ticker".into())
                .spawn(|| self.run())
                .map_err(|e| {
                    Error::new("W0507", "cannot start the thread that watches for signals")
                        .note(e.to_string())
                })?;
            state.started = true;
        }
        state.launches.push(Ticked {
            stop: stop.clone(),
            is_long: false,
            paused: false,
        });
        if state.asleep {
            self.woken.notify_one();
        }
        Ok(())
    }

    fn end(&self, stop: &Arc<Stop>) {
        let mut state = self.state();
        let at = (state.launches.iter()).rposition(|l| Arc::ptr_eq(&l.stop, stop));
        if let Some(at) = at {
            state.launches.swap_remove(at);
        }
    }

    fn pause(&self, stop: &Stop, paused: bool) {
        let mut state = self.state();
        let launches = state.launches.iter_mut();
        for launch in launches.filter(|l| std::ptr::eq(&*l.stop, stop)) {
            launch.paused = paused;
        }
    }

    fn run(&self) {
        let mut idle = 0;
        let mut state = self.state();
        loop {
            for launch in &mut state.launches {
                if launch.is_long && !launch.paused {
                    launch.stop.ask();
                }
                launch.is_long = true;
            }
            idle = if state.launches.is_empty() {
                idle + 1
            } else {
                0
            };
            state.asleep = idle > IDLE_PERIODS;
            state = if state.asleep {
                idle = 0;
                let woken = self.woken.wait(state);
                woken.unwrap_or_else(PoisonError::into_inner)
            } else {
                let woken = self.woken.wait_timeout(state, PERIOD);
                woken.unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }
}

/// Runs a compilation. If this thread has a callback, another thread compiles, so that this one can be interrupted at any time;
/// so it does if this thread's stack is small. The compilation is then cancelled at its next step.
pub fn compile_aside<R: Send + 'static>(
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> Result<R> {
    aside(("wuji-compile", "a compiler thread"), work)
}

/// The same for a computation that no step of it can interrupt. Where this thread is interrupted, the other one runs to its end,
/// and its result is dropped.
pub fn compute_aside<R: Send + 'static>(
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> Result<R> {
    aside(("wuji-compute", "a thread"), work)
}

/// Runs `work` on another thread if this one has a callback or a small stack.
fn aside<R: Send + 'static>(
    (name, thread): (&str, &str),
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> Result<R> {
    if !is_polled() && has_room(ROOM_TO_COMPILE) {
        return work();
    }
    let cancelled = Arc::new(AtomicBool::new(false));
    let theirs = Cancellation(Some(cancelled.clone()));
    let (sender, receiver) = sync_channel(1);
    std::thread::Builder::new()
        .name(name.into())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            COMPILATION.set(theirs.clone());
            // The requesting thread may have been interrupted.
            let _ = sender.send(with_poll(&|| !theirs.is_set(), work));
        })
        .map_err(|e| Error::new("W0507", format!("cannot start {thread}")).note(e.to_string()))?;
    loop {
        match receiver.recv_timeout(PERIOD) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Timeout) if poll() => {}
            Err(RecvTimeoutError::Timeout) => {
                cancelled.store(true, Ordering::Relaxed);
                return Err(interrupted());
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::new("W0507", format!("{thread} has panicked")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn an_interrupted_thread_polls_no_more() {
        let calls = Cell::new(0);
        let callback = || {
            calls.set(calls.get() + 1);
            assert!(!is_polled());
            calls.get() < 3
        };
        with_poll(&callback, || {
            assert!(poll() && poll());
            assert!(!poll() && !poll());
            assert_eq!(check().unwrap_err().code, "W0405");
        });
        assert!(poll() && check().is_ok());
        assert_eq!(calls.get(), 3);
    }

    #[test]
    fn a_long_launch_is_asked_and_a_waiting_one_is_not() {
        let stop = Arc::new(Stop::default());
        with_poll(&|| true, || {
            let _launch = PolledLaunch::begin(&stop).unwrap();
            while stop.word().load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            assert!(!stop.is_left());
            assert_eq!(stop.word().load(Ordering::Relaxed), 0);
            let _awake = Paused::begin();
            std::thread::sleep(3 * PERIOD);
            assert_eq!(stop.word().load(Ordering::Relaxed), 0);
        });
    }

    #[test]
    fn a_launch_on_an_interrupted_thread_is_stopped() {
        let stop = Arc::new(Stop::default());
        with_poll(&|| false, || {
            let _launch = PolledLaunch::begin(&stop).unwrap();
            stop.ask();
            assert!(stop.is_left());
            assert_eq!(stop.reason(), Some(Reason::Given));
        });
    }

    #[test]
    fn a_computation_that_does_not_check_is_left_alone() {
        let running = Arc::new(AtomicBool::new(true));
        let theirs = running.clone();
        let outcome = with_poll(&|| false, || {
            compute_aside(move || {
                while theirs.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            })
        });
        assert_eq!(outcome.unwrap_err().code, "W0405");
        running.store(false, Ordering::Relaxed);
    }

    #[test]
    fn a_compilation_is_cancelled_at_once() {
        let began = Instant::now();
        let outcome = with_poll(&|| false, || {
            compile_aside(|| {
                while check().is_ok() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                check()
            })
        });
        assert_eq!(outcome.unwrap_err().code, "W0405");
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}
