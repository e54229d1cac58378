//! What the launches of a thread do instead of just running: they are recorded on tapes, or run a derivative.

use crate::autodiff::checkpoints::Watcher;
use crate::autodiff::derive::{DerivedTrees, Tangents};
use crate::autodiff::parts::{Prepared, grad_of_parts, run_parts};
use crate::autodiff::recorder::{Backward, Recorder};
use crate::launch::{Launch, Launched};
use crate::world::{World, here, lock};
use rustc_hash::FxHashMap;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use wuji_ir::{Error, Result};

/// The modes of all threads that use one.
#[derive(Default)]
pub(crate) struct Modes {
    /// How many there are, so that other launches cost nothing more.
    used: AtomicUsize,
    /// Of each thread, the innermost last.
    stacks: Mutex<FxHashMap<ThreadId, Vec<Mode>>>,
    /// The most bytes that the copies of a tape may take; 0 for the default.
    tape_limit: AtomicU64,
}

impl fmt::Debug for Modes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Modes({})", self.used.load(Ordering::Relaxed))
    }
}

/// What a launch does.
pub(crate) enum Mode {
    /// Runs and is recorded; then the next mode has its turn.
    Tape(Box<Recorder>),
    /// Runs unrecorded, as a constant: in forward mode, what it writes has no tangent.
    Paused,
    /// Runs unrecorded, because it has a gradient of its own. Forward mode differentiates it.
    Replaced,
    /// Runs its gradient kernel instead.
    Gradient,
    /// Computes tangents as well.
    Tangent,
    /// Runs, and is looked at; then the next mode has its turn.
    Watch(Box<Watcher>),
}

impl Modes {
    /// Whether a thread has a mode.
    pub(crate) fn are_used(&self) -> bool {
        self.used.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn push(&self, mode: Mode) {
        let thread = std::thread::current().id();
        lock(&self.stacks).entry(thread).or_default().push(mode);
        self.used.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn pop(&self) -> Option<Mode> {
        let thread = std::thread::current().id();
        let mut stacks = lock(&self.stacks);
        let stack = stacks.get_mut(&thread)?;
        let mode = stack.pop();
        if stack.is_empty() {
            stacks.remove(&thread);
        }
        if mode.is_some() {
            self.used.fetch_sub(1, Ordering::Relaxed);
        }
        mode
    }

    /// Calls a function on the innermost mode of this thread.
    pub(crate) fn innermost<R>(&self, visit: impl FnOnce(Option<&mut Mode>) -> R) -> R {
        let thread = std::thread::current().id();
        let mut stacks = lock(&self.stacks);
        visit(stacks.get_mut(&thread).and_then(|s| s.last_mut()))
    }

    /// Whether launches of this thread run gradient kernels.
    pub(crate) fn is_gradient(&self) -> bool {
        self.innermost(|mode| matches!(mode, Some(Mode::Gradient)))
    }

    /// Whether this thread is in forward mode.
    fn is_forward(&self) -> bool {
        let thread = std::thread::current().id();
        let stacks = lock(&self.stacks);
        let stack = stacks.get(&thread);
        stack.is_some_and(|s| s.iter().any(|m| matches!(m, Mode::Tangent)))
    }

    /// Leaves forward mode, and what is inside of it, until the result is dropped. `None` if this thread is not in forward mode.
    pub(super) fn leave_forward_mode(&self) -> Option<Inside<'_>> {
        let thread = std::thread::current().id();
        let mut stacks = lock(&self.stacks);
        let stack = stacks.get_mut(&thread)?;
        let forward = stack.iter().rposition(|m| matches!(m, Mode::Tangent))?;
        let inside = stack.split_off(forward);
        Some(Inside {
            modes: self,
            stack: inside,
        })
    }

    /// Takes the modes of this thread for a while. What it launches meanwhile just runs.
    pub(super) fn take(&self) -> Taken<'_> {
        let thread = std::thread::current().id();
        Taken {
            modes: self,
            stack: lock(&self.stacks).remove(&thread).unwrap_or_default(),
        }
    }
}

