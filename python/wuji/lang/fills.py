"""``x.fill(v)`` inside a kernel: a loop over the field."""

from __future__ import annotations

import ast
from typing import Any

from ..exceptions import WujiTypeError
from .compound import template
from .field import Field, StructField
from .func import func
from .ndrange import grouped
from .struct import Struct
from .values import StructVal


@func
def _fill(field: template(), value: template()):  # type: ignore[no-untyped-def, valid-type]
    for at in grouped(field):
        field[at] = value


def fill(caller: Any, node: ast.Call, field: Field, args: list[Any], named: dict[str, Any]) -> None:
    """Compile a call of ``field.fill``."""
    if len(args) + len(named) != 1 or set(named) - {"val"}:
        raise WujiTypeError("`fill` takes one value")
    value = args[0] if args else named["val"]
    if not isinstance(field, StructField):
        _fill._wuji_call(caller, node, [field, value], {})
        return
    members = value.members if isinstance(value, StructVal) else value.entries if isinstance(value, Struct) else value
    for name, member in field.items:
        fill(caller, node, member, [members[name] if isinstance(members, dict) else value], {})
