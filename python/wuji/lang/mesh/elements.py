"""Elements of a mesh in kernels: what the variable of a mesh-for loop is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...exceptions import WujiIndexError, WujiSyntaxError, WujiTypeError
from .. import context, dtypes, emit, ops
from ..access import element_of_field, index_ids
from ..context import Compilation
from ..ndrange import RangeVal
from ..text import kernel_assert
from ..values import Expr
from .relations import KINDS, SINGULAR, relation_name
from .tables import lookup, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .instance import MeshElementField, MeshInstance


class MeshElementFieldProxy:
    """An element of a mesh: ``v`` in ``for v in mesh.verts``. Attributes are its members."""

    __slots__ = ("_index", "_kind", "_stored")
    _wuji_element = True

    def __init__(self, kind: MeshElementField, index: Expr, stored: bool) -> None:
        self._kind = kind
        self._index = index
        self._stored = stored  # whether the index is a stored position

    def _as(self, stored: bool) -> Expr:
        if stored == self._stored:
            return self._index
        return self._kind.mesh._tables.convert(context.current(), self._kind._order, self._index, stored)

    @property
    def id(self) -> Expr:
        """The number of the element. It does not depend on how attributes are stored."""
        return self._as(stored=False)

    @property
    def verts(self) -> MeshRelationAccessProxy:
        return MeshRelationAccessProxy(self, 0)

    @property
    def edges(self) -> MeshRelationAccessProxy:
        return MeshRelationAccessProxy(self, 1)

    @property
    def faces(self) -> MeshRelationAccessProxy:
        return MeshRelationAccessProxy(self, 2)

    @property
    def cells(self) -> MeshRelationAccessProxy:
        return MeshRelationAccessProxy(self, 3)

    def _patch(self) -> Any:
        mesh = self._kind.mesh
        if mesh.num_patches == 1:
            return emit.constant(0, dtypes.i32)
        return mesh._tables.patch(context.current(), self._kind._order, self._index, self._stored)

    def __getattr__(self, name: str) -> Any:
        attribute = self._kind.attr_dict.get(name)
        if attribute is None:
            known = ", ".join(self._kind.attr_dict) or "none"
            raise AttributeError(
                f"{self!r} of this mesh has no attribute `{name}`\n"
                f"  = note: its attributes: {known}\n"
                f"  = help: add it before the kernel runs: `mesh.{KINDS[self._kind._order]}.place({{'{name}': ti.f32}})`"
            )
        return element_of_field(context.current(), attribute.plain, [self._as(attribute.reorder)])

    def _same(self, other: Any) -> tuple[Any, Any]:
        if not isinstance(other, MeshElementFieldProxy) or other._kind is not self._kind:
            raise WujiTypeError(f"{self!r} of a mesh can only be compared with another one of the same mesh, not with {emit.describe(other)}\n  = help: compare their `id`s")
        return self._index, other._as(self._stored)

    def __eq__(self, other: object) -> Any:
        return ops.cmp_eq(*self._same(other))

    def __ne__(self, other: object) -> Any:
        return ops.cmp_ne(*self._same(other))

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise WujiTypeError(f"{self!r} of a mesh is not a condition\n  = help: use its `id` or its attributes")

    def __repr__(self) -> str:
        return _an(self._kind._order)


class MeshRelationAccessProxy:
    """The neighbors of an element: ``v.edges``."""

    __slots__ = ("_from", "_order")
    _wuji_element = True

    def __init__(self, element: MeshElementFieldProxy, order: int) -> None:
        self._from = element
        self._order = order

    @property
    def mesh(self) -> MeshInstance:
        return self._from._kind.mesh

    def _tables(self) -> tuple[Any, Any]:
        start = self._from._kind
        return self.mesh._tables.neighbors(start._order, self._order, (self._from._stored, self._kind._is_stored))

    @property
    def _kind(self) -> MeshElementField:
        return self.mesh._kinds[self._order]

    def _element(self, cx: Compilation, *at: Any) -> MeshElementFieldProxy:
        return MeshElementFieldProxy(self._kind, lookup(cx, self._tables()[0], *at), self._kind._is_stored)

    def _row(self) -> tuple[Expr, Expr]:
        """Return where the neighbors begin and end."""
        cx, index, offsets = context.current(), self._from._index, self._tables()[1]
        return read(cx, offsets, index), read(cx, offsets, ops.add(index, 1))

    @property
    def size(self) -> Any:
        """The number of neighbors."""
        width = self._tables()[1]
        if isinstance(width, int):
            return width
        low, high = self._row()
        return ops.cast(ops.sub(high, low), dtypes.i32)

    def _wuji_subscript(self, cx: Compilation, indices: list[Any]) -> MeshElementFieldProxy:
        name = KINDS[self._order]
        if len(indices) != 1:
            raise WujiIndexError(f"`{name}` takes one index, the number of a neighbor, not {len(indices)}")
        (number,) = indices
        index_ids(indices)
        width = self._tables()[1]
        if isinstance(width, int):
            if not isinstance(number, Expr):
                if not 0 <= number < width:
                    raise WujiIndexError(f"{self._from!r} has {width} {name}, numbered from 0, and this is number {number}")
                return self._element(cx, self._from._index, number)
            valid = self._valid(number, width)
            return self._element(cx, self._from._index, emit.select(valid, number, -1))
        low, high = self._row()
        valid = self._valid(number, ops.sub(high, low))
        return self._element(cx, emit.select(valid, ops.add(low, number), -1))

    def _valid(self, number: Any, count: Any) -> Expr:
        """Return whether a neighbor exists. In debug mode, that it does not is an error; otherwise it is element -1, which is outside of all fields."""
        valid: Expr = ops.logical_and(ops.cmp_ge(emit.expr(number), 0), ops.cmp_lt(emit.expr(number), count))
        if context.current().runtime.config.debug:
            name = relation_name(self._from._kind._order, self._order)
            kernel_assert(valid, f"the number of a neighbor is out of range (relation '{name}')", "")
        return valid

    def _wuji_domain(self, cx: Compilation) -> RangeVal:
        width = self._tables()[1]
        if isinstance(width, int):
            return RangeVal(0, width, lambda cx, at: self._element(cx, self._from._index, at))
        low, high = self._row()
        return RangeVal(low, high, self._element)

    def __iter__(self) -> Iterator[Any]:
        """Unroll a loop: ``for v in ti.static(face.verts)``."""
        width = self._tables()[1]
        if not isinstance(width, int):
            raise WujiTypeError(f"the number of {KINDS[self._order]} of {self._from!r} is not known at compile time\n  = help: remove `ti.static`")
        return (self._element(context.current(), self._from._index, k) for k in range(width))

    def __len__(self) -> int:
        width = self._tables()[1]
        if not isinstance(width, int):
            raise WujiTypeError(f"the number of {KINDS[self._order]} of {self._from!r} is a run-time value\n  = help: use `.size`")
        return width

    def __repr__(self) -> str:
        return f"the {KINDS[self._order]} of {self._from!r}"


def _an(order: int) -> str:
    return f"an {SINGULAR[order]}" if order == 1 else f"a {SINGULAR[order]}"


def loop_over(kind: MeshElementField) -> RangeVal:
    """Return the range of a loop over all elements of a kind."""
    if not len(kind):
        raise WujiTypeError(f"this mesh has no {KINDS[kind._order]} to loop over", "W0612")
    stored = kind._is_stored

    def item(cx: Compilation, index: Expr) -> MeshElementFieldProxy:
        element = MeshElementFieldProxy(kind, index, stored)
        cx.mesh_elements = (*cx.mesh_elements, element)
        return element

    return RangeVal(0, len(kind), item)


def at_number(cx: Compilation, kind: MeshElementField, indices: list[Any]) -> MeshElementFieldProxy:
    """Return the element with a number: ``mesh.verts[i]``."""
    if len(indices) != 1:
        raise WujiIndexError(f"`{KINDS[kind._order]}` takes one index, the number of an element, not {len(indices)}")
    (id,) = index_ids(indices)
    element = MeshElementFieldProxy(kind, Expr(id, dtypes.by_ir(cx.builder.type_of(id))), False)
    return MeshElementFieldProxy(kind, element._as(kind._is_stored), kind._is_stored)


def patch_index() -> Any:
    """Return the patch of the element that the innermost mesh-for loop is at."""
    elements = context.current().mesh_elements
    if not elements:
        raise WujiSyntaxError("`ti.mesh_patch_idx` is the patch of an element: it can only be called in a loop over the elements of a mesh")
    return elements[-1]._patch()
