"""The canvas of a `GUI`, and the arguments of its shapes.

`_native.Canvas` draws on a NumPy array of ``float32`` RGBA, indexed ``image[x, y]`` with x to the right and y up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _native
from .._arrays import as_numpy

Array = npt.NDArray[Any]

# Elements that `_native.Canvas` reads as they are.
_CODES = frozenset("?bBhHiIlLqQefd")


class ArgumentError(AssertionError, ValueError):
    """An array has the wrong shape, or numbers of arguments differ. Also an `AssertionError`, as in Taichi."""


def new_canvas(width: int, height: int) -> _native.Canvas:
    """Return a canvas with pixels that are not initialized."""
    return _native.Canvas(np.empty((width, height, 4), np.float32))


def numbers(value: Any, canvas: _native.Canvas) -> Array:
    """Return a field, array or array-like as an array of numbers, without a copy where possible."""
    array = as_numpy(value)
    if array.dtype.char not in _CODES or not array.dtype.isnative:
        if array.dtype.kind not in "fiub":
            raise TypeError(f"an array of numbers is needed, not {array.dtype}")
        array = array.astype(np.float64)
    # Drawing from an array while writing to it would depend on the order.
    return array.copy() if np.may_share_memory(array, canvas.image) else array


def rows(value: Any, canvas: _native.Canvas) -> Array:
    """Return positions as an array of shape ``(n, 2)``."""
    array = numbers(value, canvas)
    if array.ndim == 1 and array.size == 0:
        return array.reshape(0, 2)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim != 2 or array.shape[1] != 2:
        raise ArgumentError(f"positions must have shape (n, 2), not {array.shape}")
    return array


def rows_of(canvas: _native.Canvas, *values: Any) -> tuple[Array, ...]:
    """Return several arguments with the same number of positions."""
    arrays = tuple(rows(value, canvas) for value in values)
    if len({len(a) for a in arrays}) > 1:
        counts = ", ".join(str(len(a)) for a in arrays)
        raise ArgumentError(f"the arguments must have the same number of positions, not {counts}")
    return arrays


def each(what: str, value: Any, count: int, canvas: _native.Canvas) -> Any:
    """Return a number for all shapes, or an array with one number per shape."""
    if isinstance(value, (int, float)):
        return value
    values = numbers(value, canvas).reshape(-1)
    if len(values) == 1 != count:
        return values[0].item()
    if len(values) != count:
        raise ArgumentError(f"{len(values)} {what} for {count} shapes")
    return values


def pair(position: Any) -> tuple[float, float]:
    """Return the first two components of a position."""
    try:
        x, y = as_numpy(position).reshape(-1)[:2]
        return float(x), float(y)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"a position needs two numbers, not {position!r}") from None
