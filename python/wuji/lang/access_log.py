"""Which fields and arrays recorded launches have used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .field import Field
from .ndarray import Ndarray

if TYPE_CHECKING:
    from .kernel import Kernel, Specialization
    from .snode import Leaf


class AccessLog:
    """The data of floats that recorded launches access."""

    def __init__(self) -> None:
        self._codes: dict[int, Specialization] = {}
        self._arrays: dict[int, Ndarray] = {}

    def add(self, kernel: Kernel, args: tuple[Any, ...]) -> None:
        """Add the last launch of a kernel."""
        compiled = kernel._latest()
        if compiled is not None and compiled.used is not None:
            self._codes[id(compiled.used)] = compiled.used
        for value in args:
            if isinstance(value, Ndarray):
                self._arrays[id(value)] = value

    def leaves(self) -> list[Leaf]:
        """Return the fields that launches have accessed."""
        found = {leaf.key: leaf for code in self._codes.values() for leaf in code.leaves.values()}
        return list(found.values())

    def accesses(self, data: Any) -> bool:
        """Return whether a launch has accessed a field or array."""
        if not isinstance(data, Field):
            return id(data) in self._arrays
        own = {leaf.key for leaf in data._leaves()}
        return any(not own.isdisjoint(code.keys) for code in self._codes.values())
