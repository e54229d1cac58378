"""Element access in kernels, and operations on sparse cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..exceptions import WujiIndexError, WujiSyntaxError, WujiTypeError
from . import context, dtypes, emit
from .compound import MatrixType, type_by_ir
from .context import Compilation, SparseAccess
from .field import ComponentField, Field, MatrixField, ScalarField, StructField
from .matrix import Matrix
from .naming import label
from .snode import Leaf, NodeInCell, SNode
from .struct import Struct
from .values import Expr, MemoryRef, Ref, SplitRef, StructVal


def index_ids(indices: list[Any]) -> tuple[int, ...]:
    """Return the value ids of integer indices."""
    ids: list[int] = []
    for index in indices:
        if isinstance(index, Expr):
            if index.shape or not (index.dtype.is_int or index.dtype.is_bool):
                raise WujiTypeError(
                    f"indices must be integers, however '{index.ty}' is provided as index {len(ids)}\n"
                    "  = help: convert it to an integer, as in `ti.cast(i, ti.i32)` or `int(i)`"
                )
            value = index.load()
            ids.append(value.id if index.dtype.is_int else emit.convert(value, dtypes.i32).id)
        elif emit.is_number(index) and not isinstance(index, float):
            number = int(index)
            low, high = dtypes.i32.range()
            ids.append(emit.constant(number, dtypes.i32 if low <= number <= high else dtypes.defaults.ip).id)
        else:
            raise WujiTypeError(f"indices must be integers, however {emit.describe(index)} is provided as index {len(ids)}")
    return tuple(ids)


def leaf_number(cx: Compilation, leaf: Leaf) -> int:
    native = leaf.ready()
    number = cx.field_number(native.tree, leaf.number, leaf.node)
    if number not in cx.leaves:
        cx.leaves[number] = leaf
        if leaf.node is not None and leaf.node.is_sparse:
            cx.cells_of(leaf.node)
    return number


def _activates(cx: Compilation, leaf: Leaf) -> bool:
    if not cx.inactive or leaf.node is None:
        return True
    path = leaf.node.path_from_root()
    return not any(node in path for node in cx.inactive)


def element_of_field(cx: Compilation, field: Field, indices: list[Any]) -> Any:
    """Return a reference to ``x[i, j]``."""
    rank = len(field.shape)
    if len(indices) != rank:
        node = field.node  # raises if the field is not placed yet
        if node.kind == "dynamic" and len(indices) == rank - 1:
            return DynamicList(field, indices)
        raise WujiIndexError(
            f"Field with dim {rank} accessed with indices of dim {len(indices)}: {label(field.name)}"
        )
    if field._order is not None:
        indices = field._order.stored(cx, indices)
    return _element(cx, field, index_ids(indices))


def _element(cx: Compilation, field: Field, ids: tuple[int, ...]) -> Any:
    if isinstance(field, ComponentField):
        leaf = field._first
        return MemoryRef(("f", leaf_number(cx, leaf)), field.dtype, ids, (field._number,), _activates(cx, leaf))
    if isinstance(field, ScalarField):
        leaf = field._leaf
        return MemoryRef(("f", leaf_number(cx, leaf)), field.dtype, ids, (), _activates(cx, leaf))
    if isinstance(field, MatrixField):
        if field._parts is not None:
            parts: list[Ref] = [_element(cx, p, ids) for p in field._parts]
            return SplitRef(parts, field.type)
        leaf = field._leaves()[0]
        return MemoryRef(("f", leaf_number(cx, leaf)), field.type, ids, (), _activates(cx, leaf))
    if isinstance(field, StructField):
        return StructVal(field.struct_type, {k: _element(cx, f, ids) for k, f in field._members.items()})
    raise WujiTypeError(f"{field!r} cannot be accessed in a kernel")


class ArrayVal:
    """An array argument in a kernel."""

    def __init__(
        self, number: int, element: Any, ndim: int, name: str, clamp: bool, writable: bool = True, grad: Callable[[], ArrayVal] | None = None
    ) -> None:
        self.number = number
        self.writable = writable
        self.element_type = element
        self.ndim = ndim
        self.name = name
        self.clamp = clamp
        self._grad = grad

    @property
    def dtype(self) -> Any:
        return self.element_type.dtype if isinstance(self.element_type, MatrixType) else self.element_type

    @property
    def grad(self) -> ArrayVal | None:
        """The gradient, as another array."""
        return self._grad() if self._grad is not None else None

    @property
    def shape(self) -> tuple[Expr, ...]:
        b = context.builder()
        return tuple(
            Expr(b.convert(b.array_extent(self.number, axis), "i32"), dtypes.i32) for axis in range(self.ndim)
        )

    def element_shape(self) -> list[int]:
        """Return the shape of an element: that of a vector or matrix, empty for scalars."""
        return list(self.element_type.shape) if isinstance(self.element_type, MatrixType) else []

    def extents(self) -> list[tuple[int, int]]:
        """Return the bounds of a loop over all elements."""
        b = context.builder()
        zero = b.const("i32", 0)
        return [(zero, b.convert(b.array_extent(self.number, axis), "i32")) for axis in range(self.ndim)]

    def _wuji_subscript(self, cx: Compilation, indices: list[Any]) -> Any:
        ty = self.element_type
        extra = len(indices) - self.ndim
        if extra and not (isinstance(ty, MatrixType) and extra == ty.ndim):
            raise WujiIndexError(f"Array with dim {self.ndim} accessed with indices of dim {len(indices)}: `{self.name}`")
        ids = index_ids(indices[: self.ndim])
        if self.clamp:
            ids = tuple(self._clamped(k, axis) for axis, k in enumerate(ids))
        ref = MemoryRef(("a", self.number), ty, ids) if self.writable else ReadOnlyRef(("a", self.number), ty, ids)
        if extra:
            return ref[tuple(indices[self.ndim :])]
        return ref

    def _clamped(self, index: int, axis: int) -> int:
        b = context.builder()
        wide = b.convert(index, "i64") if b.type_of(index) != "i64" else index
        last = b.binary("sub", b.array_extent(self.number, axis), b.const("i64", 1))
        return b.binary("max", b.binary("min", wide, last), b.const("i64", 0))

    def __repr__(self) -> str:
        return f"<array {self.name} in a kernel>"


class ReadOnlyRef(MemoryRef):
    """An element of a read-only array."""

    __slots__ = ()

    def store(self, value: Any) -> None:
        raise WujiTypeError("this array is read-only\n  = help: pass a copy, or set `flags.writeable` of the NumPy array")

    def atomic(self, op: str, value: Any) -> Expr:
        self.store(value)
        raise AssertionError

    def part(self, step: int | Expr) -> Ref:
        path: Any = (*self.path, step if isinstance(step, int) else (step.id,))
        return ReadOnlyRef(self.base, self.dtype, self.indices, path)


class DynamicList:
    """``x[i]`` where the innermost node of ``x`` is dynamic: supports `append` and `length`."""

    def __init__(self, field: Any, indices: list[Any]) -> None:
        self.field = field
        self.ids = index_ids(indices)

    def _number(self) -> int:
        cx = context.current()
        if isinstance(self.field, SNode):
            return cell_number(cx, self.field)
        return leaf_number(cx, self.field._first)

    def _cells(self) -> SparseAccess:
        return context.current().cells_of(self.field if isinstance(self.field, SNode) else self.field.node)

    def append(self, *values: Any) -> Expr:
        """Append an element and return its index, or -1 if the list is full."""
        self._cells().activates = True
        at = Expr(_some(context.builder().cell("append", self._number(), self.ids)), dtypes.i32)
        if values:
            value = values[0] if len(values) == 1 else list(values)
            b = context.builder()
            b.begin_if(emit.compare("ge", at, 0, ">=").id)
            ref = _element(context.current(), self.field, (*self.ids, at.id))
            ref.store(value)
            b.end_if()
        return at

    def length(self) -> Expr:
        """Return the number of elements in the list."""
        return Expr(_some(context.builder().cell("length", self._number(), self.ids)), dtypes.i32)

    def deactivate(self) -> None:
        """Remove all elements."""
        self._cells().deactivates = True
        ids = (*self.ids, context.builder().const("i32", 0))
        context.builder().cell("deactivate", self._number(), ids)

    def is_active(self) -> Expr:
        return emit.compare("gt", self.length(), 0, ">")

    def _wuji_subscript(self, cx: Compilation, indices: list[Any]) -> Any:
        return _element(cx, self.field, (*self.ids, *index_ids(indices)))


def _some(value: int | None) -> int:
    assert value is not None
    return value


def cell_number(cx: Compilation, node: SNode) -> int:
    """Return the module's field number that represents the cells of a node."""
    cells = node._cells()
    if node.is_sparse:
        cx.cells_of(node)
    return cx.field_number(cells.tree, node.cells_number, node)


