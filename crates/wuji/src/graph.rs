//! Graphs: sequences of launches that are recorded once and replayed.

use crate::host::FieldHandle;
use crate::launch::Compiled;
use crate::layout::{TreeBody, TreeInner};
use crate::world::{World, here};
use smallvec::SmallVec;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::thread::ThreadId;
use wuji_ir::{Error, Result};
use wuji_runtime::array::{ArrayArg, KeptArrays};
use wuji_runtime::{Bindings, Captured, Memory, Program};

/// A launch that was recorded.
pub(crate) struct Step {
    pub(crate) compiled: Arc<Compiled>,
    pub(crate) params: SmallVec<[u64; 16]>,
    pub(crate) trees: SmallVec<[Arc<TreeInner>; 4]>,
    /// Arrays on a GPU, kept alive by the owner of the graph.
    pub(crate) arrays: KeptArrays,
    /// Or the fields that hold all of its arrays.
    pub(crate) array_fields: SmallVec<[(u32, FieldHandle); 2]>,
}

impl Step {
    fn arrays(&self) -> Result<SmallVec<[ArrayArg<'_>; 4]>> {
        if self.array_fields.is_empty() {
            return Ok(self.arrays.iter().cloned().collect());
        }
        self.array_fields.iter().map(|(_, f)| f.array()).collect()
    }
}

/// What a thread records.
pub(crate) struct Recorder {
    thread: ThreadId,
    steps: Vec<Step>,
}

/// Launches in order, with their arguments.
///
/// On a GPU this is a CUDA graph: one launch of the host runs all kernels, so that short ones follow each other without launch
/// overhead. On the CPU they run one after the other. Arguments by value are those of the recording; fields have their current
/// contents.
///
/// ```
/// use wuji::prelude::*;
///
/// #[kernel]
/// fn step(a: &Field<f32, 1>, b: &Field<f32, 1>) {
///     for [i] in b {
///         b[[i]] = a[[i]] + 1.0;
///     }
/// }
///
/// # fn main() -> wuji::Result<()> {
/// let world = World::cpu()?;
/// let a = world.field::<f32, 1>("a", [8])?;
/// let b = world.field::<f32, 1>("b", [8])?;
/// let graph = world.record(|| {
///     step(&a, &b)?;
///     step(&b, &a)
/// })?;
/// assert_eq!(a.get(0)?, 0.0); // nothing has run yet
/// for _ in 0..10 {
///     graph.launch()?;
/// }
/// assert_eq!(a.get(0)?, 20.0);
/// # Ok(())
/// # }
/// ```
pub struct Graph {
    // Before what it works on.
    captured: Option<Captured>,
    world: World,
    steps: Vec<Step>,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self
            .steps
            .iter()
            .map(|s| &s.compiled.program().module().name);
        f.debug_list().entries(names).finish()
    }
}

/// Ends a recording when it goes out of scope.
struct Recording<'a>(&'a World);

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        self.0.recorder().take();
        self.0.set_recording(false);
    }
}

impl World {
    /// Records the launches that a function makes in this world on this thread, instead of running them. Other threads are not
    /// affected. Anything that needs the host in between is an error: return values, host arrays, host access to fields; on a GPU
    /// also kernels with random numbers, which would repeat in every replay.
    #[track_caller]
    pub fn record(&self, launches: impl FnOnce() -> Result<()>) -> Result<Graph> {
        let at = here(Location::caller());
        self.ensure_open()?;
        {
            let mut recorder = self.recorder();
            if recorder.is_some() {
                let error = Error::new("W0134", "a graph is being recorded in this world already");
                return Err(error.at(Some(at)));
            }
            *recorder = Some(Recorder {
                thread: std::thread::current().id(),
                steps: Vec::new(),
            });
        }
        // What waits runs before the graph, not in it.
        if let Err(error) = self.run_pending() {
            self.recorder().take();
            return Err(error.or_at(at));
        }
        let recording = Recording(self);
        self.set_recording(true);
        let done = launches();
        let steps = self.recorder().take().map_or_else(Vec::new, |r| r.steps);
        drop(recording);
        done?;
        let mut graph = Graph {
            captured: None,
            world: self.clone(),
            steps,
        };
        let captured = graph.with_steps(|steps| self.device().capture(steps));
        graph.captured = captured.map_err(|e| e.or_at(at))?;
        Ok(graph)
    }

