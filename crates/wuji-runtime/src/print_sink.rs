//! The receiver of printed lines and of errors that are handled asynchronously.

use crate::report::Collected;
use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wuji_ir::{Error, Result};

/// Takes one text, with the line break that it ends with, if it does.
type Printer = Arc<dyn Fn(&str) -> Result<()> + Send + Sync>;

/// Receives an error.
type Listener = Arc<dyn Fn(&Error) + Send + Sync>;

/// Errors with these codes go to a listener.
type Handled = (&'static [&'static str], Listener);

#[derive(Debug)]
enum Kept {
    Lines(Collected),
    Problem(Error),
}

/// Where one device prints. Lines of pending launches are buffered until the device lock is free, because a print
/// callback may launch kernels.
#[derive(Default)]
pub(crate) struct PrintSink {
    printer: Mutex<Option<Printer>>,
    handled: Mutex<Option<Handled>>,
    kept: Mutex<Vec<Kept>>,
    /// Why lines could not be printed; not returned yet.
    failed: Mutex<Option<Error>>,
}

impl fmt::Debug for PrintSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrintSink").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PrintSink {
    pub(crate) fn set(&self, printer: impl Fn(&str) -> Result<()> + Send + Sync + 'static) {
        *lock(&self.printer) = Some(Arc::new(printer));
    }

    /// Buffers lines; the caller holds the device lock.
    pub(crate) fn keep(&self, collected: Collected) {
        lock(&self.kept).push(Kept::Lines(collected));
    }

    /// Errors of asynchronous launches with these codes go to a function from now on, and are not returned.
    pub(crate) fn on_async_error(
        &self,
        codes: &'static [&'static str],
        listener: impl Fn(&Error) + Send + Sync + 'static,
    ) {
        *lock(&self.handled) = Some((codes, Arc::new(listener)));
    }

    /// Buffers an error that has a listener; otherwise returns it.
    pub(crate) fn take(&self, error: Error) -> Option<Error> {
        let handled = lock(&self.handled);
        match &*handled {
            Some((codes, _)) if codes.contains(&error.code) => {
                lock(&self.kept).push(Kept::Problem(error));
                None
            }
            _ => Some(error),
        }
    }

    /// Prints what was kept. The caller does not hold the device.
    pub(crate) fn flush(&self) -> Result<()> {
        let kept = std::mem::take(&mut *lock(&self.kept));
        let mut printed = lock(&self.failed).take().map_or(Ok(()), Err);
        for kept in kept {
            match kept {
                Kept::Lines(collected) => printed = printed.and_then(|()| self.print(&collected)),
                Kept::Problem(error) => {
                    let listener = lock(&self.handled).as_ref().map(|f| f.1.clone());
                    if let Some(listen) = listener {
                        listen(&error);
                    }
                }
            }
        }
        printed
    }

    /// The same where no error can be returned: the next call returns it.
    pub(crate) fn flush_later(&self) {
        if let Err(error) = self.flush() {
            *lock(&self.failed) = Some(error);
        }
    }

    /// Prints the lines of a launch, up to the first that fails.
    pub(crate) fn print(&self, collected: &Collected) -> Result<()> {
        if collected.printed.is_empty() && collected.dropped_lines == 0 {
            return Ok(());
        }
        // Clone it, so that the function may set another one, or launch.
        let printer = lock(&self.printer).clone();
        let emit = |line: &str| match &printer {
            Some(print) => print(line),
            None => write_text(line),
        };
        for line in &collected.printed {
            emit(&line.text)?;
        }
        if collected.dropped_lines > 0 {
            emit(&format!("... and {} more lines\n", collected.dropped_lines))?;
        }
        Ok(())
    }
}

/// Writes to standard output, which may be a closed pipe or a full device.
fn write_text(text: &str) -> Result<()> {
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    written.map_err(|e| {
        Error::new("W0516", "cannot print what a kernel prints")
            .note(format!("standard output: {e}"))
    })
}
