//! Interrupts of launches: by request, by Ctrl-C, or by a time limit.
//!
//! Compiled code polls one word in its loops. When it is not zero, it asks the runtime whether to return.

use crate::backend::cpu::pool::forks;
use crate::interrupt::{is_polled, poll};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};
use wuji_ir::{Error, Result};

/// Why a launch is interrupted.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    Asked,
    TimeLimit,
    CtrlC,
    /// Its thread has given up.
    Given,
}

/// In the word that compiled code polls: no reason to stop, but the thread of the launch is to call its callback.
const POLL: u32 = 1 << 8;

impl Reason {
    fn of(word: u32) -> Option<Reason> {
        match word {
            0 | POLL => None,
            2 => Some(Reason::TimeLimit),
            3 => Some(Reason::CtrlC),
            4 => Some(Reason::Given),
            _ => Some(Reason::Asked),
        }
    }
}

/// Whether a word is a reason to stop, and not only a call for attention.
pub(crate) fn is_reason(word: &AtomicU32) -> bool {
    Reason::of(word.load(Ordering::Relaxed)).is_some()
}

/// What stops the launches of one device.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    /// Zero, the number of a reason, or [`POLL`].
    word: AtomicU32,
    running: AtomicBool,
}

/// What ends a launch before its time.
#[derive(Copy, Clone, Debug)]
pub struct StopFlag<'a>(&'a Stop);

impl<'a> StopFlag<'a> {
    /// What compiled code polls. When it is not zero, [`StopFlag::is_set`] has the answer.
    pub fn word(self) -> &'a AtomicU32 {
        &self.0.word
    }

    /// Whether the launch is to end. The thread of the launch calls its callback here, if it was asked to.
    pub fn is_set(self) -> bool {
        self.0.is_left()
    }

    pub(crate) fn stop(self) -> &'a Stop {
        self.0
    }
}

impl Stop {
    pub(crate) fn flag(&self) -> StopFlag<'_> {
        StopFlag(self)
    }

    /// What compiled code polls.
    #[cfg(test)]
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Asks the thread of the launch to call its callback.
    pub(crate) fn ask(&self) {
        let _ = (self.word).compare_exchange(0, POLL, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The thread polls, or is about to.
    pub(crate) fn unask(&self) {
        let _ = (self.word).compare_exchange(POLL, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether a loop is to be left. A thread that was asked to poll does so first.
    pub(crate) fn is_left(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        if word == POLL && is_polled() {
            self.unask();
            poll();
        }
        word != 0 && self.reason().is_some()
    }

    /// A launch begins: whatever came before was not meant for it.
    pub(crate) fn begin(&self) {
        self.word.store(0, Ordering::Relaxed);
        self.running.store(true, Ordering::SeqCst);
    }

    /// A launch has ended; returns why it was interrupted, if it was.
    pub(crate) fn end(&self) -> Option<Reason> {
        self.running.store(false, Ordering::Relaxed);
        Reason::of(self.word.swap(0, Ordering::Relaxed))
    }

    /// Why running work should stop.
    pub(crate) fn reason(&self) -> Option<Reason> {
        Reason::of(self.word.load(Ordering::Relaxed))
    }

    /// Nothing is running that could be interrupted.
    pub(crate) fn forget(&self) {
        self.word.store(0, Ordering::Relaxed);
    }

    /// A thread waits for pending launches; they can be interrupted until the guard is dropped.
    pub(crate) fn watch(&self) -> Watch<'_> {
        self.running.store(true, Ordering::SeqCst);
        Watch(self)
    }

    pub(crate) fn now(&self, reason: Reason) {
        let number = match reason {
            Reason::Asked => 1,
            Reason::TimeLimit => 2,
            Reason::CtrlC => 3,
            Reason::Given => 4,
        };
        self.word.store(number, Ordering::Relaxed);
    }
}

/// Exists while a thread waits for launches.
#[derive(Debug)]
pub(crate) struct Watch<'a>(&'a Stop);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.running.store(false, Ordering::Relaxed);
        self.0.forget();
    }
}

/// Interrupts the running launch of a device, from another thread or a signal handler.
#[derive(Clone, Debug)]
pub struct Interrupter(pub(crate) Arc<Stop>);

impl Interrupter {
    /// Makes the running launch end with an error at the next iteration of one of its loops. Does nothing if none is
    /// running.
    pub fn interrupt(&self) {
        self.0.now(Reason::Asked);
    }
}

