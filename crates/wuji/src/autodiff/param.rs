//! By-value arguments of kernels that have gradients.

use crate::element::Element;
use crate::field::Field;
use crate::host::FieldHandle;
use crate::world::{World, here, lock};
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex};
use wuji_ir::Result;

/// A number, vector or matrix with a gradient, which kernels take by value: `dt: &Param<f32>` is a `f32` in the body of a kernel.
/// [`World::parameter`] makes one. Clones share the value and the gradient.
///
/// ```
/// use wuji::prelude::*;
///
/// #[kernel]
/// fn fall(x: &Field<f32, 1>, v: &Field<f32, 1>, dt: &Param<f32>, loss: &Field<f32, 0>) {
///     for [i] in x {
///         loss[[]] += x[[i]] + v[[i]] * dt;
///     }
/// }
///
/// # fn main() -> wuji::Result<()> {
/// let world = World::cpu()?;
/// let (x, v) = (world.field::<f32, 1>("x", 4)?, world.field::<f32, 1>("v", 4)?);
/// v.fill(3.0)?;
/// let dt = world.parameter("dt", 0.1)?;
/// let loss = world.scalar::<f32>("loss")?.needs_grad()?;
/// world.tape(&loss, || fall(&x, &v, &dt, &loss))?;
/// assert_eq!(dt.grad()?, 12.0);
/// # Ok(())
/// # }
/// ```
pub struct Param<T: Element> {
    /// It has the same value, and the gradient.
    field: Field<T, 0>,
    value: Arc<Mutex<T>>,
}

impl<T: Element> Clone for Param<T> {
    fn clone(&self) -> Param<T> {
        Param {
            field: self.field.clone(),
            value: self.value.clone(),
        }
    }
}

impl<T: Element> fmt::Debug for Param<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Param({:?})", self.field.name())
    }
}

impl<T: Element> Param<T> {
    pub(crate) fn handle(&self) -> &FieldHandle {
        self.field.handle()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.field.name()
    }

    /// The world it lives in.
    pub fn world(&self) -> &World {
        self.field.world()
    }

    /// Its value.
    pub fn get(&self) -> T {
        *lock(&self.value)
    }

    /// Changes its value. Gradients on a tape are with respect to the value before the first change.
    #[track_caller]
    pub fn set(&self, value: T) -> Result<()> {
        let at = here(Location::caller());
        self.field.fill(value).map_err(|e| e.or_at(at))?;
        *lock(&self.value) = value;
        Ok(())
    }

    /// Takes the value of its field.
    pub(crate) fn reload(&self) -> Result<()> {
        *lock(&self.value) = self.field.get(())?;
        Ok(())
    }

    /// Its gradient.
    #[track_caller]
    pub fn grad(&self) -> Result<T> {
        self.field.grad()?.get(())
    }

    /// Changes its gradient.
    #[track_caller]
    pub fn set_grad(&self, gradient: T) -> Result<()> {
        self.field.grad()?.fill(gradient)
    }

    /// Its dual, for forward mode. An error before it is set.
    #[track_caller]
    pub fn dual(&self) -> Result<T> {
        self.field.dual()?.get(())
    }

    /// Changes its dual: forward mode computes the derivative in this direction.
    #[track_caller]
    pub fn set_dual(&self, dual: T) -> Result<()> {
        self.field.clone().needs_dual()?.dual()?.fill(dual)
    }

    /// The field of its value, for what takes fields.
    pub fn as_field(&self) -> &Field<T, 0> {
        &self.field
    }
}

impl World {
    /// A by-value argument of kernels with a gradient. An error if it has no floats.
    #[track_caller]
    pub fn parameter<T: Element>(&self, name: &str, value: T) -> Result<Param<T>> {
        let field = self.scalar::<T>(name)?.needs_grad()?;
        field.fill(value)?;
        Ok(Param {
            field,
            value: Arc::new(Mutex::new(value)),
        })
    }
}
