"""Scalar types and type promotion."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any


class DataType:
    """A scalar type, such as ``ti.f32``. Call it in a kernel to convert: ``ti.f32(x)``."""

    __slots__ = ("bits", "format", "ir", "kind", "name", "numpy_name")

    def __init__(self, name: str, ir: str, kind: str, bits: int, numpy_name: str, format: str) -> None:
        self.name = name
        self.ir = ir  # spelling in the IR
        self.kind = kind  # "i", "u", "f" or "b"
        self.bits = bits
        self.numpy_name = numpy_name
        self.format = format  # format character of the `struct` module

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def to_string(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return (by_name, (self.name,))

    def __call__(self, value: Any, *more: Any) -> Any:
        from ..exceptions import WujiSyntaxError
        from . import context, ops

        if context.compiling() is None:
            raise WujiSyntaxError(f"Taichi data types cannot be called outside Taichi kernels: use `ti.cast({value!r}, ti.{self.name})`")
        if more:
            raise WujiSyntaxError(f"A primitive type can only decorate a single expression: `{self.name}` takes one value")
        return ops.typed(value, self)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        """Whether this is an integer type; bool is not."""
        return self.kind in "iu"

    @property
    def is_bool(self) -> bool:
        return self.kind == "b"

    def range(self) -> tuple[int, int]:
        """Return the smallest and largest value of an integer type."""
        if self.kind == "i":
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1

    def wrap(self, value: int) -> int:
        """Wrap an integer to the range of the type."""
        value &= (1 << self.bits) - 1
        if self.kind == "i" and value >> (self.bits - 1):
            value -= 1 << self.bits
        return value

    def rounded(self, value: Any) -> Any:
        """Return one of Python's numbers as a variable of this type holds it: a float rounds, an integer wraps. Other values are returned unchanged."""
        if type(value) is int:
            return self.wrap(value) if self.is_int else value
        if type(value) is not float or not self.is_float or self.bits == 64:
            return value
        try:
            return struct.unpack(self.format, struct.pack(self.format, value))[0]
        except OverflowError:
            return math.copysign(math.inf, value)


i8 = int8 = DataType("i8", "i8", "i", 8, "int8", "b")
i16 = int16 = DataType("i16", "i16", "i", 16, "int16", "h")
i32 = int32 = DataType("i32", "i32", "i", 32, "int32", "i")
i64 = int64 = DataType("i64", "i64", "i", 64, "int64", "q")
u1 = uint1 = DataType("u1", "bool", "b", 1, "bool", "?")
u8 = uint8 = DataType("u8", "u8", "u", 8, "uint8", "B")
u16 = uint16 = DataType("u16", "u16", "u", 16, "uint16", "H")
u32 = uint32 = DataType("u32", "u32", "u", 32, "uint32", "I")
u64 = uint64 = DataType("u64", "u64", "u", 64, "uint64", "Q")
f16 = float16 = DataType("f16", "f16", "f", 16, "float16", "e")
f32 = float32 = DataType("f32", "f32", "f", 32, "float32", "f")
f64 = float64 = DataType("f64", "f64", "f", 64, "float64", "d")

ALL = (i8, i16, i32, i64, u1, u8, u16, u32, u64, f16, f32, f64)
_BY_NAME = {t.name: t for t in ALL}
_BY_IR = {t.ir: t for t in ALL}
_BY_NUMPY = {t.numpy_name: t for t in ALL}


real_types = [f16, f32, f64, float]
integer_types = [i8, i16, i32, i64, u1, u8, u16, u32, u64, int, bool]
all_types = [*real_types, *integer_types]
type_ids = [id(t) for t in all_types]


def by_name(name: str) -> DataType:
    return _BY_NAME[name]


def by_ir(name: str) -> DataType:
    return _BY_IR[name]


class Defaults:
    """Types of Python's numbers in kernels: those of the current world."""

    def __init__(self) -> None:
        # Set by `runtime`: returns the options of the current world, if there is one.
        self.config: Callable[[], Any] = lambda: None
        # Whether constants follow Taichi where Wuji is stricter: integers that do not fit a type wrap with a warning.
        self.lenient = False

    @property
    def fp(self) -> DataType:
        config = self.config()
        return f32 if config is None else config.default_fp

    @property
    def ip(self) -> DataType:
        config = self.config()
        return i32 if config is None else config.default_ip


defaults = Defaults()


def scalar_type(spec: Any) -> DataType | None:
    """Return the scalar type that a Wuji, Python, NumPy or torch type names, or None."""
    if isinstance(spec, DataType):
        return spec
    if spec is float:
        return defaults.fp
    if spec is int:
        return defaults.ip
    if spec is bool:
        return u1
    name = getattr(spec, "__name__", None) if isinstance(spec, type) else getattr(spec, "name", None)
    if isinstance(name, str) and name in _BY_NUMPY:
        return _BY_NUMPY[name]
    text = str(spec)
    if text.startswith("torch."):
        return _BY_NUMPY.get(text[6:])
    return None


def need_scalar(spec: Any) -> DataType:
    found = scalar_type(spec)
    if found is None:
        from ..exceptions import WujiSpecError

        compute = getattr(spec, "compute", None)
        if isinstance(compute, DataType):
            why = f"{spec!r} is not a type of values: it says how a field stores numbers\n  = help: kernels see them as {compute}; use that type here"
            raise WujiSpecError(why, "W0150")
        raise WujiSpecError(f"Invalid data type {spec!r}: it is not a scalar type; the scalar types are {', '.join(t.name for t in ALL)}")
    return found


def of_constant(value: Any) -> DataType | None:
    """Return the type of a Python or NumPy scalar in a kernel, or None."""
    kind = type(value)
    if kind is bool:
        return u1
    if kind is int:
        return defaults.ip
    if kind is float:
        return defaults.fp
    dtype = getattr(value, "dtype", None)
    if dtype is not None and getattr(value, "shape", None) == ():
        name = getattr(dtype, "name", "")
        if name.startswith("float"):
            return defaults.fp
        if name == "bool":
            return u1
        if name in _BY_NUMPY:
            return defaults.ip
    if isinstance(value, bool):
        return u1
    if isinstance(value, int):
        return defaults.ip
    if isinstance(value, float):
        return defaults.fp
    return None


def promote(a: DataType, b: DataType) -> DataType:
    """Return the type of ``a + b``: float over integer, then the wider type, then unsigned. Two bools give the default integer."""
    if a is b:
        return defaults.ip if a is u1 else a
    if a.kind == "f" or b.kind == "f":
        if a.kind != "f":
            return b
        if b.kind != "f":
            return a
        return a if a.bits >= b.bits else b
    if a is u1:
        return b
    if b is u1:
        return a
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return a if a.kind == "u" else b


def loses(source: DataType, target: DataType) -> bool:
    """Return whether assigning ``source`` to ``target`` warns about lost precision."""
    if source is target or source is u1:
        return False
    if source.is_float and not target.is_float:
        return True
    return source.is_float == target.is_float and source.bits > target.bits


def is_integral(spec: Any) -> bool:
    found = scalar_type(spec)
    return found is not None and not found.is_float


def is_real(spec: Any) -> bool:
    found = scalar_type(spec)
    return found is not None and found.is_float


def is_signed(spec: Any) -> bool:
    found = scalar_type(spec)
    return found is not None and found.kind in "if"
