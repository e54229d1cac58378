"""What happens while a kernel is compiled."""

from __future__ import annotations

from typing import Any

from ..exceptions import WujiCompilationError


def static(x: Any, *xs: Any) -> Any:
    """Computed while the kernel is compiled: a branch that is taken or left out, a loop whose body is repeated."""
    if not xs:
        return x
    return (x, *xs)


def static_assert(cond: Any, msg: Any = None) -> None:
    """Refuses to compile the kernel when a condition, known then, does not hold."""
    if not cond:
        raise WujiCompilationError(f"a static assertion does not hold{'' if msg is None else ': ' + str(msg)}")


def static_print(*args: Any, __p: Any = print, **kwargs: Any) -> None:
    """Prints while the kernel is compiled."""
    __p(*args, **kwargs)
