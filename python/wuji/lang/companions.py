"""Gradients and tangents of fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..exceptions import WujiRuntimeError
from . import recording
from .compound import MatrixType, type_by_ir
from .naming import label

if TYPE_CHECKING:
    from .snode import Leaf


class Companions:
    """Base class of fields: a field of floats has a gradient and a tangent, which are fields of the same type."""

    _name: str

    def __init__(self) -> None:
        self._companions: dict[str, Any] = {}

    def _leaves(self) -> list[Leaf]:
        raise NotImplementedError

    @property
    def grad(self) -> Any:
        """The gradient: a field of the same type. It can be placed like any field. None for integers."""
        return self._companion("grad")

    @property
    def dual(self) -> Any:
        """The tangent: a field of the same type. It can be placed like any field. None for integers."""
        return self._companion("dual")

    def _companion(self, kind: str) -> Any:
        known = self._companions.get(kind)
        if known is None:
            known = self._make_companion(kind)
            if known is not None:
                self._companions[kind] = known
        return known

    def _make_companion(self, kind: str) -> Any:
        raise NotImplementedError

    def _need(self, needs_grad: bool, needs_dual: bool) -> None:
        """Ask for gradients and tangents. They are placed with the field, unless the user places them."""
        kinds = tuple(kind for kind, wanted in (("grad", needs_grad), ("dual", needs_dual)) if wanted)
        for leaf in self._leaves() if kinds else ():
            if leaf.companion("grad") is None:
                dtype = type_by_ir(leaf.type)
                dtype = dtype.dtype if isinstance(dtype, MatrixType) else dtype
                raise WujiRuntimeError(f"{dtype} is not supported for field with `needs_grad=True` or `needs_dual=True`: field {label(self._name)}\n  = help: use a field of floats")
            leaf.needed = kinds

    @property
    def needs_grad(self) -> bool:
        """Whether the field has a gradient that is placed."""
        return any(leaf.grad is not None and leaf.grad.node is not None for leaf in self._leaves())

    def _written(self, clear: Callable[[Any], None], redo: Callable[[], None]) -> None:
        """Report a write of the host while something is recorded. ``clear`` makes a companion zero where the host writes."""

        def clear_companion(kind: str) -> None:
            if all(getattr(leaf, kind) is not None and getattr(leaf, kind).native is not None for leaf in self._leaves()):
                clear(self._companion(kind))

        if not self._leaves()[0].kind:
            recording.write(self, clear_companion, redo)
