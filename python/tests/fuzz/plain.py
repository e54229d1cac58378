"""The frontend in plain Python, as far as programs with boundaries use it: serial loops over arrays that check every index.

``plain.ti`` replaces ``wuji`` as ``ti``, so the same text runs by the rules of Python.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

# Sums of a few larger numbers may be inexact in f32.
_LARGEST = 1 << 20


class Inexact(Exception):
    """An element is too large for results to be exact."""


class Array:
    """A field or an ndarray. Reads outside return zero, and writes outside are dropped."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.shape = values.shape
        self.zero = values.dtype.type(0).item()

    def __iter__(self) -> Iterator[Any]:
        """The indices: a loop over an array is a struct-for."""
        return iter(ndrange(*self.shape))

    def inside(self, index: Any) -> bool:
        indices = index if isinstance(index, tuple) else (index,)
        return all(0 <= k < n for k, n in zip(indices, self.shape, strict=True))

    def __getitem__(self, index: Any) -> Any:
        return self.values[index].item() if self.inside(index) else self.zero

    def __setitem__(self, index: Any, value: Any) -> None:
        if abs(value) > _LARGEST:
            raise Inexact
        if self.inside(index):
            self.values[index] = value

    def from_numpy(self, values: Any) -> None:
        self.values[...] = values

    def to_numpy(self) -> Any:
        return self.values


def ndrange(*axes: int | tuple[int, int]) -> Any:
    """The indices of a loop: numbers if there is one axis, tuples otherwise."""
    ranges = [range(*axis) if isinstance(axis, tuple) else range(axis) for axis in axes]
    return ranges[0] if len(ranges) == 1 else itertools.product(*ranges)


def grouped(array: Array) -> Iterator[tuple[int, ...]]:
    return itertools.product(*map(range, array.shape))


def kernel(function: Callable[..., None]) -> Callable[..., None]:
    """The function, with checked indices for arguments that are NumPy arrays."""
    return lambda *args: function(*(Array(a) if isinstance(a, np.ndarray) else a for a in args))


def _select(condition: bool, then: Any, other: Any) -> Any:
    return then if condition else other


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))


def _array(dtype: Any, shape: tuple[int, ...], order: str = "") -> Array:
    return Array(np.zeros(shape, dtype))


ti = SimpleNamespace(
    i32=np.int32, f32=np.float32, kernel=kernel, field=_array, ndarray=_array, ndrange=ndrange, grouped=grouped,
    max=max, min=min, abs=abs, select=_select, math=SimpleNamespace(clamp=_clamp), types=SimpleNamespace(ndarray=lambda: None),
    loop_config=lambda block_dim: None,
)  # fmt: skip
