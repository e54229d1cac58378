"""Nodes of layout trees, and the fields placed in them."""

from __future__ import annotations

import copy
import math
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .. import _native
from ..exceptions import WujiRuntimeError, WujiRuntimeTypeError, WujiSyntaxError
from . import inspection, recording
from .compound import type_by_ir
from .context import python_only
from .extents import Axis, axes, check_extents, shape_of
from .naming import label
from .packed import BitpackedFields, BitStruct, Pack, check_placed, check_word
from .quantized import QuantizedType
from .snode_ptr import SNodePtr

if TYPE_CHECKING:
    from .fields_builder import FieldsBuilder, SNodeTree

_MOST_PRINTED = 1 << 20


class Structure:
    """What a node is, with all below it.

    It refers to neither its parent nor its tree: such cycles would keep the memory until a garbage collection.
    """

    __slots__ = ("axes", "cells", "cells_number", "children", "chunk", "dims", "handle", "is_morton", "kind", "leaves", "sparse")

    def __init__(self, kind: str, axes: tuple[int, ...], dims: tuple[int, ...], chunk: int) -> None:
        self.kind = kind
        self.axes = axes
        self.dims = dims
        self.chunk = chunk
        self.is_morton = False
        self.children: list[Structure] = []
        self.leaves: list[Leaf] = []
        self.cells: _native.Field | None = None  # handle of its cells, once the tree exists
        self.cells_number = -1
        self.sparse: list[_native.Field] = []  # cells of the topmost sparse nodes at or below this one, once the tree exists
        self.handle: weakref.ref[SNode] | None = None

    @property
    def is_always_active(self) -> bool:
        """Whether its cells are active where those of its parent are."""
        return self.kind not in _native.SPARSE_KINDS

    def freeze(self) -> list[_native.Field]:
        """Complete the structure once the tree is allocated. Return the cells of the topmost sparse nodes."""
        # Leaves without a node.
        self.leaves = [copy.copy(leaf) for leaf in self.leaves]
        for leaf in self.leaves:
            leaf.node = None
            leaf.grad, leaf.dual = _frozen(leaf.grad), _frozen(leaf.dual)
        below = [cells for child in self.children for cells in child.freeze()]
        self.sparse = below if self.is_always_active or self.cells is None else [self.cells]
        return self.sparse

    def companions(self, kind: str) -> list[Leaf]:
        """Return all gradients (``"grad"``), tangents (``"dual"``, ``"grad.dual"``) or other fields (``""``) at or below this node."""
        own = [leaf for leaf in self.leaves if leaf.kind == kind]
        return own + [leaf for child in self.children for leaf in child.companions(kind)]


def _frozen(companion: Leaf | None) -> Leaf | None:
    """Return a companion of the same tree without its node."""
    if companion is None or companion.native is None:
        return None
    frozen = copy.copy(companion)
    frozen.node = None
    return frozen


class Anchor:
    """What all nodes of a layout belong to: its builder, and once it is allocated, its tree."""

    __slots__ = ("owner",)

    def __init__(self, owner: FieldsBuilder | SNodeTree) -> None:
        self.owner = owner


