//! Waiting for kernels, interruptible with Ctrl-C.

use crate::error::{NativeError, raised};
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;
use wuji::{Error, Result};

/// Whether this is the main thread, on which Python runs signal handlers.
pub(crate) fn on_main_thread() -> bool {
    thread_local!(static MAIN: Cell<Option<bool>> = const { Cell::new(None) });
    MAIN.with(|main| {
        main.get().unwrap_or_else(|| {
            // SAFETY: both calls have no preconditions.
            let is = unsafe { libc::gettid() == libc::getpid() };
            main.set(Some(is));
            is
        })
    })
}

/// Converts an error: an interruption by Ctrl-C becomes whatever Python's signal handler raises.
#[cold]
pub(crate) fn failed(py: Python<'_>, error: &Error) -> PyErr {
    if error.code == "W0405" && error.message.contains("Ctrl-C") {
        // Our handler caught the signal, so Python has not seen it. Its handler raises `KeyboardInterrupt` unless replaced.
        // SAFETY: the thread is attached to the interpreter.
        unsafe { ffi::PyErr_SetInterrupt() };
        if let Err(interrupt) = py.check_signals() {
            return interrupt;
        }
    }
    raised(error)
}

/// Releases the GIL for work that may wait for kernels of a world. On a GPU, Ctrl-C interrupts them.
pub(crate) fn waiting<R: Send>(
    py: Python<'_>,
    world: &wuji::World,
    work: impl FnOnce() -> Result<R> + Send,
) -> PyResult<R> {
    let interruptible = world.is_on_gpu() && on_main_thread();
    let _foreground = interruptible.then(|| world.interrupter().foreground());
    if interruptible {
        // Handle signals that arrived before our handler was installed; otherwise they would wait for the kernels to finish.
        py.check_signals()?;
    }
    py.detach(work).map_err(|error| asynchronous(py, &error))
}

/// Converts an error of an asynchronous launch to the exception class that its own call would have raised.
#[cold]
fn asynchronous(py: Python<'_>, error: &Error) -> PyErr {
    let failed = failed(py, error);
    if !error.code.starts_with("W04") || !failed.is_instance_of::<NativeError>(py) {
        return failed;
    }
    let converted = (py.import("wuji.lang.errors"))
        .and_then(|m| m.call_method1("from_native", (failed.value(py),)));
    match converted {
        Ok(error) => PyErr::from_value(error),
        Err(_) => failed,
    }
}