/// The modes of a thread, which get them back on drop.
pub(super) struct Taken<'m> {
    modes: &'m Modes,
    pub(super) stack: Vec<Mode>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.stack.is_empty() {
            let thread = std::thread::current().id();
            let stack = std::mem::take(&mut self.stack);
            lock(&self.modes.stacks).insert(thread, stack);
        }
    }
}

/// The innermost modes of a thread, which get them back on drop.
pub(super) struct Inside<'m> {
    modes: &'m Modes,
    stack: Vec<Mode>,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let thread = std::thread::current().id();
        let mut stacks = lock(&self.modes.stacks);
        stacks.entry(thread).or_default().append(&mut self.stack);
    }
}

/// Does with a launch what the modes of this thread say.
pub(crate) fn run(world: &World, launch: &Launch<'_>) -> Result<Launched> {
    let mut taken = world.modes().take();
    run_in(&mut taken.stack, world, launch)
}

pub(super) fn run_in(modes: &mut [Mode], world: &World, launch: &Launch<'_>) -> Result<Launched> {
    let Some((mode, outer)) = modes.split_last_mut() else {
        return launch.run_primal(world);
    };
    match mode {
        Mode::Paused => run_unrecorded(outer, world, launch, Tangents::Zero),
        Mode::Replaced => run_unrecorded(outer, world, launch, Tangents::Computed),
        Mode::Tape(recorder) => {
            let recorded = match recorder.prepare(world, launch)? {
                Prepared::Whole(variant) => variant,
                Prepared::Parts(parts) => return run_parts(modes, world, launch, &parts),
            };
            let launched = run_in(outer, world, launch)?;
            if launched.error.is_none() {
                recorder.add(recorded, launch.params)?;
            }
            Ok(launched)
        }
        Mode::Watch(watcher) => {
            watcher.prepare(launch)?;
            run_in(outer, world, launch)
        }
        Mode::Gradient => {
            let derived = DerivedTrees::adjoints(launch)?;
            if derived.is_empty() {
                // Nothing depends on it.
                return Ok(Launched {
                    result: launch.compiled.no_result(),
                    error: None,
                });
            }
            let checked = derived.check_versions(launch);
            let gradient = checked.and_then(|()| derived.gradient(world, launch.compiled, &[]));
            let gradient = match gradient {
                Ok(gradient) => gradient,
                Err(why) => return grad_of_parts(outer, world, launch, &derived, why),
            };
            let arrays = derived.array_args(launch.arrays)?;
            let instead = Launch {
                compiled: &gradient,
                trees: &derived.trees,
                arrays: &arrays,
                array_fields: &derived.array_fields,
                owners: &[],
                ..*launch
            };
            let launched = run_in(outer, world, &instead)?;
            Ok(Launched {
                result: launch.compiled.no_result(),
                ..launched
            })
        }
        Mode::Tangent => in_forward_mode(world, launch, Tangents::Computed, |launch| {
            run_in(outer, world, launch)
        }),
    }
}

/// Runs a launch that no tape records.
fn run_unrecorded(
    modes: &mut [Mode],
    world: &World,
    launch: &Launch<'_>,
    tangents: Tangents,
) -> Result<Launched> {
    let Some((mode, outer)) = modes.split_last_mut() else {
        return launch.run_primal(world);
    };
    match mode {
        Mode::Tape(recorder) => recorder.note_writes(launch)?,
        // What it writes is part of the state all the same.
        Mode::Watch(watcher) => watcher.prepare(launch)?,
        Mode::Paused => return run_unrecorded(outer, world, launch, Tangents::Zero),
        Mode::Replaced | Mode::Gradient => {}
        Mode::Tangent => {
            return in_forward_mode(world, launch, tangents, |launch| {
                run_unrecorded(outer, world, launch, tangents)
            });
        }
    }
    run_unrecorded(outer, world, launch, tangents)
}

/// Runs the kernel that also writes tangents in place of a launch, if there are any.
fn in_forward_mode(
    world: &World,
    launch: &Launch<'_>,
    tangents: Tangents,
    run: impl FnOnce(&Launch<'_>) -> Result<Launched>,
) -> Result<Launched> {
    let derived = DerivedTrees::tangents(launch)?;
    if derived.is_empty() {
        return run(launch);
    }
    let tangent = derived.tangent(world, launch.compiled, tangents)?;
    let arrays = derived.array_args(launch.arrays)?;
    run(&Launch {
        compiled: &tangent,
        trees: &derived.trees,
        arrays: &arrays,
        array_fields: &derived.array_fields,
        owners: &[],
        ..*launch
    })
}

/// Leaves a mode when it goes out of scope.
#[derive(Debug)]
pub(crate) struct InMode<'w>(&'w World);

