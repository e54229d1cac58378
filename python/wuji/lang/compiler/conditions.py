"""Conditions that are known at compile time: numbers and None. Other objects would be true whatever they hold."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from ...exceptions import WujiTypeError
from .. import emit
from ..access import ArrayVal
from ..field import Field
from ..ndarray import Ndarray


class Conditions:
    static_depth: int

    if TYPE_CHECKING:

        def is_static(self, node: ast.expr) -> bool: ...

    def known(self, node: ast.expr, value: Any, what: str) -> bool:
        """Return whether a condition holds that is no run-time value. In `ti.static`, every object of Python can be one."""
        # Elements of meshes say themselves what to use instead.
        if value is None or emit.is_number(value) or hasattr(value, "_wuji_element") or self.static_depth or self.is_static(node):
            return bool(value)
        help = f"an element is {element(value, ast.unparse(node))}" if is_whole(value) else "`ti.static(...)` evaluates it as Python does, at compile time"
        raise WujiTypeError(f"{_invalid(value)} cannot be {what}\n  = help: {help}")


def is_whole(value: Any) -> bool:
    """Return whether something is a field or an array, rather than an element of one."""
    return isinstance(value, (ArrayVal, Field, Ndarray))


def element(value: Any, source: str) -> str:
    """Return how an element of a field or array is written."""
    rank = value.ndim if isinstance(value, ArrayVal) else len(value.shape)
    return f"`{source}[{', '.join('ijkl'[:rank]) if rank <= 4 else '...'}]`" if rank else f"`{source}[None]`"


def refuse_whole(value: Any, what: str, source: str) -> None:
    """Raise an error if a value is a field or an array where one of its elements is needed."""
    if is_whole(value):
        raise WujiTypeError(f"{_invalid(value)} {what}\n  = help: an element is {element(value, source)}")


def _invalid(value: Any) -> str:
    what = f"the array `{value.name}`" if isinstance(value, ArrayVal) else emit.describe(value)
    return f"Invalid constant scalar data type: {type(value)}: {what}"