class SNode:
    """A node of a layout tree. Its children divide its cells.

    Fields keep their node alive, and nodes their parents and, once it is allocated, the tree.
    """

    def __init__(self, anchor: Anchor, parent: SNode | None, structure: Structure) -> None:
        self._anchor = anchor
        self._parent = parent
        self._structure = structure

    @property
    def _owner(self) -> FieldsBuilder | SNodeTree:
        return self._anchor.owner

    @property
    def kind(self) -> str:
        return self._structure.kind

    @property
    def axes(self) -> tuple[int, ...]:
        return self._structure.axes

    @property
    def dims(self) -> tuple[int, ...]:
        return self._structure.dims

    @property
    def chunk(self) -> int:
        return self._structure.chunk

    @property
    def is_morton(self) -> bool:
        return self._structure.is_morton

    @property
    def leaves(self) -> list[Leaf]:
        return self._structure.leaves

    @property
    def cells_number(self) -> int:
        return self._structure.cells_number

    def __repr__(self) -> str:
        if self._parent is None:
            return "ti.root"
        names = Axis(*self.axes)
        if self.kind == "bit_array":
            return f"{self._parent!r}.quant_array({names}, {list(self.dims)}, max_num_bits={self.chunk})"
        return f"{self._parent!r}.{self.kind}({names}, {list(self.dims)})"

    def __str__(self) -> str:
        """Return the path from the root with shapes, as in Taichi: ``ti.root => pointer [4] => dense [16]``."""
        kinds = {"bit_array": "quant_array"}
        below = self.path_from_root()[1:]
        return " => ".join(["ti.root", *(f"{kinds.get(node.kind, node.kind)} {list(node.shape)}" for node in below)])

    @property
    def children(self) -> list[SNode]:
        return [self._child(structure) for structure in self._structure.children]

    def _child(self, structure: Structure) -> SNode:
        """Return the node of a structure below this one: the same object as long as it is in use."""
        child = structure.handle() if structure.handle is not None else None
        if child is None:
            child = SNode(self._anchor, self, structure)
            structure.handle = weakref.ref(child)
        return child

    # Construction.
    def _add(self, kind: str, axis: Any, dims: Any, chunk: int = 0) -> SNode:
        self._owner._open()
        if self.kind == "bit_array":
            raise WujiRuntimeError(f"{self!r} holds one field, and no nodes\n  = help: put the nodes above it", "W0151")
        if isinstance(axis, (list, tuple)):
            axis = axes(*axis)
        if not isinstance(axis, Axis):
            raise WujiRuntimeTypeError(f"the axes of a node must be given as in `ti.ij`, not {axis!r}")
        sizes = shape_of(dims)
        if len(sizes) == 1:
            sizes *= len(axis)
        if len(sizes) != len(axis) and not (kind == "hash" and not sizes):
            raise WujiRuntimeError(f"axes and sizes must have the same size, but got {len(axis)} and {len(sizes)}: {axis} and {sizes}")
        check_extents(sizes)
        structure = Structure(kind, tuple(axis.numbers), sizes, chunk)
        self._structure.children.append(structure)
        return self._child(structure)

    @python_only
    def dense(self, axes: Any, dimensions: Any) -> SNode:
        """Add a dense node: all cells are allocated, contiguously."""
        return self._add("dense", axes, dimensions)

    @python_only
    def pointer(self, axes: Any, dimensions: Any) -> SNode:
        """Add a pointer node: a cell is allocated while it is active."""
        return self._add("pointer", axes, dimensions)

    @python_only
    def bitmasked(self, axes: Any, dimensions: Any) -> SNode:
        """Add a bitmasked node: dense, plus one activity bit per cell."""
        return self._add("bitmasked", axes, dimensions)

    @python_only
    def hash(self, axes: Any, dimensions: Any = ()) -> SNode:
        """Add a hash node: cells are found by their coordinates. Without dimensions it is unbounded; then no node above splits its axes."""
        return self._add("hash", axes, dimensions)

    @python_only
    def dynamic(self, axis: Any, dimension: int, chunk_size: int | None = None) -> SNode:
        """Add a dynamic node: a growing list of at most ``dimension`` cells."""
        sizes = (0,) if chunk_size is None else shape_of(chunk_size)
        chunk = sizes[0] if len(sizes) == 1 else -1
        if chunk < 0:
            raise WujiRuntimeError(f"invalid chunk size {chunk}: it must be at least 1", "W0123")
        node = self._add("dynamic", axis, dimension, chunk)
        # Larger chunks would only reserve memory that the list can never use.
        node._structure.chunk = min(chunk, node.dims[0])
        return node

    @python_only
    def morton(self) -> SNode:
        """Store the cells in Morton order (Z-order curve)."""
        self._owner._open()
        self._structure.is_morton = True
        return self

    @python_only
    def quant_array(self, axes: Any, dimensions: Any, max_num_bits: int) -> SNode:
        """Add an array of quantized numbers of one field, packed in a word of ``max_num_bits`` bits."""
        return self._add("bit_array", axes, dimensions, check_word(max_num_bits))

    @python_only
    def bit_array(self, axes: Any, dimensions: Any, num_bits: int) -> SNode:
        """The older spelling of `quant_array`."""
        return self.quant_array(axes, dimensions, num_bits)

    @python_only
    def bit_struct(self, num_bits: int) -> BitStruct:
        """Add a word of ``num_bits`` bits, in which fields are placed: the older spelling of `ti.BitpackedFields`."""
        self._owner._open()
        return BitStruct(self, num_bits)

    @python_only
    def place(self, *args: Any, offset: Any = None) -> SNode:
        """Place fields in the cells of this node."""
        from .field import Field

        self._owner._open()
        where = None if offset is None else shape_of(offset)
        for arg in args:
            if isinstance(arg, Field):
                arg._place(self, where)
            elif isinstance(arg, (list, tuple)):
                self.place(*arg, offset=offset)
            elif isinstance(arg, BitpackedFields):
                arg._place(self, where)
            elif arg is None:
                raise ValueError("None cannot be placed: only fields of floats have `.grad` and `.dual`")
            else:
                raise ValueError(f"{arg!r} cannot be placed: it is not a field")
        return self

    @python_only
    def lazy_grad(self) -> None:
        """Place the gradients of all fields of floats at or below this node next to the fields, unless they are placed."""
        self._owner._open()
        place_companions(self, "grad", needed=False)

    @python_only
    def lazy_dual(self) -> None:
        """Place the tangents of all fields of floats at or below this node next to the fields, unless they are placed."""
        self._owner._open()
        place_companions(self, "dual", needed=False)

    # Queries.
    def parent(self, n: int = 1) -> SNode | None:
        """Return the parent node, or the ``n``-th ancestor."""
        path = self.path_from_root()
        up = shape_of(n)
        if len(up) != 1 or up[0] < 0:
            raise WujiRuntimeError(f"a node has no ancestor {n!r}: count them from 0, which is the node itself")
        return path[-1 - up[0]] if up[0] < len(path) else None

    def path_from_root(self) -> list[SNode]:
        path: list[SNode] = []
        node: SNode | None = self
        while node is not None:
            path.append(node)
            node = node._parent
        return path[::-1]

    def _extents(self) -> dict[int, int]:
        extents: dict[int, int] = {}
        for node in self.path_from_root():
            # An unbounded table counts as one cell along its axes.
            for axis, size in zip(node.axes, node.dims or (1,) * len(node.axes), strict=True):
                extents[axis] = extents.get(axis, 1) * size
        return extents

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells along each axis, accumulated from the root."""
        extents = self._extents()
        return tuple(extents[k] for k in sorted(extents))

    @property
    def num_dims(self) -> int:
        return len(self._extents())

    @property
    def is_always_active(self) -> bool:
        """Whether its cells are active where those of its parent are."""
        return self.kind not in _native.SPARSE_KINDS

    @property
    def is_sparse(self) -> bool:
        return any(not node.is_always_active for node in self.path_from_root())

    @property
    def independent_part(self) -> SNode:
        """The outermost sparse node on the path from the root, or the root. The cells below different ones do not depend on each other."""
        path = self.path_from_root()
        return next((node for node in path if not node.is_always_active), path[0])

    def independent_parts(self) -> list[SNode]:
        """Return the parts that cells of this node, or below it, are in."""
        if self.is_sparse:
            return [self.independent_part]
        return [part for child in self.children for part in child.independent_parts()]

    @property
    def prints_elements(self) -> bool:
        """Whether `str` of a field shows its elements. A sparse field may have more of them than memory holds."""
        return not self.is_sparse or math.prod(self.shape) <= _MOST_PRINTED

    def _cells(self) -> _native.Field:
        self._owner._ensure()
        if self._structure.cells is None:
            raise WujiRuntimeError(f"{self!r} has no cells")
        return self._structure.cells

    @python_only
    def deactivate_all(self) -> None:
        """Deactivate all cells and everything below them."""
        self._owner._ensure()

        for part in self.independent_parts():
            # This node, or the outermost sparse nodes below it.
            node = self if self.is_sparse else part

            def deactivate(structure: Structure = node._structure) -> None:
                for cells in structure.sparse:
                    cells.deactivate_all()

            recording.deactivate(part, deactivate)

    def _count_active(self) -> int:
        return self._cells().count_active()

    @property
    def _snode_id(self) -> int:
        return self.cells_number

    def loop_range(self) -> SNode:
        return self

    _loop_range = loop_range

    # Half-public names of Taichi.
    @property
    def ptr(self) -> SNodePtr:
        return SNodePtr(self)

    @property
    def _id(self) -> int:
        return self.cells_number

    @property
    def _name(self) -> str:
        return ""

    @property
    def _offset(self) -> tuple[int, ...]:
        return ()

    @property
    def _snode_tree_id(self) -> int:
        return self._owner.number

    @property
    def _cell_size_bytes(self) -> int:
        """Size of a cell in bytes, as declared."""
        return inspection.cell_size(self)[0]

    @property
    def _offset_bytes_in_parent_cell(self) -> int:
        """Offset of the node in the cells of its parent, as declared."""
        if self._parent is None:
            return 0
        return inspection.offset_in_cell(self._parent, len(self._parent.leaves) + self._parent.children.index(self))

    @property
    def _num_dynamically_allocated(self) -> int:
        """Number of cells that are allocated because they are active; 0 for dense nodes."""
        return 0 if self.is_always_active else self._count_active()

    @property
    def needs_grad(self) -> bool:
        """Whether the field of a leaf SNode has gradients."""
        return False

    def _path_from_root(self) -> list[SNode]:
        return self.path_from_root()

    def _get_children(self) -> list[SNode]:
        return [*(PlaceNode(self, leaf) for leaf in self.leaves), *self.children]

    def _physical_index_position(self) -> dict[int, int]:
        return {k: k for k in sorted(self._extents())}


class Leaf:
    """A field placed in one node: scalars, vectors or matrices.

    One of floats has two companions of the same type, which can be placed like it: its gradient, and its tangent.
    They are not quantized if it is.
    """

    __slots__ = ("constant", "dual", "grad", "group", "key", "kind", "name", "native", "needed", "node", "number", "offset", "pack", "quantized", "type")

    def __init__(self, name: str, type: str, kind: str = "", quantized: tuple[QuantizedType, ...] = ()) -> None:
        self.name = name
        self.type = type
        self.quantized = quantized  # how it is stored: as `type`, or as one type for all scalars, or as one for each
        self.pack: Pack | None = None  # the word it is packed in
        self.group: int | None = None  # the numbers in this word with which it shares an exponent
        self.constant = False  # whether its elements never change: they are saved with kernels that use it
        self.kind = kind  # "grad", "dual" or "grad.dual" if it is a companion itself
        self.grad: Leaf | None = None
        self.dual: Leaf | None = None
        self.needed: tuple[str, ...] = ()  # companions that the user has asked for
        self.node: SNode | None = None
        self.offset: tuple[int, ...] | None = None
        self.native: _native.Field | None = None
        self.number = -1
        self.key = (-1, -1)  # number of the tree in the process, and of the field in the tree

    def companion(self, kind: str) -> Leaf | None:
        """Return the gradient (``"grad"``) or the tangent (``"dual"``); None for integers. Of companions, only gradients have a tangent."""
        found: Leaf | None = getattr(self, kind)
        own = f"{self.kind}.{kind}" if self.kind else kind
        if found is None and own in ("grad", "dual", "grad.dual") and self.type.startswith("f"):
            found = Leaf(f"{self.name}.{kind}" if self.name else "", self.type, own)
            setattr(self, kind, found)
        return found

    @python_only
    def place(self, node: SNode, offset: tuple[int, ...] | None) -> None:
        if self.node is not None:
            raise WujiRuntimeError(f"This variable has been placed: field {label(self.name)}")
        rank = node.num_dims
        if offset is not None and len(offset) != rank:
            raise WujiSyntaxError(
                f"The dimensionality of shape and offset must be the same ({rank} != {len(offset)})", "W0104"
            )
        check_placed(self, node)
        self.node = node
        self.offset = offset
        node.leaves.append(self)

    def ready(self) -> _native.Field:
        """Return the allocated field; allocate its tree if necessary."""
        native = self.native
        if native is not None:
            return native
        if self.node is None and self.quantized:
            what = "place the bit-packed fields in a node: `ti.root.dense(ti.i, n).place(pack)`" if self.pack is not None else "place it by way of `ti.BitpackedFields` or `quant_array`"
            raise WujiRuntimeError(f"These field(s) are not placed: {label(self.name)}\n  = help: {what}", "W0151")
        if self.node is None:
            raise WujiRuntimeError(
                f"These field(s) are not placed: {label(self.name)}\n"
                "  = help: give it a shape, or place it: `ti.root.dense(ti.i, n).place(x)`"
            )
        self.node._owner._ensure()
        assert self.native is not None
        return self.native


def place_companions(node: SNode, kind: str, needed: bool) -> None:
    """Place gradients or tangents next to the fields at or below a node: all, or those that the user has asked for."""
    for leaf in list(node.leaves):
        if needed and kind not in leaf.needed:
            continue
        other = leaf.companion(kind)
        if other is not None and other.node is None:
            other.place(_beside(node), leaf.offset)
    for child in node.children:
        place_companions(child, kind, needed)


def leaves_below(node: SNode) -> Iterator[Leaf]:
    """Return the fields at or below a node."""
    yield from node.leaves
    for child in node.children:
        yield from leaves_below(child)


def _beside(node: SNode) -> SNode:
    """Return where a companion of a field in a node is: in the node, or beside an array of quantized numbers in a dense node."""
    if node.kind != "bit_array":
        return node
    assert node._parent is not None
    return node._parent.dense(Axis(*node.axes), node.dims)


class NodeInCell(SNode):
    """What is in the cells of a node, as an SNode without cells of its own: it has those of the node."""

    def __init__(self, node: SNode, kind: str) -> None:
        super().__init__(node._anchor, node, Structure(kind, (), (), 0))
        self.node = node

    def _cells(self) -> _native.Field:
        return self.node._cells()

    @property
    def cells_number(self) -> int:
        return self.node.cells_number

    @python_only
    def deactivate_all(self) -> None:
        self.node.deactivate_all()

    def __repr__(self) -> str:
        return f"{self.node!r}.{self.kind}(...)"


class PlaceNode(NodeInCell):
    """A field as a leaf SNode. Its parent is the word that it is packed in, or the node that it is placed in."""

    def __init__(self, node: SNode, leaf: Leaf) -> None:
        super().__init__(node, "place")
        self._leaf = leaf

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlaceNode) and self._leaf is other._leaf

    def __hash__(self) -> int:
        return hash(self._leaf)

    def path_from_root(self) -> list[SNode]:
        path = self.node.path_from_root()
        word = [NodeInCell(self.node, "bit_struct")] if self._leaf.pack is not None else []
        return [*path, *word, self]

    @property
    def _name(self) -> str:
        return self._leaf.name

    @property
    def _offset(self) -> tuple[int, ...]:
        return self._leaf.offset or (0,) * self.num_dims

    @property
    def _dtype(self) -> Any:
        return type_by_ir(self._leaf.type)

    @property
    def needs_grad(self) -> bool:
        grad = self._leaf.grad
        return grad is not None and grad.node is not None

    @property
    def _cell_size_bytes(self) -> int:
        return 0

    @property
    def _offset_bytes_in_parent_cell(self) -> int:
        leaves = self.node.leaves
        at = next(k for k, leaf in enumerate(leaves) if leaf is self._leaf or leaf.number == self._leaf.number >= 0)
        return inspection.offset_in_cell(self.node, at)
