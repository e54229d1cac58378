//! Threads at the exit of the interpreter.
//!
//! While Python finalizes, it ends every other thread that takes the GIL, inside of that call. What unwinds then goes through frames
//! of Rust, and the process aborts. Daemon threads may be in kernels, or in functions of this module that call Python. So a thread
//! that would take the GIL after the exit has begun waits for the end of the process instead, and the exit waits for the threads
//! that were earlier.

use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Threads that take the GIL, or have it in a callback.
static TAKERS: AtomicUsize = AtomicUsize::new(0);
/// Threads that have released the GIL here and neither wait for the end of the process nor have ended.
static USERS: AtomicUsize = AtomicUsize::new(0);
static EXITING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// How many [`Taking`]s this thread has. The thread that exits has one more.
    static TAKES: Cell<usize> = const { Cell::new(0) };
    static USER: User = User::new();
}

/// How long the exit waits for callbacks.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the exit gives the GIL to other threads, for a millisecond or until it is its turn again. A thread in Python code that
/// Rust has called without a [`Taking`], such as the destructor of an object, gets to its next call in this time, however busy the
/// machine is. A thread that sleeps does not, and need not.
const TURNS: usize = 100;

/// A thread in [`USERS`].
struct User(());

impl User {
    fn new() -> User {
        USERS.fetch_add(1, Ordering::SeqCst);
        User(())
    }
}

impl Drop for User {
    fn drop(&mut self) {
        USERS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// This thread takes the GIL, or has it in a callback.
struct Taking(());

impl Taking {
    /// Must be called without the GIL.
    fn begin() -> Taking {
        TAKERS.fetch_add(1, Ordering::SeqCst);
        if TAKES.get() == 0 && exiting() {
            TAKERS.fetch_sub(1, Ordering::SeqCst);
            // It stays a user if its local variables are gone, which costs the exit its patience.
            if USER.try_with(|_| ()).is_ok() {
                USERS.fetch_sub(1, Ordering::SeqCst);
            }
            loop {
                std::thread::park();
            }
        }
        TAKES.set(TAKES.get() + 1);
        Taking(())
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        TAKES.set(TAKES.get() - 1);
        TAKERS.fetch_sub(1, Ordering::SeqCst);
    }
}

fn exiting() -> bool {
    EXITING.load(Ordering::SeqCst)
}

/// Calls `f` with the GIL.
pub(crate) fn attach<R>(f: impl for<'py> FnOnce(Python<'py>) -> R) -> R {
    let _taking = Taking::begin();
    Python::attach(f)
}

/// Calls `f` without the GIL.
pub(crate) fn detach<R: Send>(py: Python<'_>, f: impl FnOnce() -> R + Send) -> R {
    let (result, taking) = detach_and_take(py, f);
    drop(taking);
    result
}

fn detach_and_take<R: Send>(py: Python<'_>, f: impl FnOnce() -> R + Send) -> (R, Taking) {
    let _ = USER.try_with(|_| ());
    let mut taking = None;
    let result = py.detach(|| {
        let result = f();
        taking = Some(Taking::begin());
        result
    });
    (result, taking.expect("`detach` calls its argument"))
}

/// Calls a function while a lock of Python is held. Between the two is no line of Python code, so that neither a signal handler nor a
/// trace function can leave the lock behind.
#[pyfunction]
pub(crate) fn locked<'py>(
    py: Python<'py>,
    lock: &Bound<'py, PyAny>,
    work: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    // `work` is Python code below this frame.
    let ((), taking) = detach_and_take(py, || ());
    lock.call_method0("acquire")?;
    if exiting() && TAKES.get() == 1 {
        // The exit began while this thread waited for the lock.
        lock.call_method0("release")?;
        drop(taking);
        detach(py, || ());
        unreachable!("a thread that is not the exiting one waits for the end of the process");
    }
    let outcome = work.call0();
    lock.call_method0("release")?;
    outcome
}

/// Stops background compilation, and lets no other thread take the GIL. Python calls it at exit, before it unloads libraries.
#[pyfunction]
pub(crate) fn before_exit(py: Python<'_>) {
    // SAFETY: this thread has the GIL of an interpreter.
    let interpreter = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    if interpreter != 0 {
        // The process goes on after the exit of a subinterpreter.
        return;
    }
    // This thread is a user, too.
    detach(py, || ());
    TAKES.set(TAKES.get() + 1);
    EXITING.store(true, Ordering::SeqCst);
    let started = Instant::now();
    for _ in 0..TURNS {
        if USERS.load(Ordering::SeqCst) <= 1 || started.elapsed() >= PATIENCE {
            break;
        }
        detach(py, || std::thread::sleep(Duration::from_millis(1)));
    }
    detach(py, || {
        while TAKERS.load(Ordering::SeqCst) > 0 && started.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        wuji::dynamic::before_exit();
    });
}
