//! Numbers of Python to slots and back, and the spelling of types.

use crate::error::raised;
use half::f16;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyTuple};
use smallvec::SmallVec;
use wuji::Error;
use wuji_ir::entities::StructId;
use wuji_ir::types::{Imm, Scalar, Type};

/// The type that a text stands for: `f32`, `i64x3`, `f32x2x3`, `s0`.
pub(crate) fn parse_type(text: &str) -> Option<Type> {
    if let Some(number) = text.strip_prefix('s')
        && let Ok(number) = number.parse()
    {
        return Some(Type::Struct(StructId::from_u32(number)));
    }
    let mut parts = text.split('x');
    let scalar = Scalar::from_name(parts.next()?)?;
    let mut sizes: SmallVec<[u8; 2]> = SmallVec::new();
    for part in parts {
        sizes.push(part.parse().ok().filter(|n| *n > 0)?);
    }
    match sizes[..] {
        [] => Some(Type::Scalar(scalar)),
        [n] => Some(Type::Vector(scalar, n)),
        [r, c] => Some(Type::Matrix(scalar, r, c)),
        _ => None,
    }
}

/// A type without structs.
pub(crate) fn parse_plain(text: &str) -> PyResult<Type> {
    parse_type(text)
        .filter(|ty| ty.lanes().is_some())
        .ok_or_else(|| {
            let what = format!("`{text}` is no type of scalars, vectors or matrices");
            raised(&Error::new("W0290", what))
        })
}

/// A number as a slot of a scalar type; its range is checked.
pub(crate) fn slot(scalar: Scalar, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    if scalar.is_float() {
        return Ok(Imm::float(scalar, float(value)?).bits());
    }
    let number = integer(value)?;
    let (low, high) = scalar.int_range().unwrap_or((0, 0));
    if number < low || number > high {
        let what = format!("{number} is no number of type {scalar}: {low} to {high}");
        return Err(PyOverflowError::new_err(what));
    }
    Ok(Imm::int(scalar, number).bits())
}

fn float(value: &Bound<'_, PyAny>) -> PyResult<f64> {
    // SAFETY: the object is alive. It is asked for `__float__` and `__index__`, as Python does.
    let number = unsafe { ffi::PyFloat_AsDouble(value.as_ptr()) };
    if number == -1.0
        && let Some(error) = PyErr::take(value.py())
    {
        if error.is_instance_of::<PyTypeError>(value.py()) && is_numpy_bool(value) {
            return Ok(f64::from(u8::from(value.is_truthy()?)));
        }
        return Err(error);
    }
    Ok(number)
}

/// An integer of any size that is of use here.
pub(crate) fn integer(value: &Bound<'_, PyAny>) -> PyResult<i128> {
    if value.is_instance_of::<PyInt>() {
        return whole(value);
    }
    // SAFETY: the object is alive; the result is ours.
    let index =
        unsafe { Bound::from_owned_ptr_or_err(value.py(), ffi::PyNumber_Index(value.as_ptr())) };
    match index {
        Ok(index) => whole(&index),
        Err(_) if is_numpy_bool(value) => Ok(i128::from(value.is_truthy()?)),
        Err(error) => Err(error),
    }
}

fn whole(value: &Bound<'_, PyAny>) -> PyResult<i128> {
    let mut overflow = 0;
    // SAFETY: the object is an integer.
    let number = unsafe { ffi::PyLong_AsLongLongAndOverflow(value.as_ptr(), &mut overflow) };
    match overflow {
        0 if number == -1 => PyErr::take(value.py()).map_or(Ok(-1), Err),
        0 => Ok(i128::from(number)),
        o if o < 0 => Err(PyOverflowError::new_err(format!("{value} is too small"))),
        _ => Ok(i128::from(value.extract::<u64>()?)),
    }
}

/// NumPy's own truth values are neither integers nor floats.
fn is_numpy_bool(value: &Bound<'_, PyAny>) -> bool {
    let ty = value.get_type();
    let named = |name: &str| ty.name().is_ok_and(|n| n == name);
    (named("bool") || named("bool_")) && ty.module().is_ok_and(|m| m == "numpy")
}

