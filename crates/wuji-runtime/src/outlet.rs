//! Where the lines go that kernels print.

use crate::report::Collected;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Takes one line.
type Printer = Arc<dyn Fn(&str) + Send + Sync>;

/// The way out of one device for lines. Those of launches that nobody has waited for are kept until nobody holds the device:
/// whoever takes a line may launch.
#[derive(Default)]
pub(crate) struct Outlet {
    printer: Mutex<Option<Printer>>,
    kept: Mutex<Vec<Collected>>,
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outlet {
    pub(crate) fn set(&self, printer: impl Fn(&str) + Send + Sync + 'static) {
        *lock(&self.printer) = Some(Arc::new(printer));
    }

    /// For later; the caller holds the device.
    pub(crate) fn keep(&self, collected: Collected) {
        lock(&self.kept).push(collected);
    }

    /// Prints what was kept. The caller does not hold the device.
    pub(crate) fn flush(&self) {
        let kept = std::mem::take(&mut *lock(&self.kept));
        for collected in kept {
            self.print(&collected);
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
