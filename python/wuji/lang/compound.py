"""Compound types (vectors, matrices, structs) and parameter annotations."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from ..exceptions import WujiSpecError, WujiSyntaxError, WujiTypeError
from . import dtypes
from .context import python_only
from .dtypes import DataType
from .quantized import QuantizedType, flat_types, storage

if TYPE_CHECKING:
    from .ndarray import Ndarray


# The most components a vector, matrix or struct may have.
MAX_COMPONENTS = 1 << 16
# The most axes an array may have.
MAX_AXES = 8


class CompoundType:
    """Base class of types that are not scalar."""

    __slots__ = ()


class MatrixType(CompoundType):
    """A vector or matrix type: ``ti.types.vector(n, dtype)`` or ``ti.types.matrix(n, m, dtype)``. Call it to create a value.

    With a quantized type, ``dtype`` is what kernels see, and ``quantized`` how a field stores the components.
    """

    __slots__ = ("dtype", "ir", "m", "n", "ndim", "quantized", "shape")

    def __init__(self, n: int, m: int, ndim: int, dtype: Any = None) -> None:
        n, m = _extent(n), _extent(m)
        if ndim == 2 and n * m > MAX_COMPONENTS:
            raise WujiTypeError(f"a matrix has at most {MAX_COMPONENTS} components, not {n} x {m}\n  = help: use a field or an array")
        self.n = n
        self.m = m
        self.ndim = ndim
        self.dtype: DataType
        self.dtype, self.quantized = storage(float if dtype is None else dtype)
        given = len(flat_types(dtype))
        if given not in (1, self.count):
            raise WujiTypeError(f"{given} types for the {self.count} components of a vector or matrix\n  = help: give one type, or one for each component")
        self.shape: tuple[int, ...] = (n, m)[:ndim]
        self.ir = "x".join([self.dtype.ir, *map(str, self.shape)])

    def __repr__(self) -> str:
        if self.ndim == 1:
            return f"vector({self.n}, {self.dtype})"
        return f"matrix({self.n}, {self.m}, {self.dtype})"

    def to_string(self) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MatrixType) and self.ir == other.ir

    def __hash__(self) -> int:
        return hash(self.ir)

    @property
    def count(self) -> int:
        return self.n * self.m if self.ndim == 2 else self.n

    def get_shape(self) -> tuple[int, ...]:
        return self.shape

    def with_dtype(self, dtype: DataType) -> MatrixType:
        return self if dtype is self.dtype else MatrixType(self.n, self.m, self.ndim, dtype)

    def __call__(self, *args: Any) -> Any:
        """Create a value from components, from concatenated vectors and matrices, or from one scalar for all components."""
        from . import matrix

        return matrix.construct(self, args)

    @python_only
    def field(self, **options: Any) -> Any:
        from . import field

        return field.matrix_field(self, **options)

    @python_only
    def ndarray(self, shape: Any, **options: Any) -> Ndarray:
        from . import ndarray

        return ndarray.ndarray(self, shape, **options)


def _extent(given: Any) -> int:
    """An extent of a vector or matrix: any integer, also one of NumPy's."""
    if hasattr(given, "__index__") and not isinstance(given, bool) and getattr(given, "shape", ()) == ():
        extent = operator.index(given)
        if 1 <= extent < MAX_COMPONENTS:
            return extent
    raise WujiTypeError(f"the extents of a vector or matrix must be 1 to {MAX_COMPONENTS - 1}, not {given!r}")


class VectorType(MatrixType):
    __slots__ = ()

    def __init__(self, n: int, dtype: Any = None) -> None:
        super().__init__(n, 1, 1, dtype)