impl<'w> InMode<'w> {
    pub(crate) fn enter(world: &'w World, mode: Mode) -> Result<InMode<'w>> {
        world.ensure_open()?;
        world.modes().push(mode);
        Ok(InMode(world))
    }

    /// Leaves it, and gives it.
    pub(crate) fn finish(self) -> Option<Mode> {
        let mode = self.0.modes().pop();
        std::mem::forget(self);
        mode
    }
}

impl Drop for InMode<'_> {
    fn drop(&mut self) {
        self.0.modes().pop();
    }
}

impl World {
    /// Sets the most bytes that a tape may take for copies of fields whose values are overwritten. Default: half of what the
    /// world may still allocate when the tape begins.
    pub fn set_tape_memory_limit(&self, bytes: u64) {
        let limit = &self.modes().tape_limit;
        limit.store(bytes.max(1), Ordering::Relaxed);
    }

    pub(crate) fn tape_memory_limit(&self) -> u64 {
        match self.modes().tape_limit.load(Ordering::Relaxed) {
            0 => self.device().memory_left() / 2,
            limit => limit,
        }
    }

    /// Runs the gradient kernels of what a function launches, instead of the kernels themselves: each adds to the gradients of
    /// its inputs what those of its outputs imply. A kernel must have run before, and the fields that it read must have the
    /// values that they had then.
    ///
    /// A kernel with several loops may overwrite values that its own gradient needs. Then it runs again, loop by loop, before
    /// the gradients of its loops do; the fields that it writes to must have the values from before it.
    ///
    /// Several kernels are launched in reverse order; [`World::tape`] does that by itself.
    ///
    /// ```
    /// use wuji::prelude::*;
    ///
    /// #[kernel]
    /// fn square(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    ///     for [i] in x {
    ///         y[[i]] = x[[i]] * x[[i]];
    ///     }
    /// }
    ///
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::cpu()?;
    /// let x = world.field::<f32, 1>("x", 4)?.needs_grad()?;
    /// let y = world.field::<f32, 1>("y", 4)?.needs_grad()?;
    /// x.fill(3.0)?;
    /// square(&x, &y)?;
    /// y.grad()?.fill(1.0)?;
    /// world.grad(|| square(&x, &y))?;
    /// assert_eq!(x.grad()?.get(0)?, 6.0);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn grad(&self, launches: impl FnOnce() -> Result<()>) -> Result<()> {
        let at = here(Location::caller());
        let mode = InMode::enter(self, Mode::Gradient).map_err(|e| e.or_at(at))?;
        let done = launches();
        drop(mode);
        done
    }

    /// Runs what a function launches in forward mode: kernels compute the duals of their outputs from those of their inputs,
    /// next to the values. A field with several duals has one for each direction.
    ///
    /// ```no_run
    /// use wuji::prelude::*;
    ///
    /// #[kernel]
    /// fn square(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    ///     for [i] in x {
    ///         y[[i]] = x[[i]] * x[[i]];
    ///     }
    /// }
    ///
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::cpu()?;
    /// let x = world.field::<f32, 1>("x", 4)?.needs_dual()?;
    /// let y = world.field::<f32, 1>("y", 4)?.needs_dual()?;
    /// x.fill(3.0)?;
    /// x.dual()?.fill(1.0)?;
    /// world.forward_mode(|| square(&x, &y))?;
    /// assert_eq!((y.get(0)?, y.dual()?.get(0)?), (9.0, 6.0));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn forward_mode<R>(&self, launches: impl FnOnce() -> Result<R>) -> Result<R> {
        let at = here(Location::caller());
        if self.modes().is_forward() {
            let error = Error::new("W0739", "forward mode cannot be inside of forward mode");
            return Err(error
                .at(Some(at))
                .note("a field has one dual, which both would compute")
                .help(
                    "for second derivatives, run one tape in `forward_mode`, or nest two tapes",
                ));
        }
        let mode = InMode::enter(self, Mode::Tangent).map_err(|e| e.or_at(at))?;
        let done = launches();
        drop(mode);
        done
    }

    /// Runs what a function launches without recording it on the tapes around it: their gradients treat what it writes as
    /// constant. In forward mode, what it stores has the dual zero.
    #[track_caller]
    pub fn no_grad<R>(&self, launches: impl FnOnce() -> Result<R>) -> Result<R> {
        let at = here(Location::caller());
        let mode = InMode::enter(self, Mode::Paused).map_err(|e| e.or_at(at))?;
        let done = launches();
        drop(mode);
        done
    }

    /// Runs `forward`, and lets the tapes around it call `backward` where they would run the gradient kernels of what it
    /// launched. Inside of [`World::grad`], calls `backward` instead. Forward mode differentiates what `forward` launches.
    #[track_caller]
    pub fn custom_grad(
        &self,
        forward: impl FnOnce() -> Result<()>,
        backward: impl Fn() -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        self.replaced_grad(forward, backward).map(|_| ())
    }

    /// The same for a kernel with a result; none if `backward` has run instead.
    pub(crate) fn replaced_grad<R>(
        &self,
        forward: impl FnOnce() -> Result<R>,
        backward: impl Fn() -> Result<()> + Send + Sync + 'static,
    ) -> Result<Option<R>> {
        if self.modes().are_used() && self.modes().is_gradient() {
            // What it launches is the gradient already.
            let taken = self.modes().pop();
            let done = backward();
            if let Some(mode) = taken {
                self.modes().push(mode);
            }
            return done.map(|()| None);
        }
        if records_tangents(self) {
            return Err(Error::new(
                "W0734",
                "a tape cannot record a gradient of your own in forward mode",
            )
            .note("the tape records tangents, whose gradients the function does not compute")
            .help("use forward mode outside of the tape, or leave out the gradient of your own"));
        }
        let mode = InMode::enter(self, Mode::Replaced)?;
        let result = forward()?;
        drop(mode);
        self.add_custom(Arc::new(backward));
        Ok(Some(result))
    }

    /// Adds a function to all tapes that record here.
    pub(crate) fn add_custom(&self, backward: Backward) {
        let mut taken = self.modes().take();
        for mode in taken.stack.iter_mut().rev() {
            match mode {
                Mode::Tape(recorder) => recorder.add_custom(backward.clone()),
                Mode::Paused | Mode::Replaced => break,
                Mode::Gradient | Mode::Tangent | Mode::Watch(_) => {}
            }
        }
    }
}

