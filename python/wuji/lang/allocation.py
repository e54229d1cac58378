"""Allocation of fields that are created with a shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..exceptions import WujiRuntimeError, WujiSyntaxError
from . import runtime
from .packed import check_shape
from .extents import Axis, check_extents, shape_of
from .fields_builder import FieldsBuilder

if TYPE_CHECKING:
    from .field import Field
    from .snode import Leaf


def allocate(field: Field, shape: Any, order: str | None, offset: Any, parts: list[Field] | None = None) -> None:
    """Create a tree for one field: dense, with the axes in index order unless `order` is given."""
    if shape is None:
        if offset is not None:
            raise WujiSyntaxError("shape cannot be None when offset is set\n  = help: without a shape, pass the offset when placing the field: `.place(x, offset=...)`")
        if order is not None:
            raise WujiSyntaxError("shape cannot be None when order is set")
        runtime.current()
        return
    check_shape(field)
    extents = shape_of(shape)
    check_extents(extents)
    if len(extents) > 8:
        raise WujiRuntimeError(f"Too many dimensions: {len(extents)}. The maximum dimensionality is 8", "W0103")
    offsets = None if offset is None else shape_of(offset)
    if offsets is not None and len(offsets) != len(extents):
        raise WujiSyntaxError(f"The dimensionality of shape and offset must be the same ({len(extents)} != {len(offsets)}): shape {extents}, offset {offsets}", "W0104")
    if order is not None:
        if sorted(order) != list("ijklmnop"[: len(extents)]):
            wrong = [letter for letter in order if letter not in "ijklmnop"[: len(extents)]]
            what = f"Invalid axis {wrong[0]}" if wrong else "The axes in order must be different, and as many as in shape"
            raise WujiSyntaxError(f"{what}: `order` {order!r} must name each of the {len(extents)} axes once")
    builder = FieldsBuilder()
    placed = parts or [field]
    kinds = field._first.needed
    # In nodes of their own: most kernels do not access them.
    for part in [*placed, *(part._companion(kind) for kind in kinds for part in placed)]:
        node = builder.root
        if order is not None:
            for letter in order:
                axis = "ijklmnop".index(letter)
                node = node.dense(Axis(axis), extents[axis])
        elif extents:
            node = node.dense(Axis(*range(len(extents))), extents)
        part._place(node, offsets)
    runtime.current().root.with_shape.add(builder)


def allocate_tangent(gradient: Leaf) -> None:
    """Allocate the tangent of a gradient, for second derivatives, in a tree of its own."""
    tangent = gradient.companion("dual")
    if tangent is None or tangent.node is not None or tangent.native is not None:
        return
    native = gradient.ready()
    builder = FieldsBuilder()
    rank = len(native.shape)
    tangent.place(builder.root.dense(Axis(*range(rank)), native.shape) if rank else builder.root, native.offset if rank else None)
    builder.finalize()
