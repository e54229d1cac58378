"""``node.ptr`` of Taichi: its core's view of an SNode, as far as programs ask it questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..exceptions import NotYet

if TYPE_CHECKING:
    from .snode import SNode


class _NotAvailable(NotYet, AttributeError):
    """Also an `AttributeError`, so that `hasattr` returns False."""


class SNodePtr:
    """Answers the questions about a node that need none of Taichi's internals."""

    def __init__(self, node: SNode) -> None:
        self._node = node

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SNodePtr) and self._node == other._node

    def __hash__(self) -> int:
        return hash(self._node)

    @property
    def id(self) -> int:
        return self._node._id

    @property
    def parent(self) -> SNodePtr | None:
        above = self._node.parent()
        return None if above is None else SNodePtr(above)

    def name(self) -> str:
        return self._node._name

    def data_type(self) -> Any:
        """Return the type of the elements of a field."""
        return getattr(self._node, "_dtype", None)

    def num_active_indices(self) -> int:
        return self._node.num_dims

    def get_shape_along_axis(self, axis: int) -> int:
        return self._node.shape[axis]

    def has_adjoint(self) -> bool:
        """Return whether this is a field with a gradient."""
        return self._node.needs_grad

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _NotAvailable(
            f"`ptr.{name}` does not exist: it is internal to Taichi's core\n"
            "  = help: use the methods of the field or of its `snode`: `x.grad`, `x.snode.parent()`, `x.shape`, `x[i]`",
            "W0607",
        )
