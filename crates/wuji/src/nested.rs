//! Conversion between fields and nested arrays or vectors.
//!
//! ```
//! use wuji::prelude::*;
//! # fn main() -> wuji::Result<()> {
//! let world = World::cpu()?;
//! let m = world.field::<f32, 2>("m", [2, 3])?;
//! m.copy_from_nested(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
//! assert_eq!(m.get([1, 0])?, 4.0);
//! assert_eq!(m.to_nested()?, vec![vec![1.0, 2.0, 3.0], vec![4.0, 5.0, 6.0]]);
//! # Ok(())
//! # }
//! ```

use crate::element::Element;
use crate::field::Field;
use crate::world::here;
use std::panic::Location;
use wuji_ir::{Error, Result};

/// Values in arrays, vectors or slices nested `D` deep.
pub trait Nested<T, const D: usize> {
    /// How many there are along each index, from outside in, judged by the first of each.
    #[doc(hidden)]
    fn extents(&self, out: &mut Vec<usize>);

    /// Adds all values, row by row; false when some are not as long as the extents say.
    #[doc(hidden)]
    fn flatten(&self, extents: &[usize], out: &mut Vec<T>) -> bool;
}

/// A vector of vectors nested `D` deep.
pub trait NestedVec<T, const D: usize> {
    /// The vector.
    type Nested;

    #[doc(hidden)]
    fn nest(values: Vec<T>, extents: &[usize]) -> Self::Nested;
}

/// Has a [`NestedVec`] of every depth.
#[derive(Debug)]
pub enum Depth {}

fn extents_of_rows<T, N: Nested<T, D>, const D: usize>(rows: &[N], out: &mut Vec<usize>) {
    out.push(rows.len());
    match rows.first() {
        Some(row) => row.extents(out),
        None => out.resize(out.len() + D, 0),
    }
}

fn flatten_rows<T, N: Nested<T, D>, const D: usize>(
    rows: &[N],
    extents: &[usize],
    out: &mut Vec<T>,
) -> bool {
    let Some((own, inner)) = extents.split_first() else {
        return false;
    };
    rows.len() == *own && rows.iter().all(|row| row.flatten(inner, out))
}

impl<T: Copy> Nested<T, 1> for [T] {
    fn extents(&self, out: &mut Vec<usize>) {
        out.push(self.len());
    }

    fn flatten(&self, extents: &[usize], out: &mut Vec<T>) -> bool {
        out.extend_from_slice(self);
        extents == [self.len()]
    }
}

impl<T> NestedVec<T, 1> for Depth {
    type Nested = Vec<T>;

    fn nest(values: Vec<T>, _: &[usize]) -> Vec<T> {
        values
    }
}

/// An array or a vector is nested as deep as the slice of it.
macro_rules! as_slices {
    ($($d:literal)*) => {$(
        impl<T, N> Nested<T, $d> for Vec<N>
        where
            [N]: Nested<T, $d>,
        {
            fn extents(&self, out: &mut Vec<usize>) {
                self.as_slice().extents(out);
            }

            fn flatten(&self, extents: &[usize], out: &mut Vec<T>) -> bool {
                self.as_slice().flatten(extents, out)
            }
        }

        impl<T, N, const L: usize> Nested<T, $d> for [N; L]
        where
            [N]: Nested<T, $d>,
        {
            fn extents(&self, out: &mut Vec<usize>) {
                self.as_slice().extents(out);
            }

            fn flatten(&self, extents: &[usize], out: &mut Vec<T>) -> bool {
                self.as_slice().flatten(extents, out)
            }
        }
    )*};
}

/// A slice of what is nested is nested one deeper.
macro_rules! deeper {
    ($($inner:literal $outer:literal)*) => {$(
        impl<T, N: Nested<T, $inner>> Nested<T, $outer> for [N] {
            fn extents(&self, out: &mut Vec<usize>) {
                extents_of_rows::<T, N, $inner>(self, out);
            }

            fn flatten(&self, extents: &[usize], out: &mut Vec<T>) -> bool {
                flatten_rows::<T, N, $inner>(self, extents, out)
            }
        }

        impl<T> NestedVec<T, $outer> for Depth {
            type Nested = Vec<<Depth as NestedVec<T, $inner>>::Nested>;

            fn nest(values: Vec<T>, extents: &[usize]) -> Self::Nested {
                let inner = extents.get(1..).unwrap_or(&[]);
                let length = inner.iter().product::<usize>();
                let mut values = values.into_iter();
                let rows = (0..extents.first().copied().unwrap_or(0)).map(|_| {
                    let row = values.by_ref().take(length).collect();
                    <Depth as NestedVec<T, $inner>>::nest(row, inner)
                });
                rows.collect()
            }
        }
    )*};
}

as_slices!(1 2 3 4 5 6 7 8);
deeper!(1 2 2 3 3 4 4 5 5 6 6 7 7 8);

impl<T: Element, const D: usize> Field<T, D> {
    /// Takes all elements from nested arrays or vectors, the first index outside.
    #[track_caller]
    pub fn copy_from_nested(&self, values: &(impl Nested<T, D> + ?Sized)) -> Result<()> {
        let caller = Location::caller();
        let mut extents = Vec::new();
        values.extents(&mut extents);
        let mut flat = Vec::new();
        let shape = self.shape()?;
        let wrong = |what: String| {
            let name = self.name();
            let what = format!("field `{name}` of shape {shape:?} cannot take {what}");
            Err(Error::new("W0112", what).at(Some(here(caller))))
        };
        if !values.flatten(&extents, &mut flat) {
            return wrong("rows of different lengths".to_owned());
        }
        if extents.iter().zip(&shape).any(|(a, b)| *a as u64 != *b) {
            return wrong(format!("values of shape {extents:?}"));
        }
        self.copy_from(&flat)
    }

    /// All elements as vectors of vectors, the first index outside; those that do not exist are zero.
    #[track_caller]
    pub fn to_nested(&self) -> Result<<Depth as NestedVec<T, D>>::Nested>
    where
        Depth: NestedVec<T, D>,
    {
        let values = self.to_vec()?;
        let extents = self.shape()?.map(|e| e as usize);
        Ok(<Depth as NestedVec<T, D>>::nest(values, &extents))
    }

    /// Copies the elements of a field of the same shape, in any layout and any world. Inactive elements stay inactive in a
    /// sparse layout and become zero in a dense one.
    #[track_caller]
    pub fn copy_from_field(&self, other: &Field<T, D>) -> Result<()> {
        let caller = Location::caller();
        let (own, its) = (self.domain()?, other.domain()?);
        if own != its {
            let (a, b) = (self.name(), other.name());
            let what = format!("field `{a}` cannot take the elements of field `{b}`");
            return Err(Error::new("W0112", what)
                .note(format!("one has {own:?}, the other {its:?}, as first coordinate and extent of each index"))
                .at(Some(here(caller))));
        }
        if self.is_dense()? {
            if self.copy_on_device(other)? {
                return Ok(());
            }
            return self.copy_from(&other.to_vec()?);
        }
        let (coordinates, values) = other.export()?;
        self.deactivate_all()?;
        self.import(&coordinates, &values)
    }
}
