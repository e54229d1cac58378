//! Arrays of vertices, indices and colors for drawing.

use crate::buffer::BorrowedArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use wuji::dynamic::Owner;
use wuji_ir::types::Scalar;
use wuji_viewer::scene::{Colors, SceneError};

/// A copy of a contiguous array of floats with rows of `N`.
pub(crate) fn rows<const N: usize>(value: &Bound<'_, PyAny>) -> PyResult<Vec<[f32; N]>> {
    let array = borrow(value, Scalar::F32)?;
    let [.., last] = *array.extents() else {
        return Err(PyValueError::new_err("an array with rows is needed"));
    };
    if last as usize != N {
        let what = format!("rows of {N} numbers are needed, not of {last}");
        return Err(PyValueError::new_err(what));
    }
    Ok(copied(&array))
}

/// A copy of a contiguous array of floats.
pub(crate) fn floats(value: &Bound<'_, PyAny>) -> PyResult<Vec<f32>> {
    Ok(copied(&borrow(value, Scalar::F32)?))
}

/// A copy of a contiguous array of unsigned integers, if there is one.
pub(crate) fn indices(value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<u32>>> {
    let copy = |value| Ok(copied(&borrow(value, Scalar::U32)?));
    value.map(copy).transpose()
}

/// A color for all vertices, or one row for each.
pub(crate) fn colors(value: &Bound<'_, PyAny>) -> PyResult<Colors> {
    Ok(match rows::<4>(value)?.as_slice() {
        [color] => Colors::All(*color),
        each => Colors::Each(each.to_vec()),
    })
}

/// The extents of the first axes of an array.
pub(crate) fn extents<const N: usize>(value: &Bound<'_, PyAny>) -> PyResult<[usize; N]> {
    let array = borrow(value, Scalar::F32)?;
    let first = array.extents().first_chunk::<N>();
    let first = first.ok_or_else(|| PyValueError::new_err("the array has too few axes"))?;
    Ok(first.map(|extent| extent as usize))
}

pub(crate) fn failed(error: SceneError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn borrow<'py>(value: &Bound<'py, PyAny>, scalar: Scalar) -> PyResult<BorrowedArray<'py>> {
    let array = BorrowedArray::of(value, None)?;
    let fits = |array: &BorrowedArray<'_>| {
        array.scalar == scalar && array.is_contiguous() && array.memory.0 == Owner::Host
    };
    array.filter(fits).ok_or_else(|| {
        PyValueError::new_err(format!("a contiguous array of type `{scalar}` is needed"))
    })
}

/// Copies the elements of a contiguous array in host memory. Its size in bytes is a multiple of that of `T`, which has any bits.
fn copied<T: Bits>(array: &BorrowedArray<'_>) -> Vec<T> {
    let count: i64 = array.extents().iter().product();
    let bytes = count as usize * array.scalar.bytes() as usize;
    let base = array.memory.1.cast_const().cast::<T>();
    let read = |k: usize| {
        // SAFETY: the array is contiguous and has this many bytes; `T` is made of its elements.
        unsafe { base.add(k).read_unaligned() }
    };
    (0..bytes / size_of::<T>()).map(read).collect()
}

/// Types without padding and without invalid bits.
trait Bits {}

impl Bits for f32 {}
impl Bits for u32 {}
impl<const N: usize> Bits for [f32; N] {}
