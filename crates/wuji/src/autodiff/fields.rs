//! The derivatives of typed fields.

use crate::autodiff::Derivative;
use crate::element::Element;
use crate::field::Field;
use crate::host::FieldHandle;
use crate::world::here;
use std::panic::Location;
use wuji_ir::Result;

impl<T: Element, const D: usize> Field<T, D> {
    fn expect(&self, which: Derivative, caller: &'static Location<'static>) -> Result<Field<T, D>> {
        let found = self.handle().expect_derivative(which);
        let FieldHandle { tree, field } = found.map_err(|e| e.or_at(here(caller)))?;
        Ok(Field::new(tree, field))
    }

    fn allocate(self, which: Derivative, caller: &'static Location<'static>) -> Result<Self> {
        let allocated = self.handle().needs_derivative(which, caller);
        allocated.map_err(|e| e.or_at(here(caller)))?;
        Ok(self)
    }

    fn link(
        &self,
        which: Derivative,
        other: &Field<T, D>,
        caller: &'static Location<'static>,
    ) -> Result<()> {
        let linked = self.handle().set_derivative(which, other.handle());
        linked.map_err(|e| e.or_at(here(caller)))
    }

    /// Gives it a gradient, in a tree of the same structure, unless it has one.
    ///
    /// ```
    /// use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::interpreter()?;
    /// let x = world.field::<f32, 2>("x", [3, 4])?.needs_grad()?;
    /// assert_eq!(x.grad()?.shape()?, [3, 4]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn needs_grad(self) -> Result<Field<T, D>> {
        self.allocate(Derivative::Adjoint, Location::caller())
    }

    /// Makes a field of the same type and extents its gradient, in any layout.
    ///
    /// ```
    /// use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::interpreter()?;
    /// let x = world.field::<f32, 1>("x", 64)?;
    /// let sparse = world.layout(|root| root.pointer(I, 8).dense(I, 8).place("sparse"))?;
    /// x.set_grad(&sparse)?;
    /// assert_eq!(x.grad()?, sparse);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn set_grad(&self, gradient: &Field<T, D>) -> Result<()> {
        self.link(Derivative::Adjoint, gradient, Location::caller())
    }

    /// Its gradient. An error if it has none.
    #[track_caller]
    pub fn grad(&self) -> Result<Field<T, D>> {
        self.expect(Derivative::Adjoint, Location::caller())
    }

    /// Whether it has a gradient.
    pub fn has_grad(&self) -> bool {
        self.handle().derivative(Derivative::Adjoint).is_some()
    }

    /// Makes its gradient zero, and the duals of that.
    #[track_caller]
    pub fn clear_grad(&self) -> Result<()> {
        let at = here(Location::caller());
        let gradient = self.handle().expect_derivative(Derivative::Adjoint);
        gradient
            .and_then(|g| g.clear_constant())
            .map_err(|e| e.or_at(at))
    }

    /// Gives it a dual for forward mode, in a tree of the same structure, unless it has one.
    #[track_caller]
    pub fn needs_dual(self) -> Result<Field<T, D>> {
        self.allocate(Derivative::Tangent(0), Location::caller())
    }

    /// Gives it several duals: forward mode computes derivatives in as many directions at once.
    #[track_caller]
    pub fn needs_duals(self, directions: u32) -> Result<Field<T, D>> {
        let caller = Location::caller();
        (0..directions).try_fold(self, |field, n| {
            field.allocate(Derivative::Tangent(n), caller)
        })
    }

    /// Makes a field of the same type and extents its dual, in any layout.
    #[track_caller]
    pub fn set_dual(&self, dual: &Field<T, D>) -> Result<()> {
        self.link(Derivative::Tangent(0), dual, Location::caller())
    }

    /// Its dual, the derivative in the first direction. An error if it has none.
    #[track_caller]
    pub fn dual(&self) -> Result<Field<T, D>> {
        self.expect(Derivative::Tangent(0), Location::caller())
    }

    /// Its dual in one of several directions.
    #[track_caller]
    pub fn dual_in(&self, direction: u32) -> Result<Field<T, D>> {
        self.expect(Derivative::Tangent(direction), Location::caller())
    }
}
