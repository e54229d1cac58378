"""Axes and extents of fields and nodes."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from ..exceptions import WujiRuntimeError, WujiRuntimeTypeError

_LETTERS = "ijklmnop"


def shape_of(shape: Any) -> tuple[int, ...]:
    """Normalize a shape: an integer, a sequence of integers, or a NumPy array or `ti.Vector` of them."""
    try:
        if hasattr(shape, "__index__") and getattr(shape, "shape", ()) == ():
            return (operator.index(shape),)
        return tuple(operator.index(s) for s in shape)
    except TypeError:
        raise WujiRuntimeTypeError(f"{shape!r} is not a valid shape: it must be an integer or a sequence of integers") from None


class Axis:
    """One or more axes, such as ``ti.ij``."""

    __slots__ = ("numbers",)

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    def __repr__(self) -> str:
        return "".join(_LETTERS[k] for k in self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Any:
        return iter(self.numbers)


def axes(*numbers: int) -> Axis:
    """Return axes by number: ``ti.axes(0, 1)`` is ``ti.ij``."""
    for k in numbers:
        if not isinstance(k, int) or not 0 <= k < len(_LETTERS):
            raise WujiRuntimeError(f"invalid axis {k!r}: axes are numbered 0 to {len(_LETTERS) - 1}")
    return Axis(*numbers)


def check_extents(extents: Iterable[int]) -> None:
    """Reject extents that no axis can have."""
    for axis, extent in enumerate(extents):
        if extent < 1:
            raise WujiRuntimeError(f"Every dimension of a Taichi field should be positive, got {extent} in dimension {axis}", "W0101")
        if extent >= 1 << 31:
            raise WujiRuntimeTypeError(f"The dimension of a field should be less than 2^31, got {extent} in dimension {axis}: indices are of type i32", "W0101")