/// Whether a tape records launches of forward mode here.
fn records_tangents(world: &World) -> bool {
    let taken = world.modes().take();
    let inner = taken.stack.iter().rev();
    let mut own = inner.take_while(|mode| !matches!(mode, Mode::Paused | Mode::Replaced));
    own.any(|mode| matches!(mode, Mode::Tangent)) && own.any(|mode| matches!(mode, Mode::Tape(_)))
}

/// Whether a tape records here.
pub(crate) fn records(world: &World) -> bool {
    let taken = world.modes().take();
    let mut inner = taken.stack.iter().rev();
    inner
        .by_ref()
        .take_while(|mode| !matches!(mode, Mode::Paused | Mode::Replaced))
        .any(|mode| matches!(mode, Mode::Tape(_)))
}

/// Whether launches here are recorded, or compute tangents.
pub(crate) fn is_recorded_or_forward(world: &World) -> bool {
    let taken = world.modes().take();
    let mut modes = taken.stack.iter();
    modes.any(|mode| matches!(mode, Mode::Tape(_) | Mode::Tangent))
}

/// An error unless a tape can record here.
pub(crate) fn can_record(world: &World) -> Result<()> {
    world.ensure_open()?;
    if world.is_recording() {
        return Err(Error::new("W0734", "a tape cannot record a graph")
            .note("launches that are recorded in a graph have not run yet")
            .help("record the graph outside of the tape, or launch the kernels themselves"));
    }
    if world.modes().is_gradient() {
        return Err(Error::new("W0734", "a tape cannot record inside of `grad`")
            .help("call `grad` inside of the tape: then the tape records the gradient kernels"));
    }
    Ok(())
}