/// The scalars of a value, one slot each: a number, or a flat sequence of numbers.
pub(crate) fn slots(ty: Type, value: &Bound<'_, PyAny>) -> PyResult<SmallVec<[u64; 4]>> {
    let mut out = SmallVec::new();
    match (ty, ty.elem().zip(ty.lanes())) {
        (Type::Scalar(scalar), _) => out.push(slot(scalar, value)?),
        (_, Some((scalar, lanes))) => {
            let scalars = std::iter::repeat_n(scalar, lanes as usize);
            flat(scalars, value, |s| out.push(s))?;
        }
        (_, None) => return Err(PyTypeError::new_err("a struct is given field by field")),
    }
    Ok(out)
}

/// A flat sequence of numbers of these types.
pub(crate) fn flat(
    scalars: impl ExactSizeIterator<Item = Scalar>,
    value: &Bound<'_, PyAny>,
    mut push: impl FnMut(u64),
) -> PyResult<()> {
    let expected = scalars.len();
    let wrong = |n: usize| {
        let what = format!("{n} numbers are given where {expected} are needed");
        Err(PyTypeError::new_err(what))
    };
    if let Ok(tuple) = value.cast::<PyTuple>() {
        if tuple.len() != expected {
            return wrong(tuple.len());
        }
        for (scalar, item) in scalars.zip(tuple.iter_borrowed()) {
            push(slot(scalar, &item)?);
        }
        return Ok(());
    }
    let mut items = value.try_iter()?;
    for (n, scalar) in scalars.enumerate() {
        match items.next() {
            Some(item) => push(slot(scalar, &item?)?),
            None => return wrong(n),
        }
    }
    match items.next() {
        None => Ok(()),
        Some(_) => wrong(expected + 1 + items.count()),
    }
}

/// The number in a slot.
pub(crate) fn number<'py>(
    py: Python<'py>,
    scalar: Scalar,
    slot: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let float = |value: f64| Ok(PyFloat::new(py, value).into_any());
    match scalar {
        Scalar::Bool => Ok(PyBool::new(py, slot & 1 != 0).to_owned().into_any()),
        Scalar::F16 => float(f16::from_bits(slot as u16).to_f64()),
        Scalar::F32 => float(f64::from(f32::from_bits(slot as u32))),
        Scalar::F64 => float(f64::from_bits(slot)),
        Scalar::U64 => Ok(slot.into_pyobject(py)?.into_any()),
        _ => {
            // Everything else fits.
            let value = Imm::from_bits(scalar, slot).as_int().unwrap_or(0) as i64;
            Ok(value.into_pyobject(py)?.into_any())
        }
    }
}

/// A number, or a flat tuple of numbers.
pub(crate) fn value<'py>(
    py: Python<'py>,
    single: bool,
    scalars: impl ExactSizeIterator<Item = Scalar>,
    slots: &[u64],
) -> PyResult<Bound<'py, PyAny>> {
    let mut numbers: SmallVec<[Bound<'py, PyAny>; 4]> = SmallVec::new();
    for (scalar, slot) in scalars.zip(slots) {
        numbers.push(number(py, scalar, *slot)?);
    }
    match (single, numbers.pop()) {
        (true, Some(one)) => Ok(one),
        (_, last) => {
            Ok(PyTuple::new(py, numbers.into_iter().chain(last).collect::<Vec<_>>())?.into_any())
        }
    }
}

/// The value of an element.
pub(crate) fn element<'py>(
    py: Python<'py>,
    ty: Type,
    slots: &[u64],
) -> PyResult<Bound<'py, PyAny>> {
    let scalar = ty.elem().unwrap_or(Scalar::U64);
    let single = ty.as_scalar().is_some();
    value(py, single, std::iter::repeat_n(scalar, slots.len()), slots)
}

/// Where an element is.
pub(crate) fn index(at: &Bound<'_, PyTuple>) -> PyResult<SmallVec<[i64; 8]>> {
    let mut out = SmallVec::new();
    for item in at.iter_borrowed() {
        let number = match integer(&item) {
            Ok(number) => number,
            // No field reaches that far, to whichever side.
            Err(e) if e.is_instance_of::<PyOverflowError>(at.py()) => i128::MAX,
            Err(e) => return Err(e),
        };
        out.push(number.clamp(i64::MIN.into(), i64::MAX.into()) as i64);
    }
    Ok(out)
}
