"""Tables of a mesh in the memory of the device, which kernels read: neighbors, orders and patches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes, ops, recording
from ..access import element_of_field
from ..allocation import allocate
from ..context import Compilation
from ..field import ScalarField
from ..values import Expr
from .relations import relation_name
from .topology import Topology

# Numbers of elements are stored plus one. What is read outside of a table is 0, so it is element -1, which does not exist either.
_ABOVE = 1


def lookup(cx: Compilation, table: ScalarField, *indices: Any) -> Expr:
    """Read a number of an element."""
    return ops.sub(read(cx, table, *indices), _ABOVE)  # type: ignore[no-any-return]


def read(cx: Compilation, table: ScalarField, *indices: Any) -> Expr:
    return element_of_field(cx, table, list(indices)).load()  # type: ignore[no-any-return]


class Tables:
    """The tables of a mesh. Each is written when the first kernel needs it."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._known: dict[tuple[Any, ...], ScalarField] = {}

    def _table(self, key: tuple[Any, ...], name: str, make: Callable[[], Any]) -> ScalarField:
        known = self._known.get(key)
        if known is None:
            values = make()
            wide = values.size and int(values.max()) > np.iinfo(np.int32).max
            known = ScalarField(dtypes.i64 if wide else dtypes.i32, name)
            known._leaf.constant = True
            # An empty table has an element that no loop reaches.
            allocate(known, values.shape if values.size else (1,) * values.ndim, None, None)
            if values.size:
                with recording.paused():
                    known.from_numpy(values.astype(np.int64 if wide else np.int32))
            self._known[key] = known
        return known

    def convert(self, cx: Compilation, order: int, index: Any, to_stored: bool) -> Expr:
        """Return the stored position of an element, or the element at a position."""

        def make() -> Any:
            numbering = self.topology.numbering(order)
            return (numbering.to_stored if to_stored else numbering.to_element) + _ABOVE

        letter = relation_name(order, order)[0]
        return lookup(cx, self._table(("order", order, to_stored), f"{letter}.order", make), index)

    def patch(self, cx: Compilation, order: int, index: Any, stored: bool) -> Expr:
        """Return the patch of an element, or of the element at a stored position."""

        def make() -> Any:
            numbering = self.topology.numbering(order)
            patches = numbering.patches()
            return patches if stored else patches[numbering.to_stored]

        return read(cx, self._table(("patch", order, stored), f"{relation_name(order, order)[0]}.patch", make), index)

    def neighbors(self, start: int, end: int, stored: tuple[bool, bool]) -> tuple[ScalarField, ScalarField | int]:
        """Return the table of all neighbors, and that of the rows of elements in it, or the number of neighbors if all have the same.

        ``stored`` is whether elements of both orders are numbered by their stored positions.
        """
        relation = self.topology.relation(start, end)
        name = relation_name(start, end)

        def renumbered() -> Any:
            rows = self.topology.numbering(start).to_element if stored[0] else None
            values = self.topology.numbering(end).to_stored if stored[1] else None
            return relation.renumbered(rows, values)

        values = self._table(("values", start, end, *stored), name, lambda: renumbered().values + _ABOVE)
        if relation.width is not None:
            return values, relation.width
        return values, self._table(("offsets", start, end, stored[0]), f"{name}.offsets", lambda: renumbered().offsets)
