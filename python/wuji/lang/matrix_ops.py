"""Vector and matrix functions. Each works both in kernels and in Python."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from ..exceptions import WujiCompilationError, WujiIndexError, WujiShapeError, WujiTypeError
from . import context, dtypes, emit, ops
from .compound import MAX_COMPONENTS, MatrixType
from .dtypes import defaults
from .values import Expr, Ref, tensor


def _kernel(*values: Any) -> bool:
    return builtins.any(isinstance(v, Expr) for v in values)


def _list(value: Any) -> list[Any]:
    from .matrix import Matrix

    return list(value.entries) if isinstance(value, Matrix) else emit.components(value)


def _make(entries: list[Any], shape: tuple[int, ...], *operands: Any) -> Any:
    from .matrix import Matrix

    if _kernel(*entries):
        return emit.compose(entries, shape)
    return Matrix._computed(entries, shape, *operands)


def _rounding(*operands: Any) -> Callable[[Any], Any]:
    """Return the function that rounds what the host computes from vectors and matrices to their type."""
    from .matrix import common_type

    dtype = common_type(operands)
    return (lambda x: x) if dtype is None else dtype.rounded


def _need_rank(value: Any, ndim: int, what: str) -> None:
    if len(value.shape) != ndim:
        raise WujiTypeError(f"`{what}` needs a {'vector' if ndim == 1 else 'matrix'}, not shape {list(value.shape)}")


def _reduce(value: Any, op: str, host: Any) -> Any:
    if _kernel(value):
        x = emit.expr(value)
        if x.dtype is dtypes.u1:
            # Bools count as integers.
            x = emit.convert(x, dtypes.defaults.ip)
        return Expr(context.builder().reduce(op, x.id), x.dtype)
    result, rounded = value.entries[0], _rounding(value)
    for x in value.entries[1:]:
        result = rounded(host(result, x))
    return result


def sum(value: Any) -> Any:
    """Return the sum of all components."""
    return _reduce(value, "add", lambda a, b: a + b)


def max(value: Any) -> Any:
    """Return the largest component."""
    return _reduce(value, "max", lambda a, b: a if a > b else b)


def min(value: Any) -> Any:
    """Return the smallest component."""
    return _reduce(value, "min", lambda a, b: a if a < b else b)


def any(value: Any) -> Any:
    """Return whether any component is nonzero."""
    if _kernel(value):
        return _reduce(emit.truth(value), "or", None)
    return builtins.any(value.entries)


def all(value: Any) -> Any:
    """Return whether all components are nonzero."""
    if _kernel(value):
        return _reduce(emit.truth(value), "and", None)
    return builtins.all(value.entries)


def dot(a: Any, b: Any) -> Any:
    """Return the dot product."""
    _need_rank(a, 1, "dot")
    if _kernel(a, b):
        x, y = emit.same(a, b, "dot")
        return Expr(context.builder().dot(x.id, y.id), x.dtype)
    return sum(ops.mul(a, b))


def cross(a: Any, b: Any) -> Any:
    """Return the cross product of 3-D vectors, or the scalar cross product of 2-D vectors."""
    if a.shape not in ((2,), (3,)) or tuple(b.shape) != a.shape:
        raise WujiTypeError(f"only dimension < 4 is supported, got shape {tuple(a.shape)}: `cross` needs two vectors with 2 or 3 components, not {list(a.shape)} and {list(b.shape)}")
    if _kernel(a, b):
        x, y = emit.same(a, b, "cross")
        ty = x.ty if a.shape == (3,) else x.dtype
        return Expr(context.builder().cross(x.id, y.id), ty)
    rounded = _rounding(a, b)

    def minor(i: int, j: int) -> Any:
        return rounded(rounded(a.entries[i] * b.entries[j]) - rounded(a.entries[j] * b.entries[i]))

    return minor(0, 1) if a.shape == (2,) else _make([minor(1, 2), minor(2, 0), minor(0, 1)], (3,), a, b)


def outer_product(a: Any, b: Any) -> Any:
    """Return the outer product."""
    _need_rank(a, 1, "outer_product")
    _need_rank(b, 1, "outer_product")
    if _kernel(a, b):
        dtype = dtypes.promote(emit.element(a), emit.element(b))
        x, y = emit.convert(a, dtype), emit.convert(b, dtype)
        ty = MatrixType(a.shape[0], b.shape[0], 2, dtype)  # checks the size
        return Expr(context.builder().outer(x.id, y.id), ty)
    rounded = _rounding(a, b)
    return _make([rounded(x * y) for x in a.entries for y in b.entries], (a.shape[0], b.shape[0]), a, b)


def norm_sqr(value: Any) -> Any:
    """Return the squared norm."""
    return sum(ops.mul(value, value))


def norm(value: Any, eps: Any = 0) -> Any:
    """Return the Euclidean (Frobenius) norm; ``eps`` is added to its square."""
    return _of_square(value, eps, ops.sqrt)


def _of_square(value: Any, eps: Any, root: Callable[[Any], Any]) -> Any:
    squared = norm_sqr(value)
    if _kernel(squared, eps):
        return root(squared if _zero(eps) else ops.add(squared, eps))
    rounded = _rounding(value)
    return rounded(root(rounded(squared + eps)))


def _zero(value: Any) -> bool:
    return not isinstance(value, Expr) and value == 0


def norm_inv(value: Any, eps: Any = 0) -> Any:
    """Return the reciprocal of the norm; ``eps`` is added to its square."""
    return _of_square(value, eps, ops.rsqrt)


def normalized(value: Any, eps: Any = 0) -> Any:
    """Return the vector divided by its norm plus ``eps``."""
    length = norm(value)
    return ops.truediv(value, length if _zero(eps) else ops.add(length, eps))


def transpose(value: Any) -> Any:
    """Return the transpose of a matrix."""
    if len(value.shape) == 1:
        raise WujiCompilationError(
            "`transpose()` cannot apply to a vector: it is neither a row nor a column\n  = help: use `a.outer_product(b)` for a column times a row, and `a @ b` or `a.dot(b)` for a row times a column"
        )
    n, m = value.shape
    if _kernel(value):
        x = emit.expr(value)
        return Expr(context.builder().transpose(x.id), MatrixType(m, n, 2, x.dtype))
    return _make([value.entries[r * m + c] for c in range(m) for r in range(n)], (m, n), value)


def _need_square(value: Any, what: str, largest: int = 4) -> int:
    _need_rank(value, 2, what)
    n, m = value.shape
    if n != m:
        raise WujiTypeError(f"expected a square matrix, got shape {value.shape}, for `{what}`")
    if n > largest:
        raise WujiTypeError(f"only dimension < {largest + 1} is supported, got shape {value.shape}, for `{what}`")
    found: int = n
    return found


def trace(value: Any) -> Any:
    """Return the trace."""
    n = _need_square(value, "trace", MAX_COMPONENTS)
    entries = _list(value)
    result, rounded = entries[0], _rounding(value)
    for k in range(1, n):
        result = rounded(ops.add(result, entries[k * n + k]))
    return result


def _floats(value: Any) -> Expr:
    return emit.convert(value, value.dtype if value.dtype.is_float else defaults.fp)


def determinant(value: Any) -> Any:
    n = _need_square(value, "determinant")
    if _kernel(value):
        x = emit.expr(value)
        if not x.dtype.is_float:
            # The backends know determinants of floats only; those of integers are exact.
            entries = _list(value)
            return _expanded([entries[r * n : (r + 1) * n] for r in range(n)])
        return Expr(context.builder().determinant(x.id), x.dtype)
    return _rounding(value)(_host_determinant(value.to_list(), n))


def _expanded(rows: list[Any]) -> Any:
    """Return the determinant by cofactors of the first row."""
    result = None
    for c, factor in enumerate(rows[0]):
        minor = [[*row[:c], *row[c + 1 :]] for row in rows[1:]]
        part = ops.mul(factor, _expanded(minor)) if minor else factor
        result = part if result is None else (ops.sub if c % 2 else ops.add)(result, part)
    return result


def _host_determinant(rows: list[list[Any]], n: int) -> Any:
    if n == 1:
        return rows[0][0]
    result = 0
    for c in range(n):
        minor = [[x for k, x in enumerate(row) if k != c] for row in rows[1:]]
        result = result + (-1) ** c * rows[0][c] * _host_determinant(minor, n - 1)
    return result


def inverse(value: Any) -> Any:
    n = _need_square(value, "inverse")
    if _kernel(value):
        x = _floats(value)
        return Expr(context.builder().inverse(x.id), x.ty)
    rows = value.to_list()
    whole = _host_determinant(rows, n)
    scale = 1 / whole if whole else float("nan")
    entries = []
    for r in range(n):
        for c in range(n):
            minor = [[x for k, x in enumerate(row) if k != r] for j, row in enumerate(rows) if j != c]
            part = _host_determinant(minor, n - 1) if n > 1 else 1
            entries.append((-1) ** (r + c) * part * scale)
    return _make(entries, (n, n), value)


def matmul(a: Any, b: Any) -> Any:
    """Return the product of matrices, of a matrix and a vector, or the dot product of vectors."""
    from .matrix import Matrix

    a, b = (Matrix(v) if isinstance(v, (list, tuple)) or hasattr(v, "tolist") and getattr(v, "shape", ()) != () else v for v in (a, b))
    sa: tuple[int, ...] = getattr(a, "shape", ())
    sb: tuple[int, ...] = getattr(b, "shape", ())
    if len(sa) == 1 and sa == sb:
        return dot(a, b)
    if len(sa) == 1 and len(sb) == 2 and sa[0] == sb[0]:
        # A row times a matrix.
        return matmul(transpose(b), a)
    if len(sa) != 2 or len(sb) not in (1, 2) or sa[1] != sb[0]:
        raise WujiShapeError(f"dimension mismatch between {sa} and {sb} for matrix multiplication: shape mismatch: `@` of {list(sa)} and {list(sb)}")
    shape = (sa[0], *sb[1:])
    if _kernel(a, b):
        dtype = dtypes.promote(emit.element(a), emit.element(b))
        x, y = emit.convert(a, dtype), emit.convert(b, dtype)
        ty = MatrixType(shape[0], shape[1] if len(shape) > 1 else 1, len(shape), dtype)
        return Expr(context.builder().matmul(x.id, y.id), ty)
    m = sb[1] if len(sb) == 2 else 1
    entries, rounded = [], _rounding(a, b)
    for r in range(sa[0]):
        for c in range(m):
            total = rounded(a.entries[r * sa[1]] * b.entries[c])
            for k in range(1, sa[1]):
                total = rounded(total + rounded(a.entries[r * sa[1] + k] * b.entries[k * m + c]))
            entries.append(total)
    return _make(entries, shape, a, b)


def diag(value: Any) -> Any:
    """Return the diagonal of a matrix as a vector."""
    _need_rank(value, 2, "diag")
    n = builtins.min(value.shape)
    entries = _list(value)
    return _make([entries[k * value.shape[1] + k] for k in range(n)], (n,), value)


def slice_of(value: Any, at: tuple[Any, ...]) -> Any:
    """Return a slice: rows, columns or parts of them."""
    from .matrix import store_parts

    shape = value.shape
    if len(at) != len(shape):
        raise WujiIndexError(f"Expected {len(shape)} indices, got {len(at)}.")
    picks: list[Any] = []
    out: list[int] = []
    for part, extent in zip(at, shape, strict=True):
        if isinstance(part, slice):
            if _kernel(part.start, part.stop, part.step):
                raise WujiTypeError("slice bounds must be compile-time constants")
            chosen = list(range(*part.indices(extent)))
            if not chosen:
                raise WujiTypeError("empty slice")
            picks.append(chosen)
            out.append(len(chosen))
        elif isinstance(part, Expr):
            if len(shape) == 1:
                return value[part]
            return _dynamic_slice(value, at)
        else:
            if not -extent <= part < extent:
                raise WujiIndexError(f"index {part} is out of range for an axis with {extent} components")
            picks.append([part % extent])
    numbers = picks[0]
    if len(shape) == 2:
        numbers = [r * shape[1] + c for r in picks[0] for c in picks[1]]
    if isinstance(value, Ref):
        return store_parts(value, numbers, tuple(out))
    entries = _list(value)
    return _make([entries[k] for k in numbers], tuple(out), value)


def _dynamic_slice(value: Any, at: tuple[Any, ...]) -> Any:
    """Return a row or column with a run-time index."""
    row, column = at
    if isinstance(column, slice):
        chosen = range(*column.indices(value.shape[1]))
        parts = [value[row, c] for c in chosen]
    else:
        chosen = range(*row.indices(value.shape[0]))
        parts = [value[r, column] for r in chosen]
    if isinstance(value, Ref):
        from .values import SplitRef

        return SplitRef(parts, MatrixType(len(parts), 1, 1, value.dtype))
    return _make(parts, (len(parts),))


def cast(value: Any, dtype: Any) -> Any:
    """Convert to another scalar type."""
    return ops.cast(value, dtype)


def fill(value: Any, number: Any) -> Any:
    """Set every component to one value."""
    if not isinstance(value, Ref):
        raise WujiTypeError("`fill` needs an assignable variable or element")
    value.store(emit.fit(number, tensor(value)))


def to_list(value: Any) -> list[Any]:
    """Return the components as a list, or as a list of rows for a matrix."""
    entries = _list(value)
    if len(value.shape) == 1:
        return entries
    m = value.shape[1]
    return [entries[r * m : (r + 1) * m] for r in range(value.shape[0])]


METHODS: dict[str, Any] = {
    f.__name__: f
    for f in (
        all, any, cast, cross, determinant, diag, dot, fill, inverse, max, min, norm, norm_inv, norm_sqr, normalized,
        outer_product, sum, to_list, trace, transpose,
    )
}  # fmt: skip
