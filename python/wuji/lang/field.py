"""Fields: elements at coordinates, wherever the layout puts them."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

from .. import _native
from ..exceptions import NotYet, WujiRuntimeError, WujiTypeError
from . import dtypes, runtime, torch_gpu
from .compound import MatrixType, StructType
from .context import python_only
from .dtypes import DataType
from .matrix import Matrix
from .naming import assigned
from .ndarray import Element, flat_value, shape_of
from .snode import Axis, FieldsBuilder, Leaf, PlaceNode, SNode
from .struct import Struct


class Layout(enum.Enum):
    """How the components of a field lie in memory: those of one element together, or each component by itself."""

    AOS = 1
    SOA = 2


class Field:
    """What all fields have."""

    def __init__(self, name: str = "") -> None:
        self._name = name
        self.grad: Any = None
        self.dual: Any = None
        self._builder: FieldsBuilder | None = None  # of a field with a shape: its own tree

    def __del__(self) -> None:
        # A tree of one field goes with it, at once.
        builder = self.__dict__.get("_builder")
        if builder is not None:
            for leaf in self._leaves():
                leaf.native = None
                for node in leaf.node.path_from_root() if leaf.node is not None else ():
                    node.cells = None
            if builder.tree is not None:
                builder.tree.destroyed = True
                builder.tree = None
                builder.root.children.clear()

    # To be said by each kind.
    def _leaves(self) -> list[Leaf]:
        raise NotImplementedError

    def _place(self, node: SNode, offset: tuple[int, ...] | None) -> None:
        raise NotImplementedError

    @property
    def _first(self) -> Leaf:
        return self._leaves()[0]

    @property
    def name(self) -> str:
        return self._name

    @property
    def node(self) -> SNode:
        """The node it is placed in."""
        node = self._first.node
        if node is None:
            raise WujiRuntimeError(
                f"field {self._name or '(without a name)'} has no place yet\n  = help: give it a shape, or place it: `ti.root.dense(ti.i, n).place(x)`"
            )
        return node

    @property
    def snode(self) -> SNode:
        """Itself as the end of its path, whose parent is the node it is placed in."""
        return PlaceNode(self.node)

    def parent(self, n: int = 1) -> SNode | None:
        """The node it is placed in, or one above that."""
        return self.snode.parent(n)

    # Of a field whose only node is a list, in kernels.
    def _list(self) -> Any:
        from .access import DynamicList
        from .context import current

        current()
        if self.node.kind != "dynamic" or len(self.shape) != 1:
            raise WujiTypeError(f"field {self._name or '(without a name)'} is no list by itself; which of its lists is meant is said by its other indices: `x[i].append(v)`")
        return DynamicList(self, [])

    def append(self, *values: Any) -> Any:
        """Adds an element at the end of the list; gives its number."""
        return self._list().append(*values)

    def length(self) -> Any:
        """How many elements the list has."""
        return self._list().length()

    def deactivate(self) -> None:
        """Removes all elements of the list."""
        self._list().deactivate()

    @property
    def shape(self) -> tuple[int, ...]:
        node = self._first.node
        return node.shape if node is not None else ()

    @property
    def offset(self) -> tuple[int, ...]:
        return self._first.offset or (0,) * len(self.shape)

    def _key(self, key: Any) -> tuple[int, ...]:
        if key is None:
            return ()
        if isinstance(key, tuple):
            if len(key) == 1 and key[0] is None:
                return ()
            return key
        if isinstance(key, (list, Matrix)) or hasattr(key, "tolist") and getattr(key, "shape", ()) != ():
            return tuple(int(k) for k in key)
        return (key,)

    @python_only
    def copy_from(self, other: Any) -> None:
        """Takes all elements from another field of the same shape."""
        if not isinstance(other, Field):
            raise TypeError(f"`copy_from` takes a field, not {type(other).__name__}")
        if self.shape != other.shape:
            raise ValueError(f"fields of shapes {self.shape} and {other.shape}")
        self._copy(other)

    def _copy(self, other: Any) -> None:
        raise NotImplementedError

    @python_only
    def to_numpy(self) -> Any:
        raise NotImplementedError

    @python_only
    def from_numpy(self, arr: Any) -> None:
        raise NotImplementedError

    @python_only
    def to_torch(self, device: Any = None) -> Any:
        """A copy as a torch tensor; without the host, if it goes to the GPU that kernels run on."""
        import torch

        core = self._core()
        if core is not None and device is not None:
            leaf, shape, dtype = core
            native = leaf.ready()
            if torch_gpu.is_near(torch, device, native.gpu):
                out = torch_gpu.empty(torch, shape, dtype, device)
                if out is not None:
                    native.read_into(out)
                    return out
        return torch.from_numpy(self.to_numpy()).to(device)

    @python_only
    def from_torch(self, arr: Any) -> None:
        """Takes all elements from a torch tensor; without the host, if it lies on the GPU that kernels run on."""
        import torch

        core = self._core()
        if core is not None and getattr(arr, "is_cuda", False):
            leaf, shape, dtype = core
            native = leaf.ready()
            # A matrix of one column is as good as a vector.
            flat = arr[..., 0] if tuple(arr.shape) == (*shape, 1) and len(shape) > len(self.shape) else arr
            near = torch_gpu.fitting(torch, flat, shape, dtype, native.gpu)
            if near is not None:
                native.write_from(near)
                return
        self.from_numpy(arr.detach().cpu().numpy())

    def _core(self) -> tuple[Leaf, tuple[int, ...], DataType] | None:
        """The field of the core that has all elements, if there is one, and the shape and type of its numbers."""
        return None

    @python_only
    def to_paddle(self, place: Any = None) -> Any:
        import paddle

        return paddle.to_tensor(self.to_numpy(), place=place)

    @python_only
    def from_paddle(self, arr: Any) -> None:
        self.from_numpy(arr.numpy())

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """A copy, for `numpy.asarray(x)` and whatever calls it, such as plots."""
        found = self.to_numpy()
        if isinstance(found, dict):
            raise TypeError("a field of structs is several arrays; `to_numpy` gives them by name")
        return found if dtype is None else found.astype(dtype)

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            f"field {self._name or '(without a name)'} is looped over in kernels\n"
            "  = help: outside of kernels, take `x.to_numpy()`"
        )

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("a field without indices has no length")
        return shape[0]

    def __reduce__(self) -> Any:
        raise TypeError("fields cannot be pickled: their memory belongs to a world; take `to_numpy()`")

    def __str__(self) -> str:
        if self._first.node is None:
            return f"<Field: Definition of this field is incomplete>"  # noqa: F541
        return str(self.to_numpy()) if not self.node.is_sparse else repr(self)


def _check_rank(key: tuple[Any, ...], field: Field) -> None:
    rank = len(field.shape)
    if len(key) != rank:
        _ = field.node  # one without a place has no indices at all, and says so
        raise IndexError(f"field {field.name or '(without a name)'} has {rank} indices, not {len(key)}")


class ScalarField(Field):
    """A field of numbers."""

    def __init__(self, dtype: Any, name: str = "") -> None:
        super().__init__(name)
        self.dtype: DataType = dtypes.need_scalar(dtype)
        self._leaf = Leaf(name, self.dtype.ir)

    def _leaves(self) -> list[Leaf]:
        return [self._leaf]

    def _place(self, node: SNode, offset: tuple[int, ...] | None) -> None:
        self._leaf.place(node, offset)

    def __getitem__(self, key: Any) -> Any:
        native = self._leaf.native or self._leaf.ready()
        if type(key) is not tuple:
            key = self._key(key)
        try:
            return native.get(key)
        except _native.NativeError as e:
            raise _element_error(e, key, self) from None

    def __setitem__(self, key: Any, value: Any) -> None:
        native = self._leaf.native or self._leaf.ready()
        if type(key) is not tuple:
            key = self._key(key)
        try:
            native.set(key, value)
        except _native.NativeError as e:
            raise _element_error(e, key, self) from None

    def fill(self, val: Any) -> None:
        """Puts one number into every element that exists."""
        self._leaf.ready().fill(val)

    def _core(self) -> tuple[Leaf, tuple[int, ...], DataType] | None:
        return self._leaf, self.shape, self.dtype

    def _copy(self, other: Any) -> None:
        if not isinstance(other, ScalarField):
            raise TypeError("a field of numbers takes the elements of another field of numbers")
        if other.dtype is self.dtype:
            self._leaf.ready().copy_from(other._leaf.ready())
        else:
            self.from_numpy(other.to_numpy())

    @python_only
    def to_numpy(self, dtype: Any = None) -> Any:
        """A copy as a NumPy array."""
        import numpy

        out = numpy.empty(self.shape, dtype=self.dtype.numpy_name)
        self._leaf.ready().read_into(out)
        return out if dtype is None else out.astype(_numpy_type(dtype))

    @python_only
    def from_numpy(self, arr: Any) -> None:
        """Takes all elements from a NumPy array of the same shape."""
        self._leaf.ready().write_from(_fitting(arr, self.shape, self.dtype))

    def get_scalar_field(self, *_: int) -> ScalarField:
        return self

    def __repr__(self) -> str:
        return f"<ti.field {self._name + ' ' if self._name else ''}{self.dtype}, shape {self.shape}>"


def _numpy_type(dtype: Any) -> Any:
    found = dtypes.scalar_type(dtype)
    return found.numpy_name if found is not None else dtype


def _fitting(arr: Any, shape: tuple[int, ...], dtype: DataType) -> Any:
    import numpy

    if not hasattr(arr, "shape"):
        raise TypeError(f"{type(arr).__name__} is no NumPy array")
    if tuple(arr.shape) != shape:
        raise ValueError(f"an array of shape {tuple(arr.shape)} for a field of shape {shape}")
    return numpy.ascontiguousarray(arr, dtype=dtype.numpy_name)


def _element_error(e: _native.NativeError, key: Any, field: Field) -> Exception:
    from .errors import told

    if len(key) != len(field.shape):
        return IndexError(f"field {field.name or '(without a name)'} has {len(field.shape)} indices, not {len(key)}")
    if e.code in ("W0111", "W0401"):
        return IndexError(str(e))
    return told(e)


class ComponentField(ScalarField):
    """One component of a field of vectors, as a field."""

    def __init__(self, whole: MatrixField, number: int) -> None:
        Field.__init__(self, f"{whole.name}.{number}" if whole.name else "")
        self.dtype = whole.dtype
        self._whole = whole
        self._number = number

    def _leaves(self) -> list[Leaf]:
        return self._whole._leaves()

    def __getitem__(self, key: Any) -> Any:
        return self._first.ready().get_part(self._key(key), self._number)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._first.ready().set_part(self._key(key), self._number, value)

    def _component(self, whole: Any) -> Any:
        return whole.reshape((*self.shape, -1))[..., self._number]

    @python_only
    def to_numpy(self, dtype: Any = None) -> Any:
        out = self._component(self._whole.to_numpy()).copy()
        return out if dtype is None else out.astype(_numpy_type(dtype))

    @python_only
    def from_numpy(self, arr: Any) -> None:
        whole = self._whole.to_numpy()
        self._component(whole)[...] = _fitting(arr, self.shape, self.dtype)
        self._whole.from_numpy(whole)

    def fill(self, val: Any) -> None:
        whole = self._whole.to_numpy()
        self._component(whole)[...] = val
        self._whole.from_numpy(whole)

    def _core(self) -> tuple[Leaf, tuple[int, ...], DataType] | None:
        return None

    def _copy(self, other: Any) -> None:
        self.from_numpy(other.to_numpy())


class MatrixField(Field):
    """A field of vectors or matrices."""

    def __init__(self, ty: MatrixType, name: str = "") -> None:
        super().__init__(name)
        self.type = ty
        self._leaf: Leaf | None = Leaf(name, ty.ir)
        self._parts: list[ScalarField] | None = None

    # What it is.
    @property
    def n(self) -> int:
        return self.type.n

    @property
    def m(self) -> int:
        return self.type.m

    @property
    def ndim(self) -> int:
        return self.type.ndim

    @property
    def dtype(self) -> DataType:
        return self.type.dtype

    @property
    def element_shape(self) -> tuple[int, ...]:
        return self.type.shape

    def _leaves(self) -> list[Leaf]:
        if self._parts is not None:
            return [p._leaf for p in self._parts]
        assert self._leaf is not None
        return [self._leaf]

    def _place(self, node: SNode, offset: tuple[int, ...] | None) -> None:
        for leaf in self._leaves():
            leaf.place(node, offset)

    def _split(self) -> list[ScalarField]:
        """Gives every component a place of its own."""
        if self._parts is None:
            self._parts = [ScalarField(self.dtype, f"{self._name}.{k}" if self._name else "") for k in range(self.type.count)]
            self._leaf = None
        return self._parts

    def get_scalar_field(self, *indices: int) -> ScalarField:
        """One component as a field; where it has no place yet, it can be placed by itself."""
        number = indices[0]
        if len(indices) == 2:
            number = indices[0] * self.m + indices[1] if self.ndim == 2 else indices[0]
        elif self.ndim == 2:
            number = indices[0] * self.m
        if not 0 <= number < self.type.count:
            raise IndexError(f"a {self.type} has no component {indices}")
        if self._parts is None and self._leaf is not None and self._leaf.node is not None:
            return ComponentField(self, number)
        return self._split()[number]

    # Elements.
    def __getitem__(self, key: Any) -> Any:
        at = self._key(key)
        _check_rank(at, self)
        try:
            if self._parts is not None:
                return SplitElement(self, at)
            assert self._leaf is not None
            native = self._leaf.ready()
            return Element(native, at, self.type, list(native.get(at)))
        except _native.NativeError as e:
            raise _element_error(e, at, self) from None

    def __setitem__(self, key: Any, value: Any) -> None:
        at = self._key(key)
        _check_rank(at, self)
        flat = flat_value(self.type, value)
        try:
            if self._parts is not None:
                for part, x in zip(self._parts, flat, strict=True):
                    part[at] = x
            else:
                assert self._leaf is not None
                self._leaf.ready().set(at, flat)
        except _native.NativeError as e:
            raise _element_error(e, at, self) from None

    def fill(self, val: Any) -> None:
        """Puts one value into every element that exists."""
        flat = flat_value(self.type, val)
        if self._parts is not None:
            for part, x in zip(self._parts, flat, strict=True):
                part.fill(x)
        else:
            assert self._leaf is not None
            self._leaf.ready().fill(flat)

    @python_only
    def to_numpy(self, keep_dims: bool = False, dtype: Any = None) -> Any:
        """A copy as a NumPy array; axes of elements come last."""
        import numpy

        if self._parts is not None:
            stacked = numpy.stack([p.to_numpy() for p in self._parts], axis=-1)
            out = stacked.reshape(self.shape + self.type.shape)
        else:
            assert self._leaf is not None
            out = numpy.empty(self.shape + self.type.shape, dtype=self.dtype.numpy_name)
            self._leaf.ready().read_into(out)
        if keep_dims and self.ndim == 1:
            out = out[..., None]
        return out if dtype is None else out.astype(_numpy_type(dtype))

    @python_only
    def from_numpy(self, arr: Any) -> None:
        """Takes all elements from a NumPy array; axes of elements come last."""
        if self.ndim == 1 and tuple(getattr(arr, "shape", ())) == (*self.shape, self.n, 1):
            arr = arr[..., 0]
        whole = _fitting(arr, self.shape + self.type.shape, self.dtype)
        if self._parts is not None:
            flat = whole.reshape((*self.shape, -1))
            for k, part in enumerate(self._parts):
                part.from_numpy(flat[..., k])
        else:
            assert self._leaf is not None
            self._leaf.ready().write_from(whole)

    def _core(self) -> tuple[Leaf, tuple[int, ...], DataType] | None:
        return None if self._leaf is None else (self._leaf, self.shape + self.type.shape, self.dtype)

    def _copy(self, other: Any) -> None:
        if not isinstance(other, MatrixField) or other.type.shape != self.type.shape:
            raise TypeError("a field of vectors takes the elements of another one with as many components")
        if self._leaf is not None and other._leaf is not None and other.type == self.type:
            self._leaf.ready().copy_from(other._leaf.ready())
        else:
            self.from_numpy(other.to_numpy())

    def __repr__(self) -> str:
        return f"<ti field {self._name + ' ' if self._name else ''}of {self.type}, shape {self.shape}>"


class SplitElement(Element):
    """An element whose components lie in fields of their own."""

    __slots__ = ()

    def __new__(cls, field: MatrixField, at: tuple[int, ...]) -> Any:
        parts = field._split()
        return Element(_Parts(parts), at, field.type, [p[at] for p in parts])


class _Parts:
    """Several fields, used like one with as many components."""

    def __init__(self, parts: list[ScalarField]) -> None:
        self.parts = parts

    def set_part(self, at: tuple[int, ...], number: int, value: Any) -> None:
        self.parts[number][at] = value

    def set(self, at: tuple[int, ...], values: tuple[Any, ...]) -> None:
        for part, value in zip(self.parts, values, strict=True):
            part[at] = value


class StructField(Field):
    """A field of structs: a field for each member, side by side."""

    def __init__(self, ty: StructType, name: str = "") -> None:
        super().__init__(name)
        self.struct_type = ty
        self._members: dict[str, Field] = {k: _member_field(t, f"{name}.{k}" if name else k) for k, t in ty.members.items()}

    @property
    def keys(self) -> list[str]:
        return list(self._members)

    @property
    def members(self) -> list[Field]:
        return list(self._members.values())

    @property
    def items(self) -> Any:
        return self._members.items()

    @property
    def dtype(self) -> StructType:
        return self.struct_type

    def get_member_field(self, key: str) -> Field:
        """The field of one member."""
        return self._members[key]

    def __getattr__(self, name: str) -> Any:
        members = self.__dict__.get("_members", {})
        if name in members:
            return members[name]
        raise AttributeError(f"the field has no member `{name}`")

    def _leaves(self) -> list[Leaf]:
        return [leaf for f in self._members.values() for leaf in f._leaves()]

    def _place(self, node: SNode, offset: tuple[int, ...] | None) -> None:
        for member in self._members.values():
            member._place(node, offset)

    def __getitem__(self, key: Any) -> Any:
        at = self._key(key)
        _check_rank(at, self)
        return StructElement(self, at)

    def __setitem__(self, key: Any, value: Any) -> None:
        at = self._key(key)
        _check_rank(at, self)
        if isinstance(value, dict):
            entries = value
        elif isinstance(value, Struct):
            entries = value.entries
        else:
            entries = dict.fromkeys(self._members, value)
        for k, v in entries.items():
            self._members[k][at] = v  # type: ignore[index]

    def fill(self, val: Any) -> None:
        """Puts one value into every member of every element."""
        for k, member in self._members.items():
            entry = val.entries[k] if isinstance(val, Struct) else val[k] if isinstance(val, dict) else val
            member.fill(entry)  # type: ignore[attr-defined]

    @python_only
    def to_numpy(self) -> dict[str, Any]:
        """Copies of the members as NumPy arrays, by their names."""
        return {k: f.to_numpy() for k, f in self._members.items()}

    @python_only
    def from_numpy(self, arr: dict[str, Any]) -> None:
        for k, v in arr.items():
            self._members[k].from_numpy(v)

    @python_only
    def to_torch(self, device: Any = None) -> dict[str, Any]:
        return {k: f.to_torch(device) for k, f in self._members.items()}

    @python_only
    def from_torch(self, arr: dict[str, Any]) -> None:
        for k, v in arr.items():
            self._members[k].from_torch(v)

    def _copy(self, other: Any) -> None:
        if not isinstance(other, StructField) or other.keys != self.keys:
            raise TypeError("a field of structs takes the elements of another one with the same members")
        for k, member in self._members.items():
            member._copy(other._members[k])

    def __repr__(self) -> str:
        return f"<ti field {self._name + ' ' if self._name else ''}of {self.struct_type}, shape {self.shape}>"


class StructElement(Struct):
    """An element of a field of structs: writing to its members writes to the field."""

    def __new__(cls, field: StructField, at: tuple[int, ...]) -> Any:
        made: Any = object.__new__(cls)
        object.__setattr__(made, "_type", field.struct_type)
        object.__setattr__(made, "_field", field)
        object.__setattr__(made, "_at", at)
        return made

    @property
    def _entries(self) -> dict[str, Any]:
        return {k: f[self._at] for k, f in self._field._members.items()}

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self._field._members:
            raise AttributeError(f"the struct has no member `{name}`")
        self._field._members[name][self._at] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        field = object.__getattribute__(self, "_field")
        if name in field._members:
            return field._members[name][object.__getattribute__(self, "_at")]
        ty = object.__getattribute__(self, "_type")
        if name in ty.methods:
            method = ty.methods[name]
            return lambda *args, **named: method(self, *args, **named)
        raise AttributeError(f"the struct has no member `{name}`")

    def __reduce__(self) -> Any:
        return (Struct, (self.entries,))


def _member_field(ty: Any, name: str) -> Field:
    if isinstance(ty, StructType):
        return StructField(ty, name)
    if isinstance(ty, MatrixType):
        return MatrixField(ty, name)
    return ScalarField(ty, name)


def _no_gradients(needs_grad: bool, needs_dual: bool) -> None:
    if needs_grad or needs_dual:
        raise NotYet("`needs_grad`: automatic differentiation is not yet in this version", "W0607")


def _give_shape(field: Field, shape: Any, order: str | None, offset: Any, parts: list[Field] | None = None) -> None:
    """Makes a tree for one field: dense, in the order of its indices unless said otherwise."""
    if shape is None:
        if offset is not None:
            raise WujiRuntimeError("an offset without a shape\n  = help: fields without a shape get it where they are placed: `.place(x, offset=...)`")
        if order is not None:
            raise WujiRuntimeError("an order without a shape")
        runtime.current()
        return
    extents = shape_of(shape)
    for extent in extents:
        if extent < 1:
            raise WujiRuntimeError(f"a field of shape {extents}: every extent is at least 1", "W0101")
    if len(extents) > 8:
        raise WujiRuntimeError(f"a field with {len(extents)} indices; there are at most 8", "W0103")
    where = None if offset is None else shape_of(offset)
    if where is not None and len(where) != len(extents):
        raise WujiRuntimeError(f"the shape {extents} has {len(extents)} numbers and the offset {where} has {len(where)}", "W0104")
    if order is not None:
        if sorted(order) != list("ijklmnop"[: len(extents)]):
            raise WujiRuntimeError(f"the order {order!r} does not name each of the {len(extents)} axes once")
    builder = FieldsBuilder()
    for part in parts or [field]:
        node = builder.root
        if order is not None:
            for letter in order:
                axis = "ijklmnop".index(letter)
                node = node.dense(Axis(axis), extents[axis])
        elif extents:
            node = node.dense(Axis(*range(len(extents))), extents)
        part._place(node, where)
    field._builder = builder


@python_only
def field(
    dtype: Any,
    shape: Any = None,
    order: str | None = None,
    name: str = "",
    offset: Any = None,
    needs_grad: bool = False,
    needs_dual: bool = False,
) -> Any:
    """A field: ``ti.field(ti.f32, shape=(640, 320))``. Without a shape it gets its place in a layout later."""
    _no_gradients(needs_grad, needs_dual)
    if isinstance(dtype, MatrixType):
        return matrix_field(dtype, shape=shape, order=order, name=name, offset=offset)
    if isinstance(dtype, StructType):
        return struct_field(dtype, shape=shape, name=name, offset=offset)
    made = ScalarField(dtype, name or assigned())
    _give_shape(made, shape, order, offset)
    return made


def matrix_field(
    ty: MatrixType,
    shape: Any = None,
    order: str | None = None,
    name: str = "",
    offset: Any = None,
    needs_grad: bool = False,
    needs_dual: bool = False,
    layout: Layout = Layout.AOS,
    ndim: int | None = None,
) -> MatrixField:
    _no_gradients(needs_grad, needs_dual)
    made = MatrixField(ty, name or assigned())
    parts: list[Field] | None = None
    if layout is Layout.SOA:
        if shape is None:
            raise WujiRuntimeError("`layout` without a shape: components are apart where each is placed by itself")
        parts = list(made._split())
    elif layout is not Layout.AOS:
        raise WujiTypeError(f"`layout` is ti.Layout.AOS or ti.Layout.SOA, not {layout!r}")
    _give_shape(made, shape, order, offset, parts)
    return made


def struct_field(
    ty: StructType,
    shape: Any = None,
    offset: Any = None,
    name: str = "",
    needs_grad: bool = False,
    needs_dual: bool = False,
    layout: Layout = Layout.AOS,
    order: str | None = None,
) -> StructField:
    _no_gradients(needs_grad, needs_dual)
    made = StructField(ty, name or assigned())
    parts = list(made._members.values()) if layout is Layout.SOA else None
    _give_shape(made, shape, order, offset, parts)
    return made
