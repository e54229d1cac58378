"""Active cells of sparse trees: gradients of launches need those of the launch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..exceptions import WujiRuntimeError
from ..lang.snode import Leaf, SNode
from .gradients import zero_at
from .stored import copy_of, restore

# The active cells of each sparse node of a part of a tree, from the top down.
Activity = list[frozenset[tuple[int, ...]]]


class StoredCells:
    """Which cells of a part of a tree are active: those of a node, and all below."""

    __slots__ = ("_gradients", "key", "part")

    def __init__(self, part: SNode) -> None:
        self.part = part
        self.key: Any = ("cells", id(part._structure))
        self._gradients: dict[tuple[Any, tuple[int, ...]], tuple[Leaf, Any]] = {}  # of cells that do not exist while earlier gradients run

    @staticmethod
    def of(leaf: Leaf) -> StoredCells | None:
        """Return the cells that a field depends on; None if all of them are always active."""
        if leaf.node is None or not leaf.node.is_sparse:
            return None
        return StoredCells(leaf.node.independent_part)

    def has(self, leaf: Leaf) -> bool:
        """Return whether a field depends on the cells."""
        return leaf.node is not None and leaf.node.independent_part._structure is self.part._structure

    @property
    def name(self) -> str:
        return f"the active cells of {self.part!r}"

    def overlaps(self, other: Any) -> bool:
        return bool(self.key == other.key)

    def _nodes(self) -> Iterator[Any]:
        waiting = [self.part._structure]
        while waiting:
            node = waiting.pop(0)
            if not node.is_always_active:
                yield node
            waiting.extend(node.children)

    def leaves(self, *kinds: str) -> list[Leaf]:
        """Return the fields in the cells."""
        return [leaf for kind in kinds for leaf in self.part._structure.companions(kind)]

    def copy(self) -> Activity:
        return [frozenset(node.cells.active()) for node in self._nodes()]

    def restore(self, cells: Activity) -> None:
        gradients = [(leaf, copy_of(leaf, is_sparse=True)) for leaf in self.leaves("grad", "grad.dual")]
        for node, wanted in zip(self._nodes(), cells, strict=True):
            now = frozenset(node.cells.active())
            if now != wanted and node.kind == "dynamic":
                raise WujiRuntimeError(
                    "a list of a dynamic node has changed after a launch whose gradient needs it\n"
                    "  = help: append all elements before the tape, or use another list",
                    "W0736",
                )
            for at in now - wanted:
                node.cells.deactivate(at)
            for at in wanted - frozenset(node.cells.active()):
                node.cells.activate(at)
        for leaf, values in gradients:
            native = leaf.ready()
            left = set(native.active())
            for at, value in values:
                if at not in left:
                    self._gradients.setdefault((leaf.key, at), (leaf, value))

    def snapshot(self) -> Any:
        """Return the cells, with the values of all fields."""
        return self.copy(), [(leaf, copy_of(leaf, is_sparse=True)) for leaf in self.leaves("", "dual")]

    def return_to(self, snapshot: Any) -> None:
        """Restore a snapshot after gradients have run. Cells that exist again have the gradients that they had."""
        cells, values = snapshot
        first = {leaf.key: set(leaf.ready().active()) for leaf in self.leaves("grad", "grad.dual")}
        # Those of cells that vanish now stay unknown: their gradient is in the same cells.
        before = dict(self._gradients)
        self.restore(cells)
        for leaf, elements in values:
            restore(leaf, elements)
        for (key, at), (leaf, value) in before.items():
            if at not in first[key] and leaf.ready().is_active(at):
                leaf.ready().set(at, value)
        self._gradients.clear()

    def elements(self) -> dict[Any, set[tuple[int, ...]]]:
        """Return the active elements of each field of floats."""
        return {leaf.key: set(leaf.ready().active()) for leaf in self.leaves("") if leaf.type.startswith("f")}


def clear_gradients(leaves: list[Leaf], before: dict[Any, set[tuple[int, ...]]], after: dict[Any, set[tuple[int, ...]]]) -> None:
    """Set the gradients of elements to zero that a deactivation has removed."""
    for leaf in leaves:
        for companion in (leaf.grad, leaf.grad.dual if leaf.grad is not None else None):
            if companion is not None and companion.native is not None:
                for at in before.get(leaf.key, set()) - after.get(leaf.key, set()):
                    zero_at(companion, at)
