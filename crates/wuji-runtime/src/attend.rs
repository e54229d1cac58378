//! Threads that have to attend to something else while they launch, wait or compile.
//!
//! Python handles signals on its main thread only. While that thread runs a kernel or waits for one, it calls a function
//! every [`PERIOD`], which handles them. A thread that waits wakes up for it. A thread in compiled code is told by the ticker,
//! a thread of the process: it sets the word that compiled code polls, and compiled code calls [`Stop::is_left`].

use crate::backend::cpu::pool::forks;
use crate::backend::cpu::tiered::{Compiling, is_exiting};
use crate::stop::{Reason, Stop};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wuji_ir::{Error, Result};

/// How often the function of an attending thread is called.
pub(crate) const PERIOD: Duration = Duration::from_millis(50);
/// Without launches for so many periods, the ticker sleeps until there is one.
const IDLE_PERIODS: u32 = 16;
/// The compiler recurses.
const STACK_BYTES: usize = 64 << 20;

/// Returns whether the thread continues with what it runs or waits for.
type Callback = dyn Fn() -> bool;

#[derive(Copy, Clone)]
struct Attending {
    callback: *const Callback,
    /// When it was called last.
    called: Option<Instant>,
    /// It has returned `false`: everything up to the end of [`attending`] is given up.
    gave_up: bool,
    /// What stops the launch that runs on this thread.
    launch: *const Stop,
}

thread_local! {
    static ATTENDING: Cell<Option<Attending>> = const { Cell::new(None) };
    /// Whether the compilation on this thread is still wanted.
    static COMPILATION: RefCell<GivenUp> = RefCell::default();
}

/// Whether a compilation was given up by the thread that asked for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenUp(Option<Arc<AtomicBool>>);

impl GivenUp {
    pub(crate) fn is_set(&self) -> bool {
        (self.0.as_ref()).is_some_and(|flag| flag.load(Ordering::Relaxed) || is_exiting())
    }
}

/// That of the compilation on this thread, for the threads that it uses.
pub(crate) fn given_up_flag() -> GivenUp {
    COMPILATION.with_borrow(Clone::clone)
}

/// Puts back what a thread attended to before.
struct Restore(Option<Attending>);

impl Drop for Restore {
    fn drop(&mut self) {
        ATTENDING.set(self.0);
    }
}