    /// Whether this thread is recording a graph.
    pub(crate) fn is_recording(&self) -> bool {
        self.may_record()
            && (self.recorder().as_ref()).is_some_and(|r| r.thread == std::thread::current().id())
    }

    /// Adds a launch to the graph that this thread records.
    pub(crate) fn add_step(&self, step: Step) -> Result<()> {
        with_bindings(&step, |program, bindings| {
            self.device().fits_graph(program, bindings)
        })?;
        if let Some(recorder) = &mut *self.recorder() {
            recorder.steps.push(step);
        }
        Ok(())
    }

    /// The host cannot access fields while it records.
    pub(crate) fn not_recording(&self) -> Result<()> {
        if self.is_recording() {
            Err(
                Error::new("W0134", "a graph is being recorded: nothing has run yet")
                    .help("look at fields before or after `record`"),
            )
        } else {
            Ok(())
        }
    }
}

fn bodies(step: &Step) -> Result<SmallVec<[&TreeBody; 4]>> {
    step.trees.iter().map(|t| t.body()).collect()
}

fn with_bindings<R>(
    step: &Step,
    work: impl FnOnce(&Program, &Bindings<'_>) -> Result<R>,
) -> Result<R> {
    let (bodies, arrays) = (bodies(step)?, step.arrays()?);
    let memories: SmallVec<[&Memory; 4]> = bodies.iter().map(|b| &b.memory).collect();
    work(
        step.compiled.program(),
        &Bindings {
            params: &step.params,
            trees: &memories,
            arrays: &arrays,
        },
    )
}

impl Graph {
    /// How many launches it has.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    fn with_steps<R>(
        &self,
        work: impl FnOnce(&[(&Program, Bindings<'_>)]) -> Result<R>,
    ) -> Result<R> {
        let bodies = self.steps.iter().map(bodies);
        let bodies = bodies.collect::<Result<Vec<_>>>()?;
        let memories: Vec<SmallVec<[&Memory; 4]>> = bodies
            .iter()
            .map(|b| b.iter().map(|body| &body.memory).collect())
            .collect();
        let arrays = self.steps.iter().map(Step::arrays);
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let steps: Vec<(&Program, Bindings<'_>)> = self
            .steps
            .iter()
            .zip(memories.iter().zip(&arrays))
            .map(|(step, (trees, arrays))| {
                let bindings = Bindings {
                    params: &step.params,
                    trees,
                    arrays,
                };
                (step.compiled.program(), bindings)
            })
            .collect();
        work(&steps)
    }

    /// Runs all launches. On a GPU this is asynchronous; the next synchronizing call returns what they report.
    #[track_caller]
    pub fn launch(&self) -> Result<()> {
        let at = here(Location::caller());
        self.run().map_err(|e| e.or_at(at))
    }

    fn run(&self) -> Result<()> {
        self.world.ensure_open()?;
        self.world.before_host_access()?;
        let device = self.world.device();
        self.with_steps(|steps| {
            device.replay(self.captured.as_ref(), steps, |k, outcome| {
                if let Some(collected) = &outcome.collected {
                    device.print(collected)?;
                }
                let step = &self.steps[k];
                match step
                    .compiled
                    .error_of(&bodies(step)?, &step.arrays()?, outcome)
                {
                    Some(error) => Err(error),
                    None => Ok(()),
                }
            })
        })
    }
}

pub(crate) type RecorderCell = std::sync::Mutex<Option<Recorder>>;
