"""Relations between the elements of a mesh: which vertices a face has, which cells are around a vertex, and so on."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import numpy.typing as npt

from ...exceptions import WujiRuntimeError

Ints = npt.NDArray[np.int64]

# By order: the dimension of an element.
KINDS = ("verts", "edges", "faces", "cells")
SINGULAR = ("vertex", "edge", "face", "cell")
_LETTERS = "VEFC"
# Elements of a lower order that an element has, by both orders.
WIDTHS = {(1, 0): 2, (2, 0): 3, (2, 1): 3, (3, 0): 4, (3, 1): 6, (3, 2): 4}


class MeshElementType(enum.IntEnum):
    """A kind of element. Its number is the order."""

    Vertex = 0
    Edge = 1
    Face = 2
    Cell = 3


MeshRelationType = enum.IntEnum("MeshRelationType", [(a + b, 4 * i + j) for i, a in enumerate(_LETTERS) for j, b in enumerate(_LETTERS)])  # type: ignore[misc]


def relation_name(start: int, end: int) -> str:
    """Return the name of a relation between elements of two orders, such as `"FV"`."""
    return _LETTERS[start] + _LETTERS[end]


def orders_of(name: Any) -> tuple[int, int]:
    """Return both orders of a relation, which is given by name or by its orders."""
    if isinstance(name, (tuple, list)) and len(name) == 2 and all(k in range(4) for k in name):
        return int(name[0]), int(name[1])
    if isinstance(name, str) and len(name) == 2 and all(letter in _LETTERS for letter in name.upper()):
        return _LETTERS.index(name[0].upper()), _LETTERS.index(name[1].upper())
    raise WujiRuntimeError(f"{name!r} is not a relation\n  = help: use two of the letters V, E, F and C, as in `'FV'`: the vertices of each face", "W0612")


class Relation:
    """The neighbors of each element.

    `values` has one row for each element if all have the same number of neighbors. Otherwise it has all rows one after another,
    and row ``i`` is ``values[offsets[i]:offsets[i + 1]]``.
    """

    __slots__ = ("offsets", "values")

    def __init__(self, values: Ints, offsets: Ints | None = None) -> None:
        self.values = values
        self.offsets = offsets

    @property
    def width(self) -> int | None:
        """The number of neighbors, if it is the same for all elements."""
        return int(self.values.shape[1]) if self.offsets is None else None

    def rows(self) -> list[list[int]]:
        """Return the neighbors of each element."""
        if self.offsets is None:
            return self.values.tolist()  # type: ignore[no-any-return]
        return [row.tolist() for row in np.split(self.values, self.offsets[1:-1])]

    def inverted(self, count: int) -> Relation:
        """Return the relation in the other direction, to `count` elements. The neighbors are in ascending order."""
        assert self.offsets is None
        flat = self.values.ravel()
        order = np.argsort(flat, kind="stable")
        return Relation(order // max(self.values.shape[1], 1), _offsets(np.bincount(flat, minlength=count)))

    def renumbered(self, rows: Ints | None, values: Ints | None) -> Relation:
        """Return the relation between elements with other numbers: row ``i`` is the old row ``rows[i]``, and ``values[k]`` is the new number of ``k``."""
        found, offsets = self.values, self.offsets
        if rows is not None and offsets is None:
            found = found[rows]
        elif rows is not None and offsets is not None:
            lengths = np.diff(offsets)[rows]
            found = found[ranges(offsets[rows], lengths)]
            offsets = _offsets(lengths)
        return Relation(found if values is None else values[found], offsets)


def _offsets(lengths: Ints) -> Ints:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))


def ranges(starts: Ints, lengths: Ints) -> Ints:
    """Return all numbers of several ranges, one range after another."""
    return np.arange(int(lengths.sum()), dtype=np.int64) + np.repeat(starts - _offsets(lengths)[:-1], lengths)


def from_pairs(rows: Ints, values: Ints, count: int, targets: int) -> Relation:
    """Return the relation with these neighbors, each once, in ascending order."""
    keys = np.sort(rows * max(targets, 1) + values)
    keys = keys[np.concatenate((np.ones(min(keys.size, 1), bool), keys[1:] != keys[:-1]))]
    return Relation(keys % max(targets, 1), _offsets(np.bincount(keys // max(targets, 1), minlength=count)))


def among_equals(below: Relation, count: int, shared: int) -> Relation:
    """Return the neighbors of elements among those of the same order: all that have an element of the order below in common."""
    back = below.inverted(shared)
    assert back.offsets is not None
    used = below.values.ravel()
    lengths = np.diff(back.offsets)[used]
    rows = np.repeat(np.arange(used.size, dtype=np.int64) // max(below.values.shape[1], 1), lengths)
    values = back.values[ranges(back.offsets[used], lengths)]
    apart = rows != values
    return from_pairs(rows[apart], values[apart], count, count)
