//! Launches captured as a CUDA graph and replayed as a whole.

use super::engine::CudaEngine;
use super::graph::CudaGraph;
use super::launch::{Enqueue, activated, enqueue, launch_info};
use super::pending::LaunchInfo;
use super::program::CudaProgram;
use super::tree::DeviceTree;
use crate::array::Owner;
use crate::backend::CapturedGraph;
use crate::backend::tasks::{BoundSource, DimPlan};
use crate::launch::Bindings;
use crate::program::Program;
use crate::replay::unfit;
use smallvec::SmallVec;
use std::sync::Arc;
use wuji_ir::module::Module;
use wuji_ir::{Error, Result};

/// A graph of launches. It does not keep programs or memory alive: its owner does.
#[derive(Debug)]
pub(super) struct CapturedLaunches {
    engine: Arc<CudaEngine>,
    graph: Arc<CudaGraph>,
    /// The first launch, which represents all of them.
    info: Arc<LaunchInfo>,
    /// Numbers of the launches, for their reports.
    numbers: Vec<u64>,
    /// The code and addresses in the graph.
    frozen: Vec<Frozen>,
    prints: bool,
}

/// Code and memory that must still be the same when a launch is replayed.
#[derive(Debug, PartialEq)]
struct Frozen {
    code: *const Module,
    places: SmallVec<[u64; 4]>,
}

// SAFETY: the pointer is only compared, with those of live modules.
unsafe impl Send for Frozen {}
// SAFETY: as above.
unsafe impl Sync for Frozen {}

impl Frozen {
    fn of(program: &Program, bindings: &Bindings<'_>) -> Frozen {
        let trees = bindings.trees.iter();
        let trees = trees.map(|m| m.storage_if::<DeviceTree>().map_or(0, DeviceTree::base));
        let arrays = bindings.arrays.iter().map(|a| a.view().base as u64);
        Frozen {
            code: Arc::as_ptr(&program.module),
            places: trees.chain(arrays).collect(),
        }
    }
}

impl Drop for CapturedLaunches {
    fn drop(&mut self) {
        // The graph may be in flight.
        let numbers = std::mem::take(&mut self.numbers);
        self.engine.free(self.graph.clone(), numbers);
    }
}

/// Whether a launch can be part of a graph.
pub(super) fn fits(program: &Program, bindings: &Bindings<'_>) -> Result<()> {
    let name = &program.module.name;
    let code: &CudaProgram = program.executable()?;
    if bindings
        .arrays
        .iter()
        .any(|a| a.owner() == Owner::Host && !a.is_empty())
    {
        let why = "one of its arguments is an array of the host, which is copied at each launch";
        return Err(unfit(name, why));
    }
    if code.draws {
        let why = "it draws random numbers, which would be the same each time";
        return Err(unfit(name, why));
    }
    let in_temp = |p: BoundSource| matches!(p, BoundSource::Temp(..));
    let waits = code
        .tasks
        .iter()
        .filter_map(|t| t.plan.chunks.as_ref())
        .any(|plan| plan.cooperative && plan.dims.iter().flat_map(DimPlan::bounds).any(in_temp));
    if waits {
        let why = "the host has to know how long one of its loops is, which it computes itself";
        return Err(unfit(name, why));
    }
    if code.tasks.iter().any(|t| t.plan.repeat.is_some()) {
        let why =
            "its control flow decides how often parallel loops run, and the host has to know that";
        return Err(unfit(name, why));
    }
    Ok(())
}

/// Captures launches as a graph. The caller holds the device lock and has checked the bindings.
pub(super) fn capture(
    engine: &Arc<CudaEngine>,
    steps: &[(&Program, Bindings<'_>)],
    seed: u64,
) -> Result<Option<CapturedLaunches>> {
    let Some((first, bindings)) = steps.first() else {
        return Ok(None);
    };
    let first = Arc::new(launch_info(first, bindings));
    let mut numbers = Vec::new();
    let mut launches = Vec::new();
    for (program, bindings) in steps {
        match engine.keep_slot(launch_info(program, bindings)) {
            Ok(pending) => {
                numbers.push(pending.number);
                launches.push(pending);
            }
            Err(error) => {
                engine.release_slots(&numbers);
                return Err(error);
            }
        }
    }
    let captured = engine.capture(|| {
        for ((program, bindings), pending) in steps.iter().zip(&launches) {
            let how = Enqueue {
                name: &program.module.name,
                seed,
                launch: 0,
                timed: false,
                pending: *pending,
            };
            enqueue(&how, program.executable()?, bindings, &[])?;
        }
        Ok(())
    });
    let graph = match captured {
        Ok(graph) => graph,
        Err(error) => {
            engine.release_slots(&numbers);
            return Err(error);
        }
    };
    let mut prints = false;
    for (program, _) in steps {
        prints |= program.executable::<CudaProgram>()?.prints;
    }
    Ok(Some(CapturedLaunches {
        frozen: steps.iter().map(|(p, b)| Frozen::of(p, b)).collect(),
        engine: engine.clone(),
        graph: Arc::new(graph),
        info: first,
        numbers,
        prints,
    }))
}

impl CapturedGraph for CapturedLaunches {
    fn replay(&self, steps: &[(&Program, Bindings<'_>)], wait: bool) -> Result<()> {
        let engine = &self.engine;
        let now = steps.iter().map(|(p, b)| Frozen::of(p, b));
        if !self.frozen.iter().eq(now.collect::<Vec<_>>().iter()) {
            return Err(Error::new(
                "W0118",
                "a graph is replayed on different memory",
            ));
        }
        engine
            .before_launch(self.prints)
            .map_err(|e| e.note("the graph was not launched"))?;
        for (program, bindings) in steps {
            for tree in activated(program.executable()?, bindings) {
                tree.before_launch()?;
            }
        }
        engine.replays(&self.info)?;
        // SAFETY: code and memory are those that were captured, and still exist: both are freed after the launches
        // that use them.
        unsafe { engine.stream.launch_graph(&self.graph) }?;
        for (program, bindings) in steps {
            for tree in activated(program.executable()?, bindings) {
                tree.after_launch()?;
            }
        }
        engine.entered()?;
        if wait { engine.finish() } else { Ok(()) }
    }
}
