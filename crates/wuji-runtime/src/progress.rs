//! Progress of compilations.

use crate::tier::Tier;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock};

/// The progress of the compilation of a kernel.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Progress<'a> {
    /// The name of the kernel.
    pub kernel: &'a str,
    /// The last finished step: a pass of Wuji, or `machine code` at the end.
    pub step: &'a str,
    /// Finished steps.
    pub done: usize,
    /// All steps. Machine code is one of them, and takes longest.
    pub of: usize,
    /// The tier: [`Tier::Fast`] or [`Tier::Best`].
    pub tier: Tier,
    /// Whether the kernel already runs on other code. Otherwise a launch waits.
    pub background: bool,
}

type Listener = Arc<dyn Fn(&Progress<'_>) + Send + Sync>;

/// The listeners of the compilations of a device.
#[derive(Default)]
pub(crate) struct ProgressListeners(RwLock<Option<Listener>>);

impl fmt::Debug for ProgressListeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressListeners")
    }
}

impl ProgressListeners {
    pub(crate) fn listen(&self, listener: impl Fn(&Progress<'_>) + Send + Sync + 'static) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(listener));
    }

    /// The progress of one compilation, for the listener that is set when it begins.
    pub(crate) fn reporter<'a>(
        &self,
        kernel: &'a str,
        passes: usize,
        tier: Tier,
        background: bool,
    ) -> StepReporter<'a> {
        let listener = self.0.read().unwrap_or_else(PoisonError::into_inner);
        StepReporter {
            listener: listener.clone(),
            progress: Progress {
                kernel,
                step: "",
                done: 0,
                of: passes + 1,
                tier,
                background,
            },
        }
    }
}

/// Reports the steps of one compilation to the listener.
pub(crate) struct StepReporter<'a> {
    listener: Option<Listener>,
    progress: Progress<'a>,
}

impl<'a> StepReporter<'a> {
    /// A pass is finished.
    pub(crate) fn pass(&mut self, name: &'a str) {
        let done = self.progress.done + 1;
        self.report(name, done.min(self.progress.of));
    }

    /// The machine code is finished, which is the last step.
    pub(crate) fn machine_code(&mut self) {
        self.report("machine code", self.progress.of);
    }

    fn report(&mut self, step: &'a str, done: usize) {
        self.progress = Progress {
            step,
            done,
            ..self.progress
        };
        let Some(listener) = &self.listener else {
            return;
        };
        if self.progress.background {
            // A panic of the listener must not look like one of the compiler. It has printed its message.
            let _ = catch_unwind(AssertUnwindSafe(|| listener(&self.progress)));
        } else {
            listener(&self.progress);
        }
    }
}
