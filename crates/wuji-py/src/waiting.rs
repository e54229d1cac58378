//! Waiting for kernels with Ctrl-C in mind.

use crate::error::{NativeError, raised};
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;
use wuji::{Error, Result};

/// Whether this is the thread that Python's handlers of signals answer to.
pub(crate) fn on_main_thread() -> bool {
    thread_local!(static MAIN: Cell<Option<bool>> = const { Cell::new(None) });
    MAIN.with(|main| {
        main.get().unwrap_or_else(|| {
            // SAFETY: both have no preconditions.
            let is = unsafe { libc::gettid() == libc::getpid() };
            main.set(Some(is));
            is
        })
    })
}

/// What ended early because of Ctrl-C is for Python to answer; everything else is an error of ours.
#[cold]
pub(crate) fn failed(py: Python<'_>, error: &Error) -> PyErr {
    if error.code == "W0405" && error.message.contains("Ctrl-C") {
        // Python's handler has not been told yet; it decides what happens, which is `KeyboardInterrupt` unless somebody else does.
        // SAFETY: the interpreter is attached.
        unsafe { ffi::PyErr_SetInterrupt() };
        if let Err(interrupt) = py.check_signals() {
            return interrupt;
        }
    }
    raised(error)
}

/// Does without the interpreter what may wait for kernels of a world; on a GPU, Ctrl-C ends those.
pub(crate) fn waiting<R: Send>(
    py: Python<'_>,
    world: &wuji::World,
    work: impl FnOnce() -> Result<R> + Send,
) -> PyResult<R> {
    let interruptible = world.is_on_gpu() && on_main_thread();
    let _foreground = interruptible.then(|| world.interrupter().foreground());
    if interruptible {
        // What came before ours was the handler would be looked at when the kernels have ended, if they ever do.
        py.check_signals()?;
    }
    py.detach(work).map_err(|error| late(py, &error))
}

/// The error of a pending launch is an exception of the class that its own call would have raised.
#[cold]
fn late(py: Python<'_>, error: &Error) -> PyErr {
    let failed = failed(py, error);
    if !error.code.starts_with("W04") || !failed.is_instance_of::<NativeError>(py) {
        return failed;
    }
    let told =
        (py.import("wuji.lang.errors")).and_then(|m| m.call_method1("told", (failed.value(py),)));
    match told {
        Ok(told) => PyErr::from_value(told),
        Err(_) => failed,
    }
}