/// Why a launch of one of these kernels ended early, for people.
pub(crate) fn stopped(kernels: &[String], reason: Reason, limit: Option<Duration>) -> Error {
    let named: Vec<String> = kernels.iter().map(|name| format!("`{name}`")).collect();
    let (what, (was, it)) = match &named[..] {
        [one] => (format!("kernel {one}"), ("was", "it")),
        [first, second, third, _, ..] => (
            format!("launches of {first}, {second}, {third} and others"),
            ("were", "they"),
        ),
        several => (
            format!("launches of {}", several.join(", ")),
            ("were", "they"),
        ),
    };
    let error = match (reason, limit) {
        (Reason::TimeLimit, Some(limit)) => Error::new(
            "W0409",
            format!("{what} ran longer than its time limit of {limit:?}"),
        )
        .help("give the world more time: `World::builder().time_limit(..)`"),
        (Reason::CtrlC, _) => Error::new("W0405", format!("{what} {was} interrupted by Ctrl-C")),
        (Reason::Given, _) => Error::new(
            "W0405",
            format!("{what} {was} interrupted by the handler of a signal"),
        ),
        (Reason::Asked | Reason::TimeLimit, _) => {
            Error::new("W0405", format!("{what} {was} interrupted"))
        }
    };
    error.note(format!("what {it} had written until then is kept"))
}

/// Enforces the time limit of a device's launches.
#[derive(Debug)]
pub(crate) struct Watchdog {
    limit: Duration,
    shared: Arc<Watched>,
    /// The watchdog thread, and the number of forks when it was started.
    thread: Mutex<Option<(std::thread::Thread, u32)>>,
}

#[derive(Debug)]
struct Watched {
    stop: Arc<Stop>,
    origin: Instant,
    /// The start of the running launch in nanoseconds plus one; 0 if there is none.
    began: AtomicU64,
    asleep: AtomicBool,
    closed: AtomicBool,
}

/// After this many checks without launches, the watchdog sleeps until there is one.
const IDLE_LOOKS: u32 = 16;

impl Watchdog {
    pub(crate) fn new(limit: Duration, stop: &Arc<Stop>) -> Result<Watchdog> {
        if limit.is_zero() {
            return Err(
                Error::new("W0115", "a time limit of zero lets no kernel run")
                    .help("leave it out, or give some time"),
            );
        }
        Ok(Watchdog {
            limit,
            shared: Arc::new(Watched {
                stop: stop.clone(),
                origin: Instant::now(),
                began: AtomicU64::new(0),
                asleep: AtomicBool::new(false),
                closed: AtomicBool::new(false),
            }),
            thread: Mutex::default(),
        })
    }

    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// A launch begins.
    pub(crate) fn begin(&self) -> Result<()> {
        let now = self.shared.origin.elapsed().as_nanos() as u64;
        self.shared.began.store(now + 1, Ordering::SeqCst);
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        match &*thread {
            // Threads do not exist in a forked process.
            Some((thread, forked)) if *forked == forks() => {
                if self.shared.asleep.load(Ordering::SeqCst) {
                    thread.unpark();
                }
            }
            _ => {
                let (shared, limit) = (self.shared.clone(), self.limit);
                let started = std::thread::Builder::new()
                    .name("wuji-time-limit".into())
                    .spawn(move || shared.watch(limit))
                    .map_err(|e| {
                        Error::new(
                            "W0507",
                            "cannot start the thread that watches the time limit",
                        )
                        .note(e.to_string())
                    })?;
                *thread = Some((started.thread().clone(), forks()));
            }
        }
        Ok(())
    }

    /// The launch has ended.
    pub(crate) fn end(&self) {
        self.shared.began.store(0, Ordering::SeqCst);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((thread, _)) = &*thread {
            thread.unpark();
        }
    }
}

