"""Compile-time evaluation: `static`, `static_assert` and `static_print`."""

from __future__ import annotations

from typing import Any

from ..exceptions import WujiCompilationError


def static(x: Any, *xs: Any) -> Any:
    """Evaluate at compile time: ``if ti.static(...)`` selects a branch, ``for ... in ti.static(...)`` unrolls a loop."""
    if not xs:
        return x
    return (x, *xs)


def static_assert(cond: Any, msg: Any = None) -> None:
    """Stop compilation with an error if a compile-time condition is false."""
    if not cond:
        raise WujiCompilationError(f"static assertion failed{'' if msg is None else ': ' + str(msg)}")


def static_print(*args: Any, __p: Any = print, **kwargs: Any) -> None:
    """Print at compile time."""
    __p(*args, **kwargs)
