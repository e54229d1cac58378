//! Arrays that belong to a world.
//!
//! Such an array is a dense field that kernels get as an array argument. So the host accesses it, tapes copy it and derivatives are linked to
//! it as to any field.

use crate::autodiff::Derivative;
use crate::axes::{Coordinates, Extents};
use crate::element::Element;
use crate::field::Field;
use crate::host::FieldHandle;
use crate::world::{World, here};
use std::fmt;
use std::panic::Location;
use wuji_ir::Result;

/// An array with a shape of its own, which kernels take as `&NdArray<T, D>` to read and write it.
/// [`World::nd_array`] makes one. Clones share the elements.
///
/// In a kernel it is an array: code is compiled once for all shapes, and indices are `i64`. Unlike an array of the host, it has
/// gradients and duals, and launches with it can be on tapes and in graphs.
///
/// ```
/// use wuji::prelude::*;
///
/// #[kernel]
/// fn energy(x: &NdArray<f32, 2>, loss: &Field<f32, 0>) {
///     for [i, j] in x {
///         loss[[]] += x[[i, j]] * x[[i, j]];
///     }
/// }
///
/// # fn main() -> wuji::Result<()> {
/// let world = World::cpu()?;
/// let x = world.nd_array::<f32, 2>("x", [2, 3])?.needs_grad()?;
/// x.copy_from(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let loss = world.scalar::<f32>("loss")?.needs_grad()?;
/// world.tape(&loss, || energy(&x, &loss))?;
/// assert_eq!(x.grad()?.to_vec()?, [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
/// # Ok(())
/// # }
/// ```
pub struct NdArray<T, const D: usize> {
    /// Alone in its tree. Kernels never get it as a field, so nothing aliases the array.
    field: Field<T, D>,
}

impl<T, const D: usize> Clone for NdArray<T, D> {
    fn clone(&self) -> NdArray<T, D> {
        NdArray {
            field: self.field.clone(),
        }
    }
}

/// Whether two handles refer to the same array.
impl<T, const D: usize> PartialEq for NdArray<T, D> {
    fn eq(&self, other: &NdArray<T, D>) -> bool {
        self.field == other.field
    }
}

impl<T, const D: usize> Eq for NdArray<T, D> {}

impl<T: Element, const D: usize> fmt::Debug for NdArray<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NdArray({:?}, rank {D})", self.name())
    }
}

impl World {
    /// An array of zeros that belongs to this world.
    #[track_caller]
    pub fn nd_array<T: Element, const D: usize>(
        &self,
        name: &str,
        shape: impl Into<Extents>,
    ) -> Result<NdArray<T, D>> {
        let field = self.field(name, shape)?;
        Ok(NdArray { field })
    }
}

impl<T: Element, const D: usize> NdArray<T, D> {
    pub(crate) fn handle(&self) -> &FieldHandle {
        self.field.handle()
    }

    /// The array of a field whose memory is like that of an array. Kernels must not get both at once.
    pub(crate) fn of_field(field: &Field<T, D>) -> Result<Option<NdArray<T, D>>> {
        let same = field.handle().is_array()?;
        let field = same.then(|| field.clone());
        Ok(field.map(|field| NdArray { field }))
    }

    pub(crate) fn as_field(&self) -> &Field<T, D> {
        &self.field
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.field.name()
    }

    /// The world it lives in.
    pub fn world(&self) -> &World {
        self.field.world()
    }

    /// How many elements along each axis.
    pub fn shape(&self) -> Result<[u64; D]> {
        self.field.shape()
    }

    /// One element.
    #[track_caller]
    pub fn get(&self, at: impl Coordinates<D>) -> Result<T> {
        self.field.get(at)
    }

    /// Stores a value in one element.
    #[track_caller]
    pub fn set(&self, at: impl Coordinates<D>, value: T) -> Result<()> {
        self.field.set(at, value)
    }

    /// Stores one value in every element.
    #[track_caller]
    pub fn fill(&self, value: T) -> Result<()> {
        self.field.fill(value)
    }

    /// Copies all elements from a slice, row by row.
    #[track_caller]
    pub fn copy_from(&self, values: &[T]) -> Result<()> {
        self.field.copy_from(values)
    }

    /// All elements, row by row.
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.field.to_vec()
    }

    /// Gives it a gradient, unless it has one.
    #[track_caller]
    pub fn needs_grad(self) -> Result<NdArray<T, D>> {
        self.allocate(Derivative::Adjoint, Location::caller())
    }

    /// Makes an array of the same type and shape its gradient.
    #[track_caller]
    pub fn set_grad(&self, gradient: &NdArray<T, D>) -> Result<()> {
        self.field.set_grad(&gradient.field)
    }

    /// Its gradient. An error if it has none.
    #[track_caller]
    pub fn grad(&self) -> Result<NdArray<T, D>> {
        let field = self.field.grad()?;
        Ok(NdArray { field })
    }

    /// Whether it has a gradient.
    pub fn has_grad(&self) -> bool {
        self.field.has_grad()
    }

    /// Makes its gradient zero, and the duals of that.
    #[track_caller]
    pub fn clear_grad(&self) -> Result<()> {
        self.field.clear_grad()
    }

    /// Gives it a dual for forward mode, unless it has one.
    #[track_caller]
    pub fn needs_dual(self) -> Result<NdArray<T, D>> {
        self.allocate(Derivative::Tangent(0), Location::caller())
    }

    /// Gives it several duals: forward mode computes derivatives in as many directions at once.
    #[track_caller]
    pub fn needs_duals(self, directions: u32) -> Result<NdArray<T, D>> {
        let caller = Location::caller();
        (0..directions).try_fold(self, |array, n| {
            array.allocate(Derivative::Tangent(n), caller)
        })
    }

    /// Its dual, the derivative in the first direction. An error if it has none.
    #[track_caller]
    pub fn dual(&self) -> Result<NdArray<T, D>> {
        let field = self.field.dual()?;
        Ok(NdArray { field })
    }

    /// Its dual in one of several directions.
    #[track_caller]
    pub fn dual_in(&self, direction: u32) -> Result<NdArray<T, D>> {
        let field = self.field.dual_in(direction)?;
        Ok(NdArray { field })
    }

    fn allocate(self, which: Derivative, caller: &'static Location<'static>) -> Result<Self> {
        let allocated = self.handle().needs_derivative(which, caller);
        allocated.map_err(|e| e.or_at(here(caller)))?;
        Ok(self)
    }
}
