//! Derivatives of fields and kernels, and tapes, for frontends.

use super::{Field, Kernel};
use crate::autodiff::{
    Derivative, DerivedTrees, Mode, Recorder, Tangents, Tape, can_record, seed_of,
};
use crate::host::FieldHandle;
use crate::launch::Launch;
use crate::layout::Tree;
use crate::world::World;
use std::panic::Location;
use std::sync::Arc;
use wuji_ir::{Error, Result};

pub use crate::autodiff::ArrayDerivative;

impl Field {
    fn from_handle(handle: FieldHandle) -> Result<Field> {
        let number = handle.field.as_u32();
        Field::of(&Tree { inner: handle.tree }, number)
    }

    fn derivative(&self, which: Derivative) -> Option<Field> {
        let found = self.handle().derivative(which)?;
        // A destroyed one is as good as none.
        Field::from_handle(found).ok()
    }

    /// Makes a field of the same type and extents its gradient.
    pub fn set_grad(&self, gradient: &Field) -> Result<()> {
        let other = gradient.handle();
        self.handle().set_derivative(Derivative::Adjoint, other)
    }

    /// Its gradient, if it has one.
    pub fn grad(&self) -> Option<Field> {
        self.derivative(Derivative::Adjoint)
    }

    /// Gives it a gradient in a tree of the same structure, unless it has one.
    #[track_caller]
    pub fn needs_grad(&self) -> Result<()> {
        let caller = Location::caller();
        (self.handle()).needs_derivative(Derivative::Adjoint, caller)
    }

    /// Makes a field of the same type and extents its dual in a direction; the first is 0.
    pub fn set_dual(&self, direction: u32, dual: &Field) -> Result<()> {
        let which = Derivative::Tangent(direction);
        self.handle().set_derivative(which, dual.handle())
    }

    /// Its dual in a direction, if it has one.
    pub fn dual(&self, direction: u32) -> Option<Field> {
        self.derivative(Derivative::Tangent(direction))
    }

    /// Gives it a dual in a tree of the same structure, unless it has one.
    #[track_caller]
    pub fn needs_dual(&self, direction: u32) -> Result<()> {
        let caller = Location::caller();
        (self.handle()).needs_derivative(Derivative::Tangent(direction), caller)
    }

    /// Makes all elements zero, at the speed of memory.
    pub fn clear(&self) -> Result<()> {
        self.handle().clear()
    }
}

impl Kernel {
    /// A launch without arguments, of which derivatives are found.
    fn launch(&self) -> Launch<'_> {
        Launch {
            compiled: &self.compiled,
            params: &[],
            trees: &self.trees,
            arrays: &[],
            scalars: &[],
            array_fields: &[],
            owners: &[],
        }
    }

    /// Its gradient kernel, for the gradients that its fields have now. The arrays of a launch are those of the kernel, and then
    /// those with the gradients.
    pub fn gradient(&self, arrays: &[ArrayDerivative]) -> Result<Kernel> {
        let derived = DerivedTrees::adjoints(&self.launch())?.with_arrays(arrays);
        let compiled = derived.gradient(&self.world, &self.compiled, &[])?;
        Ok(Kernel {
            world: self.world.clone(),
            compiled,
            trees: derived.trees,
        })
    }

    /// The kernel that also computes the duals of its fields, in all directions that one of them has.
    pub fn tangent(&self, arrays: &[ArrayDerivative]) -> Result<Kernel> {
        let derived = DerivedTrees::tangents(&self.launch())?.with_arrays(arrays);
        let compiled = derived.tangent(&self.world, &self.compiled, Tangents::Computed)?;
        Ok(Kernel {
            world: self.world.clone(),
            compiled,
            trees: derived.trees,
        })
    }
}

/// Records the launches of this thread from now on, until [`end_tape`].
pub fn begin_tape(world: &World) -> Result<()> {
    can_record(world)?;
    let recorder = Box::new(Recorder::new(world));
    world.modes().push(Mode::Tape(recorder));
    Ok(())
}

/// Ends the innermost tape of this thread, and what has begun in it.
pub fn end_tape(world: &World) -> Result<Tape> {
    while let Some(mode) = world.modes().pop() {
        if let Mode::Tape(recorder) = mode {
            return Ok(Tape::new(world, recorder));
        }
    }
    Err(Error::new("W0734", "no tape records here"))
}

/// Until [`resume`], launches of this thread just run.
pub fn pause(world: &World) {
    world.modes().push(Mode::Paused);
}

/// Until [`resume`], launches of this thread run in forward mode.
pub fn begin_forward_mode(world: &World) {
    world.modes().push(Mode::Tangent);
}

/// Ends what [`pause`] or [`begin_forward_mode`] has begun.
pub fn resume(world: &World) {
    let ends = (world.modes()).innermost(|m| matches!(m, Some(Mode::Paused | Mode::Tangent)));
    if ends {
        world.modes().pop();
    }
}

/// Adds a function to the tapes of this thread, which they call where they would run the gradients of what was launched.
pub fn add_custom_gradient(
    world: &World,
    backward: impl Fn() -> Result<()> + Send + Sync + 'static,
) {
    world.add_custom(Arc::new(backward));
}

/// Makes the gradient of a loss 1. An error if it has none, or is not one float.
pub fn seed(loss: &Field) -> Result<()> {
    seed_of(loss.handle())?.fill_gradient()
}

/// An error if a field cannot be the loss of a tape.
pub fn check_loss(loss: &Field) -> Result<()> {
    seed_of(loss.handle()).map(|_| ())
}

/// Makes the duals of all fields of a world zero.
pub fn clear_duals(world: &World) -> Result<()> {
    world.clear_derivatives(|which| matches!(which, Derivative::Tangent(_)))
}