impl Watched {
    fn watch(&self, limit: Duration) {
        // Often enough to be accurate to a tenth, rarely enough to cost nothing.
        let between = (limit / 16).clamp(Duration::from_millis(1), Duration::from_millis(100));
        let mut idle = 0;
        while !self.closed.load(Ordering::SeqCst) {
            match self.began.load(Ordering::SeqCst) {
                0 => idle += 1,
                began => {
                    idle = 0;
                    let began = Duration::from_nanos(began - 1);
                    let over = self.origin.elapsed().saturating_sub(began) > limit;
                    // The launch may have ended since; the next one begins with a clean word.
                    if over && self.stop.reason().is_none() {
                        self.stop.now(Reason::TimeLimit);
                    }
                }
            }
            if idle < IDLE_LOOKS {
                std::thread::park_timeout(between);
                continue;
            }
            self.asleep.store(true, Ordering::SeqCst);
            // A thread that begins a launch after this check sees that we sleep.
            if self.began.load(Ordering::SeqCst) == 0 && !self.closed.load(Ordering::SeqCst) {
                std::thread::park();
            }
            self.asleep.store(false, Ordering::SeqCst);
            idle = 0;
        }
    }
}

/// Devices whose launches Ctrl-C stops. A signal handler may access them at any time, so they are never freed.
static LISTENING: [AtomicPtr<Stop>; 64] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 64];

/// The slot of a device that handles Ctrl-C; dropping it ends that.
#[derive(Debug)]
pub(crate) struct Listening(usize);

impl Drop for Listening {
    fn drop(&mut self) {
        LISTENING[self.0].store(std::ptr::null_mut(), Ordering::SeqCst);
    }
}

/// Makes Ctrl-C stop the running launch instead of the process. If none is running, or on a second Ctrl-C before the
/// launch has ended, the previous action is taken.
pub(crate) fn on_ctrl_c(stop: &Arc<Stop>) -> Result<Listening> {
    let raw = Arc::into_raw(stop.clone()).cast_mut();
    let null = std::ptr::null_mut();
    let free = LISTENING.iter().position(|place| {
        place
            .compare_exchange(null, raw, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    });
    let Some(at) = free else {
        // SAFETY: no other code has the pointer.
        drop(unsafe { Arc::from_raw(raw) });
        let most = LISTENING.len();
        return Err(
            Error::new("W0510", format!("{most} worlds already handle Ctrl-C"))
                .help("drop one of them first"),
        );
    };
    static ONCE: Once = Once::new();
    ONCE.call_once(install);
    Ok(Listening(at))
}

/// The previous handler of Ctrl-C, as a function pointer; SIG_DFL and SIG_IGN are 0 and 1.
static BEFORE: AtomicU64 = AtomicU64::new(0);

fn ours() -> usize {
    handle as *const () as usize
}

/// The current handler of Ctrl-C.
fn current() -> Option<libc::sigaction> {
    // SAFETY: queries the handler into our own structure, for which zeros are valid.
    unsafe {
        let mut found: libc::sigaction = std::mem::zeroed();
        (libc::sigaction(libc::SIGINT, std::ptr::null(), &mut found) == 0).then_some(found)
    }
}

fn install() {
    if let Some(found) = current()
        && found.sa_sigaction != ours()
    {
        install_before(&found);
    }
}

fn install_before(found: &libc::sigaction) {
    let mut action = *found;
    action.sa_sigaction = ours();
    let plain = found.sa_flags & libc::SA_SIGINFO == 0;
    action.sa_flags = match found.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => libc::SA_RESTART,
        // Keep the flags of the previous handler: Python's reads have to be interrupted, not restarted.
        _ => found.sa_flags & !libc::SA_SIGINFO,
    };
    // Store it first, because the signal may arrive immediately.
    let before = if plain {
        found.sa_sigaction
    } else {
        libc::SIG_DFL
    };
    BEFORE.store(before as u64, Ordering::SeqCst);
    // SAFETY: the handler only accesses atomics; the structure is a valid one with another handler.
    unsafe { libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut()) };
}

extern "C" fn handle(signal: libc::c_int) {
    let mut ended = false;
    for place in &LISTENING {
        // SAFETY: what was put there is never freed.
        let Some(stop) = (unsafe { place.load(Ordering::SeqCst).as_ref() }) else {
            continue;
        };
        if stop.running.load(Ordering::Relaxed) && stop.reason().is_none() {
            stop.now(Reason::CtrlC);
            ended = true;
        }
    }
    if ended {
        return;
    }
    match BEFORE.load(Ordering::SeqCst) as usize {
        libc::SIG_IGN => {}
        // SAFETY: both may be called from a signal handler; the signal is delivered when it returns.
        libc::SIG_DFL => unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        },
        before => {
            // SAFETY: it was installed as a handler without further arguments.
            let before: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(before) };
            before(signal);
        }
    }
}
