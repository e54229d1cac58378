"""Arguments of drawing calls: fields, arrays and numbers, as contiguous arrays of `_native`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .._arrays import as_numpy
from ..exceptions import WujiArrayError, WujiRuntimeError

Array = npt.NDArray[Any]
CODE = "W0611"


def unfit(call: str, why: object) -> WujiArrayError:
    """Return the error of a drawing call."""
    return WujiArrayError(f"`{call}`: {why}", CODE)


def closed(call: str) -> WujiRuntimeError:
    """Return the error of a call on a destroyed window."""
    return WujiRuntimeError(f"`{call}`: the window was destroyed", CODE)


def checked(call: str, native: Callable[..., Any], *args: Any) -> Any:
    """Call `_native`. What it rejects is an error of the drawing call."""
    try:
        return native(*args)
    except (ValueError, TypeError, OverflowError) as error:
        raise unfit(call, error) from None


def numbers(call: str, name: str, value: Any) -> Array:
    """Return a field, array or array-like as an array of numbers."""
    try:
        array = as_numpy(value)
    except (TypeError, ValueError):
        array = np.empty(0, object)
    if array.dtype.kind not in "fiub":
        raise unfit(call, f"`{name}` must be a field or an array of numbers, not {_described(value, array)}")
    return array


def _described(value: Any, array: Array) -> str:
    return f"an array of {array.dtype}" if isinstance(value, np.ndarray) else f"`{type(value).__name__}`"


def vectors(call: str, name: str, value: Any, wanted: tuple[int, ...]) -> Array:
    """Return vectors as rows of floats."""
    array = numbers(call, name, value)
    if array.ndim >= 3 and array.shape[-1] == 1 and array.shape[-2] in wanted:
        array = array[..., 0]
    if array.ndim < 2 or array.shape[-1] not in wanted:
        if array.size == 0 and array.ndim == 1:
            return np.empty((0, wanted[-1]), np.float32)
        components = " or ".join(map(str, wanted))
        raise unfit(call, f"`{name}` must be vectors with {components} components, not an array of shape {array.shape}")
    return np.ascontiguousarray(array.reshape(-1, array.shape[-1]), np.float32)


def positions(call: str, name: str, value: Any, axes: int) -> Array:
    """Return positions in the plane or in space as rows. A third component is dropped in the plane; a missing one is 0 in space."""
    rows = vectors(call, name, value, (2, 3))
    if rows.shape[1] == axes:
        return rows
    if axes == 2:
        return np.ascontiguousarray(rows[:, :2])
    return np.pad(rows, ((0, 0), (0, 1)))


def scalars(call: str, name: str, value: Any) -> Array:
    """Return numbers as a flat array of floats."""
    return np.ascontiguousarray(numbers(call, name, value).reshape(-1), np.float32)


def indices(call: str, value: Any) -> Array | None:
    """Return indices as a flat array; None without any."""
    if value is None:
        return None
    array = numbers(call, "indices", value).reshape(-1)
    if array.size and array.dtype.kind not in "iu":
        raise unfit(call, f"`indices` must be integers, not {array.dtype}")
    if array.size and (array.min() < 0 or array.max() > 0xFFFFFFFF):
        worst = array.min() if array.min() < 0 else array.max()
        raise unfit(call, f"index {worst} has no vertex")
    return np.ascontiguousarray(array, np.uint32)


def part(call: str, name: str, array: Array, offset: Any, count: Any) -> Array:
    """Return a part of an array; all of it from the offset if there is no count."""
    first = integer(call, f"{name}_offset", offset)
    length = len(array) - first if count is None else integer(call, f"{name}_count", count)
    if first < 0 or length < 0 or first + length > len(array):
        raise unfit(call, f"{name}_offset {first} and {name}_count {length} are not within {len(array)}")
    return array[first : first + length]


def integer(call: str, name: str, value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise unfit(call, f"`{name}` must be an integer, not {value!r}") from None
    if number != value:
        raise unfit(call, f"`{name}` must be an integer, not {value!r}")
    return number


def number(call: str, name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise unfit(call, f"`{name}` must be a number, not {value!r}") from None


def finite(call: str, name: str, value: Any) -> float:
    found = number(call, name, value)
    if not math.isfinite(found):
        raise unfit(call, f"`{name}` must be finite, not {found}")
    return found


def flag(call: str, name: str, value: Any) -> bool:
    try:
        return bool(value)
    except (TypeError, ValueError):
        raise unfit(call, f"`{name}` must be True or False, not {value!r}") from None


def positive(call: str, name: str, value: Any) -> float:
    found = number(call, name, value)
    if not 0 < found < float("inf"):
        raise unfit(call, f"`{name}` must be positive and finite, not {found}")
    return found


def triple(call: str, name: str, value: Any) -> tuple[float, float, float]:
    """Return three numbers: a tuple, a vector, or an array."""
    try:
        x, y, z = (float(component) for component in as_numpy(value).reshape(-1))
    except (TypeError, ValueError, OverflowError):
        raise unfit(call, f"`{name}` must be three numbers, not {value!r}") from None
    return x, y, z


def colors(call: str, color: Any, per_vertex_color: Any, count: int) -> Array:
    """Return rows of RGBA: one for all vertices, or one for each."""
    if per_vertex_color is None:
        return np.array([(*triple(call, "color", color), 1.0)], np.float32)
    rows = vectors(call, "per_vertex_color", per_vertex_color, (3, 4))
    one_for_each(call, "per_vertex_color", rows, count)
    if rows.shape[1] == 4:
        return rows
    return np.concatenate([rows, np.ones((len(rows), 1), np.float32)], axis=1)


def one_for_each(call: str, name: str, values: Array, count: int) -> None:
    """Check that there is a value for each vertex."""
    if len(values) != count:
        raise unfit(call, f"`{name}` has {len(values)} elements for {count} vertices")


def finite_triple(call: str, name: str, value: Any) -> tuple[float, float, float]:
    """Return three numbers that are finite."""
    x, y, z = triple(call, name, value)
    return finite(call, name, x), finite(call, name, y), finite(call, name, z)


def image(call: str, value: Any) -> Array:
    """Return an image as RGBA floats of shape ``(w, h, 4)``. Gray is replicated, missing channels are 0."""
    array = numbers(call, "img", value)
    if array.ndim == 4 and array.shape[3] == 1:
        array = array[..., 0]  # a field of matrices with one column
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or not 1 <= array.shape[2] <= 4 or array.size == 0:
        raise unfit(call, f"an image must have shape (w, h), or (w, h, 1) to (w, h, 4), not {array.shape}")
    if array.dtype.kind == "i":
        raise unfit(call, f"an image must have floats or unsigned integers, not {array.dtype}")
    if array.dtype.kind == "u":
        array = array / np.float64(np.iinfo(array.dtype).max)
    whole = np.zeros((*array.shape[:2], 4), np.float32)
    if array.shape[2] == 1:
        whole[..., :3] = array
    else:
        whole[..., : array.shape[2]] = array
    return whole
