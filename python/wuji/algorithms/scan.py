"""Parallel prefix sum."""

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
def _scan_blocks(data: template(), sums: template(), count: Any) -> None:  # type: ignore[valid-type]
    """Scan each block, and compute the sum of each block."""
    for block in range((count + (_BLOCK - 1)) // _BLOCK):
        total = ops.zero(sums[0])
        for i in range(block * _BLOCK, ops.min(count, (block + 1) * _BLOCK)):
            total += data[i]
            data[i] = total
        sums[block] = total


@func
def _add_offsets(data: template(), sums: template(), count: Any) -> None:  # type: ignore[valid-type]
    """Add to each block the sum of all previous blocks."""
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
    _scan_blocks(data, sums, count)
    _add_offsets(data, sums, count)


@kernel
def _sum_array(data: NdarrayType(ndim=1), sums: NdarrayType(ndim=1), count: int):  # type: ignore[no-untyped-def,valid-type]
    _scan_blocks(data, sums, count)
    _add_offsets(data, sums, count)


class PrefixSumExecutor:
    """Computes the inclusive prefix sum of the first ``length`` elements, in place.

    Elements are integers or floats of any size; sums have the same type. An executor can be reused.
    """

    def __init__(self, length: int) -> None:
        if not hasattr(length, "__index__") or length < 0:
            raise WujiRuntimeError(f"`PrefixSumExecutor`: the length must be an integer of at least 0, not {length!r}")
        self.length = int(length)
        self.sorting_length = self.length
        self._sums: dict[Any, Ndarray] = {}

    def run(self, input_arr: Any) -> None:
        """Scan a 1-D field or array in place."""
        if not isinstance(input_arr, (ScalarField, Ndarray)) or isinstance(getattr(input_arr, "element_type", None), MatrixType):
            raise WujiTypeError(f"`PrefixSumExecutor.run` needs a field or array of scalars, not {type(input_arr).__name__}")
        if len(input_arr.shape) != 1 or input_arr.shape[0] < self.length:
            raise WujiRuntimeError(
                f"`PrefixSumExecutor` of length {self.length} cannot run on shape {tuple(input_arr.shape)}"
            )
        dtype = input_arr.dtype
        if dtype.is_bool:
            raise WujiTypeError("`PrefixSumExecutor.run` does not support bool\n  = help: use a field of integers")
        if not self.length:
            return
        sums = self._sums.get(dtype)
        if sums is None:
            sums = self._sums[dtype] = ndarray(dtype, max((self.length + _BLOCK - 1) // _BLOCK, 1))
        (_sum_field if isinstance(input_arr, Field) else _sum_array)(input_arr, sums, self.length)


__all__ = ["PrefixSumExecutor"]
