"""Parallel radix sort, least significant digit first. Each pass is stable."""

from __future__ import annotations

from typing import Any

from ..exceptions import WujiRuntimeError, WujiTypeError
from ..lang import dtypes, ops
from ..lang.compound import MatrixType, NdarrayType, template
from ..lang.dtypes import DataType
from ..lang.field import Field, MatrixField, ScalarField, StructField
from ..lang.func import func
from ..lang.kernel import kernel
from ..lang.ndarray import Ndarray, ndarray
from ..lang.static import static

_DIGITS = 256
_BLOCK = 8192  # minimum number of elements per thread
_MAX_BLOCKS = 64
_WORDS = {8: dtypes.u8, 16: dtypes.u16, 32: dtypes.u32, 64: dtypes.u64}

_Array: Any = NdarrayType(ndim=1)


@func
def _digit(key: Any, shift: Any, word: template(), kind: template()) -> Any:  # type: ignore[valid-type]
    """Return a digit of the key, mapped to an unsigned integer with the same order."""
    bits = ops.bit_cast(key, word)
    top = ops.cast(static(1 << (word.bits - 1)), word)
    if static(kind == "i"):
        bits = bits ^ top
    elif static(kind == "f"):
        bits = ops.select(bits >= top, ~bits, bits ^ top)
    return ops.cast((bits >> ops.cast(shift, word)) & ops.cast(_DIGITS - 1, word), dtypes.i32)


@kernel
def _iota(order: _Array):  # type: ignore[no-untyped-def]
    for i in order:
        order[i] = i


@kernel
def _pass(  # type: ignore[no-untyped-def]
    keys: _Array,
    order: _Array,
    to_keys: _Array,
    to_order: _Array,
    offsets: _Array,
    ordered: template(),  # type: ignore[valid-type]
    dtype: template(),  # type: ignore[valid-type]
    shift: dtypes.i32,  # type: ignore[valid-type]
    count: dtypes.i32,  # type: ignore[valid-type]
    size: dtypes.i32,  # type: ignore[valid-type]
):
    word = static(_WORDS[dtype.bits])
    blocks = offsets.shape[0] // _DIGITS
    # Histogram: count each digit per block. Blocks do not share counters.
    for block in range(blocks):
        for d in range(_DIGITS):
            offsets[block * _DIGITS + d] = 0
        for i in range(block * size, ops.min((block + 1) * size, count)):
            at = block * _DIGITS + _digit(keys[i], shift, word, static(dtype.kind))
            offsets[at] = offsets[at] + ops.cast(1, dtypes.i32)
    # Exclusive prefix sum: offset of the first key of each digit.
    for _ in range(1):
        total = ops.cast(0, dtypes.i32)
        for d in range(_DIGITS):
            for block in range(blocks):
                at = block * _DIGITS + d
                in_block = offsets[at]
                offsets[at] = total
                total += in_block
    for block in range(blocks):
        for i in range(block * size, ops.min((block + 1) * size, count)):
            key = keys[i]
            at = block * _DIGITS + _digit(key, shift, word, static(dtype.kind))
            offset = offsets[at]
            offsets[at] = offset + ops.cast(1, dtypes.i32)
            to_keys[offset] = key
            if static(ordered):
                to_order[offset] = order[i]


@kernel
def _gather(source: _Array, order: _Array, target: _Array):  # type: ignore[no-untyped-def]
    for i in order:
        target[i] = source[order[i]]


def parallel_sort(keys: Any, values: Any = None) -> None:
    """Sort keys in ascending order, in offset, and permute values accordingly. The sort is stable.

    Args:
        keys: A 1-D field or array of scalars. NaNs sort to the end.
        values: A field or array of the same length, of any element type.
    """
    if not isinstance(keys, (ScalarField, Ndarray)) or isinstance(getattr(keys, "element_type", None), MatrixType):
        raise WujiTypeError(f"`parallel_sort` needs keys in a field or array of scalars, not {type(keys).__name__}")
    if len(keys.shape) != 1:
        raise WujiRuntimeError(f"`parallel_sort` needs keys with one axis, not shape {tuple(keys.shape)}")
    if keys.dtype.is_bool:
        raise WujiTypeError("`parallel_sort` does not support bool\n  = help: use a field of integers")
    count = keys.shape[0]
    # Keys that are values too are sorted already when the values follow.
    columns = [column for column in _columns(values) if getattr(column, "_leaf", column) is not getattr(keys, "_leaf", keys)]
    for column in columns:
        if tuple(column.shape) != (count,):
            raise WujiRuntimeError(f"shape mismatch: `parallel_sort` of {count} keys and values of shape {tuple(column.shape)}")
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
    """Return the sorted keys and their permutation. Overwrites the input array."""
    count = keys.shape[0]
    dtype: DataType = keys.dtype
    size = max(_BLOCK, -(-count // _MAX_BLOCKS))
    offsets = ndarray(dtypes.i32, -(-count // size) * _DIGITS)
    other = ndarray(dtype, count)
    order, other_order = (ndarray(dtypes.i32, count if ordered else 1) for _ in range(2))
    if ordered:
        _iota(order)
    for shift in range(0, dtype.bits, 8):
        _pass(keys, order, other, other_order, offsets, ordered, dtype, shift, count, size)
        keys, other = other, keys
        order, other_order = other_order, order
    return keys, order


def _columns(values: Any) -> list[Any]:
    """Return the fields and arrays that hold the values."""
    if values is None:
        return []
    if isinstance(values, StructField):
        return [c for member in values._members.values() for c in _columns(member)]
    if isinstance(values, MatrixField) and values._parts is not None:
        return [c for part in values._parts for c in _columns(part)]
    if isinstance(values, (Field, Ndarray)):
        return [values]
    raise WujiTypeError(f"`parallel_sort` needs values in a field or array, not {type(values).__name__}")


def _read(source: Any) -> Ndarray:
    """Copy to an array, so that kernels are specialized on its type only."""
    element = source.type if isinstance(source, MatrixField) else getattr(source, "element_type", source.dtype)
    copy = ndarray(element, source.shape)
    if isinstance(source, Ndarray):
        copy.copy_from(source)
    elif source._core() is None:
        copy.from_numpy(source.to_numpy())
    else:
        source._first.ready().read_into(copy._native)
    return copy


def _write(target: Any, data: Ndarray) -> None:
    if isinstance(target, Ndarray):
        target.copy_from(data)
    elif target._core() is None:
        target.from_numpy(data.to_numpy())
    else:
        target._first.ready().write_from(data._native)


__all__ = ["parallel_sort"]
