"""Loop domains: `range`, `ti.ndrange` and `ti.grouped`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from ..exceptions import WujiSyntaxError, WujiTypeError
from . import emit
from .context import Compilation
from .values import Expr


class RangeVal:
    """``range(low, high)`` in a kernel. ``item`` makes the loop variable from the index; without it, the index is the variable."""

    __slots__ = ("axes", "item")

    def __init__(self, low: Any, high: Any, item: Callable[[Compilation, Expr], Any] | None = None) -> None:
        self.axes = [(low, high)]
        self.item = item

    @staticmethod
    def of(args: list[Any]) -> RangeVal:
        if len(args) == 1:
            return RangeVal(0, args[0])
        if len(args) == 2:
            return RangeVal(args[0], args[1])
        raise WujiSyntaxError(
            f"Range should have 1 or 2 arguments, found {len(args)}\n  = help: compute `low + step * i`, or use `ti.static(range(...))`, which supports a step"
        )


class NDRange:
    """``ti.ndrange(n, (low, high), ...)``: the Cartesian product of ranges."""

    def __init__(self, *args: Any) -> None:
        self.nested = False
        self.axes: list[tuple[Any, Any]] = []
        self.groups: list[Any] = []
        for arg in args:
            if isinstance(arg, NDRange):
                # The indices of a nested range form one tuple.
                self.nested = True
                self.groups.append(len(arg.axes))
                self.axes.extend(arg.axes)
                continue
            self.groups.append(None)
            if isinstance(arg, Expr) and arg.shape:
                arg = tuple(emit.components(arg))
            if isinstance(arg, (tuple, list)):
                if len(arg) != 2:
                    raise WujiSyntaxError(f"Every argument of ndrange should be a scalar or a tuple/list like (begin, end), not {len(arg)} values")
                low, high = arg
            else:
                low, high = 0, arg
            for end in (low, high):
                whole = not end.dtype.is_float if isinstance(end, Expr) else emit.is_number(end) and float(end).is_integer()
                if not whole:
                    raise WujiTypeError(f"Every argument of ndrange should be an integer scalar or a tuple/list of (int, int), not {emit.describe(end)}")
            low, high = (int(e) if not isinstance(e, Expr) else e.load() for e in (low, high))
            self.axes.append((low, high))

    @property
    def bounds(self) -> list[tuple[Any, Any]]:
        return self.axes

    def _known(self) -> list[range]:
        for low, high in self.axes:
            if isinstance(low, Expr) or isinstance(high, Expr):
                raise WujiTypeError("the bounds of a static range must be compile-time constants")
        return [range(low, high) for low, high in self.axes]

    def items(self) -> Iterator[Any]:
        """Return the values of a loop variable: numbers for one axis, else tuples."""
        return iter(self._known()[0]) if len(self.axes) == 1 else iter(self)

    def __iter__(self) -> Iterator[Any]:
        return (self.shape_like(list(p)) for p in itertools.product(*self._known()))

    def vectors(self) -> Iterator[Any]:
        from .matrix import Matrix

        if not self.axes:
            return iter([()])
        return (Matrix(list(p)) for p in itertools.product(*self._known()))

    def shape_like(self, indices: list[Any]) -> Any:
        """Group flat indices like the nested ranges."""
        out: list[Any] = []
        at = 0
        for group in self.groups:
            if group is None:
                out.append(indices[at])
                at += 1
            else:
                out.append(tuple(indices[at : at + group]))
                at += group
        return tuple(out)

    def grouped(self) -> Grouped:
        return Grouped(self)


class Grouped:
    """``ti.grouped(x)``: yields the indices as one vector."""

    def __init__(self, over: Any) -> None:
        self.over = over

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.over, NDRange):
            return self.over.vectors()
        raise TypeError("fields can only be iterated over in kernels")


def ndrange(*args: Any) -> NDRange:
    """Return the Cartesian product of ranges. Each argument is an upper bound, or a (low, high) pair. Without arguments it has one element."""
    return NDRange(*args)


def grouped(x: Any) -> Grouped:
    """Make a loop over ``x`` yield its indices as one vector: ``for I in ti.grouped(x)``."""
    return Grouped(x)
