"""Topologies: the elements of a mesh, the relations between them, and the order in which attributes can be stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...exceptions import WujiRuntimeError, WujiTypeError
from .relations import KINDS, SINGULAR, Ints, Relation, among_equals, from_pairs, relation_name

# Pairs of corners: the edges of a face, which is a cycle, and of a cell.
_FACE_EDGES = ((0, 1), (1, 2), (2, 0))
_CELL_EDGES = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
# Face k of a cell is opposite to corner k. In a cell with a positive volume, its corners are counterclockwise seen from outside.
_CELL_FACES = ((1, 2, 3), (0, 3, 2), (0, 1, 3), (0, 2, 1))


class Numbering:
    """A second order of the elements of one kind: the one in which reordered attributes are stored.

    Elements of a patch are next to each other: patch ``p`` has those from ``starts[p]`` up to ``starts[p + 1]``.
    """

    def __init__(self, to_element: Ints, starts: Ints) -> None:
        self.to_element = to_element
        self.starts = starts
        self.to_stored = np.empty_like(to_element)
        self.to_stored[to_element] = np.arange(to_element.size, dtype=np.int64)

    def patches(self) -> Ints:
        """Return the patch of each stored position."""
        return np.repeat(np.arange(self.starts.size - 1, dtype=np.int64), np.diff(self.starts))


class Topology:
    """Base class: what a mesh needs to know about its elements."""

    num_patches: int
    positions: npt.NDArray[Any] | None

    def __init__(self) -> None:
        self._relations: dict[tuple[int, int], Relation] = {}
        self._numberings: dict[int, Numbering] = {}

    def count(self, order: int) -> int:
        """Return the number of elements of an order; 0 if the mesh has none."""
        raise NotImplementedError

    def relation(self, start: int, end: int) -> Relation:
        """Return the neighbors of all elements of one order among those of another."""
        known = self._relations.get((start, end))
        if known is None:
            for order in (start, end):
                if not self.count(order):
                    raise WujiTypeError(f"this mesh has no {KINDS[order]}, so the relation {relation_name(start, end)!r} does not exist", "W0612")
            known = self._relations[start, end] = self._find(start, end)
        return known

    def _find(self, start: int, end: int) -> Relation:
        raise NotImplementedError

    def numbering(self, order: int) -> Numbering:
        """Return the order in which reordered attributes are stored."""
        known = self._numberings.get(order)
        if known is None:
            known = self._numberings[order] = self._reorder(order)
        return known

    def _reorder(self, order: int) -> Numbering:
        raise NotImplementedError


class Simplices(Topology):
    """A mesh of edges, triangles or tetrahedra, given by their corners. Everything else is computed when it is first used."""

    def __init__(self, positions: npt.NDArray[Any], order: int, corners: Ints, patch_size: int) -> None:
        super().__init__()
        self.positions = positions
        self.order = order
        self.num_patches = max(1, -(-corners.shape[0] // patch_size))
        self._corners: dict[int, Ints] = {order: corners}
        self._edge_keys: Ints | None = None

    def count(self, order: int) -> int:
        if order == 0:
            return int(self.positions.shape[0])  # type: ignore[union-attr]
        return int(self._corners_of(order).shape[0]) if order <= self.order else 0

    def _corners_of(self, order: int) -> Ints:
        if order not in self._corners:
            self._find_edges() if order == 1 else self._find_faces()
        return self._corners[order]

    def _keys(self, pairs: Ints) -> Ints:
        """Return a number for each pair of vertices that does not depend on their order."""
        keys: Ints = pairs.min(axis=-1) * self.count(0) + pairs.max(axis=-1)
        return keys

    def _find_edges(self) -> None:
        pairs = self._corners[self.order][:, np.array(_FACE_EDGES if self.order == 2 else _CELL_EDGES)]
        keys, numbers = np.unique(self._keys(pairs).ravel(), return_inverse=True)
        self._edge_keys = keys
        self._corners[1] = np.stack((keys // self.count(0), keys % self.count(0)), axis=-1)
        self._relations[self.order, 1] = Relation(numbers.reshape(pairs.shape[:2]).astype(np.int64))

    def _edges_between(self, pairs: Ints) -> Ints:
        """Return the edges between pairs of vertices."""
        self._corners_of(1)
        assert self._edge_keys is not None
        return np.searchsorted(self._edge_keys, self._keys(pairs)).astype(np.int64)

    def _find_faces(self) -> None:
        triples = self._corners[3][:, np.array(_CELL_FACES)]
        flat = triples.reshape(-1, 3)
        ascending = np.sort(flat, axis=1)
        keys = self._edges_between(ascending[:, :2]) * self.count(0) + ascending[:, 2]
        _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
        self._corners[2] = flat[first]
        self._relations[3, 2] = Relation(numbers.reshape(triples.shape[:2]).astype(np.int64))

    def _find(self, start: int, end: int) -> Relation:
        if start == end == 0:
            a, b = self._corners_of(1).T
            return from_pairs(np.concatenate((a, b)), np.concatenate((b, a)), self.count(0), self.count(0))
        if start == end:
            return among_equals(self.relation(start, start - 1), self.count(start), self.count(start - 1))
        if start < end:
            return self.relation(end, start).inverted(self.count(start))
        if end == 0:
            return Relation(self._corners_of(start))
        self._corners_of(end)
        if (start, end) not in self._relations:
            # The edges of the faces of a mesh of cells.
            self._relations[start, end] = Relation(self._edges_between(self._corners_of(start)[:, np.array(_FACE_EDGES)]))
        return self._relations[start, end]

    def _reorder(self, order: int) -> Numbering:
        """Sort vertices along a space-filling curve, and other elements by their first corner on it."""
        if order == 0:
            keys = _morton(self.positions)
        else:
            keys = self.numbering(0).to_stored[self._corners_of(order)].min(axis=1)
        count = self.count(order)
        starts = np.arange(self.num_patches + 1, dtype=np.int64) * count // self.num_patches
        return Numbering(np.argsort(keys, kind="stable").astype(np.int64), starts)


def _morton(positions: Any) -> npt.NDArray[np.uint64]:
    """Return the positions of points on a Z-order curve."""
    points = np.nan_to_num(np.asarray(positions, dtype=np.float64))
    low = points.min(axis=0)
    extent = max(float((points.max(axis=0) - low).max()), 1e-300)
    cells = ((points - low) * ((1 << 20) / extent)).astype(np.uint64)
    code = np.zeros(points.shape[0], dtype=np.uint64)
    for axis in range(points.shape[1]):
        spread = cells[:, axis]
        for shift, mask in ((32, 0x1F00000000FFFF), (16, 0x1F0000FF0000FF), (8, 0x100F00F00F00F00F), (4, 0x10C30C30C30C30C3), (2, 0x1249249249249249)):
            spread = (spread | (spread << np.uint64(shift))) & np.uint64(mask)
        code |= spread << np.uint64(axis)
    return code


def from_arrays(positions: Any, parts: dict[int, Any], patch_size: int) -> Simplices:
    """Return the topology of a mesh. ``parts`` has the corners of its edges, faces or cells, by order."""
    given = {order: corners for order, corners in parts.items() if corners is not None}
    if len(given) != 1:
        raise WujiRuntimeError("a mesh is made of `edges`, `faces` or `cells`: pass the corners of one of these", "W0533")
    if isinstance(patch_size, bool) or not isinstance(patch_size, int) or patch_size < 1:
        raise WujiRuntimeError(f"`patch_size` must be a positive integer, not {patch_size!r}", "W0533")
    points = np.array(positions)
    if points.ndim != 2 or points.shape[1] not in (2, 3) or not points.shape[0] or points.dtype.kind not in "fiu":
        raise WujiRuntimeError(f"`positions` must have 2 or 3 coordinates for each vertex, not the shape {points.shape} and the type {points.dtype}", "W0533")
    ((order, corners),) = given.items()
    return Simplices(points, order, _checked(np.asarray(corners), order, points.shape[0]), patch_size)


def _checked(corners: npt.NDArray[Any], order: int, count: int) -> Ints:
    kind = KINDS[order]
    if corners.ndim != 2 or corners.shape[1] != order + 1 or corners.dtype.kind not in "iu" or not corners.shape[0]:
        raise WujiRuntimeError(
            f"`{kind}` must have {order + 1} integers for each {SINGULAR[order]}, the numbers of its vertices, not the shape {corners.shape} and the type {corners.dtype}",
            "W0533",
        )
    wrong = (corners < 0) | (corners >= count)
    if wrong.any():
        at = int(wrong.any(axis=1).argmax())
        raise WujiRuntimeError(
            f"{SINGULAR[order]} {at} has the corners {corners[at].tolist()}, and the mesh has {count} vertices\n  = help: corners are numbers of vertices, the first of which is 0", "W0533"
        )
    ascending = np.sort(corners.astype(np.int64), axis=1)
    repeated = (ascending[:, 1:] == ascending[:, :-1]).any(axis=1)
    if repeated.any():
        at = int(repeated.argmax())
        raise WujiRuntimeError(f"{SINGULAR[order]} {at} has the corners {corners[at].tolist()}, two of which are the same\n  = help: remove degenerate {kind}", "W0533")
    return corners.astype(np.int64)
