"""Running sums."""

from __future__ import annotations

from typing import Any

from ..exceptions import WujiRuntimeError, WujiTypeError
from ..lang import ops
from ..lang.compound import MatrixType, NdarrayType, template
from ..lang.field import Field, ScalarField
from ..lang.func import func
from ..lang.kernel import kernel
from ..lang.ndarray import Ndarray, ndarray

_BLOCK = 4096


@func
def _within(data: template(), sums: template(), count: Any) -> None:  # type: ignore[valid-type]
    """Running sums inside of each block, and the sum of each block."""
    for block in range((count + (_BLOCK - 1)) // _BLOCK):
        total = ops.zero(sums[0])
        for i in range(block * _BLOCK, ops.min(count, (block + 1) * _BLOCK)):
            total += data[i]
            data[i] = total
        sums[block] = total


@func
def _across(data: template(), sums: template(), count: Any) -> None:  # type: ignore[valid-type]
    """What all blocks before sum up to is added to each block."""
    blocks = (count + (_BLOCK - 1)) // _BLOCK
    for _ in range(1):
        total = ops.zero(sums[0])
        for block in range(blocks):
            before = total
            total += sums[block]
            sums[block] = before
    for block in range(1, blocks):
        for i in range(block * _BLOCK, ops.min(count, (block + 1) * _BLOCK)):
            data[i] = sums[block] + data[i]


@kernel
def _sum_field(data: template(), sums: NdarrayType(ndim=1), count: int):  # type: ignore[no-untyped-def,valid-type]
    _within(data, sums, count)
    _across(data, sums, count)


@kernel
def _sum_array(data: NdarrayType(ndim=1), sums: NdarrayType(ndim=1), count: int):  # type: ignore[no-untyped-def,valid-type]
    _within(data, sums, count)
    _across(data, sums, count)


class PrefixSumExecutor:
    """Replaces the first ``length`` elements of a field by their running sums: each by the sum of itself and all before.

    Elements are integers or floats of any size; the sum has their type. One executor can be used again and again.
    """

    def __init__(self, length: int) -> None:
        if length < 0:
            raise WujiRuntimeError(f"`PrefixSumExecutor` of {length} elements")
        self.length = int(length)
        self.sorting_length = self.length
        self._sums: dict[Any, Ndarray] = {}

    def run(self, input_arr: Any) -> None:
        """Does it, in place, to a field or array with one axis."""
        if not isinstance(input_arr, (ScalarField, Ndarray)) or isinstance(getattr(input_arr, "element_type", None), MatrixType):
            raise WujiTypeError(f"`PrefixSumExecutor.run` takes a field or array of numbers, not {type(input_arr).__name__}")
        if len(input_arr.shape) != 1 or input_arr.shape[0] < self.length:
            raise WujiRuntimeError(
                f"`PrefixSumExecutor` of {self.length} elements does not fit something of shape {tuple(input_arr.shape)}"
            )
        dtype = input_arr.dtype
        if dtype.is_bool:
            raise WujiTypeError("`PrefixSumExecutor.run` of truth values\n  = help: use a field of integers")
        if not self.length:
            return
        sums = self._sums.get(dtype)
        if sums is None:
            sums = self._sums[dtype] = ndarray(dtype, (self.length + _BLOCK - 1) // _BLOCK)
        (_sum_field if isinstance(input_arr, Field) else _sum_array)(input_arr, sums, self.length)


__all__ = ["PrefixSumExecutor"]
