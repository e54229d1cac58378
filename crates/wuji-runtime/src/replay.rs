//! Launches that are prepared once and run many times.

use crate::backend::cuda::captured::{self, Captured};
use crate::device::Device;
use crate::launch::{Bindings, Outcome, check, released};
use crate::program::Program;
use wuji_ir::Result;

impl Device {
    /// Whether a launch can be part of a graph.
    pub fn fits_graph(&self, program: &Program, bindings: &Bindings<'_>) -> Result<()> {
        let _guard = self.lock.take();
        check(self, program, bindings)?;
        captured::fits(program, bindings)
    }

    /// Makes one thing of launches that the device can do as a whole; `None` where there is no such thing, as on the CPU.
    pub fn capture(&self, steps: &[(&Program, Bindings<'_>)]) -> Result<Option<Captured>> {
        let Some(engine) = self.engine() else {
            return Ok(None);
        };
        let _guard = self.lock.take();
        for (program, bindings) in steps {
            check(self, program, bindings)?;
            captured::fits(program, bindings)?;
        }
        captured::capture(engine, steps, self.seed())
    }

    /// Launches what was captured of these launches, or else one after the other; then `told` is called after each.
    pub fn replay(
        &self,
        captured: Option<&Captured>,
        steps: &[(&Program, Bindings<'_>)],
        mut reported: impl FnMut(usize, &Outcome) -> Result<()>,
    ) -> Result<()> {
        // Tasks are timed one by one.
        let Some(captured) = captured.filter(|_| !self.profiler().is_on()) else {
            for (k, (program, bindings)) in steps.iter().enumerate() {
                let outcome = self.run(program, bindings)?;
                reported(k, &outcome)?;
            }
            return Ok(());
        };
        let turn = self.lock.take();
        let gone = |b: &Bindings<'_>| b.trees.iter().any(|m| m.is_released());
        let done = match steps.iter().any(|(_, bindings)| gone(bindings)) {
            true => Err(released()),
            false => {
                for (program, _) in steps {
                    program.kernel.count_launch();
                }
                captured::replay(captured, steps, self.waits())
            }
        };
        drop(turn);
        self.lock.print_sink.flush();
        done
    }
}
