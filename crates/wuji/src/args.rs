//! The arguments of a kernel, as a launch sees them.

use crate::array::{Array, ArrayMut, SharedArray};
use crate::autodiff::Param;
use crate::cells::Cells;
use crate::element::Element;
use crate::field::Field;
use crate::host::FieldHandle;
use crate::layout::TreeInner;
use crate::nd_array::NdArray;
use crate::world::World;
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;
use wuji_ir::entities;
use wuji_ir::types::{Structs, Type};
use wuji_ir::{Error, Result};
use wuji_runtime::array::{ArrayArg, Plain, Strides};

/// How the type of an argument is entered into a module.
pub type TypeOf = fn(&mut Structs) -> Type;

/// One argument.
#[derive(Debug)]
pub struct Arg<'a>(pub(crate) ArgKind<'a>);

#[derive(Debug)]
pub(crate) enum ArgKind<'a> {
    Value {
        ty: TypeOf,
        /// One scalar in each.
        slots: SmallVec<[u64; 4]>,
        /// The field that has its derivatives.
        field: Option<&'a FieldHandle>,
    },
    World(&'a World),
    Field {
        tree: &'a Arc<TreeInner>,
        /// Its number in the tree.
        field: entities::Field,
    },
    Array(ArrayOperand<'a>),
    /// The members of a bundle, by name.
    Bundle(Vec<(&'static str, Arg<'a>)>),
    /// The items of an array of fields or bundles.
    List(Vec<Arg<'a>>),
}

/// An array argument, or a copy of it where the host layout differs from that of kernels.
#[derive(Debug)]
pub(crate) struct ArrayOperand<'a> {
    pub(crate) ty: TypeOf,
    pub(crate) data: ArrayData<'a>,
}

pub(crate) enum ArrayData<'a> {
    Borrowed(ArrayArg<'a>),
    /// All elements of a field, which nothing else accesses as a field.
    Held(FieldHandle),
    Copied {
        buffer: Vec<u64>,
        size: usize,
        extents: Vec<usize>,
        /// Copies the buffer back to the host array; `None` for a read-only array.
        back: Option<Box<dyn FnMut(&[u64]) + 'a>>,
    },
}

impl ArrayData<'_> {
    /// What the launch works on.
    pub(crate) fn view(&mut self) -> Result<ArrayArg<'_>> {
        match self {
            ArrayData::Borrowed(arg) => Ok(arg.clone()),
            ArrayData::Held(field) => field.array(),
            ArrayData::Copied {
                buffer,
                size,
                extents,
                back,
            } => ArrayArg::opaque(buffer, *size, extents, back.is_some()),
        }
    }

    /// Copies what the launch has written back to the host array.
    pub(crate) fn put_back(&mut self) {
        if let ArrayData::Copied {
            buffer,
            back: Some(back),
            ..
        } = self
        {
            back(buffer);
        }
    }
}

impl fmt::Debug for ArrayData<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArrayData::Borrowed(arg) => write!(f, "{arg:?}"),
            ArrayData::Held(field) => write!(f, "{field:?}"),
            ArrayData::Copied { extents, .. } => write!(f, "copied array {extents:?}"),
        }
    }
}

/// A type that kernels take as an argument.
pub trait KernelArg<'a> {
    /// The argument.
    fn arg(self) -> Result<Arg<'a>>;
}

impl<'a, T: Element> KernelArg<'a> for T {
    fn arg(self) -> Result<Arg<'a>> {
        let mut slots = SmallVec::new();
        slots.resize(T::SCALARS, 0);
        self.to_slots(&mut slots);
        Ok(Arg(ArgKind::Value {
            ty: T::ir_type,
            slots,
            field: None,
        }))
    }
}

impl<'a, T: Element> KernelArg<'a> for &'a Param<T> {
    fn arg(self) -> Result<Arg<'a>> {
        let mut slots = SmallVec::new();
        slots.resize(T::SCALARS, 0);
        self.get().to_slots(&mut slots);
        Ok(Arg(ArgKind::Value {
            ty: T::ir_type,
            slots,
            field: Some(self.handle()),
        }))
    }
}

impl<'a, T: Element, const D: usize> KernelArg<'a> for &'a Field<T, D> {
    fn arg(self) -> Result<Arg<'a>> {
        Ok(Arg(ArgKind::Field {
            tree: self.tree_inner(),
            field: self.number(),
        }))
    }
}

impl<'a, const D: usize> KernelArg<'a> for &'a Cells<D> {
    fn arg(self) -> Result<Arg<'a>> {
        Ok(Arg(ArgKind::Field {
            tree: self.tree_inner(),
            field: self.number(),
        }))
    }
}

impl<'a> KernelArg<'a> for &'a World {
    fn arg(self) -> Result<Arg<'a>> {
        Ok(Arg(ArgKind::World(self)))
    }
}

impl<'a, T: Element> KernelArg<'a> for &'a [T] {
    fn arg(self) -> Result<Arg<'a>> {
        read(self, &Strides::contiguous(&[self.len()]))
    }
}

