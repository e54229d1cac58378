"""Sizes of layout trees as declared: what a C compiler would make of the nodes as nested structs and arrays.

Taichi programs query these through half-public attributes of nodes. The memory that Wuji allocates may be arranged differently.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .snode import Leaf, SNode

# A pointer with its lock; a list with its length.
_HANDLE = 16


def element_size(ir: str) -> tuple[int, int]:
    """Return size and alignment of an element, such as ``f32x3``, in bytes."""
    scalar, *extents = ir.split("x")
    size = 1 if scalar == "bool" else int(scalar[1:]) // 8
    return size * math.prod(int(e) for e in extents), size


def cell_size(node: SNode) -> tuple[int, int]:
    """Return size and alignment of a cell of a node."""
    size, alignment = 0, 1
    for part, align in _parts(node):
        size = _aligned(size, align) + part
        alignment = max(alignment, align)
    return _aligned(size, alignment), alignment


def offset_in_cell(node: SNode, number: int) -> int:
    """Return the offset of a part in the cells of a node. Fields come first, then nodes."""
    size = 0
    for k, (part, align) in enumerate(_parts(node)):
        size = _aligned(size, align)
        if k == number:
            break
        size += part
    return size


def _parts(node: SNode) -> list[tuple[int, int]]:
    packs: set[int] = set()
    return [_leaf_size(leaf, packs) for leaf in node.leaves] + [_container_size(child) for child in node.children]


def _leaf_size(leaf: Leaf, packs: set[int]) -> tuple[int, int]:
    if leaf.pack is None:
        return element_size(leaf.type)
    # Packed fields are in the word of the first one.
    is_first = id(leaf.pack) not in packs
    packs.add(id(leaf.pack))
    word = leaf.pack.bits // 8
    return (word, word) if is_first else (0, 1)


def _container_size(node: SNode) -> tuple[int, int]:
    count = math.prod(node.dims)
    if node.kind == "pointer":
        return _HANDLE * count, 8
    if node.kind == "bit_array":
        return node.chunk // 8, node.chunk // 8
    if node.kind in ("dynamic", "hash"):
        return _HANDLE, 8
    size, alignment = cell_size(node)
    mask = -(-count // 32) * 4 if node.kind == "bitmasked" else 0
    return _aligned(mask, alignment) + size * count, max(alignment, 4 if mask else 1)


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
