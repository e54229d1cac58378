//! Where the lines go that kernels print, and problems that are no errors.

use crate::report::Collected;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wuji_ir::Error;

/// Takes one line.
type Printer = Arc<dyn Fn(&str) + Send + Sync>;

/// Takes a problem.
type Listener = Arc<dyn Fn(&Error) + Send + Sync>;

/// Problems of these codes are for a listener.
type Forgiven = (&'static [&'static str], Listener);

#[derive(Debug)]
enum Kept {
    Lines(Collected),
    Problem(Error),
}

/// Where one device prints. Lines of pending launches are buffered until the device lock is free, because a print callback may
/// launch kernels.
#[derive(Default)]
pub(crate) struct PrintSink {
    printer: Mutex<Option<Printer>>,
    forgiven: Mutex<Option<Forgiven>>,
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

    /// For later; the caller holds the device.
    pub(crate) fn keep(&self, collected: Collected) {
        lock(&self.kept).push(Kept::Lines(collected));
    }

    /// Errors of asynchronous launches with these codes go to a function from now on, and are not returned.
    pub(crate) fn on_async_error(
        &self,
        codes: &'static [&'static str],
        listener: impl Fn(&Error) + Send + Sync + 'static,
    ) {
        *lock(&self.forgiven) = Some((codes, Arc::new(listener)));
    }

    /// Takes a problem if it is no error, for later; else gives it back.
    pub(crate) fn take(&self, error: Error) -> Option<Error> {
        let forgiven = lock(&self.forgiven);
        match &*forgiven {
            Some((codes, _)) if codes.contains(&error.code) => {
                lock(&self.kept).push(Kept::Problem(error));
                None
            }
            _ => Some(error),
        }
    }

    /// Prints what was kept. The caller does not hold the device.
    pub(crate) fn flush(&self) {
        let kept = std::mem::take(&mut *lock(&self.kept));
        for kept in kept {
            match kept {
                Kept::Lines(collected) => self.print(&collected),
                Kept::Problem(error) => {
                    let listener = lock(&self.forgiven).as_ref().map(|f| f.1.clone());
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
        // A copy, so that the function may set another one, or launch.
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
