//! Limits the work in flight: when the queue of the driver is full, a launch blocks in the driver, and cannot be interrupted.

use super::stream::{CudaEvent, CudaStream};
use std::sync::{Mutex, PoisonError};
use wuji_ir::Result;

/// Tasks between two marks. At most twice as many are in flight; the driver's queue has room for about a thousand commands.
const TASKS: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Queue(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Tasks since the last mark.
    tasks: usize,
    /// The last two marks, the older one first.
    marks: [Option<CudaEvent>; 2],
}

impl Queue {
    /// Before some tasks are enqueued: waits with `wait` for the mark before the last one, if there are many since.
    pub(super) fn enter(
        &self,
        stream: &CudaStream,
        tasks: usize,
        wait: impl FnOnce(&CudaEvent) -> Result<()>,
    ) -> Result<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.tasks += tasks;
        if state.tasks < TASKS {
            return Ok(());
        }
        let mark = match state.marks[0].take() {
            Some(mark) => {
                wait(&mark)?;
                mark
            }
            None => stream.context().untimed_event()?,
        };
        stream.record(&mark)?;
        state.marks = [state.marks[1].take(), Some(mark)];
        state.tasks = 0;
        Ok(())
    }
}