def _node_of(thing: Any, what: str) -> SNode:
    if isinstance(thing, Field):
        return thing.node
    if isinstance(thing, NodeInCell):
        return thing.node
    if isinstance(thing, SNode):
        return thing
    raise WujiTypeError(f"`{what}` needs an SNode or a field, not {emit.describe(thing)}")


def _coordinates(node: SNode, indices: Any, what: str, list_axis: bool = True) -> tuple[int, ...]:
    parts: list[Any] = []
    if isinstance(indices, Expr) and indices.shape:
        parts = emit.components(indices)
    elif isinstance(indices, Expr) or emit.is_number(indices):
        parts = [indices]
    elif indices is not None:
        for i in indices:
            parts.extend(emit.components(i) if isinstance(i, Expr) and i.shape else [i])
    if not list_axis and len(parts) == node.num_dims:
        parts.pop()
    _check_count(node, parts, what, node.num_dims - (0 if list_axis else 1))
    return index_ids(_whole(parts))


def _whole(coordinates: list[Any]) -> list[Any]:
    """Return coordinates of a cell as integers. Unlike indices of elements, they may be floats, which are truncated."""
    return [emit.convert(c, dtypes.i32) if isinstance(c, Expr) and c.dtype.is_float and not c.shape else int(c) if isinstance(c, float) else c for c in coordinates]