impl<'a, T: Element> KernelArg<'a> for &'a mut [T] {
    fn arg(self) -> Result<Arg<'a>> {
        let strides = Strides::contiguous(&[self.len()]);
        write(self, &strides)
    }
}

impl<'a, T: Element, const D: usize> KernelArg<'a> for &'a Array<'_, T, D> {
    fn arg(self) -> Result<Arg<'a>> {
        read(self.data(), self.strides())
    }
}

impl<'a, T: Element, const D: usize> KernelArg<'a> for &'a ArrayMut<'_, T, D> {
    fn arg(self) -> Result<Arg<'a>> {
        read(self.data(), self.strides())
    }
}

impl<'a, T: Element, const D: usize> KernelArg<'a> for &'a mut ArrayMut<'_, T, D> {
    fn arg(self) -> Result<Arg<'a>> {
        let (data, strides) = self.data_mut();
        write(data, strides)
    }
}

impl<'a, T: Element, const D: usize> KernelArg<'a> for &'a NdArray<T, D> {
    fn arg(self) -> Result<Arg<'a>> {
        Ok(Arg(ArgKind::Array(ArrayOperand {
            ty: T::ir_type,
            data: ArrayData::Held(self.handle().clone()),
        })))
    }
}

/// Only elements with the same layout on the host and in kernels: copies of overlapping arrays would not overlap.
impl<'a, T: Element + Plain, const D: usize> KernelArg<'a> for &'a SharedArray<'_, T, D> {
    fn arg(self) -> Result<Arg<'a>> {
        let data = ArrayArg::cells(self.data(), self.strides())?;
        Ok(Arg(ArgKind::Array(ArrayOperand {
            ty: T::ir_type,
            data: ArrayData::Borrowed(data),
        })))
    }
}

fn read<'a, T: Element>(data: &'a [T], strides: &Strides) -> Result<Arg<'a>> {
    strides.check(data.len())?;
    let data = match T::lend(data, strides) {
        Some(arg) => ArrayData::Borrowed(arg?),
        None => copied(data, strides, None)?,
    };
    Ok(Arg(ArgKind::Array(ArrayOperand {
        ty: T::ir_type,
        data,
    })))
}

fn write<'a, T: Element>(data: &'a mut [T], strides: &Strides) -> Result<Arg<'a>> {
    strides.check(data.len())?;
    // The branch is decided by the type, so asking with an empty slice gives the answer.
    let data = if T::lend(&[], &Strides::contiguous(&[0])).is_some() {
        match T::lend_mut(data, strides) {
            Some(arg) => ArrayData::Borrowed(arg?),
            None => copied::<T>(&[], &Strides::contiguous(&[0]), None)?,
        }
    } else {
        let values: Vec<T> = data.to_vec();
        let places: Vec<usize> = positions(strides).collect();
        let back = move |buffer: &[u64]| {
            let bytes = words_to_bytes(buffer);
            for (k, place) in places.iter().enumerate() {
                data[*place] = T::read(&bytes[k * T::SIZE..]);
            }
        };
        copied(&values, strides, Some(Box::new(back)))?
    };
    Ok(Arg(ArgKind::Array(ArrayOperand {
        ty: T::ir_type,
        data,
    })))
}

/// The elements of an array in row-major order, in the layout of kernels.
fn copied<'a, T: Element>(
    data: &[T],
    strides: &Strides,
    back: Option<Box<dyn FnMut(&[u64]) + 'a>>,
) -> Result<ArrayData<'a>> {
    let mut bytes = Vec::new();
    // With a stride of 0 an array can be longer than memory.
    let count = strides
        .extents
        .iter()
        .try_fold(1usize, |n, e| n.checked_mul(*e));
    let size = count.and_then(|n| n.checked_mul(T::SIZE));
    if size.is_none_or(|n| bytes.try_reserve_exact(n).is_err()) {
        let shape = &strides.extents;
        let what = format!("no memory for a copy of an array of shape {shape:?}");
        return Err(Error::new("W0110", what)
            .note("arrays of structs are copied for the launch; those of numbers are not"));
    }
    for place in positions(strides) {
        let at = bytes.len();
        bytes.resize(at + T::SIZE, 0);
        data[place].write(&mut bytes[at..]);
    }
    let mut buffer = vec![0; bytes.len().div_ceil(8)];
    for (word, chunk) in buffer.iter_mut().zip(bytes.chunks(8)) {
        let mut own = [0; 8];
        own[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_ne_bytes(own);
    }
    Ok(ArrayData::Copied {
        buffer,
        size: T::SIZE,
        extents: strides.extents.to_vec(),
        back,
    })
}

fn words_to_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

/// The position of each element in its slice, in row-major order.
fn positions(strides: &Strides) -> impl Iterator<Item = usize> {
    let count: usize = if strides.extents.contains(&0) {
        0
    } else {
        strides.extents.iter().product()
    };
    let strides = strides.clone();
    (0..count).map(move |mut n| {
        let mut at = strides.start as isize;
        for (extent, stride) in strides.extents.iter().zip(&strides.strides).rev() {
            at += (n % extent) as isize * stride;
            n /= extent;
        }
        at as usize
    })
}
