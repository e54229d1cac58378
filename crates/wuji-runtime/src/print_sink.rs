//! The receiver of printed lines and of errors that are handled asynchronously.

use crate::report::Collected;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wuji_ir::Error;

/// Receives one line.
type Printer = Arc<dyn Fn(&str) + Send + Sync>;

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
    pub(crate) fn set(&self, printer: impl Fn(&str) + Send + Sync + 'static) {
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

    /// Prints the buffered lines. The caller does not hold the device lock.
    pub(crate) fn flush(&self) {
        let kept = std::mem::take(&mut *lock(&self.kept));
        for kept in kept {
            match kept {
                Kept::Lines(collected) => self.print(&collected),
                Kept::Problem(error) => {
                    let listener = lock(&self.handled).as_ref().map(|f| f.1.clone());
                    if let Some(listen) = listener {
                        listen(&error);
                    }
                }
            }
        }
    }

    pub(crate) fn print(&self, collected: &Collected) {
        if collected.printed.is_empty() && collected.dropped_lines == 0 {
            return;
        }
        // Clone it, so that the function may set another one, or launch.
        let printer = lock(&self.printer).clone();
        let emit = |line: &str| match &printer {
            Some(print) => print(line),
            None => println!("{line}"),
        };
        for line in &collected.printed {
            emit(&line.text);
        }
        if collected.dropped_lines > 0 {
            emit(&format!("... and {} more lines", collected.dropped_lines));
        }
    }
}
