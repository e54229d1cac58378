"""Metadata of MeshTaichi: a mesh that a patcher has cut into patches, with relations between local numbers of elements."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ...exceptions import WujiRuntimeError, WujiTypeError
from .relations import KINDS, WIDTHS, Ints, MeshElementType, Relation, ranges, relation_name
from .topology import Numbering, Topology


def _damaged(what: str) -> NoReturn:
    raise WujiRuntimeError(f"the metadata of a mesh is damaged: {what}", "W0531")


def _entry(data: Any, name: str, where: str) -> Any:
    if not isinstance(data, dict):
        _damaged(f"{where} is not a dictionary but {type(data).__name__}")
    if name not in data:
        _damaged(f"{where} has no `{name}`")
    return data[name]


def _number(data: Any, name: str, where: str, most: int | None = None) -> int:
    value = _entry(data, name, where)
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0 or most is not None and value > most:
        _damaged(f"`{name}` of {where} is {value!r}")
    return int(value)


def _integers(data: Any, name: str, where: str, length: int | None = None, most: int | None = None) -> Ints:
    try:
        found = np.asarray(_entry(data, name, where))
    except ValueError:
        _damaged(f"`{name}` of {where} is not an array of integers")
    if found.ndim != 1 or found.dtype.kind not in "iu" and found.size:
        _damaged(f"`{name}` of {where} is not an array of integers")
    if length is not None and found.size != length:
        _damaged(f"`{name}` of {where} has {found.size} elements, not {length}")
    found = found.astype(np.int64)
    if found.size and (found.min() < 0 or most is not None and found.max() >= most):
        _damaged(f"`{name}` of {where} has the element {int(found.min() if found.min() < 0 else found.max())}, which is out of range")
    return found


class _Elements:
    """The elements of one order: those that each patch owns, followed by its copies of elements of other patches."""

    def __init__(self, data: Any, patches: int) -> None:
        order = _number(data, "order", "an element type", 3)
        where = f"the {KINDS[order]}"
        self.order = order
        self.num = _number(data, "num", where)
        self.owned = self._starts(data, "owned_offsets", where, patches)
        self.total = self._starts(data, "total_offsets", where, patches)
        if int(self.owned[-1]) != self.num:
            _damaged(f"patches own {int(self.owned[-1])} of {self.num} {KINDS[order]}")
        self.counts = np.diff(self.owned)
        if (self.counts > np.diff(self.total)).any():
            _damaged(f"a patch owns more {KINDS[order]} than it has")
        self.to_global = _integers(data, "l2g_mapping", where, int(self.total[-1]), self.num)
        stored = _integers(data, "g2r_mapping", where, self.num, self.num)
        if (np.bincount(stored, minlength=self.num) != 1).any():
            _damaged(f"`g2r_mapping` of {where} is not a permutation")
        # Where the owned elements are among all elements of all patches.
        self.positions = ranges(self.total[:-1], self.counts)
        self.globals = self.to_global[self.positions]
        if (np.bincount(self.globals, minlength=self.num) != 1).any():
            _damaged(f"not every one of {where} belongs to one patch")
        to_element = np.empty_like(stored)
        to_element[stored] = np.arange(self.num, dtype=np.int64)
        self.numbering = Numbering(to_element, self.owned)
        self.patches = np.repeat(np.arange(patches, dtype=np.int64), self.counts)

    @staticmethod
    def _starts(data: Any, name: str, where: str, patches: int) -> Ints:
        found = _integers(data, name, where, patches + 1)
        if found[0] != 0 or (np.diff(found) < 0).any():
            _damaged(f"`{name}` of {where} does not ascend from 0")
        return found


class MeshMetadata(Topology):
    """The metadata of a mesh, as the patcher of MeshTaichi makes it."""

    def __init__(self, data: Any) -> None:
        super().__init__()
        self.num_patches = _number(data, "num_patches", "it")
        if not self.num_patches:
            _damaged("`num_patches` is 0")
        self._elements: dict[int, _Elements] = {}
        self._incomplete: dict[tuple[int, int], int] = {}  # relations to elements that are not in the patch, with their number
        self.max_num_per_patch: dict[MeshElementType, int] = {}
        for entry in self._list(data, "elements"):
            elements = _Elements(entry, self.num_patches)
            self._elements[elements.order] = elements
            self._numberings[elements.order] = elements.numbering
            self.max_num_per_patch[MeshElementType(elements.order)] = int(np.diff(elements.total).max())
        self._check()
        for entry in self._list(data, "relations"):
            self._read_relation(entry)
        self.attrs: dict[str, Any] = {}
        given = data.get("attrs") or {}
        if "x" in given:
            self.attrs["x"] = self._read_positions(given["x"])
        self.positions = self.attrs.get("x")
        self.patcher = data.get("patcher")

    @staticmethod
    def _list(data: Any, name: str) -> list[Any]:
        found = _entry(data, name, "it")
        if not isinstance(found, (list, tuple)):
            _damaged(f"`{name}` is not a list")
        return list(found)

    def _check(self) -> None:
        if 0 not in self._elements or not self._elements[0].num:
            _damaged("it has no vertices")

    @property
    def num_elements(self) -> dict[MeshElementType, int]:
        return {MeshElementType(order): elements.num for order, elements in self._elements.items()}

    def count(self, order: int) -> int:
        return self._elements[order].num if order in self._elements else 0

    def _find(self, start: int, end: int) -> Relation:
        name = relation_name(start, end)
        if (start, end) in self._incomplete:
            raise WujiTypeError(
                f"the metadata of this mesh does not have all of the relation '{name}': {self._incomplete[start, end]} neighbors are outside of their patches\n"
                "  = help: make a mesh without a patcher, with `ti.Mesh.from_arrays` or `ti.Mesh.load`",
                "W0612",
            )
        known = ", ".join(relation_name(*orders) for orders in sorted(self._relations)) or "none"
        raise WujiTypeError(f"the metadata of this mesh does not have the relation '{name}'\n  = note: its relations: {known}\n  = help: request it where the metadata is made: `relations=['{name}', ...]`", "W0612")

    def _read_positions(self, given: Any) -> npt.NDArray[Any]:
        try:
            return np.asarray(given, dtype=np.float64 if isinstance(given, (list, tuple)) else None).reshape(self.count(0), 3)
        except (ValueError, TypeError):
            _damaged("`x` does not have 3 coordinates for each vertex")

    def _read_relation(self, data: Any) -> None:
        start, end = (_number(data, name, "a relation", 3) for name in ("from_order", "to_order"))
        name = f"the relation '{relation_name(start, end)}'"
        if start not in self._elements or end not in self._elements:
            _damaged(f"{name} is between elements that the mesh does not have")
        a, b = self._elements[start], self._elements[end]
        found = self._fixed(data, a, b, WIDTHS[start, end], name) if start > end else self._varying(data, a, b, name)
        if isinstance(found, int):
            self._incomplete[start, end] = found
        else:
            self._relations[start, end] = found

    @staticmethod
    def _missing(local: Ints, patches: Ints, to: _Elements) -> int:
        """Return how many of these local numbers the patches do not have. Patchers leave out neighbors beyond the copies of a patch."""
        return int((local >= np.diff(to.total)[patches]).sum())

    @staticmethod
    def _to_global(local: Ints, patches: Ints, to: _Elements) -> Ints:
        """Return the global numbers of elements that have these local numbers in these patches."""
        found: Ints = to.to_global[to.total[patches] + local]
        return found

    def _fixed(self, data: Any, a: _Elements, b: _Elements, width: int, name: str) -> Relation | int:
        """Read a relation in which all elements have the same number of neighbors. It has a row for copies, too."""
        local = _integers(data, "value", name, int(a.total[-1]) * width).reshape(-1, width)[a.positions]
        patches = np.repeat(a.patches, width)
        missing = self._missing(local.ravel(), patches, b)
        if missing:
            return missing
        values = np.empty((a.num, width), dtype=np.int64)
        values[a.globals] = self._to_global(local.ravel(), patches, b).reshape(-1, width)
        return Relation(values)

    def _varying(self, data: Any, a: _Elements, b: _Elements, name: str) -> Relation | int:
        """Read a relation in which elements have different numbers of neighbors. Each patch has one offset more than elements."""
        local = _integers(data, "value", name)
        offsets = _integers(data, "offset", name, a.num + self.num_patches)
        starts = _integers(data, "patch_offset", name)
        if starts.size < self.num_patches:
            _damaged(f"`patch_offset` of {name} has {starts.size} elements, not {self.num_patches}")
        at = np.arange(a.num, dtype=np.int64) + a.patches
        first, lengths = starts[a.patches] + offsets[at], offsets[at + 1] - offsets[at]
        if (lengths < 0).any() or a.num and int((first + lengths).max()) > local.size:
            _damaged(f"`offset` of {name} is out of range")
        numbers, patches = local[ranges(first, lengths)], np.repeat(a.patches, lengths)
        missing = self._missing(numbers, patches, b)
        if missing:
            return missing
        found = self._to_global(numbers, patches, b)
        order = np.empty(a.num, dtype=np.int64)
        order[a.globals] = np.arange(a.num, dtype=np.int64)
        owned = Relation(found, np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))))
        return owned.renumbered(order, None)


def load(path: Any) -> MeshMetadata:
    """Read metadata from a JSON file."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as e:
        raise WujiRuntimeError(f"cannot read {path}\n  = note: {e.strerror or e}", "W0530") from e
    except UnicodeDecodeError as e:
        raise WujiRuntimeError(f"{path} is not a valid JSON file\n  = note: {e}", "W0531") from e
    try:
        data = json.loads(text)
    except ValueError as e:
        raise WujiRuntimeError(f"{path} is not a valid JSON file\n  = note: {e}", "W0531") from e
    return MeshMetadata(data)
