//! Conversion of Python numbers to and from slots, and the spelling of types.

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

/// Parses a type: `f32`, `i64x3`, `f32x2x3`, `s0`.
pub(crate) fn parse_type(text: &str) -> Option<Type> {
    if let Some(number) = text.strip_prefix('s')
        && let Ok(number) = number.parse()
    {
        return Some(Type::Struct(StructId::from_u32(number)));
    }
    let mut parts = text.split('x');
    let scalar = Scalar::from_name(parts.next()?)?;
    let mut sizes: SmallVec<[u16; 2]> = SmallVec::new();
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

/// Parses a scalar, vector or matrix type.
pub(crate) fn parse_plain(text: &str) -> PyResult<Type> {
    parse_type(text)
        .filter(|ty| ty.lanes().is_some())
        .ok_or_else(|| {
            let what = format!("`{text}` is not a scalar, vector or matrix type");
            raised(&Error::new("W0290", what))
        })
}

/// Converts a number to a slot of a scalar type; checks its range.
pub(crate) fn slot(scalar: Scalar, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    if scalar.is_float() {
        return Ok(Imm::float(scalar, float(value)?).bits());
    }
    let number = integer(value)?;
    let (low, high) = scalar.int_range().unwrap_or((0, 0));
    if number < low || number > high {
        let what = format!("{number} is out of range for {scalar}: {low} to {high}");
        return Err(PyOverflowError::new_err(what));
    }
    Ok(Imm::int(scalar, number).bits())
}

fn float(value: &Bound<'_, PyAny>) -> PyResult<f64> {
    // SAFETY: the object is alive. Like Python, this calls `__float__` or `__index__`.
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

/// Converts an integer. Values outside of 64 bits raise `OverflowError`.
pub(crate) fn integer(value: &Bound<'_, PyAny>) -> PyResult<i128> {
    if value.is_instance_of::<PyInt>() {
        return whole(value);
    }
    // SAFETY: the object is alive; the call returns a new reference.
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
    // SAFETY: the object is a Python integer.
    let number = unsafe { ffi::PyLong_AsLongLongAndOverflow(value.as_ptr(), &mut overflow) };
    match overflow {
        0 if number == -1 => PyErr::take(value.py()).map_or(Ok(-1), Err),
        0 => Ok(i128::from(number)),
        o if o < 0 => Err(PyOverflowError::new_err(format!("{value} is too small"))),
        _ => Ok(i128::from(value.extract::<u64>()?)),
    }
}

/// NumPy's bool is neither an integer nor a float.
fn is_numpy_bool(value: &Bound<'_, PyAny>) -> bool {
    let ty = value.get_type();
    let named = |name: &str| ty.name().is_ok_and(|n| n == name);
    (named("bool") || named("bool_")) && ty.module().is_ok_and(|m| m == "numpy")
}

/// Converts a value to one slot per scalar: a number, or a flat sequence of numbers.
pub(crate) fn slots(ty: Type, value: &Bound<'_, PyAny>) -> PyResult<SmallVec<[u64; 4]>> {
    let mut out = SmallVec::new();
    match (ty, ty.elem().zip(ty.lanes())) {
        (Type::Scalar(scalar), _) => out.push(slot(scalar, value)?),
        (_, Some((scalar, lanes))) => {
            let scalars = std::iter::repeat_n(scalar, lanes as usize);
            flat(scalars, value, |s| out.push(s))?;
        }
        (_, None) => {
            return Err(PyTypeError::new_err(
                "a struct must be passed field by field",
            ));
        }
    }
    Ok(out)
}

/// Converts a flat sequence of numbers of these types.
pub(crate) fn flat(
    scalars: impl ExactSizeIterator<Item = Scalar>,
    value: &Bound<'_, PyAny>,
    mut push: impl FnMut(u64),
) -> PyResult<()> {
    let expected = scalars.len();
    let wrong = |n: usize| {
        let what = format!("expected {expected} numbers, got {n}");
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

/// Converts a slot to a Python number.
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
            // All other integers fit in 64 bits, signed.
            let value = Imm::from_bits(scalar, slot).as_int().unwrap_or(0) as i64;
            Ok(value.into_pyobject(py)?.into_any())
        }
    }
}

/// Converts slots to a number or a flat tuple of numbers.
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

/// Converts the slots of an element.
pub(crate) fn element<'py>(
    py: Python<'py>,
    ty: Type,
    slots: &[u64],
) -> PyResult<Bound<'py, PyAny>> {
    let scalar = ty.elem().unwrap_or(Scalar::U64);
    let single = ty.as_scalar().is_some();
    value(py, single, std::iter::repeat_n(scalar, slots.len()), slots)
}

/// Converts an index tuple.
pub(crate) fn index(at: &Bound<'_, PyTuple>) -> PyResult<SmallVec<[i64; 8]>> {
    let mut out = SmallVec::new();
    for item in at.iter_borrowed() {
        let number = match integer(&item) {
            Ok(number) => number,
            // Out of range for any field, in either direction.
            Err(e) if e.is_instance_of::<PyOverflowError>(at.py()) => i128::MAX,
            Err(e) => return Err(e),
        };
        out.push(number.clamp(i64::MIN.into(), i64::MAX.into()) as i64);
    }
    Ok(out)
}
