"""Values of the host on their way into elements and kernel arguments.

A value that does not fit the type is an error. In programs that import Taichi (`wuji.compat.taichi`), integers wrap with a warning, as there.
"""

from __future__ import annotations

import math
import operator
import warnings
from typing import TYPE_CHECKING, Any

from ..exceptions import WujiConversionError, WujiRuntimeTypeError
from .compound import MatrixType, StructType
from .dtypes import DataType, defaults

if TYPE_CHECKING:
    import numpy.typing as npt


def fitted_parts(values: Any, ty: DataType | MatrixType, what: str) -> Any:
    """Return the number of a scalar, or the tuple of numbers of a vector or matrix."""
    return tuple(fitted(v, ty.dtype, what) for v in values) if isinstance(ty, MatrixType) else fitted(values, ty, what)


def fitted(value: Any, dtype: DataType, what: str) -> Any:
    """Return a number that the type can hold. ``what`` names the destination in messages."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError  # also for text that Python reads as a number
        if dtype.is_float:
            return float(value)
        if defaults.lenient and dtype.is_int and _is_numpy_float(value):
            # Taichi refuses fractions of Python, but truncates those of NumPy.
            value = _truncated(value)
        number = bool(value) if dtype.is_bool else operator.index(value)
    except (TypeError, ValueError):
        raise WujiRuntimeTypeError(f"{what}: {value!r} of type {type(value).__name__} cannot be converted into required type {dtype}", "W0610") from None
    except OverflowError:
        raise _out_of_range(str(value), dtype, what) from None
    low, high = dtype.range()
    if low <= number <= high:
        return number
    if not defaults.lenient:
        raise _out_of_range(str(number), dtype, what)
    _warn_wrapped(number, dtype, what)
    return dtype.wrap(number)


def filling(value: Any, ty: DataType | MatrixType, what: str) -> Any:
    """Return what `fitted_parts` returns. Fractions are truncated, as in an assignment in a kernel."""
    if isinstance(ty, MatrixType):
        return tuple(filling(v, ty.dtype, what) for v in value)
    return fitted(_truncated(value) if ty.is_int else value, ty, what)


def _truncated(value: Any) -> Any:
    is_float = isinstance(value, float) or _is_numpy_float(value)
    return int(value) if is_float and math.isfinite(value) else value


def _is_numpy_float(value: Any) -> bool:
    """Whether this is one of NumPy's floats that is none of Python's."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return kind == "f" and value.shape == () and not isinstance(value, float)


def wrapped(value: Any, ty: Any, what: str) -> Any:
    """Return an integer, or a vector, matrix or struct of integers, in the range of its type. Other values are returned unchanged."""
    if isinstance(ty, StructType):
        members = getattr(value, "entries", value)
        if not isinstance(members, dict):
            return value
        fitting = {k: wrapped(v, ty.members[k], what) if k in ty.members else v for k, v in members.items()}
        return fitting if any(v is not members[k] for k, v in fitting.items()) else value
    if isinstance(ty, DataType):
        if ty.is_float or not hasattr(value, "__index__") or getattr(value, "shape", ()) != ():
            return value
        if ty.is_bool:
            return bool(value)
        low, high = ty.range()
        number = operator.index(value)
        if low <= number <= high:
            return value
        _warn_wrapped(number, ty, what)
        return ty.wrap(number)
    entries = getattr(value, "entries", value)
    if not isinstance(ty, MatrixType) or not isinstance(entries, (list, tuple)):
        return value
    parts = [wrapped(v, ty.dtype, what) for v in entries]
    return parts if any(a is not b for a, b in zip(parts, entries, strict=True)) else value


def fitted_array(arr: Any, shape: tuple[int, ...], dtype: DataType, what: str) -> npt.NDArray[Any]:
    """Return a contiguous array of the type. Fractions are truncated; integers out of range and NaN are errors."""
    import numpy

    array = numpy.asarray(arr)
    if array.dtype.kind not in "biuf":
        raise WujiRuntimeTypeError(f"{what}: an array of {array.dtype} cannot be converted into required type {dtype}", "W0610")
    target = numpy.dtype(dtype.numpy_name)
    if dtype.is_int and not numpy.can_cast(array.dtype, target, "safe") and array.size:
        check_extremes((array.min().item(), array.max().item()), dtype, what)
        with numpy.errstate(invalid="ignore"):
            return numpy.ascontiguousarray(array.astype(target)).reshape(shape)
    # NumPy would turn a 0-D array into one with an axis.
    return numpy.ascontiguousarray(array, dtype=target).reshape(shape)


def check_extremes(extremes: tuple[Any, ...], dtype: DataType, what: str) -> None:
    """Refuse an array whose least or largest element an integer type cannot hold."""
    low, high = dtype.range()
    for extreme in extremes:
        # Python compares integers and floats exactly. NaN and the infinities are in no range.
        if low <= (int(extreme) if math.isfinite(extreme) else extreme) <= high:
            continue
        if not defaults.lenient:
            raise _out_of_range(str(extreme), dtype, what, "\n  = help: convert the array explicitly, as in `.astype(numpy.int32)`")
        _warn_wrapped(extreme, dtype, what)
        return


def _warn_wrapped(value: Any, dtype: DataType, what: str) -> None:
    warnings.warn(f"{what}: {value} is out of range for {dtype} and wraps", RuntimeWarning, stacklevel=4)


def _out_of_range(value: str, dtype: DataType, what: str, help: str = "") -> WujiConversionError:
    span = "" if dtype.is_float else f": {dtype.range()[0]} to {dtype.range()[1]}"
    return WujiConversionError(f"{what}: {value} is out of range for {dtype}{span}{help}", "W0610")
