//! Tapes: launches in order, and their gradients in reverse order.

use crate::autodiff::Differentiable;
use crate::autodiff::levels::Levels;
use crate::autodiff::modes::can_record;
use crate::autodiff::recorder::{Recorder, SavedField};
use crate::autodiff::{Derivative, InMode, Mode};
use crate::dynamic;
use crate::host::FieldHandle;
use crate::layout::Tree;
use crate::world::{World, here};
use std::fmt;
use std::panic::Location;
use wuji_ir::types::Imm;
use wuji_ir::{Error, Result};

/// Launches in order, with what their gradients need. [`World::record_tape`] makes one.
///
/// It keeps its fields alive. It takes 16 bytes per launch and 8 for each scalar parameter, and copies of fields whose
/// values a gradient needs and a later launch overwrites.
pub struct Tape {
    world: World,
    recorder: Box<Recorder>,
}

impl fmt::Debug for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tape({} launches)", self.len())
    }
}

impl Tape {
    pub(crate) fn new(world: &World, recorder: Box<Recorder>) -> Tape {
        Tape {
            world: world.clone(),
            recorder,
        }
    }

    /// How many launches it has.
    pub fn len(&self) -> usize {
        self.recorder.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs the gradient kernels of its launches in reverse order. They add to the gradients of all fields, beginning with
    /// those that you have set. Fields have the same values before and after.
    #[track_caller]
    pub fn backward(&self) -> Result<()> {
        let at = here(Location::caller());
        let done = self.recorder.backward(&self.world, None);
        done.map_err(|e| e.or_at(at))
    }

    /// Bytes of memory that its launches take, without the copies of [`Tape::saved`].
    pub fn bytes(&self) -> u64 {
        self.recorder.bytes()
    }

    /// The copies that it has made of fields, because a launch overwrites values that an earlier gradient kernel needs.
    pub fn saved(&self) -> Vec<SavedField> {
        self.recorder.saved()
    }
}

impl World {
    /// Records the launches of a function while they run, and then computes the gradients of a loss with respect to every field
    /// that has one. It clears all gradients first.
    ///
    /// ```
    /// use wuji::prelude::*;
    ///
    /// #[kernel]
    /// fn step(x: &Field<f32, 2>, t: i32) {
    ///     for i in 0..x.shape()[1] {
    ///         x[[t + 1, i]] = x[[t, i]].sin();
    ///     }
    /// }
    ///
    /// #[kernel]
    /// fn sum(x: &Field<f32, 2>, loss: &Field<f32, 0>, t: i32) {
    ///     for i in 0..x.shape()[1] {
    ///         loss[[]] += x[[t, i]];
    ///     }
    /// }
    ///
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::cpu()?;
    /// let x = world.field::<f32, 2>("x", [4, 8])?.needs_grad()?;
    /// let loss = world.scalar::<f32>("loss")?.needs_grad()?;
    /// world.tape(&loss, || {
    ///     for t in 0..3 {
    ///         step(&x, t)?;
    ///     }
    ///     sum(&x, &loss, 3)
    /// })?;
    /// assert_eq!(x.grad()?.get([0, 0])?, 1.0); // the product of cos 0
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn tape<R>(
        &self,
        loss: &impl Differentiable,
        launches: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let at = here(Location::caller());
        let seed = seed_of(loss.subject().0).map_err(|e| e.or_at(at.clone()))?;
        self.clear_gradients().map_err(|e| e.or_at(at.clone()))?;
        let (recorder, result) = self.recorded(launches).map_err(|e| e.or_at(at.clone()))?;
        let done = recorder.backward(self, Some(&seed));
        done.map_err(|e| e.or_at(at))?;
        Ok(result)
    }

    /// Records the launches of a function while they run. Then set the gradients of the outputs, and call
    /// [`Tape::backward`]: for several losses, or vector-valued ones.
    #[track_caller]
    pub fn record_tape(&self, launches: impl FnOnce() -> Result<()>) -> Result<Tape> {
        let at = here(Location::caller());
        let (recorder, ()) = self.recorded(launches).map_err(|e| e.or_at(at))?;
        Ok(Tape::new(self, recorder))
    }

    pub(super) fn recorded<R>(
        &self,
        launches: impl FnOnce() -> Result<R>,
    ) -> Result<(Box<Recorder>, R)> {
        can_record(self)?;
        let recorder = Box::new(Recorder::new(self));
        let mode = InMode::enter(self, Mode::Tape(recorder))?;
        let result = launches()?;
        match mode.finish() {
            Some(Mode::Tape(recorder)) => Ok((recorder, result)),
            // A frontend has ended it.
            Some(
                Mode::Paused | Mode::Replaced | Mode::Gradient | Mode::Tangent | Mode::Watch(_),
            )
            | None => Err(Error::new("W0734", "the tape has ended already")),
        }
    }
}

/// The gradient of a loss, which becomes 1.
pub(crate) struct Seed {
    gradient: FieldHandle,
    one: u64,
}

impl Seed {
    /// In a reverse sweep with its own places for adjoints.
    pub(super) fn fill(&self, levels: &Levels) -> Result<()> {
        self.fill_in(levels.instead_of(self.gradient.clone()))
    }

    /// In the gradient itself.
    pub(crate) fn fill_gradient(&self) -> Result<()> {
        self.fill_in(self.gradient.clone())
    }

    fn fill_in(&self, field: FieldHandle) -> Result<()> {
        let tree = Tree { inner: field.tree };
        let field = dynamic::Field::of(&tree, field.field.as_u32())?;
        field.fill(&[self.one])
    }
}

/// The gradient of a loss. An error if it has none, or is not one float.
pub(crate) fn seed_of(loss: &FieldHandle) -> Result<Seed> {
    let scalars = loss.scalars()?;
    let elements = loss.domain()?.iter();
    let elements = elements.fold(1u64, |n, d| n.saturating_mul(d.1));
    let scalar = match *scalars {
        [scalar] if scalar.is_float() && elements == 1 => scalar,
        _ => {
            let (ty, _) = loss.elem()?;
            let what = format!("field `{}` cannot be a loss", loss.name());
            return Err(Error::new("W0733", what)
                .note(format!("it has {elements} elements of type `{ty}`; a loss is one float"))
                .help("add its elements up in a field without axes, or use `record_tape` and set the gradients of all of them"));
        }
    };
    Ok(Seed {
        gradient: loss.expect_derivative(Derivative::Adjoint)?,
        one: Imm::float(scalar, 1.0).bits(),
    })
}
