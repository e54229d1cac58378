//! Arrays of the crate `ndarray`, as contents of fields and as arguments of kernels.

use crate::array::{Array, ArrayMut};
use crate::element::Element;
use crate::field::Field;
use crate::world::here;
use ndarray::{ArrayBase, Data, DataMut, Dim, Dimension, IntoDimension, Ix, RawData, ShapeBuilder};
use std::panic::Location;
use wuji_ir::{Error, Result};

impl<T: Element, const D: usize> Field<T, D>
where
    [Ix; D]: IntoDimension<Dim = Dim<[Ix; D]>>,
    Dim<[Ix; D]>: Dimension,
{
    /// All elements as an array of `ndarray`, in its standard order; those that do not exist are zero.
    ///
    /// ```
    /// use wuji::prelude::*;
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::cpu()?;
    /// let x = world.field::<f64, 2>("x", [2, 3])?;
    /// x.copy_from_ndarray(&ndarray::array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    /// assert_eq!(x.to_ndarray()?.t()[[2, 1]], 6.0);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn to_ndarray(&self) -> Result<ndarray::Array<T, Dim<[Ix; D]>>> {
        let caller = Location::caller();
        let shape = self.shape()?.map(|e| e as usize);
        let values = self.to_vec()?;
        ndarray::Array::from_shape_vec(shape.into_dimension().into_shape_with_order(), values)
            .map_err(|e| {
                Error::new(
                    "W0110",
                    format!("no `ndarray` can hold field `{}`", self.name()),
                )
                .note(e.to_string())
                .at(Some(here(caller)))
            })
    }

    /// Takes all elements from an array of `ndarray`, in whatever order it lies.
    #[track_caller]
    pub fn copy_from_ndarray<S: Data<Elem = T>>(
        &self,
        array: &ArrayBase<S, Dim<[Ix; D]>>,
    ) -> Result<()> {
        let caller = Location::caller();
        let shape = self.shape()?;
        let same = array
            .shape()
            .iter()
            .zip(&shape)
            .all(|(a, b)| *a as u64 == *b);
        if !same {
            let (name, given) = (self.name(), array.shape());
            let what =
                format!("field `{name}` of shape {shape:?} cannot take an array of {given:?}");
            return Err(Error::new("W0112", what).at(Some(here(caller))));
        }
        let values: Vec<T> = array.iter().copied().collect();
        self.copy_from(&values)
    }
}

/// Which element of its memory an array begins with, and the steps along its axes.
fn place<S: RawData, const D: usize>(
    array: &ArrayBase<S, Dim<[Ix; D]>>,
) -> ([usize; D], [isize; D], usize)
where
    Dim<[Ix; D]>: Dimension,
{
    let shape = std::array::from_fn(|k| array.shape()[k]);
    let strides: [isize; D] = std::array::from_fn(|k| array.strides()[k]);
    // Axes that go backwards begin at the end of the memory.
    let steps = shape.iter().zip(&strides);
    let start = steps
        .filter(|s| *s.1 < 0)
        .map(|(n, s)| (n.saturating_sub(1)) * s.unsigned_abs());
    (shape, strides, start.sum())
}

fn with_gaps(caller: &Location<'_>) -> Error {
    Error::new(
        "W0111",
        "an array of `ndarray` with gaps cannot be lent to a kernel",
    )
    .help("lend a copy: `.to_owned()`")
    .at(Some(here(caller)))
}

impl<'a, T: Element, const D: usize> Array<'a, T, D>
where
    Dim<[Ix; D]>: Dimension,
{
    /// Lends an array of `ndarray` to kernels, whichever order its axes are in.
    ///
    /// ```
    /// use wuji::prelude::*;
    ///
    /// #[kernel]
    /// fn total(_world: &World, x: &Array<f32, 2>) -> f32 {
    ///     let mut sum = 0.0;
    ///     for [i, j] in x {
    ///         sum += x[[i, j]];
    ///     }
    ///     sum
    /// }
    ///
    /// # fn main() -> wuji::Result<()> {
    /// let world = World::cpu()?;
    /// let x = ndarray::array![[1.0, 2.0], [3.0, 4.0]];
    /// assert_eq!(total(&world, &Array::of_ndarray(&x)?)?, 10.0);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn of_ndarray<S: Data<Elem = T>>(array: &'a ArrayBase<S, Dim<[Ix; D]>>) -> Result<Self> {
        let (shape, strides, start) = place(array);
        let caller = Location::caller();
        let data = array.as_slice_memory_order();
        let data = data.ok_or_else(|| with_gaps(caller))?;
        Array::strided(data, shape, strides, start)
    }
}

impl<'a, T: Element, const D: usize> ArrayMut<'a, T, D>
where
    Dim<[Ix; D]>: Dimension,
{
    /// Lends an array of `ndarray` to kernels that write to it, whichever order its axes are in.
    #[track_caller]
    pub fn of_ndarray<S: DataMut<Elem = T>>(
        array: &'a mut ArrayBase<S, Dim<[Ix; D]>>,
    ) -> Result<Self> {
        let (shape, strides, start) = place(array);
        let caller = Location::caller();
        let data = array.as_slice_memory_order_mut();
        let data = data.ok_or_else(|| with_gaps(caller))?;
        ArrayMut::strided(data, shape, strides, start)
    }
}
