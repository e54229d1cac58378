"""Sparse grids: cells are activated on write."""

from __future__ import annotations

from math import prod
from typing import Any

from ..exceptions import WujiRuntimeError, WujiTypeError
from ..lang.compound import StructType
from ..lang.field import Field
from ..lang.extents import axes, shape_of
from ..lang.fields_builder import FieldsBuilder


def grid(field_dict: dict[str, Any], shape: Any) -> Any:
    """Create a sparse field of structs.

    Writing to a cell activates it. Struct-for loops visit active cells.

    ```python
    grid = ti.sparse.grid({"mass": ti.f32, "velocity": ti.math.vec2}, shape=(64, 64))
    ```
    """
    extents = shape_of(shape)
    if not field_dict or not extents:
        raise WujiRuntimeError("`ti.sparse.grid` needs members and a shape")
    made = StructType(**field_dict).field()
    builder = FieldsBuilder()
    builder.bitmasked(axes(*range(len(extents))), extents).place(made)
    builder.finalize()
    return made


def usage(x: Any) -> float:
    """Return the fraction of active cells of a grid."""
    if not isinstance(x, Field):
        raise WujiTypeError(f"`ti.sparse.usage` needs a grid, not {type(x).__name__}")
    node = x.snode
    return node._count_active() / prod(node.shape)


__all__ = ["grid", "usage"]
