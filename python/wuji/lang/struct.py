"""Structs as Python values, and their conversion to run-time values."""

from __future__ import annotations

from typing import Any

from ..exceptions import WujiSyntaxError, WujiTypeError
from . import context, emit
from .compound import MatrixType, StructType
from .dtypes import DataType
from .values import Expr, StructVal, is_device


class Struct:
    """A struct value: ``ti.Struct(x=1.0, v=ti.Vector([0.0, 1.0]))``."""

    def __new__(cls, *args: Any, **entries: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], dict):
            entries = {**args[0], **entries}
        elif args:
            raise WujiSyntaxError("a struct needs keyword arguments or one dictionary")
        methods = entries.pop("__struct_methods", {})
        ty = StructType(**{k: _type_of(v) for k, v in entries.items()}, __struct_methods=methods)
        if any(is_device(v) for v in entries.values()):
            return construct(ty, (), entries)
        return Struct._of(ty, {k: _value(ty.members[k], v) if isinstance(v, (dict, list, tuple)) else v for k, v in entries.items()})

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    @staticmethod
    def _of(ty: StructType, entries: dict[str, Any]) -> Struct:
        created: Struct = object.__new__(Struct)
        object.__setattr__(created, "_type", ty)
        object.__setattr__(created, "_entries", entries)
        return created

    @property
    def entries(self) -> dict[str, Any]:
        return dict(self._entries)

    @property
    def keys(self) -> list[str]:
        return list(self._entries)

    @property
    def members(self) -> list[Any]:
        return list(self._entries.values())

    @property
    def items(self) -> Any:
        return self._entries.items()

    @property
    def methods(self) -> dict[str, Any]:
        return dict(self._type.methods)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        entries = object.__getattribute__(self, "_entries")
        if name in entries:
            return entries[name]
        ty: StructType = object.__getattribute__(self, "_type")
        if name in ty.methods:
            method = ty.methods[name]
            return lambda *args, **named: method(self, *args, **named)
        raise AttributeError(f"the struct has no member `{name}`; it has {', '.join(entries)}")

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __getitem__(self, name: str) -> Any:
        return self._entries[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self._entries:
            raise AttributeError(f"the struct has no member `{name}`; it has {', '.join(self._entries)}")
        self._entries[name] = _value(self._type.members[name], value)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Any:
        return iter(self._entries.values())

    def __repr__(self) -> str:
        return repr(self.to_dict())

    def to_dict(self, include_methods: bool = False, include_ndim: bool = False) -> dict[str, Any]:
        """Return the members as a dictionary. Nested structs become dictionaries, too."""
        out: dict[str, Any] = {}
        for k, v in self._entries.items():
            out[k] = v.to_dict() if isinstance(v, Struct) else v.to_list() if hasattr(v, "to_list") else v
        if include_methods:
            out["__struct_methods"] = dict(self._type.methods)
        return out

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def in_kernel(self) -> StructVal:
        return StructVal(self._type, {k: _kernel_member(t, self._entries[k]) for k, t in self._type.members.items()})

    @classmethod
    @context.python_only
    def field(cls, members: dict[str, Any], methods: dict[str, Any] | None = None, shape: Any = None, name: str = "", offset: Any = None, needs_grad: bool = False, needs_dual: bool = False, layout: Any = None) -> Any:
        """Create a field of structs."""
        from . import field

        if not isinstance(members, dict) or methods is not None and not isinstance(methods, dict):
            raise WujiTypeError("the members and methods of a struct are dictionaries\n  = help: pass the shape by name: `ti.Struct.field({'x': ti.f32}, shape=8)`")
        ty = StructType(**members, __struct_methods=methods or {})
        options = {} if layout is None else {"layout": layout}
        return field.struct_field(ty, shape=shape, offset=offset, name=name, needs_grad=needs_grad, needs_dual=needs_dual, **options)

    def __reduce__(self) -> Any:
        return (Struct, (dict(self._entries),))


def _kernel_member(ty: Any, value: Any) -> Any:
    if isinstance(ty, StructType):
        return value.in_kernel() if isinstance(value, Struct) else value
    return emit.fit(value, ty)


def _type_of(value: Any) -> Any:
    if isinstance(value, (Struct, StructVal)):
        return value._type if isinstance(value, Struct) else value.ty
    if isinstance(value, dict):
        return StructType(**{k: _type_of(v) for k, v in value.items()})
    if isinstance(value, (DataType, MatrixType, StructType)):
        raise WujiTypeError(f"struct members are values, not types such as {value}\n  = help: use `ti.types.struct` to define a type")
    return emit.type_of(value)


def _value(ty: Any, value: Any) -> Any:
    """Convert a Python value to the type of a struct member."""
    from .matrix import Matrix

    if isinstance(ty, StructType):
        if isinstance(value, Struct):
            return value
        if isinstance(value, dict):
            return construct(ty, (), value)
        if emit.is_number(value):
            return construct(ty, (value,), {})
        raise WujiTypeError(f"{emit.describe(value)} cannot be converted to {ty}")
    if isinstance(ty, MatrixType):
        if isinstance(value, Matrix) and value.shape != ty.shape:
            raise WujiTypeError(f"shape mismatch: {list(value.shape)} and {list(ty.shape)}")
        return ty(value)
    return emit.convert_constant(value, ty)


def construct(ty: StructType, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Create a value of a struct type from constructor arguments. Missing members are zero."""
    names = list(ty.members)
    if len(args) == 1 and not named and isinstance(args[0], (Struct, StructVal, dict)):
        source = args[0]
        named = dict(source.members) if isinstance(source, StructVal) else dict(source.entries if isinstance(source, Struct) else source)
        args = ()
    if len(args) > len(names):
        raise WujiTypeError(f"{ty} has {len(names)} members, not {len(args)}")
    given = dict(zip(names, args, strict=False))
    for k, v in named.items():
        if k not in ty.members:
            raise WujiTypeError(f"{ty} has no member `{k}`")
        if k in given:
            raise WujiTypeError(f"multiple values for member `{k}`")
        given[k] = v
    in_kernel = context.compiling() is not None and any(_contains_run_time(v) for v in given.values())
    if in_kernel:
        return StructVal(ty, {k: _device_member(t, given.get(k, 0)) for k, t in ty.members.items()})
    return Struct._of(ty, {k: _value(t, given.get(k, 0)) for k, t in ty.members.items()})


def _contains_run_time(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_contains_run_time(v) for v in value.values())
    if isinstance(value, (list, tuple)):
        return any(_contains_run_time(v) for v in value)
    return is_device(value)


def _device_member(ty: Any, value: Any) -> Any:
    if isinstance(ty, StructType):
        if isinstance(value, StructVal):
            return value.load()
        if isinstance(value, Struct):
            return value.in_kernel()
        created = construct(ty, () if isinstance(value, dict) else (value,), value if isinstance(value, dict) else {})
        return created.in_kernel() if isinstance(created, Struct) else created
    return emit.fit(value, ty)


def kernel_tuple(values: list[Expr]) -> tuple[Expr, ...]:
    return tuple(values)


def dataclass(cls: type) -> StructType:
    """Define a struct type from a class: annotations are members, functions are methods.

    ```python
    @ti.dataclass
    class Ball:
        center: ti.math.vec3
        radius: ti.f32

        @ti.func
        def volume(self):
            return 4 / 3 * ti.math.pi * self.radius ** 3
    ```
    """
    if not isinstance(cls, type):
        raise WujiSyntaxError("`ti.dataclass` can only decorate a class")
    fields: dict[str, Any] = {}
    hints = dict(getattr(cls, "__annotations__", {}))
    if any(isinstance(h, str) for h in hints.values()):
        from .signatures import resolve_class

        hints = resolve_class(cls)
    for name, spec in hints.items():
        fields[name] = spec
    methods: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):
        for name, value in vars(base).items():
            if name in fields and base is cls:
                raise WujiTypeError(f"member `{name}` of a `ti.dataclass` has a default value; members cannot have default values")
            if (callable(value) and not name.startswith("__annotate")) or isinstance(value, (staticmethod, classmethod)):
                methods[name] = value
    # Constants and properties of the class are no part of a struct.
    return StructType(**fields, __struct_methods=methods, __struct_name=cls.__name__)
