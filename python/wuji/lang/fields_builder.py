"""Layout trees: built from nodes and fields, allocated on first use, destroyed by their handles."""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any

from .. import _native
from ..exceptions import WujiRuntimeError
from . import runtime
from .context import python_only
from .errors import from_native
from .extents import Axis
from .packed import BitStruct, Placing
from .snode import Anchor, Leaf, SNode, Structure, leaves_below, place_companions

if TYPE_CHECKING:
    from .runtime import Runtime

_tree_keys = itertools.count()


class FieldsBuilder:
    """Builds a layout tree. `finalize` allocates it and returns a handle to `destroy` it."""

    def __init__(self, owner: Runtime | None = None) -> None:
        world = owner if owner is not None else runtime.current()
        # A world does not own itself by way of its `root`.
        self._world = weakref.ref(world)
        self._native = world.native if owner is None else None
        self.number = world.next_tree()
        self._root = SNode(Anchor(self), None, Structure("root", (), (), 0))
        self.tree: SNodeTree | None = None
        self.finalized = False
        # Layouts of fields with a shape that count as parts of this one while both are open.
        self.with_shape: weakref.WeakSet[FieldsBuilder] = weakref.WeakSet()

    @property
    def root(self) -> SNode:
        return self._root

    @property
    def empty(self) -> bool:
        return not self._root.children and not self._root.leaves

    def _open(self) -> None:
        if self.finalized:
            raise WujiRuntimeError("FieldsBuilder finalized: no nodes or fields can be added\n  = help: use a new `ti.FieldsBuilder()`")

    def _ensure(self) -> None:
        """Allocate the tree on first use."""
        if self.tree is None:
            world = self._world()
            if world is not None and world.root is self:
                world.materialize()
            else:
                self.finalize()
        assert self.tree is not None
        self.tree._ensure()

    @python_only
    def dense(self, indices: Any, dimensions: Any) -> SNode:
        return self._root.dense(indices, dimensions)

    @python_only
    def pointer(self, indices: Any, dimensions: Any) -> SNode:
        return self._root.pointer(indices, dimensions)

    @python_only
    def bitmasked(self, indices: Any, dimensions: Any) -> SNode:
        return self._root.bitmasked(indices, dimensions)

    @python_only
    def hash(self, indices: Any, dimensions: Any = ()) -> SNode:
        return self._root.hash(indices, dimensions)

    @python_only
    def dynamic(self, index: Any, dimension: int, chunk_size: int | None = None) -> SNode:
        return self._root.dynamic(index, dimension, chunk_size)

    @python_only
    def quant_array(self, indices: Any, dimensions: Any, max_num_bits: int) -> SNode:
        return self._root.quant_array(indices, dimensions, max_num_bits)

    @python_only
    def bit_array(self, indices: Any, dimensions: Any, num_bits: int) -> SNode:
        return self._root.bit_array(indices, dimensions, num_bits)

    @python_only
    def bit_struct(self, num_bits: int) -> BitStruct:
        return self._root.bit_struct(num_bits)

    @python_only
    def place(self, *args: Any, offset: Any = None) -> SNode:
        return self._root.place(*args, offset=offset)

    @python_only
    def lazy_grad(self) -> None:
        self._root.lazy_grad()
        self._place_companions_with_shape("grad")

    @python_only
    def lazy_dual(self) -> None:
        self._root.lazy_dual()
        self._place_companions_with_shape("dual")

    def _place_companions_with_shape(self, kind: str) -> None:
        for builder in list(self.with_shape):
            if not builder.finalized:
                builder._place_companions_apart(kind)

    def _place_companions_apart(self, kind: str) -> None:
        """Place gradients or tangents in nodes of their own, which are like those of their fields: most kernels do not access them."""
        for leaf in list(leaves_below(self._root)):
            other = leaf.companion(kind)
            if other is None or other.node is not None or leaf.node is None:
                continue
            apart = self._root
            for level in leaf.node.path_from_root()[1:]:
                apart = apart.dense(Axis(*level.axes), level.dims)
            other.place(apart, leaf.offset)

    @python_only
    def deactivate_all(self) -> None:
        """Deactivate all cells of all sparse nodes."""
        self._ensure()
        self._root.deactivate_all()

    @python_only
    def finalize(self, raise_warning: bool = True) -> SNodeTree:
        """Build the tree and allocate its memory."""
        if self.finalized:
            raise WujiRuntimeError("FieldsBuilder finalized: it can only be finalized once")
        if self.empty:
            # Nothing to allocate.
            if raise_warning:
                runtime.warn("finalizing an empty FieldsBuilder")
            self.finalized = True
            self.tree = SNodeTree(None, self.number)
            self._root._anchor.owner = self.tree
            return self.tree
        owner = self._world()
        native_world = self._native if self._native is not None else owner.native if owner is not None else None
        if native_world is None:
            raise WujiRuntimeError("the world of this layout is gone\n  = help: keep the world as long as its fields", "W0132")
        for kind in ("grad", "dual"):
            place_companions(self._root, kind, needed=True)
        layout = _native.Layout(native_world)
        made: list[tuple[Any, int]] = []
        try:
            _describe(layout, self._root, 0, made)
            native = layout.finish()
        except _native.NativeError as e:
            # The builder stays open: the same error again, not another one, unless a node is repaired.
            raise from_native(e) from None
        except OverflowError:
            raise WujiRuntimeError("the layout is too large for a 64-bit address space", "W0110") from None
        self.finalized = True
        tree_key = next(_tree_keys)
        for what, number in made:
            field = native.field(number)
            if isinstance(what, Leaf):
                what.native = field
                what.number = number
                what.key = (tree_key, number)
                if what.pack is not None:
                    # It is complete, and must not keep its fields alive.
                    what.pack.leaves.clear()
            else:
                what.cells = field
                what.cells_number = number
        self.tree = SNodeTree(native, self.number)
        self._root._anchor.owner = self.tree
        self._root._structure.freeze()
        if owner is not None:
            owner.roots.add(self._root)
        return self.tree


