//! Contiguous arrays of numbers with one axis, by copy.

use crate::buffer::BorrowedArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use wuji::dynamic::Owner;
use wuji_ir::types::Scalar;

/// A number type of NumPy arrays.
pub(crate) trait Plain: Copy {
    const SCALAR: Scalar;
}

impl Plain for i32 {
    const SCALAR: Scalar = Scalar::I32;
}

impl Plain for f32 {
    const SCALAR: Scalar = Scalar::F32;
}

impl Plain for f64 {
    const SCALAR: Scalar = Scalar::F64;
}

impl Plain for u32 {
    const SCALAR: Scalar = Scalar::U32;
}

impl Plain for i64 {
    const SCALAR: Scalar = Scalar::I64;
}

pub(crate) fn length_mismatch(wanted: usize, found: usize) -> PyErr {
    PyValueError::new_err(format!("expected {wanted} numbers, got {found}"))
}

/// Borrows a contiguous array with one axis.
fn borrow<'py, T: Plain>(value: &Bound<'py, PyAny>) -> PyResult<(BorrowedArray<'py>, usize)> {
    let found = BorrowedArray::of(value, None)?.filter(|lent| {
        lent.memory.0 == Owner::Host
            && lent.scalar == T::SCALAR
            && lent.extents().len() == 1
            && lent.is_contiguous()
    });
    let Some(lent) = found else {
        let name = T::SCALAR.name();
        let what = format!("expected a contiguous array of {name} with one axis");
        return Err(PyValueError::new_err(what));
    };
    let count = usize::try_from(lent.extents()[0]).unwrap_or(0);
    Ok((lent, count))
}

pub(crate) fn read<T: Plain>(value: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    let (lent, count) = borrow::<T>(value)?;
    let mut numbers = Vec::<T>::with_capacity(count);
    let base = lent.memory.1.cast_const();
    // SAFETY: the array holds `count` contiguous numbers of this type and lives as long as `lent`; it may be unaligned. Every bit pattern is
    // a valid number.
    unsafe {
        base.copy_to_nonoverlapping(numbers.as_mut_ptr().cast(), count * size_of::<T>());
        numbers.set_len(count);
    }
    Ok(numbers)
}

pub(crate) fn write<T: Plain>(value: &Bound<'_, PyAny>, numbers: &[T]) -> PyResult<()> {
    let (lent, count) = borrow::<T>(value)?;
    if count != numbers.len() {
        return Err(length_mismatch(numbers.len(), count));
    }
    if !lent.writable {
        return Err(PyValueError::new_err("expected a writable array"));
    }
    let from = numbers.as_ptr().cast::<u8>();
    // SAFETY: as for `read`; and the array is writable.
    unsafe { from.copy_to_nonoverlapping(lent.memory.1, size_of_val(numbers)) };
    Ok(())
}