class StructType(CompoundType):
    """A struct type: ordered named members and methods. ``quantized`` has the types of scalar members that a field stores in another way."""

    __slots__ = ("__dict__", "members", "methods", "name", "quantized")

    def __init__(self, **members: Any) -> None:
        methods = members.pop("__struct_methods", {})
        self.name = members.pop("__struct_name", "struct")
        self.members: dict[str, Any] = {}
        self.quantized: dict[str, QuantizedType] = {}
        for name, spec in members.items():
            if isinstance(spec, QuantizedType):
                self.quantized[name] = spec
                spec = spec.compute
            self.members[name] = member_type(name, spec)
        self.methods: dict[str, Any] = dict(methods)

    def __repr__(self) -> str:
        inner = ", ".join(f"{k}: {t}" for k, t in self.members.items())
        return f"<{self.name} {inner}>"

    def to_string(self) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, StructType)
            and list(self.members.items()) == list(other.members.items())
            and self.methods == other.methods
        )

    def __hash__(self) -> int:
        return hash(tuple((k, str(t)) for k, t in self.members.items()))

    def __call__(self, *args: Any, **named: Any) -> Any:
        from . import struct

        return struct.construct(self, args, named)

    @python_only
    def field(self, shape: Any = None, offset: Any = None, **options: Any) -> Any:
        from . import field

        return field.struct_field(self, shape=shape, offset=offset, **options)


def member_type(name: str, spec: Any) -> Any:
    if isinstance(spec, (MatrixType, StructType)):
        return spec
    found = dtypes.scalar_type(spec)
    if found is None:
        raise WujiSpecError(f"member `{name}` of a struct has type {spec!r}, which is not a scalar, vector, matrix or struct type")
    return found


class NdarrayType:
    """Annotation of an array parameter: ``ti.types.ndarray(dtype=ti.f32, ndim=2)``."""

    __slots__ = ("boundary", "dtype", "ndim", "needs_grad")

    def __init__(
        self,
        dtype: Any = None,
        ndim: int | None = None,
        element_dim: int | None = None,
        element_shape: tuple[int, ...] | None = None,
        field_dim: int | None = None,
        needs_grad: bool | None = None,
        boundary: str = "unsafe",
    ) -> None:
        if ndim is None:
            ndim = field_dim
        elif field_dim is not None and field_dim != ndim:
            raise ValueError("`ndim` and `field_dim` differ")
        if ndim is not None and (not hasattr(ndim, "__index__") or not 0 <= ndim <= MAX_AXES):
            raise ValueError(f"`ndim` must be 0 to {MAX_AXES}, not {ndim!r}")
        if isinstance(dtype, CompoundType):
            if element_dim is not None or element_shape is not None:
                raise ValueError("`element_dim` and `element_shape` cannot be combined with a vector or matrix `dtype`")
            if not isinstance(dtype, MatrixType) or dtype.quantized:
                raise WujiTypeError("array elements must be scalars, vectors or matrices, and not quantized")
        elif dtype is not None:
            dtype = dtypes.need_scalar(dtype)
        if element_shape is not None:
            shape = tuple(element_shape)
            if element_dim is not None and element_dim != len(shape):
                raise ValueError("`element_dim` does not match `element_shape`")
            if len(shape) == 1:
                dtype = VectorType(shape[0], dtype)
            elif len(shape) == 2:
                dtype = MatrixType(shape[0], shape[1], 2, dtype)
            elif shape:
                raise ValueError("array elements have at most two axes")
        elif element_dim not in (None, 0):
            # The shape is taken from the array at the call.
            dtype = ElementRank(element_dim, dtype)
        if boundary not in ("unsafe", "clamp"):
            raise ValueError(f"Invalid boundary argument: {boundary}: it must be 'unsafe' or 'clamp'")
        self.dtype = dtype
        self.ndim = ndim
        self.needs_grad = needs_grad
        self.boundary = boundary

    @classmethod
    def __class_getitem__(cls, args: Any) -> NdarrayType:
        if not isinstance(args, tuple):
            args = (args,)
        return cls(*args)

    def __repr__(self) -> str:
        return f"ndarray(dtype={self.dtype}, ndim={self.ndim})"


class ElementRank:
    """Vector or matrix elements of unspecified shape."""

    __slots__ = ("dtype", "ndim")

    def __init__(self, ndim: int, dtype: DataType | None) -> None:
        if ndim not in (1, 2):
            raise ValueError("array elements have at most two axes")
        self.ndim = ndim
        self.dtype = dtype


class Template:
    """Annotation of a compile-time parameter: ``ti.template()``.

    The argument may be a field, a number, a type or a function. Each distinct argument gets its own specialization.
    """

    __slots__ = ("dim", "tensor")

    def __init__(self, tensor: Any = None, dim: Any = None) -> None:
        self.tensor = tensor
        self.dim = dim

    def __repr__(self) -> str:
        return "template()"


# An annotation may omit the parentheses.
template = Template


