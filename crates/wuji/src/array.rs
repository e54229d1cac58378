//! Host arrays of run-time shape, as kernels take them.
//!
//! A slice is an array of one axis. [`Array`] and [`ArrayMut`] give a slice more axes, or strides:
//!
//! ```
//! use wuji::{Array, Result};
//! # fn main() -> Result<()> {
//! let pixels: Vec<f32> = (0..12).map(|k| k as f32).collect();
//! let image = Array::new(&pixels, [3, 4])?;
//! assert_eq!(image.get([2, 1]), Some(9.0));
//! assert_eq!(image.transposed().get([1, 2]), Some(9.0));
//! # Ok(())
//! # }
//! ```
//!
//! A [`SharedArray`] may alias others. A launch checks for overlap and picks the code for it.

use crate::element::Element;
use crate::world::here;
use std::cell::Cell;
use std::panic::Location;
use wuji_ir::Result;
use wuji_runtime::array::Strides;

/// An array that kernels read.
#[derive(Clone, Debug)]
pub struct Array<'a, T, const D: usize> {
    data: &'a [T],
    strides: Strides,
}

/// An array that kernels read and write.
#[derive(Debug)]
pub struct ArrayMut<'a, T, const D: usize> {
    data: &'a mut [T],
    strides: Strides,
}

/// An array that kernels read and write, and that may alias others. A `Cell` is not `Sync`, so the launch is synchronous.
#[derive(Clone, Debug)]
pub struct SharedArray<'a, T: Copy, const D: usize> {
    data: &'a [Cell<T>],
    strides: Strides,
}

/// Where an element is in the slice; `None` outside.
fn locate(strides: &Strides, at: &[usize]) -> Option<usize> {
    if at
        .iter()
        .zip(&strides.extents)
        .any(|(c, extent)| c >= extent)
    {
        return None;
    }
    // There are elements, so all of them are inside: a view that leaves its slice is refused when it is made.
    let steps = at.iter().zip(&strides.strides);
    let offset = steps.fold(strides.start as isize, |at, (c, stride)| {
        at + *c as isize * stride
    });
    Some(offset as usize)
}

fn checked<const D: usize>(
    strides: Strides,
    len: usize,
    caller: &'static Location<'static>,
) -> Result<Strides> {
    match strides.check(len) {
        Ok(()) => Ok(strides),
        Err(error) => Err(error.at(Some(here(caller)))),
    }
}

macro_rules! common {
    ($name:ident, $data:ty, $get:expr) => {
        impl<'a, T: Element, const D: usize> $name<'a, T, D> {
            /// Row by row, without gaps. The slice may be longer than the array.
            #[track_caller]
            pub fn new(data: $data, shape: [usize; D]) -> Result<Self> {
                let strides = Strides::contiguous(&shape);
                let strides = checked::<D>(strides, data.len(), Location::caller())?;
                Ok($name { data, strides })
            }

            /// Element `[i, j, ..]` is at `start + i * strides[0] + j * strides[1] + ..`.
            #[track_caller]
            pub fn strided(
                data: $data,
                shape: [usize; D],
                strides: [isize; D],
                start: usize,
            ) -> Result<Self> {
                let strides = Strides {
                    extents: shape.into_iter().collect(),
                    strides: strides.into_iter().collect(),
                    start,
                };
                let strides = checked::<D>(strides, data.len(), Location::caller())?;
                Ok($name { data, strides })
            }

            /// How many elements along each axis.
            pub fn shape(&self) -> [usize; D] {
                std::array::from_fn(|k| self.strides.extents[k])
            }

            /// One element; `None` outside.
            pub fn get(&self, at: [usize; D]) -> Option<T> {
                locate(&self.strides, &at).map(|k| $get(&self.data[k]))
            }

            /// The same elements with the axes in the opposite order.
            pub fn transposed(mut self) -> Self {
                self.strides.extents.reverse();
                self.strides.strides.reverse();
                self
            }

            pub(crate) fn strides(&self) -> &Strides {
                &self.strides
            }
        }
    };
}

common!(Array, &'a [T], |element: &T| *element);
common!(ArrayMut, &'a mut [T], |element: &T| *element);
common!(SharedArray, &'a [Cell<T>], Cell::get);

impl<'a, T: Copy, const D: usize> SharedArray<'a, T, D> {
    pub(crate) fn data(&self) -> &'a [Cell<T>] {
        self.data
    }
}

impl<'a, T, const D: usize> Array<'a, T, D> {
    pub(crate) fn data(&self) -> &'a [T] {
        self.data
    }
}

impl<T: Element, const D: usize> ArrayMut<'_, T, D> {
    /// Stores a value in one element; `None` outside.
    pub fn set(&mut self, at: [usize; D], value: T) -> Option<()> {
        let k = locate(&self.strides, &at)?;
        self.data[k] = value;
        Some(())
    }

    pub(crate) fn data(&self) -> &[T] {
        self.data
    }

    pub(crate) fn data_mut(&mut self) -> (&mut [T], &Strides) {
        (self.data, &self.strides)
    }
}
