//! Progress of compilations.

use crate::tier::Tier;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock};

/// How far the compilation of a kernel is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Progress<'a> {
    pub kernel: &'a str,
    /// What was done last: a pass of Wuji, or `machine code` at the end.
    pub step: &'a str,
    /// Steps that are done.
    pub done: usize,
    /// All steps. Machine code is one of them, and takes longest.
    pub of: usize,
    /// What is made: [`Tier::Fast`] or [`Tier::Best`].
    pub tier: Tier,
    /// Whether the kernel runs meanwhile, on code that it has already. Otherwise a launch waits.
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

    /// The reports of one compilation, for the listener that is set when it begins.
    pub(crate) fn story<'a>(
        &self,
        kernel: &'a str,
        passes: usize,
        tier: Tier,
        background: bool,
    ) -> Story<'a> {
        let listener = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Story {
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

/// Reports the steps of one compilation.
pub(crate) struct Story<'a> {
    listener: Option<Listener>,
    progress: Progress<'a>,
}

impl<'a> Story<'a> {
    /// A pass is done.
    pub(crate) fn pass(&mut self, name: &'a str) {
        let done = self.progress.done + 1;
        self.tell(name, done.min(self.progress.of));
    }

    /// The machine code is there, which is all.
    pub(crate) fn machine_code(&mut self) {
        self.tell("machine code", self.progress.of);
    }

    fn tell(&mut self, step: &'a str, done: usize) {
        self.progress = Progress {
            step,
            done,
            ..self.progress
        };
        let Some(listener) = &self.listener else {
            return;
        };
        if self.progress.background {
            // A listener that panics must not look like a compiler that does. The panic has printed its message.
            let _ = catch_unwind(AssertUnwindSafe(|| listener(&self.progress)));
        } else {
            listener(&self.progress);
        }
    }
}