def _describe(layout: _native.Layout, node: SNode, number: int, made: list[tuple[Any, int]]) -> None:
    """Describe a node and all below it. ``made`` collects leaves and nodes with their field numbers."""
    placing = Placing(layout)
    if node.kind == "bit_array":
        # Its field represents its cells.
        if not node.leaves:
            raise WujiRuntimeError(f"{node!r} has no field\n  = help: place a field of a quantized type in it", "W0151")
        field = placing.place_in_array(number, node.chunk, node.leaves[0], node.leaves[0].offset)
        made += [(node.leaves[0], field), (node._structure, field)]
        return
    for leaf in node.leaves:
        made.append((leaf, placing.place(number, leaf, leaf.offset)))
    if node._parent is not None:
        made.append((node._structure, layout.cells(number, repr(node))))
    for child in node.children:
        chunk = 0 if child.kind == "bit_array" else child.chunk
        _describe(layout, child, layout.node(number, child.kind, child.axes, child.dims, chunk, child.is_morton), made)


class SNodeTree:
    """A finalized layout."""

    def __init__(self, native: _native.Tree | None, number: int) -> None:
        self.native = native  # None for an empty layout
        self.number = number
        self.destroyed = False

    @property
    def id(self) -> int:
        return id(self)

    def _open(self) -> None:
        raise WujiRuntimeError("FieldsBuilder finalized: no nodes or fields can be added\n  = help: use a new `ti.FieldsBuilder()`")

    def _ensure(self) -> None:
        if self.destroyed:
            raise WujiRuntimeError("the tree of this field was destroyed", "W0113")

    def destroy(self) -> None:
        """Free the memory. The fields cannot be used afterwards."""
        if self.destroyed:
            raise WujiRuntimeError("SNode tree has been destroyed already")
        if self.native is not None:
            self.native.destroy()
        self.destroyed = True

    def memory_used(self) -> int:
        """Return the allocated bytes."""
        return 0 if self.native is None else self.native.memory_used()


class _Root:
    """``ti.root``: the default layout of the current world. It is finalized when one of its fields is first used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        builder = runtime.current().root
        if name in ("dense", "pointer", "bitmasked", "hash", "dynamic", "quant_array", "bit_array", "bit_struct", "place", "lazy_grad", "lazy_dual"):
            return getattr(builder, name)
        if name == "deactivate_all":
            return deactivate_all_snodes
        return getattr(builder.root, name)

    def __eq__(self, other: object) -> bool:
        # As in Taichi, the root of each tree counts as `ti.root`.
        return other is self or isinstance(other, SNode) and other._parent is None

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return "ti.root"


root: Any = _Root()


@python_only
def deactivate_all_snodes() -> None:
    """Deactivate all cells of all sparse nodes of the current world."""
    current = runtime.current()
    current.materialize()
    for node in list(current.roots):
        tree = node._owner
        if isinstance(tree, SNodeTree) and not tree.destroyed:
            node.deactivate_all()