def _check_count(node: SNode, parts: list[Any], what: str, wanted: int) -> None:
    if len(parts) != wanted:
        raise WujiIndexError(f"`{what}` of {node!r} takes {wanted} {'index' if wanted == 1 else 'indices'}, not {len(parts)}")


def _list_indices(node: SNode, indices: Any, what: str) -> list[Any]:
    """Return the indices of a dynamic list, which are those of its node without the last."""
    if node.kind != "dynamic":
        raise WujiTypeError(f"ti.{what} only works on dynamic nodes, not on {node!r}")
    parts = _index_parts(indices)
    _check_count(node, parts, what, node.num_dims - 1)
    return _whole(parts)


def _index_parts(indices: Any) -> list[Any]:
    if indices is None:
        return []
    if isinstance(indices, (list, tuple, Matrix)):
        return list(indices)
    return emit.components(indices) if isinstance(indices, Expr) else [indices]


def is_active(node: Any, indices: Any) -> Any:
    """Return whether a cell of a sparse node is active. Indices count cells of that node."""
    node = _node_of(node, "is_active")
    cx = context.current()
    found = cx.builder.cell("is_active", cell_number(cx, node), _coordinates(node, indices, "is_active"))
    return Expr(_some(found), dtypes.u1)


def activate(node: Any, indices: Any) -> None:
    """Activate a cell of a sparse node. Indices count cells of that node."""
    node = _node_of(node, "activate")
    cx = context.current()
    cx.cells_of(node).activates = True
    cx.builder.cell("activate", cell_number(cx, node), _coordinates(node, indices, "activate"))


def deactivate(node: Any, indices: Any) -> None:
    """Deactivate a cell of a sparse node and everything below it; cells of dense nodes stay active. Indices count cells of that node."""
    node = _node_of(node, "deactivate")
    cx = context.current()
    if node.is_always_active:
        _coordinates(node, indices, "deactivate")
        return
    cx.cells_of(node).deactivates = True
    if node.kind == "dynamic":
        ids = _coordinates(node, indices, "deactivate", list_axis=False)
        cx.builder.cell("deactivate", cell_number(cx, node), (*ids, cx.builder.const("i32", 0)))
        return
    cx.builder.cell("deactivate", cell_number(cx, node), _coordinates(node, indices, "deactivate"))


def append(node: Any, indices: Any, val: Any) -> Any:
    """Append an element to a dynamic list and return its index, or -1 if the list is full."""
    snode = _node_of(node, "append")
    parts = _list_indices(snode, indices, "append")
    if isinstance(node, Field):
        return DynamicList(node, parts).append(val)
    leaves = [leaf for leaf in snode.leaves if not leaf.kind]
    values = _members(val)
    if len(values) != len(leaves):
        raise WujiTypeError(f"`append` to {snode!r} needs an element for each field in it: {len(leaves)} values, not {len(values)}")
    cx = context.current()
    cx.cells_of(snode).activates = True
    at = Expr(_some(cx.builder.cell("append", cell_number(cx, snode), index_ids(parts))), dtypes.i32)
    # Store the value to the fields placed in the list.
    cx.builder.begin_if(emit.compare("ge", at, 0, ">=").id)
    for leaf, value in zip(leaves, values, strict=True):
        ids = index_ids(_field_coordinates(leaf, [*parts, at]))
        MemoryRef(("f", leaf_number(cx, leaf)), type_by_ir(leaf.type), ids).store(value)
    cx.builder.end_if()
    return at


def _members(value: Any) -> list[Any]:
    """Return the values for the fields of one cell: those of a list, or the members of a struct."""
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, Struct):
        value = value.in_kernel()
    return [v for part in value.members.values() for v in _members(part)] if isinstance(value, StructVal) else [value]


