//! Parallel algorithms over one-dimensional fields and arrays: sort and prefix sum.
//!
//! They are kernels, so they run where the data is, on every backend, and wait for nothing: as launches, they can be
//! [lazy](crate::World::flush) and their errors may come later.
//!
//! ```
//! use wuji::algorithms::{exclusive_prefix_sum, prefix_sum, sort, sort_pairs};
//! use wuji::prelude::*;
//! # fn main() -> wuji::Result<()> {
//! let world = World::cpu()?;
//! let keys = world.field::<f32, 1>("keys", 4)?;
//! let values = world.nd_array::<Vec2, 1>("values", 4)?;
//! keys.copy_from(&[3.0, -1.0, 2.0, -1.0])?;
//! values.copy_from(&[vec2(0.0, 0.0), vec2(1.0, 0.0), vec2(2.0, 0.0), vec2(3.0, 0.0)])?;
//! sort_pairs(&keys, &values)?;
//! assert_eq!(keys.to_vec()?, [-1.0, -1.0, 2.0, 3.0]);
//! assert_eq!(values.get(1)?, vec2(3.0, 0.0)); // equal keys keep their order
//!
//! let counts = world.field::<u32, 1>("counts", 4)?;
//! counts.copy_from(&[3, 1, 4, 1])?;
//! exclusive_prefix_sum(&counts)?;
//! assert_eq!(counts.to_vec()?, [0, 3, 4, 8]);
//! prefix_sum(&counts)?;
//! assert_eq!(counts.to_vec()?, [0, 3, 7, 15]);
//! sort(&counts)?;
//! # Ok(())
//! # }
//! ```

mod scan;
mod sort;

pub use scan::{exclusive_prefix_sum, prefix_sum};
pub use sort::{SortKey, sort, sort_order, sort_pairs};

use crate::element::Element;
use crate::field::Field;
use crate::nd_array::NdArray;
use crate::world::{World, here};
use std::panic::Location;
use wuji_ir::{Error, Result};
use wuji_macros::kernel;

/// A [`Field`] or [`NdArray`] with one axis.
pub trait Sequence {
    /// What it holds.
    type Item: Element;

    #[doc(hidden)]
    fn field(&self) -> &Field<Self::Item, 1>;

    /// The array, if it is one.
    #[doc(hidden)]
    fn array(&self) -> Option<&NdArray<Self::Item, 1>>;
}

impl<T: Element> Sequence for Field<T, 1> {
    type Item = T;

    fn field(&self) -> &Field<T, 1> {
        self
    }

    fn array(&self) -> Option<&NdArray<T, 1>> {
        None
    }
}

impl<T: Element> Sequence for NdArray<T, 1> {
    type Item = T;

    fn field(&self) -> &Field<T, 1> {
        self.as_field()
    }

    fn array(&self) -> Option<&NdArray<T, 1>> {
        Some(self)
    }
}

/// Copies a field to an array, which code is compiled for once, whatever the layout of the field.
#[kernel]
fn load<T: Element>(x: &Field<T, 1>, offset: i64, to: &NdArray<T, 1>) {
    for [i] in to {
        to[i] = x[i + offset];
    }
}

#[kernel]
fn store<T: Element>(x: &Field<T, 1>, offset: i64, from: &NdArray<T, 1>) {
    for [i] in from {
        x[i + offset] = from[i];
    }
}

#[kernel]
fn copy<T: Element>(from: &NdArray<T, 1>, to: &NdArray<T, 1>) {
    for [i] in to {
        to[i] = from[i];
    }
}

/// The elements of a field, or an array, in an array: the array itself, that of the field, or a copy where the layout has none.
struct Elements<'a, S: Sequence> {
    of: &'a S,
    array: NdArray<S::Item, 1>,
}

impl<'a, S: Sequence> Elements<'a, S> {
    fn read(of: &'a S, what: &str) -> Result<Elements<'a, S>> {
        if let Some(array) = of.array() {
            let array = array.clone();
            return Ok(Elements { of, array });
        }
        let field = of.field();
        check_dense(field, what)?;
        if let Some(array) = NdArray::of_field(field)? {
            return Ok(Elements { of, array });
        }
        let array = field.world().nd_array(what, field.len()?)?;
        let [offset] = field.offset()?;
        load(field, offset, &array)?;
        Ok(Elements { of, array })
    }

    /// Writes an array to where the elements were read from.
    fn write(&self, from: &NdArray<S::Item, 1>) -> Result<()> {
        if self.of.field().handle() == from.handle() {
            return Ok(());
        }
        match NdArray::of_field(self.of.field())? {
            Some(array) => copy(from, &array),
            None => {
                let [offset] = self.of.field().offset()?;
                store(self.of.field(), offset, from)
            }
        }
    }
}

fn check_dense<T: Element>(field: &Field<T, 1>, what: &str) -> Result<()> {
    if field.is_dense()? {
        return Ok(());
    }
    let name = field.name();
    Err(
        Error::new("W0140", format!("`{what}` of the sparse field `{name}`"))
            .note("it needs all elements of its range, and only some of a sparse field exist")
            .help("copy the elements with `export` to a dense field first"),
    )
}

/// Bits that a pass of a sort looks at.
#[derive(Copy, Clone)]
enum Digit {
    Byte,
    /// Four bits.
    Nibble,
}

/// How work is divided: into blocks of elements, one thread each.
#[derive(Copy, Clone)]
struct Division {
    /// Logarithm of the elements per block of a prefix sum.
    scan: i64,
    /// What one pass of a sort looks at.
    digit: Digit,
    /// Least number of elements per block of a sort, and largest number of blocks.
    sort: (u64, u64),
}

impl Division {
    const CPU: Division = Division {
        scan: 12,
        digit: Digit::Byte,
        sort: (8192, 64),
    };

    /// Many threads with a little work each.
    const GPU: Division = Division {
        scan: 6,
        digit: Digit::Nibble,
        sort: (64, 1 << 16),
    };

    fn of(world: &World) -> Division {
        if world.device().gpu().is_some() {
            Division::GPU
        } else {
            Division::CPU
        }
    }
}

/// Errors of an algorithm are at its call.
fn at_caller<T>(result: Result<T>, caller: &'static Location<'static>) -> Result<T> {
    result.map_err(|error| error.or_at(here(caller)))
}
