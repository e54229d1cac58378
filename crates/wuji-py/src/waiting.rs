//! Waiting for kernels and compilations, while Python's signal handlers run.

use crate::error::{NativeError, raised};
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use wuji::dynamic::{forks, with_poll};
use wuji::{Error, Result};

/// Whether this is the main thread, on which Python runs signal handlers.
fn on_main_thread() -> bool {
    thread_local!(static MAIN: Cell<Option<(u32, bool)>> = const { Cell::new(None) });
    // A thread that forks is the main thread of the new process.
    let forks = forks();
    MAIN.with(|main| match main.get() {
        Some((before, is)) if before == forks => is,
        _ => {
            // SAFETY: both calls have no preconditions.
            let is = unsafe { libc::gettid() == libc::getpid() };
            main.set(Some((forks, is)));
            is
        }
    })
}

/// Does work without the GIL. On the main thread, signal handlers run during it; the exception of one ends the work, and is raised.
pub(crate) fn detached<R: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<R> + Send,
) -> PyResult<Result<R>> {
    if !on_main_thread() {
        return Ok(crate::exit::detach(py, work));
    }
    let (outcome, exception) = crate::exit::detach(py, || {
        let exception = RefCell::new(None);
        let handle_signals = || {
            let handled = crate::exit::attach(|py| py.check_signals());
            match handled {
                Ok(()) => true,
                Err(raised) => {
                    exception.replace(Some(raised));
                    false
                }
            }
        };
        let outcome = with_poll(&handle_signals, work);
        (outcome, exception.into_inner())
    });
    match exception {
        Some(exception) => Err(exception),
        None => Ok(outcome),
    }
}

/// The same for work that returns the errors of earlier launches, which were asynchronous.
pub(crate) fn waiting<R: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<R> + Send,
) -> PyResult<R> {
    detached(py, work)?.map_err(|error| {
        // Of an earlier launch, or of a use that has nothing to do with this call.
        let is_public = error.code.starts_with("W04") || UNRELATED.contains(&error.code);
        if is_public {
            public(py, &error)
        } else {
            failed(&error)
        }
    })
}

/// A forked process, and a signal handler that uses the world whose kernel it interrupts.
const UNRELATED: [&str; 2] = ["W0509", "W0135"];

thread_local! {
    /// Why lines could not be printed on this thread.
    static PRINTING_FAILED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// The code of the error of a launch whose lines could not be printed.
const NOT_PRINTED: &str = "W0516";

/// Keeps an exception of the function that prints, until [`failed`] raises it.
pub(crate) fn not_printed(py: Python<'_>, exception: PyErr) -> Error {
    let error = Error::new(NOT_PRINTED, "cannot print what a kernel prints");
    let error = error.note(exception.value(py).to_string());
    PRINTING_FAILED.set(Some(exception));
    error
}

/// Converts an error of a launch.
#[cold]
pub(crate) fn failed(error: &Error) -> PyErr {
    if error.code == NOT_PRINTED
        && let Some(exception) = PRINTING_FAILED.take()
    {
        return exception;
    }
    raised(error)
}

/// Converts an error to the exception class that the package raises.
#[cold]
pub(crate) fn public(py: Python<'_>, error: &Error) -> PyErr {
    let failed = failed(error);
    if !failed.is_instance_of::<NativeError>(py) {
        return failed;
    }
    let converted = (py.import("wuji.lang.errors"))
        .and_then(|m| m.call_method1("from_native", (failed.value(py),)));
    match converted {
        Ok(error) => PyErr::from_value(error),
        Err(_) => failed,
    }
}
