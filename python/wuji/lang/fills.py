"""``x.fill(v)`` inside a kernel: a loop over the field. Taichi's functions of the same kind."""

from __future__ import annotations

import ast
from typing import Any

from ..exceptions import WujiTypeError
from . import ops
from .compound import ndarray, template
from .field import Field, StructField
from .func import func
from .kernel import kernel
from .matrix import Vector
from .ndrange import grouped
from .struct import Struct
from .values import StructVal


@func
def field_fill_taichi_scope(field: template(), value: template()):  # type: ignore[no-untyped-def, valid-type]
    for at in grouped(field):
        field[at] = value


@kernel
def fill_field(field: template(), val: template()):  # type: ignore[no-untyped-def, valid-type]
    value = ops.cast(val, field.dtype)
    for at in grouped(field):
        field[at] = value


@kernel
def fill_ndarray(array: ndarray(), val: template()):  # type: ignore[no-untyped-def, valid-type]
    for at in grouped(array):
        array[at] = val


def store_active(field: Any, values: Any) -> None:
    """Copy an array to the elements of active cells."""
    elements = {0: _store_scalars, 1: _store_vectors, 2: _store_matrices}[len(values.shape) - len(field.shape)]
    elements(field, values, Vector([int(o) for o in field.offset]))


@kernel
def _store_scalars(field: template(), values: ndarray(), offset: template()):  # type: ignore[no-untyped-def, valid-type]
    for at in grouped(field):
        field[at] = values[at - offset]


@kernel
def _store_vectors(field: template(), values: ndarray(element_dim=1), offset: template()):  # type: ignore[no-untyped-def, valid-type]
    for at in grouped(field):
        field[at] = values[at - offset]


@kernel
def _store_matrices(field: template(), values: ndarray(element_dim=2), offset: template()):  # type: ignore[no-untyped-def, valid-type]
    for at in grouped(field):
        field[at] = values[at - offset]


def fill(caller: Any, node: ast.Call, field: Field, args: list[Any], named: dict[str, Any]) -> None:
    """Compile a call of ``field.fill``."""
    if len(args) + len(named) != 1 or set(named) - {"val"}:
        raise WujiTypeError("`fill` takes one value")
    value = args[0] if args else named["val"]
    if not isinstance(field, StructField):
        field_fill_taichi_scope._wuji_call(caller, node, [field, value], {})
        return
    members = value.members if isinstance(value, StructVal) else value.entries if isinstance(value, Struct) else value
    for name, member in field.items:
        fill(caller, node, member, [members[name] if isinstance(members, dict) else value], {})