/// Does some work on a thread that has something else to attend to: it calls a function from time to time while it launches, waits
/// or compiles. When that returns `false`, the work ends early, with an error.
pub fn attending<R>(callback: &dyn Fn() -> bool, work: impl FnOnce() -> R) -> R {
    let callback: *const (dyn Fn() -> bool + '_) = callback;
    // SAFETY: only the lifetime changes; the pointer is not used after `work`, because `Restore` removes it.
    let callback =
        unsafe { std::mem::transmute::<*const (dyn Fn() -> bool + '_), *const Callback>(callback) };
    let _restore = Restore(ATTENDING.replace(Some(Attending {
        callback,
        called: None,
        gave_up: false,
        launch: std::ptr::null(),
    })));
    work()
}

/// Whether this thread has something else to attend to.
pub(crate) fn is_attending() -> bool {
    ATTENDING.get().is_some()
}

/// Attends to it. Returns whether to go on; otherwise a launch on this thread was told to stop.
pub(crate) fn attend() -> bool {
    let Some(mut now) = ATTENDING.get() else {
        return true;
    };
    if !now.gave_up {
        // While it runs, the thread has nothing to attend to, unless it says so itself.
        ATTENDING.set(None);
        let restore = Restore(Some(now));
        // SAFETY: `attending` keeps it alive.
        now.gave_up = !unsafe { &*now.callback }();
        now.called = Some(Instant::now());
        std::mem::forget(restore);
        ATTENDING.set(Some(now));
    }
    // SAFETY: a launch on this thread keeps it alive, and removes the pointer at its end.
    if now.gave_up
        && let Some(stop) = unsafe { now.launch.as_ref() }
    {
        stop.now(Reason::Given);
    }
    !now.gave_up
}

/// Attends to it if that is due. An error when the work is given up.
pub(crate) fn check() -> Result<()> {
    let Some(now) = ATTENDING.get() else {
        return Ok(());
    };
    let due = now.called.is_none_or(|at| at.elapsed() >= PERIOD);
    if (due || now.gave_up) && !attend() {
        return Err(given_up());
    }
    Ok(())
}

/// The error of work that was given up.
pub(crate) fn given_up() -> Error {
    Error::new("W0405", "waiting was interrupted").note("the handler of a signal ended it")
}

/// Sleeps until something is the case, for which another thread unparks this one.
pub(crate) fn park_until(is_so: impl Fn() -> bool) {
    if !is_attending() {
        while !is_so() {
            std::thread::park();
        }
        return;
    }
    let _awake = Paused::begin();
    while !is_so() {
        std::thread::park_timeout(PERIOD);
        if !is_so() {
            attend();
        }
    }
}

/// A launch on this thread, which can be told to attend.
pub(crate) struct AttendedLaunch {
    stop: Arc<Stop>,
    before: *const Stop,
}

impl AttendedLaunch {
    /// `None` when this thread has nothing to attend to.
    pub(crate) fn begin(stop: &Arc<Stop>) -> Result<Option<AttendedLaunch>> {
        let Some(mut now) = ATTENDING.get() else {
            return Ok(None);
        };
        ticker().begin(stop)?;
        let before = std::mem::replace(&mut now.launch, Arc::as_ptr(stop));
        ATTENDING.set(Some(now));
        Ok(Some(AttendedLaunch {
            stop: stop.clone(),
            before,
        }))
    }
}

impl Drop for AttendedLaunch {
    fn drop(&mut self) {
        ticker().end(&self.stop);
        if let Some(mut now) = ATTENDING.get() {
            now.launch = self.before;
            ATTENDING.set(Some(now));
        }
    }
}

/// While the thread of a launch waits, it needs no ticker.
struct Paused(*const Stop);

impl Paused {
    fn begin() -> Paused {
        let launch = ATTENDING.get().map_or(std::ptr::null(), |now| now.launch);
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

/// Asks long launches to attend.
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

/// Compiles something. If this thread has something else to attend to, another thread does it, so that this one can give up
/// waiting at any time. The compilation is then left at its next step.
pub fn compile_aside<R: Send + 'static>(
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> Result<R> {
    if !is_attending() {
        return work();
    }
    let given_up = Arc::new(AtomicBool::new(false));
    let theirs = GivenUp(Some(given_up.clone()));
    let (sender, receiver) = sync_channel(1);
    let compiling = Compiling::begin();
    std::thread::Builder::new()
        .name("wuji-compile".into())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            COMPILATION.set(theirs.clone());
            // The thread that asked may not wait any more.
            let _ = sender.send(attending(&|| !theirs.is_set(), work));
            drop(compiling);
        })
        .map_err(|e| Error::new("W0507", "cannot start a compiler thread").note(e.to_string()))?;
    loop {
        match receiver.recv_timeout(PERIOD) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Timeout) if attend() => {}
            Err(RecvTimeoutError::Timeout) => {
                given_up.store(true, Ordering::Relaxed);
                return Err(self::given_up());
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::new("W0507", "a compiler thread has panicked"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_thread_that_gives_up_asks_no_more() {
        let calls = Cell::new(0);
        let callback = || {
            calls.set(calls.get() + 1);
            assert!(!is_attending());
            calls.get() < 3
        };
        attending(&callback, || {
            assert!(attend() && attend());
            assert!(!attend() && !attend());
            assert_eq!(check().unwrap_err().code, "W0405");
        });
        assert!(attend() && check().is_ok());
        assert_eq!(calls.get(), 3);
    }

    #[test]
    fn a_long_launch_is_asked_and_a_waiting_one_is_not() {
        let stop = Arc::new(Stop::default());
        attending(&|| true, || {
            let _launch = AttendedLaunch::begin(&stop).unwrap();
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
    fn a_launch_on_a_thread_that_gives_up_is_stopped() {
        let stop = Arc::new(Stop::default());
        attending(&|| false, || {
            let _launch = AttendedLaunch::begin(&stop).unwrap();
            stop.ask();
            assert!(stop.is_left());
            assert_eq!(stop.reason(), Some(Reason::Given));
        });
    }

    #[test]
    fn a_compilation_is_given_up_at_once() {
        let began = Instant::now();
        let outcome = attending(&|| false, || {
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
