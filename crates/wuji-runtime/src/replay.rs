//! Graphs: launches that are captured once and replayed many times.

use crate::backend::CapturedGraph;
use crate::device::Device;
use crate::launch::{Bindings, Outcome, check, released};
use crate::memory::DeviceLock;
use crate::program::Program;
use std::sync::Arc;
use wuji_ir::{Error, Result};

/// Launches that the backend of a device has captured. It does not keep programs or memory alive: its owner does.
#[derive(Debug)]
pub struct Captured {
    graph: Box<dyn CapturedGraph>,
    /// The lock of the device that has captured it.
    lock: Arc<DeviceLock>,
}

/// The error for a kernel that cannot be in a graph.
pub(crate) fn unfit(kernel: &str, why: &str) -> Error {
    Error::new(
        "W0134",
        format!("kernel `{kernel}` cannot be in a graph: {why}"),
    )
    .help("launch it separately, before or after the graph")
}

impl Device {
    /// Whether a launch can be part of a graph.
    pub fn fits_graph(&self, program: &Program, bindings: &Bindings<'_>) -> Result<()> {
        let _guard = self.lock.take()?;
        self.fits_locked(program, bindings)
    }

    fn fits_locked(&self, program: &Program, bindings: &Bindings<'_>) -> Result<()> {
        program.check_owner(&self.lock)?;
        check(self, program, bindings)?;
        if program.result.is_some() {
            let name = &program.module.name;
            return Err(unfit(
                name,
                "it returns a result, which needs a synchronization",
            ));
        }
        self.backend.fits_graph(program, bindings)
    }

    /// Captures launches that the backend can run as a whole. `None` if it cannot, as on the CPU.
    pub fn capture(&self, steps: &[(&Program, Bindings<'_>)]) -> Result<Option<Captured>> {
        if !self.capabilities().graphs {
            return Ok(None);
        }
        let _guard = self.lock.take()?;
        for (program, bindings) in steps {
            self.fits_locked(program, bindings)?;
        }
        let graph = self.backend.capture(steps, self.seed())?;
        Ok(graph.map(|graph| Captured {
            graph,
            lock: self.lock.clone(),
        }))
    }

    /// Replays captured launches, or launches them one after the other; then `reported` is called after each.
    pub fn replay(
        &self,
        captured: Option<&Captured>,
        steps: &[(&Program, Bindings<'_>)],
        mut reported: impl FnMut(usize, &Outcome) -> Result<()>,
    ) -> Result<()> {
        // The profiler times each task separately.
        let Some(captured) = captured.filter(|_| !self.profiler().is_on()) else {
            for (k, (program, bindings)) in steps.iter().enumerate() {
                let outcome = self.run(program, bindings)?;
                reported(k, &outcome)?;
            }
            return Ok(());
        };
        let guard = self.lock.take()?;
        let done = self.replay_locked(captured, steps);
        drop(guard);
        done.and(self.lock.print_sink.flush())
    }

    fn replay_locked(&self, captured: &Captured, steps: &[(&Program, Bindings<'_>)]) -> Result<()> {
        if !Arc::ptr_eq(&captured.lock, &self.lock) {
            return Err(Error::new(
                "W0118",
                "the graph was captured on another device",
            ));
        }
        let gone = |b: &Bindings<'_>| b.trees.iter().any(|m| m.is_released());
        if steps.iter().any(|(_, bindings)| gone(bindings)) {
            return Err(released());
        }
        for (program, _) in steps {
            program.kernel.count_launch();
        }
        captured.graph.replay(steps, self.waits())
    }
}
