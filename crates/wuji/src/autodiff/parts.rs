//! Kernels that run in parts on a tape, because they overwrite values that their own gradients need.

use crate::autodiff::derive::{DerivedTrees, written};
use crate::autodiff::modes::{Mode, run_in};
use crate::autodiff::recorder::{Recorder, SourcePlace};
use crate::autodiff::saves::Unit;
use crate::launch::{Compiled, Launch, Launched};
use crate::world::World;
use std::sync::Arc;
use wuji_ir::module::Span;
use wuji_ir::{Error, Result};

/// The parts of a kernel, in order.
pub(crate) type Parts = Arc<[Arc<Compiled>]>;

/// How a tape records a launch.
pub(crate) enum Prepared {
    /// As one launch: its variant, if it has a gradient.
    Whole(Option<u32>),
    /// Part by part.
    Parts(Parts),
}

/// A kernel that runs in parts.
pub(super) struct SplitKernel {
    parts: Parts,
    /// Keeps its address its own.
    _kernel: Arc<Compiled>,
}

/// Whether parts of a kernel may have gradients, although the kernel does not.
fn may_split(error: &Error) -> bool {
    matches!(error.code, "W0706" | "W0736" | "W0740")
}

impl Recorder {
    /// The parts of a launch that cannot be recorded as a whole, for a reason; an error if it has no parts either.
    pub(super) fn split(
        &mut self,
        world: &World,
        launch: &Launch<'_>,
        why: Error,
    ) -> Result<Prepared> {
        let key = launch.address();
        if let Some(known) = self.splits.get(&key) {
            return Ok(Prepared::Parts(known.parts.clone()));
        }
        let derived = DerivedTrees::adjoints(launch)?;
        let parts = parts_of(world, launch, &derived, why)?;
        let split = SplitKernel {
            parts: parts.clone(),
            _kernel: launch.compiled.clone(),
        };
        self.splits.insert(key, split);
        Ok(Prepared::Parts(parts))
    }

    /// Copies everything that a launch may overwrite.
    fn keep_written(&mut self, launch: &Launch<'_>) -> Result<()> {
        self.note_levels(launch)?;
        let mut units = Vec::new();
        for place in written(launch.compiled.source()?) {
            if let Some(field) = launch.field_of(place) {
                units.push(self.unit(Unit::of(&field)?)?);
            }
        }
        units.sort_unstable();
        units.dedup();
        for unit in units {
            let unknown = SourcePlace {
                kernel: u32::MAX,
                span: Span::UNKNOWN,
            };
            self.copy(unit, unknown, None)?;
        }
        Ok(())
    }

    /// Gives fields and trees the values that they had at first.
    fn restore_first(&self) -> Result<()> {
        for state in &self.units {
            let first = state.copies.first().filter(|c| c.before == 0);
            if let Some(saved) = first {
                state.unit.restore(&saved.copy, Some(&state.first))?;
            }
        }
        Ok(())
    }
}

/// The parts of a kernel whose gradient is refused; the error if it has none.
fn parts_of(
    world: &World,
    launch: &Launch<'_>,
    derived: &DerivedTrees,
    why: Error,
) -> Result<Parts> {
    if !may_split(&why) {
        return Err(why);
    }
    match derived.parts(world, launch.compiled) {
        Ok(Some(parts)) => Ok(parts),
        Ok(None) => Err(why),
        // It says why there are no parts.
        Err(error) if error.code == why.code => Err(error),
        Err(_) => Err(why),
    }
}

/// Runs the parts of a launch in the given modes, until one of them fails.
pub(super) fn run_parts(
    modes: &mut [Mode],
    world: &World,
    launch: &Launch<'_>,
    parts: &[Arc<Compiled>],
) -> Result<Launched> {
    let mut launched = Launched {
        result: launch.compiled.no_result(),
        error: None,
    };
    for part in parts {
        let of_part = Launch {
            compiled: part,
            ..*launch
        };
        launched = run_in(modes, world, &of_part)?;
        if launched.error.is_some() {
            break;
        }
    }
    Ok(launched)
}

/// The gradient of a launch whose gradient kernel was refused for a reason: runs the kernel again, part by part, and
/// then the gradient kernels of the parts. Fields have the same values before and after.
pub(super) fn grad_of_parts(
    outer: &[Mode],
    world: &World,
    launch: &Launch<'_>,
    derived: &DerivedTrees,
    why: Error,
) -> Result<Launched> {
    let parts = parts_of(world, launch, derived, why)?;
    let is_nested = outer.iter().any(|mode| match mode {
        Mode::Tape(_) | Mode::Tangent | Mode::Gradient | Mode::Watch(_) => true,
        Mode::Paused | Mode::Replaced => false,
    });
    if is_nested {
        let name = launch.compiled.name();
        let what = format!("the gradient of kernel `{name}` cannot be differentiated here");
        return Err(Error::new("W0739", what)
            .note("the kernel overwrites values that its gradient needs, so `grad` runs it again in parts")
            .help("launch the kernel on a tape instead of calling `grad`"));
    }
    let mut recorder = Box::new(Recorder::new(world));
    recorder.keep_written(launch)?;
    let mut modes = [Mode::Tape(recorder)];
    let launched = run_parts(&mut modes, world, launch, &parts);
    let [Mode::Tape(recorder)] = modes else {
        return launched;
    };
    let done = launched.and_then(|launched| match launched.error {
        Some(error) => Err(error),
        None => recorder.backward(world, None),
    });
    let restored = recorder.restore_first();
    done.and(restored)?;
    Ok(Launched {
        result: launch.compiled.no_result(),
        error: None,
    })
}
