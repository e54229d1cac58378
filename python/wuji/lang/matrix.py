"""Vectors and matrices as Python values, and component access in kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..exceptions import WujiComponentsError, WujiIndexError, WujiIndexTypeError, WujiRuntimeError, WujiShapeError, WujiSyntaxError, WujiTypeError
from . import context, dtypes, emit, folding, matrix_ops
from .compound import MatrixType
from .dtypes import DataType, defaults
from .operators import Operators
from .values import Expr, Ref, SplitRef, SwizzleRef, tensor

SWIZZLES = ("xyzw", "rgba", "stpq")


def swizzle(name: str, count: int) -> list[int] | None:
    """Return the components that a swizzle such as ``zyx`` names, or None."""
    if not 1 <= len(name) <= 4:
        return None
    for letters in SWIZZLES:
        if name[0] in letters:
            found = [letters.find(c) for c in name]
            if -1 in found:
                return None
            if builtin_max(found) >= count:
                raise WujiSyntaxError(f"vec{count} only has attributes={tuple(letters[:count])}, got={tuple(name)}")
            return found
    return None


builtin_max = max


def _flatten(rows: Any) -> tuple[list[Any], tuple[int, ...]]:
    """Return the scalars in a list, a list of lists or a list of vectors, with their shape."""
    if isinstance(rows, Matrix):
        return list(rows.entries), rows.shape
    if isinstance(rows, Expr):
        ty = tensor(rows)
        return emit.components(rows), ty.shape
    if hasattr(rows, "tolist"):
        rows = rows.tolist()
    if not isinstance(rows, (list, tuple)):
        rows = list(rows) if isinstance(rows, (range, Iterator)) else rows
    if not isinstance(rows, (list, tuple)):
        raise WujiTypeError(f"An Matrix/Vector can only be initialized with an array-like object, not with {emit.describe(rows)}")
    if not rows:
        raise WujiTypeError("a vector or matrix needs at least one component")
    nested = [isinstance(r, (list, tuple, Matrix)) or (isinstance(r, Expr) and bool(r.shape)) or hasattr(r, "tolist") and getattr(r, "shape", ()) != () for r in rows]
    if not any(nested):
        return list(rows), (len(rows),)
    if not all(nested):
        raise WujiTypeError("the rows of a matrix must be all lists or all scalars")
    parts = [_flatten(r) for r in rows]
    lengths = {shape for _, shape in parts}
    if len(lengths) > 1 or len(parts[0][1]) != 1:
        raise WujiShapeError("the rows of a matrix must have the same length: " + ", ".join(str(list(s)) for _, s in parts))
    return [x for entries, _ in parts for x in entries], (len(rows), parts[0][1][0])


class _MatrixClass(type):
    """Makes methods functions of the class, too: `ti.Vector.normalized(v)`."""

    def __getattr__(cls, name: str) -> Any:
        method = matrix_ops.METHODS.get(name)
        if method is None:
            raise AttributeError(f"`ti.{cls.__name__}` has no attribute `{name}`")
        return method


class Matrix(Operators, metaclass=_MatrixClass):
    """A matrix, or with one axis a vector: ``ti.Matrix([[1, 2], [3, 4]])``.

    In a kernel, the same call creates a run-time value.
    """

    __slots__ = ("entries", "shape", "_dtype", "_truth")
    __array_priority__ = 100

    entries: list[Any]
    shape: tuple[int, ...]
    _dtype: DataType | None
    _truth: Callable[[list[Any]], bool] | None  # for a comparison: whether it holds as a whole

    def __new__(cls, arr: Any, dt: Any = None, **_: Any) -> Any:
        entries, shape = _flatten(arr)
        dtype = None if dt is None else dtypes.need_scalar(dt)
        if any(isinstance(x, Expr) for x in entries):
            return emit.compose(entries, shape, dtype)
        return Matrix._of(entries, shape, dtype)

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    @staticmethod
    def _of(entries: list[Any], shape: tuple[int, ...], dtype: DataType | None = None) -> Matrix:
        if dtype is not None:
            entries = [dtype.rounded(emit.convert_constant(x, dtype)) for x in entries]
        elif any(isinstance(x, float) for x in entries):
            # One float makes all entries float, also those assigned later.
            entries = [folding.to_float(x) if isinstance(x, int) else x for x in entries]
        return Matrix._of_exact(entries, shape, dtype)

    @staticmethod
    def _of_exact(entries: list[Any], shape: tuple[int, ...], dtype: DataType | None) -> Matrix:
        """Make a vector or matrix of entries that have the type already."""
        made: Matrix = object.__new__(Vector if len(shape) == 1 else Matrix)
        made.entries = entries
        made.shape = shape
        made._dtype = dtype
        made._truth = None
        return made

    @staticmethod
    def _computed(entries: list[Any], shape: tuple[int, ...], *operands: Any) -> Matrix:
        """Make a result of the host. It has the type of its operands, if that is one for all and holds the entries."""
        dtype = common_type(operands)
        if dtype is not None and not all(type(x) is (float if dtype.is_float else int) for x in entries):
            dtype = None
        return Matrix._of(entries, shape) if dtype is None else Matrix._of_exact([dtype.rounded(x) for x in entries], shape, dtype)

    # Shape and type.
    @property
    def n(self) -> int:
        return self.shape[0]

    @property
    def m(self) -> int:
        return self.shape[1] if len(self.shape) > 1 else 1

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> DataType:
        if self._dtype is not None:
            return self._dtype
        found: DataType | None = None
        for x in self.entries:
            t = dtypes.of_constant(x)
            if t is None:
                raise WujiTypeError(f"{emit.describe(x)} is not a number")
            found = t if found is None or found is t else dtypes.promote(found, t)
        return found or defaults.fp

    @property
    def type(self) -> MatrixType:
        return MatrixType(self.n, self.m, self.ndim, self.dtype)

    def get_shape(self) -> tuple[int, ...]:
        return self.shape

    def __len__(self) -> int:
        return self.n

    def _number(self, at: Any) -> int:
        at = at if isinstance(at, tuple) else (at,)
        if len(at) == 2 and self.ndim == 1 and at[1] == 0:
            at = at[:1]
        if len(at) != self.ndim:
            raise WujiIndexError(f"Expected {self.ndim} indices, got {len(at)}.")
        for k, extent in zip(at, self.shape, strict=True):
            if not isinstance(k, slice) and not hasattr(k, "__index__"):
                raise WujiIndexTypeError(f"indices must be integers, not {emit.describe(k)}")
            if not isinstance(k, slice) and not -extent <= int(k) < extent:
                raise WujiIndexError(f"index {k} is out of range for an axis with {extent} components")
        number = 0
        for k, extent in zip(at, self.shape, strict=True):
            number = number * extent + (int(k) + extent) % extent
        return number

    def __getitem__(self, at: Any) -> Any:
        if self.ndim == 2 and not isinstance(at, tuple) and not isinstance(at, slice):
            return [self[at, c] for c in range(self.m)]
        parts = at if isinstance(at, tuple) else (at,)
        if any(isinstance(p, slice) for p in parts):
            return matrix_ops.slice_of(self, parts)
        return self.entries[self._number(at)]

    def __setitem__(self, at: Any, value: Any) -> None:
        parts = at if isinstance(at, tuple) else (at,)
        if not any(isinstance(p, slice) for p in parts):
            self._set_entry(self._number(at), value)
            return
        numbers = matrix_ops.slice_of(Matrix._of(list(range(len(self.entries))), self.shape), parts)
        values = [value] * len(numbers.entries) if emit.is_number(value) else _flatten(value)[0]
        if len(values) != len(numbers.entries):
            raise WujiShapeError(f"shape mismatch: {len(numbers.entries)} components cannot be assigned {len(values)} values")
        self._set_entries(numbers.entries, values)

    def _set_entries(self, numbers: Sequence[int], values: Sequence[Any]) -> None:
        for k, x in zip(numbers, values, strict=True):
            self._set_entry(k, x)

    def _set_entry(self, number: int, value: Any) -> None:
        """Assign an entry. It keeps its type: floats are truncated for integers."""
        old = self.entries[number]
        if self._dtype is not None:
            value = self._dtype.rounded(emit.convert_constant(value, self._dtype))
        elif isinstance(value, int) and isinstance(old, float):
            value = folding.to_float(value)
        elif isinstance(value, float) and type(old) is int:
            value = emit.convert_constant(value, dtypes.i64)
        self.entries[number] = value

    def __call__(self, *at: Any) -> Any:
        return self[at]

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(self.n))

    def __repr__(self) -> str:
        if context.compiling() is not None:
            return f"<{self.type}>"
        import numpy

        return str(numpy.array(self.to_list(), dtype=self._numpy_name()))

    __str__ = __repr__

    def _host_type(self) -> DataType | None:
        """Return the type of the entries in Python. Without an explicit type, they are Python's numbers, with the precision that they have there."""
        return self._dtype

    def _numpy_name(self) -> str | None:
        dtype = self._host_type()
        return None if dtype is None else dtype.numpy_name

    def _map(self, f: Callable[..., Any], *args: Any) -> Any:
        """Apply a function component-wise. Scalar arguments broadcast."""
        columns: list[Any] = []
        for a in args:
            if isinstance(a, (list, tuple)) or hasattr(a, "tolist") and getattr(a, "shape", ()) != ():
                a = Matrix(a)
            if isinstance(a, Matrix):
                if a.shape != self.shape:
                    raise WujiShapeError(f"operands could not be broadcast together: shape mismatch: {list(self.shape)} and {list(a.shape)}")
                columns.append(a.entries)
            else:
                columns.append([a] * len(self.entries))
        return Matrix._computed([f(*row) for row in zip(*columns, strict=True)], self.shape, *args)

    def to_list(self) -> list[Any]:
        """Return the entries as a list, or as a list of rows for a matrix."""
        if self.ndim == 1:
            return list(self.entries)
        return [self.entries[r * self.m : (r + 1) * self.m] for r in range(self.n)]

    def to_numpy(self, keep_dims: bool = False) -> Any:
        """Return the entries as a NumPy array."""
        import numpy

        shape = (self.n, self.m) if keep_dims else self.shape
        return numpy.array(self.entries, dtype=self._numpy_name()).reshape(shape)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        array = self.to_numpy()
        return array if dtype is None else array.astype(dtype)

    def __getattr__(self, name: str) -> Any:
        return attribute(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("entries", "shape", "_dtype", "_truth"):
            object.__setattr__(self, name, value)
            return
        parts = swizzle(name, self.n) if self.ndim == 1 else None
        if parts is None:
            raise AttributeError(f"a {'vector' if self.ndim == 1 else 'matrix'} has no attribute `{name}`")
        values = [value] * len(parts) if len(parts) == 1 or emit.is_number(value) else list(value)
        if len(values) != len(parts):
            raise WujiRuntimeError(f"value len does not match the swizzle pattern={name}: it takes {len(parts)} values, not {len(values)}")
        self._set_entries(parts, values)

    def __eq__(self, other: object) -> Any:
        from . import ops

        if other is None or isinstance(other, str):
            return False
        return _holds(ops.cmp_eq(self, other), all)

    def __ne__(self, other: object) -> Any:
        from . import ops

        if other is None or isinstance(other, str):
            return True
        return _holds(ops.cmp_ne(self, other), any)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        if self._truth is not None:
            return self._truth(self.entries)
        raise WujiTypeError("a vector cannot be converted to bool\n  = help: use `.all()` or `.any()`")

    def __reduce__(self) -> Any:
        return (_restore, (self.entries, self.shape, self._dtype))

    def cast(self, dtype: Any) -> Matrix:
        """Return a copy with another scalar type."""
        return Matrix._of(list(self.entries), self.shape, dtypes.need_scalar(dtype))

    def fill(self, value: Any) -> None:
        """Set every component to one value."""
        self._set_entries(range(len(self.entries)), [value] * len(self.entries))

    # Constructors.
    @staticmethod
    def zero(dt: Any, n: int, m: int | None = None) -> Any:
        return _filled(0, dt, n, m)

    @staticmethod
    def one(dt: Any, n: int, m: int | None = None) -> Any:
        return _filled(1, dt, n, m)

    @staticmethod
    def unit(n: int, i: Any, dt: Any = None) -> Any:
        """Return the ``i``-th unit vector of ``n`` components."""
        to = dtypes.need_scalar(int if dt is None else dt)
        if isinstance(i, Expr):
            return emit.compose([emit.select(emit.compare("eq", i, k, "=="), emit.constant(1, to), emit.constant(0, to)) for k in range(n)], (n,), to)
        if not 0 <= i < n:
            raise WujiIndexError(f"index {i} is out of range for a unit vector with {n} components")
        return Matrix._of([int(k == i) for k in range(n)], (n,), to)

    @staticmethod
    def identity(dt: Any, n: int) -> Any:
        return Matrix._of([int(r == c) for r in range(n) for c in range(n)], (n, n), dtypes.need_scalar(dt))

    @staticmethod
    def diag(dim: int, val: Any) -> Any:
        return Matrix([[val if r == c else 0 * val for c in range(dim)] for r in range(dim)])

    @staticmethod
    def rows(rows: Any) -> Any:
        return Matrix([list(r) if not isinstance(r, (Matrix, Expr)) else r for r in rows])

    @staticmethod
    def cols(cols: Any) -> Any:
        return matrix_ops.transpose(Matrix.rows(cols))

    @classmethod
    @context.python_only
    def field(cls, n: int, m: Any = None, dtype: Any = None, shape: Any = None, *more: Any, **options: Any) -> Any:
        """Create a field of matrices."""
        from . import field

        return field.matrix_field(MatrixType(n, m, 2, dtype), shape, *more, **options)

    @classmethod
    @context.python_only
    def ndarray(cls, n: int, m: int, dtype: Any, shape: Any, **options: Any) -> Any:
        """Create an array of matrices."""
        from . import ndarray

        return ndarray.ndarray(MatrixType(n, m, 2, dtype), shape, **options)


class Vector(Matrix):
    """A vector: ``ti.Vector([1.0, 2.0])``."""

    __slots__ = ()

    @classmethod
    @context.python_only
    def field(cls, n: int, dtype: Any = None, shape: Any = None, *more: Any, **options: Any) -> Any:  # type: ignore[override]
        """Create a field of vectors."""
        from . import field

        return field.matrix_field(MatrixType(n, 1, 1, dtype), shape, *more, **options)

    @classmethod
    @context.python_only
    def ndarray(cls, n: int, dtype: Any, shape: Any, **options: Any) -> Any:  # type: ignore[override]
        """Create an array of vectors."""
        from . import ndarray

        return ndarray.ndarray(MatrixType(n, 1, 1, dtype), shape, **options)


def common_type(operands: Sequence[Any]) -> DataType | None:
    """Return the type of what the host computes from vectors, matrices and numbers, or None if that is Python's.

    As in NumPy, Python's numbers do not change the type of vectors. In a kernel, they have the default types, and types are promoted.
    """
    held = [a._host_type() if isinstance(a, Matrix) else None for a in operands]
    if not any(held):
        return None
    if context.compiling() is not None:
        found = [a.dtype if isinstance(a, Matrix) else dtypes.of_constant(a) for a in operands]
        promoted = functools.reduce(dtypes.promote, [t for t in found if t is not None])
        # Integers are unbounded until they are used.
        return promoted if promoted.is_float else None
    types = {t for t, a in zip(held, operands, strict=True) if type(a) not in (int, float, bool)}
    only = types.pop() if len(types) == 1 else None
    return None if only is dtypes.u1 else only


def _holds(comparison: Any, truth: Callable[[list[Any]], bool]) -> Any:
    """Let `v == w` and `v != w` be conditions: all components are equal, or some differ."""
    if isinstance(comparison, Matrix):
        comparison._truth = truth
    return comparison


def _restore(entries: list[Any], shape: tuple[int, ...], dtype: DataType | None) -> Matrix:
    return Matrix._of(entries, shape, dtype)


def _filled(value: int, dt: Any, n: int, m: int | None) -> Matrix:
    shape = (n,) if m is None else (n, m)
    if any(not hasattr(e, "__index__") or not 1 <= e <= 1 << 16 for e in shape):
        raise WujiTypeError(f"a vector or matrix cannot have the shape {shape}")
    return Matrix._of([value] * (n * (m or 1)), shape, dtypes.need_scalar(dt))


def construct(ty: MatrixType, args: tuple[Any, ...]) -> Any:
    """Create a value of a vector or matrix type from constructor arguments."""
    if not args:
        raise WujiTypeError(f"{ty} needs its components, or one scalar for all of them")
    entries: list[Any] = []
    for a in args:
        if isinstance(a, (list, tuple, Matrix)) or (isinstance(a, Expr) and a.shape) or hasattr(a, "tolist"):
            entries.extend(_flatten(a)[0])
        else:
            entries.append(a)
    if len(entries) == 1:
        entries *= ty.count
    if len(entries) != ty.count:
        raise WujiComponentsError(f"{ty} has {ty.count} components, not {len(entries)}")
    if any(isinstance(x, Expr) for x in entries):
        return emit.compose(entries, ty.shape, ty.dtype)
    return Matrix._of(entries, ty.shape, ty.dtype)


def in_kernel(value: Any) -> Expr:
    """Convert a Python vector or matrix to a run-time value of the current kernel."""
    if isinstance(value, Matrix):
        return emit.compose(list(value.entries), value.shape, value.dtype)
    entries, shape = _flatten(value)
    return emit.compose(entries, shape)


def attribute(value: Any, name: str) -> Any:
    """Look up an attribute of a vector or matrix: a swizzle or a method."""
    if name.startswith("_"):
        raise AttributeError(name)
    shape = value.shape
    if len(shape) == 1:
        parts = swizzle(name, shape[0])
        if parts is not None:
            if not isinstance(value, Expr):
                found = [value.entries[k] for k in parts]
                return found[0] if len(found) == 1 else Matrix._of(found, (len(found),), value._dtype)
            if len(parts) == 1:
                return value.part(parts[0]) if isinstance(value, Ref) else emit.take(value, parts[0])
            if isinstance(value, Ref):
                return SwizzleRef(value, parts)
            return Expr(context.builder().shuffle(value.id, parts), MatrixType(len(parts), 1, 1, value.dtype))
    method = matrix_ops.METHODS.get(name)
    if method is None:
        what = "scalar" if not shape else "vector" if len(shape) == 1 else "matrix"
        raise AttributeError(f"a {what} has no attribute `{name}`")
    if not shape:
        raise AttributeError(f"a scalar has no attribute `{name}`")
    return lambda *args, **named: method(value, *args, **named)


def component(value: Expr, at: Any) -> Any:
    """Index a run-time vector or matrix: ``v[i]``, ``a[i, j]`` and slices."""
    if not value.shape:
        raise WujiTypeError(f"a scalar of type {value.ty} has no components")
    ty = tensor(value)
    at = at if isinstance(at, tuple) else (at,)
    if len(at) == 1 and isinstance(at[0], (list, Matrix)):
        at = tuple(at[0])
    elif len(at) == 1 and isinstance(at[0], Expr) and at[0].shape:
        at = tuple(emit.components(at[0]))
    if any(isinstance(p, slice) for p in at):
        return matrix_ops.slice_of(value, at)
    if ty.ndim == 2 and len(at) == 1:
        # A row.
        return matrix_ops.slice_of(value, (at[0], slice(None)))
    if ty.ndim == 1 and len(at) == 2 and at[1] == 0:
        at = at[:1]
    if len(at) != ty.ndim:
        raise WujiIndexError(f"Expected {ty.ndim} indices, got {len(at)}.")
    number: Any = 0
    for k, extent in zip(at, ty.shape, strict=True):
        if isinstance(k, Expr):
            if not k.dtype.is_int or k.shape:
                raise WujiIndexTypeError(f"{emit.describe(k)} cannot be an index\n  = help: convert it to an integer")
            k = k.load()
            context.builder().check_index(k.id, extent)
        else:
            if isinstance(k, bool) or not emit.is_number(k) or isinstance(k, float):
                raise WujiIndexTypeError(f"{emit.describe(k)} cannot be an index")
            if not -extent <= k < extent:
                raise WujiIndexError(f"index {k} is out of range for an axis with {extent} components")
            k = int(k) % extent
        if isinstance(number, Expr) or isinstance(k, Expr):
            from . import ops

            number = ops.add(ops.mul(number, extent), k)
        else:
            number = number * extent + k
    if isinstance(value, Ref):
        return value.part(number)
    if isinstance(number, Expr):
        return Expr(context.builder().extract_dyn(value.id, number.id), ty.dtype)
    return emit.take(value, number)


def store_parts(value: Ref, parts: list[int], shape: tuple[int, ...]) -> SplitRef:
    """Return several components as one assignable reference."""
    return SplitRef([value.part(k) for k in parts], MatrixType(shape[0], shape[1] if len(shape) > 1 else 1, len(shape), value.dtype))


def _define_operators() -> None:
    from .ops import define_operators

    define_operators(Matrix, compared=False)


_define_operators()
