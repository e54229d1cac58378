"""Layouts: trees of nodes, and what is placed in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _native
from ..exceptions import NotYet, WujiRuntimeError
from . import runtime
from .context import python_only

if TYPE_CHECKING:
    from .field import Field
    from .runtime import Runtime

_LETTERS = "ijklmnop"


class Axis:
    """One or several axes, such as ``ti.ij``."""

    __slots__ = ("numbers",)

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    def __repr__(self) -> str:
        return "".join(_LETTERS[k] for k in self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Any:
        return iter(self.numbers)


def axes(*numbers: int) -> Axis:
    """Axes by their numbers: ``ti.axes(0, 1)`` is ``ti.ij``."""
    for k in numbers:
        if not isinstance(k, int) or not 0 <= k < len(_LETTERS):
            raise WujiRuntimeError(f"there are {len(_LETTERS)} axes, numbered from 0; {k!r} is none of them")
    return Axis(*numbers)


class SNode:
    """A node of a layout. What hangs below it shares its cells."""

    def __init__(self, builder: FieldsBuilder, parent: SNode | None, kind: str, axis: Axis | None, dims: tuple[int, ...], chunk: int = 0) -> None:
        self._owner = builder
        self._parent = parent
        self.kind = kind
        self.axes = tuple(axis.numbers) if axis is not None else ()
        self.dims = dims
        self.chunk = chunk
        self.is_morton = False
        self.children: list[SNode] = []
        self.leaves: list[Leaf] = []
        self.cells: _native.Field | None = None  # stands for its cells, once there is a tree
        self.cells_number = -1

    def __repr__(self) -> str:
        if self._parent is None:
            return "ti.root"
        axes = "".join(_LETTERS[k] for k in self.axes)
        return f"{self._parent!r}.{self.kind}({axes}, {list(self.dims)})"

    # Building.
    def _add(self, kind: str, axis: Any, dims: Any, chunk: int = 0) -> SNode:
        self._owner._open()
        if isinstance(axis, (list, tuple)):
            axis = axes(*axis)
        if not isinstance(axis, Axis):
            raise WujiRuntimeError(f"the axes of a node are such as ti.ij, not {axis!r}")
        if isinstance(dims, int) or hasattr(dims, "__index__"):
            sizes = (int(dims),) * len(axis)
        else:
            sizes = tuple(int(d) for d in dims)
            if len(sizes) == 1:
                sizes *= len(axis)
        if len(sizes) != len(axis) and not (kind == "hash" and not sizes):
            raise WujiRuntimeError(f"{len(axis)} axes ({axis}) have {len(sizes)} sizes")
        for size in sizes:
            if size < 1:
                raise WujiRuntimeError(f"a node has a size of {size}; it is at least 1", "W0101")
        child = SNode(self._owner, self, kind, axis, sizes, chunk)
        self.children.append(child)
        return child

    def dense(self, axes: Any, dimensions: Any) -> SNode:
        """Cells one after the other."""
        return self._add("dense", axes, dimensions)

    def pointer(self, axes: Any, dimensions: Any) -> SNode:
        """Cells that have memory while they are active."""
        return self._add("pointer", axes, dimensions)

    def bitmasked(self, axes: Any, dimensions: Any) -> SNode:
        """As `dense`, with a bit for each cell that says whether it is active."""
        return self._add("bitmasked", axes, dimensions)

    def hash(self, axes: Any, dimensions: Any = ()) -> SNode:
        """Cells that are found by their coordinates; without dimensions there is no end to them. Only below the root."""
        return self._add("hash", axes, dimensions)

    def dynamic(self, axis: Any, dimension: int, chunk_size: int | None = None) -> SNode:
        """A list of at most so many cells, which grows."""
        return self._add("dynamic", axis, dimension, chunk_size or 0)

    def morton(self) -> SNode:
        """Orders the cells along a Z-shaped curve."""
        self._owner._open()
        self.is_morton = True
        return self

    def quant_array(self, *_: Any, **__: Any) -> SNode:
        raise NotYet("`quant_array`: quantized types are not yet in this version", "W0607")

    bit_array = bit_struct = quant_array

    def place(self, *args: Any, offset: Any = None) -> SNode:
        """Puts fields into the cells of this node."""
        from .field import Field

        self._owner._open()
        where = (offset,) if isinstance(offset, int) else None if offset is None else tuple(offset)
        for arg in args:
            if isinstance(arg, Field):
                arg._place(self, where)
            elif isinstance(arg, (list, tuple)):
                self.place(*arg, offset=offset)
            elif type(arg).__name__ == "BitpackedFields":
                raise NotYet("quantized types are not yet in this version", "W0607")
            else:
                raise ValueError(f"{arg!r} cannot be placed in a layout; fields can")
        return self

    def lazy_grad(self) -> None:
        raise NotYet("`lazy_grad`: automatic differentiation is not yet in this version", "W0607")

    lazy_dual = lazy_grad

    # Asking.
    def parent(self, n: int = 1) -> SNode | None:
        """The node above, or so many above."""
        node: SNode | None = self
        for _ in range(n):
            node = node._parent if node is not None else None
        return node

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
            for axis, size in zip(node.axes, node.dims, strict=False):
                extents[axis] = extents.get(axis, 1) * size
        return extents

    @property
    def shape(self) -> tuple[int, ...]:
        """How many cells along each axis, from the root on."""
        extents = self._extents()
        return tuple(extents[k] for k in sorted(extents))

    @property
    def num_dims(self) -> int:
        return len(self._extents())

    @property
    def is_sparse(self) -> bool:
        return any(node.kind in ("pointer", "bitmasked", "hash", "dynamic") for node in self.path_from_root())

    def _cells(self) -> _native.Field:
        self._owner._ensure()
        if self.cells is None:
            raise WujiRuntimeError(f"{self!r} has no cells of its own to ask about")
        return self.cells

    @python_only
    def deactivate_all(self) -> None:
        """Deactivates all cells, with everything below them."""
        self._owner._ensure()
        if self._parent is None:
            for child in self.children:
                child.deactivate_all()
            return
        if self.kind == "dense":
            for child in self.children:
                child.deactivate_all()
            return
        self._cells().deactivate_all()

    def _count_active(self) -> int:
        return self._cells().count_active()

    @property
    def _snode_id(self) -> int:
        return self.cells_number

    def loop_range(self) -> SNode:
        return self


class Leaf:
    """A field of the tree: scalars, vectors or matrices in the cells of one node."""

    __slots__ = ("name", "native", "node", "number", "offset", "type")

    def __init__(self, name: str, type: str) -> None:
        self.name = name
        self.type = type
        self.node: SNode | None = None
        self.offset: tuple[int, ...] | None = None
        self.native: _native.Field | None = None
        self.number = -1

    def place(self, node: SNode, offset: tuple[int, ...] | None) -> None:
        if self.node is not None:
            raise WujiRuntimeError(f"field {self.name or '(without a name)'} has been placed already")
        rank = node.num_dims
        if offset is not None and len(offset) != rank:
            raise WujiRuntimeError(
                f"the offset of a field has as many numbers as it has indices: {rank}, not {len(offset)}", "W0104"
            )
        self.node = node
        self.offset = offset
        node.leaves.append(self)

    def ready(self) -> _native.Field:
        """Its memory."""
        native = self.native
        if native is not None:
            return native
        if self.node is None:
            raise WujiRuntimeError(
                f"field {self.name or '(without a name)'} has no place yet\n"
                "  = help: give it a shape, or place it: `ti.root.dense(ti.i, n).place(x)`"
            )
        self.node._owner._ensure()
        assert self.native is not None
        return self.native


class PlaceNode(SNode):
    """A field as the end of its path: its parent is the node that it is placed in."""

    def __init__(self, node: SNode) -> None:
        super().__init__(node._owner, node, "place", None, ())

    def _cells(self) -> _native.Field:
        assert self._parent is not None
        return self._parent._cells()

    @property
    def cells_number(self) -> int:
        assert self._parent is not None
        return self._parent.cells_number

    @cells_number.setter
    def cells_number(self, number: int) -> None:
        pass

    @python_only
    def deactivate_all(self) -> None:
        assert self._parent is not None
        self._parent.deactivate_all()

    def __repr__(self) -> str:
        return f"{self._parent!r}.place(...)"


class FieldsBuilder:
    """A tree under construction; `finalize` makes it, and gives what `destroy`s it."""

    def __init__(self, owner: Runtime | None = None) -> None:
        self._runtime = owner if owner is not None else runtime.current()
        self._root = SNode(self, None, "root", None, ())
        self.tree: SNodeTree | None = None
        self.finalized = False
        self.fields: list[Field] = []

    @property
    def root(self) -> SNode:
        return self._root

    @property
    def empty(self) -> bool:
        return not self._root.children and not self._root.leaves

    def _open(self) -> None:
        if self.finalized:
            raise WujiRuntimeError("the layout is complete; nothing can be added to it any more\n  = help: use another `ti.FieldsBuilder()`")

    def _ensure(self) -> None:
        """Fields are made when somebody first needs one of them."""
        if self.tree is None:
            if self._runtime.root is self:
                self._runtime.materialize()
            else:
                self.finalize()
        if self.tree is not None and self.tree.destroyed:
            raise WujiRuntimeError("this field belongs to a tree that was destroyed", "W0113")

    def dense(self, indices: Any, dimensions: Any) -> SNode:
        return self._root.dense(indices, dimensions)

    def pointer(self, indices: Any, dimensions: Any) -> SNode:
        return self._root.pointer(indices, dimensions)

    def bitmasked(self, indices: Any, dimensions: Any) -> SNode:
        return self._root.bitmasked(indices, dimensions)

    def hash(self, indices: Any, dimensions: Any = ()) -> SNode:
        return self._root.hash(indices, dimensions)

    def dynamic(self, index: Any, dimension: int, chunk_size: int | None = None) -> SNode:
        return self._root.dynamic(index, dimension, chunk_size)

    def quant_array(self, *args: Any, **named: Any) -> SNode:
        return self._root.quant_array(*args, **named)

    def place(self, *args: Any, offset: Any = None) -> SNode:
        return self._root.place(*args, offset=offset)

    def lazy_grad(self) -> None:
        self._root.lazy_grad()

    def lazy_dual(self) -> None:
        self._root.lazy_dual()

    @python_only
    def deactivate_all(self) -> None:
        """Deactivates all cells of all sparse nodes."""
        self._ensure()
        self._root.deactivate_all()

    @python_only
    def finalize(self, raise_warning: bool = True) -> SNodeTree:
        """Makes the tree and its memory."""
        if self.finalized:
            raise WujiRuntimeError("the layout is complete already")
        if self.empty and raise_warning:
            runtime.warn("finalizing a layout that has no fields")
        self.finalized = True
        layout = _native.Layout(self._runtime.native)
        made: list[tuple[Any, int]] = []

        def describe(node: SNode, number: int) -> None:
            for leaf in node.leaves:
                made.append((leaf, layout.place(number, leaf.name or "(without a name)", leaf.type, leaf.offset)))
            if node._parent is not None:
                made.append((node, layout.cells(number, repr(node))))
            for child in node.children:
                describe(child, layout.node(number, child.kind, child.axes, child.dims, child.chunk, child.is_morton))

        from .errors import told

        try:
            describe(self._root, 0)
            native = layout.finish()
        except _native.NativeError as e:
            raise told(e) from None
        self.tree = SNodeTree(native)
        self._runtime.builders.add(self)
        for what, number in made:
            field = native.field(number)
            if isinstance(what, Leaf):
                what.native = field
                what.number = number
            else:
                what.cells = field
                what.cells_number = number
        return self.tree


class SNodeTree:
    """A finished layout."""

    def __init__(self, native: _native.Tree) -> None:
        self.native = native
        self.destroyed = False

    @property
    def id(self) -> int:
        return id(self.native)

    def destroy(self) -> None:
        """Gives the memory back. The fields cannot be used after that."""
        if self.destroyed:
            raise WujiRuntimeError("the tree was destroyed already")
        self.destroyed = True
        self.native.destroy()

    def memory_used(self) -> int:
        """In bytes."""
        return self.native.memory_used()


class _Root:
    """``ti.root``: the layout of the current world to which fields are added until somebody uses one of them."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        builder = runtime.current().root
        if name in ("dense", "pointer", "bitmasked", "hash", "dynamic", "quant_array", "place", "lazy_grad", "lazy_dual"):
            return getattr(builder, name)
        if name == "deactivate_all":
            return deactivate_all_snodes
        return getattr(builder.root, name)

    def __repr__(self) -> str:
        return "ti.root"


root: Any = _Root()


@python_only
def deactivate_all_snodes() -> None:
    """Deactivates all cells of all sparse nodes of the current world."""
    current = runtime.current()
    current.materialize()
    for builder in list(current.builders):
        if builder.tree is not None and not builder.tree.destroyed:
            builder.root.deactivate_all()