def _field_coordinates(leaf: Leaf, cell: list[Any]) -> list[Any]:
    """Return the coordinates of a field's element in a cell. Cells are numbered from 0, elements from the field's offset."""
    from . import ops

    if leaf.offset is None:
        return cell
    return [ops.add(k, o) if o else k for k, o in zip(cell, leaf.offset, strict=True)]


def length(node: Any, indices: Any) -> Any:
    """Return the number of elements in a dynamic list."""
    snode = _node_of(node, "length")
    return DynamicList(snode, _list_indices(snode, indices, "length")).length()


def rescale_index(a: Any, b: Any, I: Any) -> Any:  # noqa: E741
    """Return the index of the cell of ``b`` that contains, or is contained in, cell ``I`` of ``a``.

    Along each axis, the index is divided or multiplied by the ratio of the extents.
    The division rounds towards negative infinity: with a ratio of 4, indices from -4 to -1 belong to cell -1.
    Offsets do not count.
    """
    from . import ops

    for t in (a, b):
        if not isinstance(t, (Field, SNode)):
            raise WujiTypeError(f"`rescale_index` needs SNodes or fields, not {emit.describe(t)}")
    sa, sb = a.shape, b.shape
    parts = _index_parts(I)
    out = []
    for k, part in enumerate(parts):
        if k < len(sa) and k < len(sb):
            if sa[k] > sb[k]:
                part = ops.floordiv(part, sa[k] // sb[k])
            elif sa[k] < sb[k]:
                part = ops.mul(part, sb[k] // sa[k])
        out.append(part)
    return Matrix(out)


def get_addr(field: Any, indices: Any) -> Any:
    raise WujiSyntaxError("`get_addr` is not supported: element addresses are only valid inside a kernel")


def no_activate(*nodes: Any) -> None:
    """Do not let writes activate cells below these nodes in the next loop."""
    cx = context.current()
    for node in nodes:
        cx.inactive.append(_node_of(node, "no_activate"))


def block_local(*fields: Any) -> None:
    """Cache the accessed region of these fields in a scratchpad (block-local storage) in the next loop."""
    cx = context.current()
    for field in fields:
        if not isinstance(field, Field):
            raise WujiTypeError(f"`block_local` needs fields, not {emit.describe(field)}")
        pending: list[Any] = cx.__dict__.setdefault("cached", [])
        pending.extend(leaf_number(cx, leaf) for leaf in field._leaves())


def cache_read_only(*_: Any) -> None:
    """Accepted and ignored. Hint that fields are read-only; the compiler detects that itself."""


def assume_in_range(val: Any, base: Any, low: int, high: int) -> Any:
    """Return ``val``, and assert that it is in ``[base + low, base + high)``."""
    v, b = emit.expr(val), emit.convert(base, emit.element(val))
    return Expr(context.builder().assume_range(v.id, b.id, int(low), int(high)), v.ty)


def loop_unique(val: Any, covers: Any = None) -> Any:
    """Return ``val``, and assert that it is another value in every iteration of the parallel loop.

    ``covers`` is a field with one axis, or a list of such fields: the values of all iterations are all of its indices. In lazy worlds
    (``async_mode``), loops with the same unique indices are fused. If the assertion is false, iterations race.

    ```python
    for i in range(n):
        p = ti.loop_unique(order[i], covers=x)
        x[p] += v[p] * dt
    ```
    """
    if context.compiling() is None:
        return val
    cx = context.current()
    fields = [covers] if isinstance(covers, Field) else list(covers or ())
    for field in fields:
        if not isinstance(field, Field):
            raise WujiTypeError(f"`covers` needs fields, not {emit.describe(field)}")
        if len(field.shape) != 1:
            raise WujiTypeError(f"`covers` needs fields with one axis, and this one has {len(field.shape)}")
    # All indices of a field are the numbers below its length, unless they begin elsewhere.
    count = fields[0].shape[0] if fields and not any(fields[0].offset or ()) else None
    v = emit.expr(val)
    return Expr(cx.builder.unique(v.id, count), v.ty)


def stop_grad(x: Any) -> Any:
    """Exclude a value from gradients: return it as a constant for differentiation.

    With a field, its elements are constants in the block of the call.

    ```python
    y[i] = x[i] * ti.stop_grad(x[i])
    ```
    """
    if context.compiling() is None:
        return x
    cx = context.current()
    if isinstance(x, Field):
        cx.stopped.extend(leaf_number(cx, leaf) for leaf in x._leaves())
        return None
    if isinstance(x, StructVal):
        return StructVal(x.ty, {name: stop_grad(member) for name, member in x.members.items()})
    if isinstance(x, Expr):
        return Expr(cx.builder.unary("stop_grad", x.id), x.ty)
    if isinstance(x, Matrix) and any(isinstance(part, Expr) for part in x.entries):
        return stop_grad(emit.expr(x))
    return x
