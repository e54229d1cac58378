//! Windows that come again with the same arguments: a GPU replays them as one graph.

use crate::launch::Compiled;
use crate::layout::TreeBody;
use crate::world::World;
use smallvec::SmallVec;
use wuji_ir::Result;
use wuji_runtime::array::ArrayArg;
use wuji_runtime::log::Level;
use wuji_runtime::{Bindings, Captured, Memory, Program};

/// A window that has run this many times with the same arguments is captured.
const CAPTURE_AFTER: u32 = 2;

/// Something to run, with its arguments.
pub(super) struct Bound<'a> {
    pub(super) compiled: &'a Compiled,
    pub(super) trees: SmallVec<[&'a TreeBody; 4]>,
    pub(super) params: SmallVec<[u64; 32]>,
    pub(super) arrays: SmallVec<[ArrayArg<'a>; 2]>,
}

/// What is known of the runs of a plan.
#[derive(Debug, Default)]
pub(super) struct Replay {
    /// The arguments of the last run: addresses of trees and arrays, and parameters.
    arguments: Vec<u64>,
    /// Runs with them.
    times: u32,
    captured: Option<Captured>,
    /// It cannot be captured.
    refused: bool,
}

impl Replay {
    /// Replays the window, if it was captured with these arguments. `None`: it has to be launched.
    pub(super) fn run(&mut self, world: &World, window: &[Bound<'_>]) -> Option<Result<()>> {
        let device = world.device();
        // One launch is as cheap as a graph.
        if window.len() < 2
            || self.refused
            || !device.capabilities().graphs
            || device.profiler().is_on()
        {
            return None;
        }
        let arguments = arguments(window);
        if self.arguments != arguments {
            *self = Replay {
                arguments,
                times: 1,
                ..Replay::default()
            };
            return None;
        }
        self.times = self.times.saturating_add(1);
        if self.times <= CAPTURE_AFTER {
            return None;
        }
        with_steps(window, |steps| {
            if self.captured.is_none() {
                let captured = device.capture(steps);
                let why = refusal(&captured);
                // What cannot be captured is launched as before.
                self.captured = captured.ok().flatten();
                self.refused = self.captured.is_none();
                if let Some(why) = why {
                    device.log().say(Level::Info, || {
                        let count = window.len();
                        format!("a window of {count} tasks is not replayed as a graph: {why}")
                    });
                }
            }
            let captured = self.captured.as_ref()?;
            let done = device.replay(Some(captured), steps, |_, _| Ok(()));
            // Memory that has moved: nothing was launched yet.
            if done.as_ref().is_err_and(|e| e.code == "W0118") {
                *self = Replay::default();
                return None;
            }
            Some(done)
        })
    }
}

/// Why launches were not captured.
fn refusal<T>(captured: &Result<Option<T>>) -> Option<String> {
    match captured {
        Ok(Some(_)) => None,
        Ok(None) => Some("the device does not capture these launches".to_owned()),
        Err(error) => Some(error.message.clone()),
    }
}

/// Everything that a captured window depends on, but for its code.
fn arguments(window: &[Bound<'_>]) -> Vec<u64> {
    let of = |bound: &Bound<'_>| {
        let trees = bound
            .trees
            .iter()
            .map(|t| std::ptr::from_ref(*t).addr() as u64);
        let arrays = bound.arrays.iter().map(|a| a.address() as u64);
        trees
            .chain(arrays)
            .chain(bound.params.iter().copied())
            .collect::<Vec<u64>>()
    };
    window.iter().flat_map(of).collect()
}

fn with_steps<R>(window: &[Bound<'_>], work: impl FnOnce(&[(&Program, Bindings<'_>)]) -> R) -> R {
    let memories: Vec<SmallVec<[&Memory; 4]>> = window
        .iter()
        .map(|bound| bound.trees.iter().map(|b| &b.memory).collect())
        .collect();
    let steps: Vec<(&Program, Bindings<'_>)> = (window.iter().zip(&memories))
        .map(|(bound, trees)| {
            let bindings = Bindings {
                params: &bound.params,
                trees,
                arrays: &bound.arrays,
            };
            (bound.compiled.program(), bindings)
        })
        .collect();
    work(&steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wuji_ir::Error;

    #[test]
    fn a_refused_capture_has_a_reason() {
        assert_eq!(refusal(&Ok(Some(()))), None);
        let none = refusal::<()>(&Ok(None)).unwrap();
        assert_eq!(none, "the device does not capture these launches");
        let error = Error::new("W0134", "kernel `k` cannot be in a graph: it waits");
        let why = refusal::<()>(&Err(error)).unwrap();
        assert_eq!(why, "kernel `k` cannot be in a graph: it waits");
    }
}