def is_template(annotation: Any) -> bool:
    """Return whether an annotation marks a compile-time parameter, with or without parentheses."""
    return isinstance(annotation, Template) or annotation is Template or annotation is template


class ArgPackType(CompoundType):
    """A named group of kernel arguments: ``ti.types.argpack(view=ti.math.mat4, speed=ti.f32)``."""

    __slots__ = ("members",)

    def __init__(self, **members: Any) -> None:
        self.members = members

    def __call__(self, *args: Any, **values: Any) -> Any:
        from .argpack import ArgPack

        if len(args) > len(self.members):
            raise WujiTypeError(f"{self} has {len(self.members)} members, not {len(args)}")
        named = dict(zip(self.members, args, strict=False))
        twice = named.keys() & values.keys()
        if twice:
            raise WujiTypeError(f"{self} got two values for `{min(twice)}`")
        return ArgPack(self, named | values)

    def __repr__(self) -> str:
        return "<argpack " + ", ".join(f"{k}: {v}" for k, v in self.members.items()) + ">"


class RefType:
    """Annotation of a by-reference parameter of a `real_func`: ``ti.ref(ti.f32)``."""

    __slots__ = ("to",)

    def __init__(self, to: Any) -> None:
        self.to = to

    def __repr__(self) -> str:
        return f"ref({self.to})"


def ref(to: Any) -> Any:
    return RefType(to)


class TextureType:
    """Annotation of a texture parameter that the kernel samples."""

    __slots__ = ("num_dimensions",)

    def __init__(self, num_dimensions: int) -> None:
        if num_dimensions not in (1, 2, 3):
            raise WujiSyntaxError("a texture has 1, 2 or 3 dimensions")
        self.num_dimensions = num_dimensions

    def __repr__(self) -> str:
        return f"texture(num_dimensions={self.num_dimensions})"


class RWTextureType:
    """Annotation of a texture parameter that the kernel reads and writes."""

    __slots__ = ("fmt", "lod", "num_dimensions")

    def __init__(self, num_dimensions: int, lod: int = 0, fmt: Any = None) -> None:
        if num_dimensions not in (1, 2, 3):
            raise WujiSyntaxError("a texture has 1, 2 or 3 dimensions")
        self.num_dimensions = num_dimensions
        self.lod = lod
        self.fmt = fmt

    def __repr__(self) -> str:
        return f"rw_texture(num_dimensions={self.num_dimensions})"


class SparseMatrixBuilderType:
    """Annotation of a sparse matrix builder parameter."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "sparse_matrix_builder()"


def vector(n: int, dtype: Any = None) -> VectorType:
    """Return the type of vectors with ``n`` components."""
    return VectorType(n, dtype)


def matrix(n: int, m: int, dtype: Any = None) -> MatrixType:
    """Return the type of matrices with ``n`` rows and ``m`` columns."""
    return MatrixType(n, m, 2, dtype)


def struct(**members: Any) -> StructType:
    """Return a struct type with these members."""
    return StructType(**members)


def argpack(**members: Any) -> ArgPackType:
    return ArgPackType(**members)


ndarray = NdarrayType
texture = TextureType
rw_texture = RWTextureType
sparse_matrix_builder = SparseMatrixBuilderType


def value_type(spec: Any) -> Any:
    """Return the scalar, vector, matrix or struct type that an annotation names, or None."""
    if isinstance(spec, (MatrixType, StructType)):
        return spec
    return dtypes.scalar_type(spec)


def type_by_ir(ir: str) -> Any:
    """Return the scalar, vector or matrix type with this spelling in the IR, such as ``f32x3``."""
    scalar, *shape = ir.split("x")
    dtype = dtypes.by_ir(scalar)
    if not shape:
        return dtype
    return MatrixType(int(shape[0]), int(shape[1]) if len(shape) > 1 else 1, len(shape), dtype)


def element_of(ty: Any) -> DataType:
    """Return the scalar type of a scalar, vector or matrix type."""
    found: DataType = ty.dtype if isinstance(ty, MatrixType) else ty
    return found


def flat_scalars(ty: Any) -> list[DataType]:
    """Return all scalars of a type, depth first."""
    if isinstance(ty, MatrixType):
        return [ty.dtype] * ty.count
    if isinstance(ty, StructType):
        return [s for t in ty.members.values() for s in flat_scalars(t)]
    return [ty]
