"""Gradients of the current world, all at once."""

from __future__ import annotations

from typing import Any

from ..lang import runtime
from ..lang.compound import MatrixType, type_by_ir
from ..lang.context import python_only
from ..lang.enums import SNodeGradType
from ..lang.fields_builder import SNodeTree
from ..lang.snode import Leaf


def companions(kind: str) -> list[Leaf]:
    """Return the allocated gradients (``"grad"``), tangents (``"dual"``) or tangents of gradients (``"grad.dual"``) of the current world."""
    world = runtime.current()
    world.materialize()
    found: list[Leaf] = []
    for root in list(world.roots):
        tree = root._owner
        if isinstance(tree, SNodeTree) and not tree.destroyed:
            found.extend(root._structure.companions(kind))
    return found


def zero(leaf: Leaf) -> None:
    """Set all active elements to zero."""
    ty = type_by_ir(leaf.type)
    native = leaf.native
    assert native is not None
    native.fill((0.0,) * ty.count if isinstance(ty, MatrixType) else 0.0)


def zero_at(leaf: Leaf, at: tuple[int, ...]) -> None:
    """Set an element to zero, unless it is inactive."""
    ty = type_by_ir(leaf.type)
    native = leaf.ready()
    if native.is_active(at):
        native.set(at, (0.0,) * ty.count if isinstance(ty, MatrixType) else 0.0)


@python_only
def clear_all_gradients(gradient_type: Any = SNodeGradType.ADJOINT) -> None:
    """Set all gradients of the current world to zero.

    Args:
        gradient_type: `SNodeGradType.DUAL` clears tangents instead.
    """
    dual = gradient_type is SNodeGradType.DUAL
    for kind in ("dual",) if dual else ("grad", "grad.dual"):
        for leaf in companions(kind):
            zero(leaf)
    world = runtime.current()
    for array in list(world.tangents if dual else world.gradients):
        array.fill(0.0)
