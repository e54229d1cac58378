"""Meshes for tests, relations by brute force, and a small patcher that writes the metadata of MeshTaichi."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import numpy as np

KINDS = ("verts", "edges", "faces", "cells")
LETTERS = "VEFC"


def tetrahedra(n: int = 2, seed: int = 1) -> tuple[Any, Any]:
    """Return a cube of tetrahedra, with vertices in random order."""
    corners = np.arange((n + 1) ** 3).reshape(n + 1, n + 1, n + 1)
    points = np.stack(np.meshgrid(*[np.arange(n + 1.0)] * 3, indexing="ij"), -1).reshape(-1, 3)
    first = np.stack(np.meshgrid(*[np.arange(n)] * 3, indexing="ij"), -1).reshape(-1, 3)
    cells = []
    for axes in permutations(range(3)):
        at = first.copy()
        path = [corners[tuple(at.T)]]
        for axis in axes:
            at[:, axis] += 1
            path.append(corners[tuple(at.T)])
        cells.append(np.stack(path, -1))
    return _shuffled(points, np.concatenate(cells), seed)


def triangles(n: int = 4, seed: int = 2) -> tuple[Any, Any]:
    """Return a square of triangles, with vertices in random order, and one vertex without a triangle."""
    points = np.stack(np.meshgrid(np.arange(n + 1.0), np.arange(n + 1.0), [0.0], indexing="ij"), -1).reshape(-1, 3)
    low = (np.arange(n)[:, None] * (n + 1) + np.arange(n)).ravel()
    faces = np.concatenate([np.stack([low, low + n + 1, low + 1], -1), np.stack([low + 1, low + n + 1, low + n + 2], -1)])
    return _shuffled(np.concatenate([points, [[9.0, 9.0, 9.0]]]), faces, seed)


def _shuffled(points: Any, corners: Any, seed: int) -> tuple[Any, Any]:
    order = np.random.default_rng(seed).permutation(len(points))
    moved = np.empty_like(points)
    moved[order] = points
    return moved, order[corners]


def simplices(corners: Any) -> list[list[frozenset[int]]]:
    """Return the vertices of all elements, by order, without a particular numbering."""
    top = corners.shape[1] - 1
    found: list[list[frozenset[int]]] = []
    for order in range(1, top + 1):
        found.append(sorted({frozenset(map(int, part)) for row in corners for part in combinations(row, order + 1)}, key=sorted))
    return found


def neighbors(mesh: list[list[frozenset[int]]], start: int, end: int) -> list[set[int]]:
    """Return which elements are neighbors. ``mesh`` has the vertices of all elements, by order."""
    elements, others = mesh[start], mesh[end]
    if start == end == 0:
        return [{k for edge in mesh[1] if v in edge for k in edge - {v}} for v in range(len(elements))]
    if start > end:
        return [{k for k, other in enumerate(others) if other <= one} for one in elements]
    if start < end:
        return [{k for k, other in enumerate(others) if one <= other} for one in elements]
    return [{k for k, other in enumerate(others) if other != one and len(one & other) == start} for one in elements]


def metadata(points: Any, mesh: Any, patches: int, relations: list[str]) -> dict[str, Any]:
    """Return a mesh in the format of MeshTaichi's patcher: elements are dealt out to patches, and each patch has copies of all others."""
    orders = [order for order, kind in enumerate(KINDS) if len(getattr(mesh, kind))]
    elements, local = [], {}
    for order in orders:
        count = len(getattr(mesh, KINDS[order]))
        owner = np.random.default_rng(order).integers(0, patches, count)
        owned = [np.flatnonzero(owner == p) for p in range(patches)]
        # Copies in descending order, to tell local numbers from global ones.
        total = [np.concatenate([own, np.setdiff1d(np.arange(count), own)[::-1]]) for own in owned]
        stored = np.empty(count, int)
        stored[np.concatenate(owned)] = np.arange(count)
        local[order] = (owned, [np.argsort(numbers) for numbers in total])
        elements.append({
            "order": order, "num": count, "max_num_per_patch": max(map(len, total)),
            "owned_offsets": np.cumsum([0, *map(len, owned)]).tolist(), "total_offsets": np.cumsum([0, *map(len, total)]).tolist(),
            "l2g_mapping": np.concatenate(total).tolist(), "g2r_mapping": stored.tolist(), "l2r_mapping": stored[np.concatenate(total)].tolist(),
        })  # fmt: skip
    listed = []
    for name in relations:
        start, end = (LETTERS.index(letter) for letter in name)
        rows = mesh._topology.relation(start, end).rows()
        owned, _ = local[start]
        to_local = local[end][1]
        value: list[int] = []
        offset: list[int] = []
        patch_offset = []
        for p in range(patches):
            patch_offset.append(len(value))
            # Relations to elements of a lower order have rows for copies, too.
            mine = owned[p] if start <= end else np.concatenate([owned[p], np.setdiff1d(np.arange(len(rows)), owned[p])[::-1]])
            begin = len(value)
            offset.append(0)
            for element in mine:
                value.extend(int(to_local[p][k]) for k in rows[element])
                offset.append(len(value) - begin)
        listed.append({"from_order": start, "to_order": end, "value": value, "offset": offset, "patch_offset": patch_offset})
    return {"num_patches": patches, "elements": elements, "relations": listed, "attrs": {"x": points.reshape(-1).tolist()}}
