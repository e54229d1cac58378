"""Sorting by the digits of keys, the last one first: each pass keeps the order of what has the same digit."""

from __future__ import annotations

from typing import Any

from ..exceptions import WujiRuntimeError, WujiTypeError
from ..lang import dtypes, ops
from ..lang.compound import MatrixType, NdarrayType, template
from ..lang.dtypes import DataType
from ..lang.field import ComponentField, Field, MatrixField, ScalarField, StructField
from ..lang.func import func
from ..lang.kernel import kernel
from ..lang.ndarray import Ndarray, ndarray
from ..lang.static import static

_DIGITS = 256
_BLOCK = 8192  # elements that one thread takes, at least
_MOST_BLOCKS = 64
_WORDS = {8: dtypes.u8, 16: dtypes.u16, 32: dtypes.u32, 64: dtypes.u64}

_Array: Any = NdarrayType(ndim=1)


@func
def _digit(key: Any, shift: Any, word: template(), kind: template()) -> Any:  # type: ignore[valid-type]
    """A digit of the unsigned number that has the same place among all as the key."""
    bits = ops.bit_cast(key, word)
    top = ops.cast(static(1 << (word.bits - 1)), word)
    if static(kind == "i"):
        bits = bits ^ top
    elif static(kind == "f"):
        bits = ops.select(bits >= top, ~bits, bits ^ top)
    return ops.cast((bits >> ops.cast(shift, word)) & ops.cast(_DIGITS - 1, word), dtypes.i32)


@kernel
def _count_up(order: _Array):  # type: ignore[no-untyped-def]
    for i in order:
        order[i] = i


@kernel
def _pass(  # type: ignore[no-untyped-def]
    keys: _Array,
    order: _Array,
    to_keys: _Array,
    to_order: _Array,
    places: _Array,
    ordered: template(),  # type: ignore[valid-type]
    dtype: template(),  # type: ignore[valid-type]
    shift: dtypes.i32,  # type: ignore[valid-type]
    count: dtypes.i32,  # type: ignore[valid-type]
    size: dtypes.i32,  # type: ignore[valid-type]
):
    word = static(_WORDS[dtype.bits])
    blocks = places.shape[0] // _DIGITS
    # How often each digit comes in each block. No other thread counts there.
    for block in range(blocks):
        for d in range(_DIGITS):
            places[block * _DIGITS + d] = 0
        for i in range(block * size, ops.min((block + 1) * size, count)):
            at = block * _DIGITS + _digit(keys[i], shift, word, static(dtype.kind))
            places[at] = places[at] + ops.cast(1, dtypes.i32)
    # Where the first one goes.
    for _ in range(1):
        total = ops.cast(0, dtypes.i32)
        for d in range(_DIGITS):
            for block in range(blocks):
                at = block * _DIGITS + d
                here = places[at]
                places[at] = total
                total += here
    for block in range(blocks):
        for i in range(block * size, ops.min((block + 1) * size, count)):
            key = keys[i]
            at = block * _DIGITS + _digit(key, shift, word, static(dtype.kind))
            place = places[at]
            places[at] = place + ops.cast(1, dtypes.i32)
            to_keys[place] = key
            if static(ordered):
                to_order[place] = order[i]


@kernel
def _gather(source: _Array, order: _Array, target: _Array):  # type: ignore[no-untyped-def]
    for i in order:
        target[i] = source[order[i]]


def parallel_sort(keys: Any, values: Any = None) -> None:
    """Sorts keys upwards, in place, and values along with them. Equal keys keep their order.

    Keys are a field or array of numbers with one axis; values any field or array as long. Floats that are no numbers go to the end.
    """
    if not isinstance(keys, (ScalarField, Ndarray)) or isinstance(getattr(keys, "element_type", None), MatrixType):
        raise WujiTypeError(f"`parallel_sort` sorts a field or array of numbers, not {type(keys).__name__}")
    if len(keys.shape) != 1:
        raise WujiRuntimeError(f"`parallel_sort` sorts something with one axis, not of shape {tuple(keys.shape)}")
    if keys.dtype.is_bool:
        raise WujiTypeError("`parallel_sort` of truth values\n  = help: use a field of integers")
    count = keys.shape[0]
    columns = _columns(values)
    for column in columns:
        if tuple(column.shape) != (count,):
            raise WujiRuntimeError(f"`parallel_sort` of {count} keys with values of shape {tuple(column.shape)}")
    if count < 2:
        return
    data, order = _sorted(_read(keys), bool(columns))
    _write(keys, data)
    for column in columns:
        source = _read(column)
        target = ndarray(source.element_type, count)
        _gather(source, order, target)
        _write(column, target)


def _sorted(keys: Ndarray, ordered: bool) -> tuple[Ndarray, Ndarray]:
    """Keys in order, and where each was; the array that was given is used up."""
    count = keys.shape[0]
    dtype: DataType = keys.dtype
    size = max(_BLOCK, -(-count // _MOST_BLOCKS))
    places = ndarray(dtypes.i32, -(-count // size) * _DIGITS)
    other = ndarray(dtype, count)
    order, other_order = (ndarray(dtypes.i32, count if ordered else 1) for _ in range(2))
    if ordered:
        _count_up(order)
    for shift in range(0, dtype.bits, 8):
        _pass(keys, order, other, other_order, places, ordered, dtype, shift, count, size)
        keys, other = other, keys
        order, other_order = other_order, order
    return keys, order


def _columns(values: Any) -> list[Any]:
    """The fields and arrays that values are made of."""
    if values is None:
        return []
    if isinstance(values, StructField):
        return [c for member in values._members.values() for c in _columns(member)]
    if isinstance(values, MatrixField) and values._parts is not None:
        return [c for part in values._parts for c in _columns(part)]
    if isinstance(values, (Field, Ndarray)):
        return [values]
    raise WujiTypeError(f"`parallel_sort` takes values in a field or array, not in {type(values).__name__}")


def _read(source: Any) -> Ndarray:
    """A copy as an array, which code is compiled for once and for all."""
    element = source.type if isinstance(source, MatrixField) else getattr(source, "element_type", source.dtype)
    copy = ndarray(element, source.shape)
    if isinstance(source, Ndarray):
        copy.copy_from(source)
    elif isinstance(source, ComponentField):
        copy.from_numpy(source.to_numpy())
    else:
        source._first.ready().read_into(copy._native)
    return copy


def _write(target: Any, data: Ndarray) -> None:
    if isinstance(target, Ndarray):
        target.copy_from(data)
    elif isinstance(target, ComponentField):
        target.from_numpy(data.to_numpy())
    else:
        target._first.ready().write_from(data._native)


__all__ = ["parallel_sort"]
