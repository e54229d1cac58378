"""Fields: multi-dimensional data in a layout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import _native
from ..exceptions import WujiArrayShapeError, WujiMemberError, WujiRuntimeError, WujiRuntimeTypeError, WujiSyntaxError, WujiTypeError
from . import dtypes, host_values, recording
from .allocation import allocate
from .compound import MatrixType, StructType
from .context import python_only
from .dtypes import DataType
from .element_errors import check_key, check_rank, element_error, wrong_key
from .element_sources import ComponentFields, RecordedElement
from .enums import Layout
from .exchange import Exchange
from .matrix import Matrix
from .naming import assigned, label
from .ndarray import Element, flat_value
from .quantized import storage
from .snode import Leaf, PlaceNode, SNode
from .struct import Struct
from .struct_element import StructElement


class Field(Exchange):
    """Base class of all fields."""

    _order: Any = None  # of attributes of a mesh: in which they are stored, if it is not that of the indices

    def __init__(self, name: str = "") -> None:
        Exchange.__init__(self)
        self._name = name

    # Implemented by each kind of field.
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
        """The node that the field is placed in."""
        node = self._first.node
        if node is None:
            raise WujiRuntimeError(
                f"These field(s) are not placed: {label(self._name)}\n  = help: give it a shape, or place it: `ti.root.dense(ti.i, n).place(x)`"
            )
        return node

    @property
    def snode(self) -> SNode:
        """The field as a leaf SNode; its parent is the node that the field is placed in."""
        return PlaceNode(self.node, self._first)

    @property
    def _snode(self) -> SNode:
        return self.snode

    @property
    def _offset(self) -> tuple[int, ...]:
        return self.offset

    def _loop_range(self) -> SNode:
        return self.node

    def _get_field_members(self) -> list[Any]:
        return [self]

    @property
    def num_dims(self) -> int:
        return len(self.shape)

    def parent(self, n: int = 1) -> SNode | None:
        """Return the node that the field is placed in, or the ``n``-th ancestor."""
        return self.snode.parent(n)

    # For a 1-D field in a dynamic node, inside kernels.
    def _list(self) -> Any:
        from .access import DynamicList
        from .context import current

        current()
        if self.node.kind != "dynamic" or len(self.shape) != 1:
            raise WujiTypeError(f"field {label(self._name)} is not a single dynamic list\n  = help: select a list with the other indices: `x[i].append(v)`")
        return DynamicList(self, [])

    def append(self, *values: Any) -> Any:
        """Append an element to the list and return its index."""
        return self._list().append(*values)

    def length(self) -> Any:
        """Return the number of elements in the list."""
        return self._list().length()

    def deactivate(self) -> None:
        """Remove all elements of the list."""
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
        """Copy all elements from another field of the same shape."""
        if not isinstance(other, Field):
            raise TypeError(f"Cannot copy from a non-field object: {type(other).__name__}")
        if self.shape != other.shape:
            raise ValueError(f"ti.field shape {self.shape} does not match the source field shape {other.shape}")
        if recording.active:
            recording.copied(self, other)
        with recording.paused():
            self._copy(other)

    def _copy(self, other: Any) -> None:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            f"field {label(self._name)} can only be iterated over in kernels\n"
            "  = help: outside kernels, use `x.to_numpy()`"
        )

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("a 0-D field has no length")
        return shape[0]

    def __bool__(self) -> bool:
        return True  # whatever its length

    def __reduce__(self) -> Any:
        raise TypeError("fields cannot be pickled: their memory belongs to a world; pickle `to_numpy()` instead")

    def __str__(self) -> str:
        if self._first.node is None:
            return f"<Field: Definition of this field is incomplete>"  # noqa: F541
        return str(self.to_numpy()) if self.node.prints_elements else repr(self)


class ScalarField(Field):
    """A field of scalars."""

    def __init__(self, dtype: Any, name: str = "") -> None:
        super().__init__(name)
        self.dtype: DataType
        self.dtype, quantized = storage(dtype)
        self._leaf = Leaf(name, self.dtype.ir, quantized=quantized)

    @classmethod
    def _of(cls, leaf: Leaf, dtype: DataType) -> ScalarField:
        field = cls.__new__(cls)
        Field.__init__(field, leaf.name)
        field.dtype = dtype
        field._leaf = leaf
        return field

    def _make_companion(self, kind: str) -> Any:
        leaf = self._leaf.companion(kind)
        return None if leaf is None else ScalarField._of(leaf, self.dtype)

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
            raise element_error(e, key, self) from None
        except TypeError:
            raise wrong_key(key, self) from None

    def __setitem__(self, key: Any, value: Any) -> None:
        if recording.active:
            self._written(lambda other: other.__setitem__(key, 0.0), lambda: self.__setitem__(key, value))
        native = self._leaf.native or self._leaf.ready()
        if type(key) is not tuple:
            key = self._key(key)
        try:
            native.set(key, value)
        except _native.NativeError as e:
            raise element_error(e, key, self) from None
        except _native.ArgumentError:
            check_key(key, self)
            self[key] = host_values.fitted(value, self.dtype, f"field {label(self._name)}")

    def fill(self, val: Any) -> None:
        """Set every active element to one value."""
        if recording.active:
            self._written(lambda other: other.fill(0.0), lambda: self.fill(val))
        try:
            self._leaf.ready().fill(val)
        except _native.ArgumentError:
            self._leaf.ready().fill(host_values.filling(val, self.dtype, f"field {label(self._name)}"))

    def _core(self) -> tuple[Leaf, tuple[int, ...], DataType] | None:
        return self._leaf, self.shape, self.dtype

    def _copy(self, other: Any) -> None:
        if not isinstance(other, ScalarField):
            raise TypeError("a scalar field can only copy from another scalar field")
        if other.dtype is self.dtype and other._order is None:
            self._leaf.ready().copy_from(other._leaf.ready())
        else:
            self._store(other.to_numpy())

    @python_only
    def to_numpy(self, dtype: Any = None) -> Any:
        """Copy to a NumPy array."""
        import numpy

        out = numpy.empty(self.shape, dtype=self.dtype.numpy_name)
        self._leaf.ready().read_into(out)
        return out if dtype is None else out.astype(_numpy_type(dtype))

    @python_only
    def from_numpy(self, arr: Any) -> None:
        """Copy all elements from a NumPy array of the same shape."""
        if recording.active:
            kept = arr.copy() if hasattr(arr, "copy") else arr
            self._written(lambda other: other.fill(0.0), lambda: self.from_numpy(kept))
        self._store(arr, self._keeps_cells())

    def _store(self, arr: Any, active_only: bool = False) -> None:
        """Copy all elements from an array, or those of active cells."""
        whole = _fitting(arr, self.shape, self)
        if active_only:
            store_active(self, whole)
        else:
            self._leaf.ready().write_from(whole)

    def get_scalar_field(self, *_: int) -> ScalarField:
        return self

    def __repr__(self) -> str:
        stored = (*self._first.quantized, self.dtype)[0]
        return f"<ti.field {self._name + ' ' if self._name else ''}{stored}, shape {self.shape}>"


def _numpy_type(dtype: Any) -> Any:
    found = dtypes.scalar_type(dtype)
    return found.numpy_name if found is not None else dtype


def store_active(field: Any, values: Any) -> None:
    """Copy an array to the elements of active cells."""
    from .fills import store_active

    with recording.paused():
        store_active(field, values)


def _fitting(arr: Any, shape: tuple[int, ...], field: Any) -> Any:
    if not hasattr(arr, "shape"):
        raise TypeError(f"NumPy array expected, but {type(arr)} provided")
    if tuple(arr.shape) != shape:
        raise WujiArrayShapeError(f"ti.field shape {shape} does not match the numpy array shape {tuple(arr.shape)}")
    return host_values.fitted_array(arr, shape, field.dtype, f"field {label(field.name)}")


class ComponentField(ScalarField):
    """One component of a vector or matrix field, as a scalar field."""

    def __init__(self, whole: MatrixField, number: int) -> None:
        Field.__init__(self, f"{whole.name}.{number}" if whole.name else "")
        self.dtype = whole.dtype
        self._whole = whole
        self._number = number

    def _make_companion(self, kind: str) -> Any:
        whole = self._whole._companion(kind)
        return None if whole is None else ComponentField(whole, self._number)

    def _leaves(self) -> list[Leaf]:
        return self._whole._leaves()

    def __getitem__(self, key: Any) -> Any:
        at = self._key(key)
        check_rank(at, self)
        try:
            return self._first.ready().get_part(at, self._number)
        except _native.NativeError as e:
            raise element_error(e, at, self) from None
        except TypeError:
            raise wrong_key(at, self) from None

    def __setitem__(self, key: Any, value: Any) -> None:
        at = self._key(key)
        check_rank(at, self)
        if recording.active:
            self._written(lambda other: other.__setitem__(key, 0.0), lambda: self.__setitem__(key, value))
        try:
            self._first.ready().set_part(at, self._number, value)
        except _native.NativeError as e:
            raise element_error(e, at, self) from None
        except _native.ArgumentError:
            check_key(at, self)
            self._first.ready().set_part(at, self._number, host_values.fitted(value, self.dtype, f"field {label(self._name)}"))

    def _component(self, whole: Any) -> Any:
        return whole.reshape((*self.shape, -1))[..., self._number]

    @python_only
    def to_numpy(self, dtype: Any = None) -> Any:
        out = self._component(self._whole.to_numpy()).copy()
        return out if dtype is None else out.astype(_numpy_type(dtype))

    @python_only
    def from_numpy(self, arr: Any) -> None:
        if recording.active:
            kept = arr.copy() if hasattr(arr, "copy") else arr
            self._written(lambda other: other.fill(0.0), lambda: self.from_numpy(kept))
        self._store(arr, self._keeps_cells())

    def _store(self, arr: Any, active_only: bool = False) -> None:
        with recording.paused():
            whole = self._whole.to_numpy()
            self._component(whole)[...] = _fitting(arr, self.shape, self)
            self._whole._store(whole, active_only)

    def fill(self, val: Any) -> None:
        if recording.active:
            self._written(lambda other: other.fill(0.0), lambda: self.fill(val))
        with recording.paused():
            whole = self._whole.to_numpy()
            self._component(whole)[...] = host_values.filling(val, self.dtype, f"field {label(self._name)}")
            self._whole._store(whole, self.node.is_sparse)

    def _core(self) -> tuple[Leaf, tuple[int, ...], DataType] | None:
        return None

    def _copy(self, other: Any) -> None:
        self._store(other.to_numpy())


class MatrixField(Field):
    """A field of vectors or matrices."""

    def __init__(self, ty: MatrixType, name: str = "") -> None:
        super().__init__(name)
        self.type = ty
        self._leaf: Leaf | None = Leaf(name, ty.ir, quantized=ty.quantized)
        self._parts: list[ScalarField] | None = None

    def _make_companion(self, kind: str) -> Any:
        leaf = self._leaf.companion(kind) if self._leaf is not None else None
        parts = [part._companion(kind) for part in self._parts or []]
        if leaf is None and (not parts or parts[0] is None):
            return None
        field = MatrixField.__new__(MatrixField)
        Field.__init__(field, f"{self._name}.{kind}" if self._name else "")
        field.type, field._leaf, field._parts = self.type, leaf, parts or None
        return field

    # Element type.
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
        """Store every component in a field of its own."""
        if self._parts is None:
            assert self._leaf is not None
            # A gradient is stored as its compute type.
            stored: Any = self._leaf.quantized or (self.dtype,)
            types = stored if len(stored) > 1 else stored * self.type.count
            self._parts = [ScalarField(t, f"{self._name}.{k}" if self._name else "") for k, t in enumerate(types)]
            for part in self._parts:
                part._leaf.needed = self._leaf.needed
                part._leaf.kind = self._leaf.kind
            self._leaf = None
            # Those that exist already have the same parts.
            for kind, other in self._companions.items():
                other._leaf, other._parts = None, [part._companion(kind) for part in self._parts]
        return self._parts

    def get_scalar_field(self, *indices: int) -> ScalarField:
        """Return one component as a scalar field. Before the field is placed, each component can be placed separately."""
        number = indices[0]
        if len(indices) == 2:
            number = indices[0] * self.m + indices[1] if self.ndim == 2 else indices[0]
        elif self.ndim == 2:
            number = indices[0] * self.m
        if not 0 <= number < self.type.count:
            raise IndexError(f"{self.type} has no component {indices}")
        if self._parts is None and self._leaf is not None and self._leaf.node is not None:
            return ComponentField(self, number)
        return self._split()[number]

    # Elements.
    def __getitem__(self, key: Any) -> Any:
        at = self._key(key)
        check_rank(at, self)
        try:
            if self._parts is not None:
                return Element(ComponentFields(self._parts), at, self.type, [p[at] for p in self._parts])
            assert self._leaf is not None
            native = self._leaf.ready()
            source = RecordedElement(self) if recording.active else native
            return Element(source, at, self.type, list(native.get(at)))
        except _native.NativeError as e:
            raise element_error(e, at, self) from None
        except TypeError:
            raise wrong_key(at, self) from None

    def __setitem__(self, key: Any, value: Any) -> None:
        at = self._key(key)
        check_rank(at, self)
        flat = flat_value(self.type, value)
        if recording.active and self._parts is None:
            self._written(lambda other: other.__setitem__(key, 0.0), lambda: self.__setitem__(key, value))
        try:
            if self._parts is not None:
                for part, x in zip(self._parts, flat, strict=True):
                    part[at] = x
            else:
                assert self._leaf is not None
                self._leaf.ready().set(at, flat)
        except _native.NativeError as e:
            raise element_error(e, at, self) from None
        except _native.ArgumentError:
            check_key(at, self)
            self[at] = host_values.fitted_parts(flat, self.type, f"field {label(self._name)}")

    def fill(self, val: Any) -> None:
        """Set every active element to one value."""
        flat = flat_value(self.type, val)
        if recording.active and self._parts is None:
            self._written(lambda other: other.fill(0.0), lambda: self.fill(val))
        if self._parts is not None:
            for part, x in zip(self._parts, flat, strict=True):
                part.fill(x)
        else:
            assert self._leaf is not None
            try:
                self._leaf.ready().fill(flat)
            except _native.ArgumentError:
                self._leaf.ready().fill(host_values.filling(flat, self.type, f"field {label(self._name)}"))

    @python_only
    def to_numpy(self, keep_dims: bool = False, dtype: Any = None) -> Any:
        """Copy to a NumPy array. The axes of elements come last."""
        import numpy

        if self._parts is not None:
            stacked = numpy.stack([p.to_numpy() for p in self._parts], axis=-1)
            out = stacked.reshape(self.shape + self.type.shape)
        else:
            assert self._leaf is not None
            out = numpy.empty(self.shape + self.type.shape, dtype=self.dtype.numpy_name)
            self._leaf.ready().read_into(out)
        out = out.reshape((*self.shape, self.n) if self.m == 1 and not keep_dims else (*self.shape, self.n, self.m))
        return out if dtype is None else out.astype(_numpy_type(dtype))

    @python_only
    def from_numpy(self, arr: Any) -> None:
        """Copy all elements from a NumPy array. The axes of elements come last."""
        if self.m == 1 and tuple(getattr(arr, "shape", ()))[len(self.shape) :] in ((self.n,), (self.n, 1)):
            arr = arr.reshape(tuple(arr.shape)[: len(self.shape)] + self.type.shape)
        whole = _fitting(arr, self.shape + self.type.shape, self)
        if self._parts is not None:
            for k, part in enumerate(self._parts):
                part.from_numpy(whole.reshape((*self.shape, -1))[..., k])
            return
        if recording.active:
            kept = whole.copy()
            self._written(lambda other: other.fill(0.0), lambda: self.from_numpy(kept))
        self._store(whole, self._keeps_cells())

    def _store(self, arr: Any, active_only: bool = False) -> None:
        """Copy all elements from an array, or those of active cells."""
        whole = _fitting(arr.reshape(self.shape + self.type.shape), self.shape + self.type.shape, self)
        if self._parts is not None:
            for k, part in enumerate(self._parts):
                part._store(whole.reshape((*self.shape, -1))[..., k], active_only)
        elif active_only:
            store_active(self, whole)
        else:
            assert self._leaf is not None
            self._leaf.ready().write_from(whole)

    def _core(self) -> tuple[Leaf, tuple[int, ...], DataType] | None:
        return None if self._leaf is None else (self._leaf, self.shape + self.type.shape, self.dtype)

    def _copy(self, other: Any) -> None:
        if not isinstance(other, MatrixField) or other.type.shape != self.type.shape:
            raise WujiTypeError("a vector or matrix field can only copy from a field with the same element shape")
        if self._leaf is not None and other._leaf is not None and other.type == self.type and other._order is None:
            self._leaf.ready().copy_from(other._leaf.ready())
        else:
            self._store(other.to_numpy())

    def __repr__(self) -> str:
        return f"<ti field {self._name + ' ' if self._name else ''}of {self.type}, shape {self.shape}>"


class StructField(Field):
    """A field of structs: one field per member."""

    def __init__(self, ty: StructType, name: str = "") -> None:
        super().__init__(name)
        self.struct_type = ty
        self._members: dict[str, Field] = {
            k: _member_field(ty.quantized.get(k, t), f"{name}.{k}" if name else k) for k, t in ty.members.items()
        }

    def _make_companion(self, kind: str) -> Any:
        members = {k: m._companion(kind) for k, m in self._members.items()}
        members = {k: m for k, m in members.items() if m is not None}
        if not members:
            return None
        field = StructField.__new__(StructField)
        Field.__init__(field, f"{self._name}.{kind}" if self._name else "")
        field.struct_type = StructType(
            **{k: m.struct_type if isinstance(m, StructField) else self.struct_type.members[k] for k, m in members.items()},
            __struct_methods=self.struct_type.methods,
        )
        field._members = members
        return field

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
    def field_dict(self) -> dict[str, Field]:
        return dict(self._members)

    @property
    def struct_methods(self) -> dict[str, Any]:
        return self.struct_type.methods

    @property
    def dtype(self) -> StructType:
        return self.struct_type

    def get_member_field(self, key: str) -> Field:
        """Return the field of a member."""
        return self._member(key)

    def _member(self, key: Any) -> Field:
        for name, member in self._members.items():
            if name == key:
                return member
        raise WujiMemberError(f"field {label(self._name)} has no member {key!r}; it has {', '.join(self._members)}")

    def _entries_of(self, what: Any) -> dict[str, Any]:
        if not isinstance(what, dict):
            raise WujiRuntimeTypeError(f"a struct field needs a dictionary of arrays, one for each member, not {type(what).__name__}")
        return what

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
        check_rank(at, self)
        return StructElement(self, at)

    def __setitem__(self, key: Any, value: Any) -> None:
        at = self._key(key)
        check_rank(at, self)
        if isinstance(value, dict):
            entries = value
        elif isinstance(value, Struct):
            entries = value.entries
        else:
            entries = dict.fromkeys(self._members, value)
        for k, v in entries.items():
            self._member(k)[at] = v  # type: ignore[index]

    def fill(self, val: Any) -> None:
        """Set every active element; ``val`` is a struct, a dict, or one value for all members."""
        for k, member in self._members.items():
            entries = val.entries if isinstance(val, Struct) else val
            if isinstance(entries, dict) and k not in entries:
                raise WujiMemberError(f"field {label(self._name)}: there is no value for member {k!r}")
            member.fill(entries[k] if isinstance(entries, dict) else val)  # type: ignore[attr-defined]

    @python_only
    def to_numpy(self) -> dict[str, Any]:
        """Copy each member to a NumPy array; return them by name."""
        return {k: f.to_numpy() for k, f in self._members.items()}

    @python_only
    def from_numpy(self, arr: dict[str, Any]) -> None:
        for k, v in self._entries_of(arr).items():
            self._member(k).from_numpy(v)

    @python_only
    def to_torch(self, device: Any = None) -> dict[str, Any]:
        return {k: f.to_torch(device) for k, f in self._members.items()}

    @python_only
    def from_torch(self, arr: dict[str, Any]) -> None:
        for k, v in self._entries_of(arr).items():
            self._member(k).from_torch(v)

    def _copy(self, other: Any) -> None:
        if not isinstance(other, StructField) or other.keys != self.keys:
            raise TypeError("a struct field can only copy from a struct field with the same members")
        for k, member in self._members.items():
            member._copy(other._members[k])

    def __repr__(self) -> str:
        return f"<ti field {self._name + ' ' if self._name else ''}of {self.struct_type}, shape {self.shape}>"


def _member_field(ty: Any, name: str) -> Field:
    if isinstance(ty, StructType):
        return StructField(ty, name)
    if isinstance(ty, MatrixType):
        return MatrixField(ty, name)
    return ScalarField(ty, name)


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
    """Create a field.

    Args:
        dtype: Element type: scalar, vector, matrix or struct.
        shape: Extent of each axis. Without a shape, place the field in a layout: ``ti.root.dense(ti.i, n).place(x)``.
        order: Memory order of the axes, outermost first, such as ``"ji"``.
        name: Name for messages. The default is the variable that the field is assigned to.
        offset: Index of the first element.
        needs_grad: Also allocate the gradient, `x.grad`.
        needs_dual: Also allocate the tangent of forward mode, `x.dual`.

    ```python
    pixels = ti.field(ti.f32, shape=(640, 320))
    ```
    """
    if isinstance(dtype, MatrixType):
        return matrix_field(dtype, shape=shape, order=order, name=name, offset=offset, needs_grad=needs_grad, needs_dual=needs_dual)
    if isinstance(dtype, StructType):
        return struct_field(dtype, shape=shape, name=name, offset=offset, needs_grad=needs_grad, needs_dual=needs_dual)
    created = ScalarField(dtype, name or assigned())
    created._need(needs_grad, needs_dual)
    allocate(created, shape, order, offset)
    return created


def _is_split(layout: Layout, shape: Any) -> bool:
    """Whether each component gets a tree of its own. Without a shape, `place` decides where components are."""
    if layout not in (Layout.AOS, Layout.SOA):
        raise WujiTypeError(f"`layout` must be ti.Layout.AOS or ti.Layout.SOA, not {layout!r}")
    return layout is Layout.SOA and shape is not None


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
    created = MatrixField(ty, name or assigned())
    created._need(needs_grad, needs_dual)
    parts: list[Field] | None = list(created._split()) if _is_split(layout, shape) else None
    allocate(created, shape, order, offset, parts)
    return created


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
    created = StructField(ty, name or assigned())
    created._need(needs_grad, needs_dual)
    parts = list(created._members.values()) if _is_split(layout, shape) else None
    allocate(created, shape, order, offset, parts)
    return created
