"""Decompositions of 2x2 and 3x3 matrices in kernels: SVD, polar, eigenvalues; and linear solves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..exceptions import WujiCompilationError, WujiSyntaxError
from . import context, dtypes, emit, matrix_ops, ops
from .dtypes import DataType, defaults
from .func import func
from .matrix import Matrix, Vector
from .ops import abs, cmp_gt, cmp_lt, max, min, select, sqrt
from .static import static

# Convergence tolerance of Jacobi sweeps by float width, and their maximum number.
_TOLERANCE = {16: 1e-3, 32: 1e-7, 64: 2e-16}
_MAX_SWEEPS = 12


def _need_square(value: Any, what: str, dt: Any) -> Any:
    """Convert a 2x2 or 3x3 matrix to a run-time matrix of floats."""
    if context.compiling() is None:
        raise WujiSyntaxError(f"`{what}` can only be called in a kernel: Taichi functions cannot be called from Python-scope")
    matrix = emit.expr(value)
    if matrix.shape not in ((2, 2), (3, 3)):
        raise WujiCompilationError(f"{what.upper() if what == 'svd' else what} only supports 2D and 3D matrices (2x2 or 3x3), not shape {list(matrix.shape)}")
    return emit.convert(matrix, _float(matrix.dtype, dt))


def _float(dtype: DataType, dt: Any) -> DataType:
    """Return the float type to compute with: ``dt`` if given, else that of the matrix."""
    wanted = dtypes.need_scalar(dt) if dt is not None else dtype
    return wanted if wanted.is_float else defaults.fp


@contextmanager
def _literals_like(matrix: Any) -> Iterator[None]:
    """Give literals the type of the matrix, whatever the world's defaults are."""
    before = defaults.fp, defaults.ip
    defaults.fp, defaults.ip = matrix.dtype, dtypes.i32
    try:
        yield
    finally:
        defaults.fp, defaults.ip = before


def _need_size(size: int, matrix: Any, what: str) -> None:
    if matrix.shape != (size, size):
        raise WujiCompilationError(f"`{what}` needs a {size}x{size} matrix, not shape {list(matrix.shape)}")


def svd(A: Any, dt: Any = None) -> Any:
    """Compute the singular value decomposition ``A = U @ S @ V.transpose()`` of a 2x2 or 3x3 matrix.

    Singular values, on the diagonal of ``S``, are in descending order.
    2x2: they are nonnegative, and ``V`` is a rotation.
    3x3: ``U`` and ``V`` are rotations, and the last singular value has the sign of the determinant.

    Returns:
        ``U, S, V``.
    """
    matrix = _need_square(A, "svd", dt)
    with _literals_like(matrix):
        return _svd2(matrix) if matrix.shape[0] == 2 else _svd3(matrix, _TOLERANCE[matrix.dtype.bits])


def polar_decompose(A: Any, dt: Any = None) -> Any:
    """Compute the polar decomposition ``A = U @ P`` of a 2x2 or 3x3 matrix; ``U`` is orthogonal, ``P`` symmetric.

    2x2: ``P`` is positive semidefinite. 3x3: ``U`` is a rotation, even if the determinant of ``A`` is negative.

    Returns:
        ``U, P``.
    """
    matrix = _need_square(A, "polar_decompose", dt)
    u, s, v = svd(matrix)
    turned = matrix_ops.transpose(v)
    return matrix_ops.matmul(u, turned), matrix_ops.matmul(matrix_ops.matmul(v, s), turned)


def sym_eig(A: Any, dt: Any = None) -> Any:
    """Compute the eigenvalues and eigenvectors of a symmetric 2x2 or 3x3 matrix. Only the lower triangle is read.

    Eigenvalues are in descending order for 2x2 and in ascending order for 3x3.

    Returns:
        Eigenvalues as a vector, and normalized eigenvectors as the columns of a matrix.
    """
    matrix = _need_square(A, "sym_eig", dt)
    with _literals_like(matrix):
        return _sym_eig2(matrix) if matrix.shape[0] == 2 else _sym_eig3(matrix, _TOLERANCE[matrix.dtype.bits])


def eig(A: Any, dt: Any = None) -> Any:
    """Compute the eigenvalues and eigenvectors, possibly complex, of a 2x2 matrix.

    The larger eigenvalue, or the one with a positive imaginary part, comes first.

    Returns:
        Eigenvalues as the rows of a 2x2 matrix (real part, imaginary part), and eigenvectors as the columns of a 4x2 matrix
        (real and imaginary part of the first component, then of the second).
    """
    matrix = _need_square(A, "eig", dt)
    _need_size(2, matrix, "eig")
    with _literals_like(matrix):
        return _eig2(matrix)


def solve(A: Any, b: Any, dt: Any = None) -> Any:
    """Solve ``A @ x = b`` for a 2x2 or 3x3 matrix. The result is not finite if ``A`` is singular."""
    matrix = _need_square(A, "solve", dt)
    n = matrix.shape[0]
    right = emit.convert(b, matrix.dtype)
    if right.shape not in ((n,), (n, 1)):
        raise WujiCompilationError(f"shape mismatch: `solve` of {list(matrix.shape)} and {list(right.shape)}")
    entries = emit.components(matrix)
    rows = [[*entries[r * n : (r + 1) * n], x] for r, x in enumerate(emit.components(right))]
    for k in range(n):
        # Partial pivoting.
        for r in range(k + 1, n):
            swap = cmp_gt(abs(rows[r][k]), abs(rows[k][k]))
            pairs = list(zip(rows[k], rows[r], strict=True))
            rows[k] = [select(swap, b, a) for a, b in pairs]
            rows[r] = [select(swap, a, b) for a, b in pairs]
        for r in range(k + 1, n):
            factor = ops.truediv(rows[r][k], rows[k][k])
            rows[r] = [ops.sub(a, ops.mul(factor, b)) for a, b in zip(rows[r], rows[k], strict=True)]
    found: list[Any] = [None] * n
    for k in reversed(range(n)):
        rest = rows[k][n]
        for c in range(k + 1, n):
            rest = ops.sub(rest, ops.mul(rows[k][c], found[c]))
        found[k] = ops.truediv(rest, rows[k][k])
    return Matrix(found)


def _normalize_or_x(x: Any, y: Any, length: Any) -> tuple[Any, Any]:
    """Normalize a 2-D direction; return the first axis if its length is zero."""
    some = cmp_gt(length, 0.0)
    by = select(some, length, 1.0)
    return select(some, ops.truediv(x, by), 1.0), select(some, ops.truediv(y, by), 0.0)


def _half_angle(cosine: Any, sine: Any) -> tuple[Any, Any]:
    """Return cosine and sine of half an angle in [-pi, pi]."""
    high = sqrt(ops.mul(ops.add(abs(cosine), 1.0), 0.5))  # at least sqrt(0.5)
    low = ops.truediv(ops.mul(abs(sine), 0.5), high)
    acute = ops.cmp_ge(cosine, 0.0)
    s = select(acute, low, high)
    return select(acute, high, low), select(cmp_lt(sine, 0.0), ops.neg(s), s)


def _largest(parts: list[Any]) -> Any:
    """Return the largest absolute value, or one if all are zero."""
    most = max(*(abs(p) for p in parts))
    return select(cmp_gt(most, 0.0), most, 1.0)


def _diagonalize2(s00: Any, s01: Any, s11: Any) -> tuple[Any, Any, Any]:
    """Return cosine and sine of the rotation that diagonalizes a symmetric 2x2 matrix, larger eigenvalue first, and half the difference of the eigenvalues."""
    f = ops.mul(ops.sub(s00, s11), 0.5)
    r = sqrt(ops.add(ops.mul(f, f), ops.mul(s01, s01)))
    c, s = _half_angle(*_normalize_or_x(f, s01, r))
    return c, s, r


def _svd2(matrix: Any) -> Any:
    parts = emit.components(matrix)
    # Scale, so that squares neither overflow nor underflow.
    size = _largest(parts)
    a, b, c, d = (ops.truediv(p, size) for p in parts)
    # Polar decomposition: closest rotation times a symmetric matrix.
    e, h = ops.mul(ops.add(a, d), 0.5), ops.mul(ops.sub(c, b), 0.5)
    q = sqrt(ops.add(ops.mul(e, e), ops.mul(h, h)))
    cr, sr = _normalize_or_x(e, h, q)
    s00 = ops.add(ops.mul(cr, a), ops.mul(sr, c))
    s01 = ops.add(ops.mul(cr, b), ops.mul(sr, d))
    s10 = ops.sub(ops.mul(cr, c), ops.mul(sr, a))
    s11 = ops.sub(ops.mul(cr, d), ops.mul(sr, b))
    ct, st, r = _diagonalize2(s00, ops.mul(ops.add(s01, s10), 0.5), s11)
    first, second = ops.mul(ops.add(q, r), size), ops.mul(ops.sub(q, r), size)
    sign = select(cmp_lt(second, 0.0), emit.constant(-1.0, matrix.dtype), 1.0)
    u00 = ops.sub(ops.mul(cr, ct), ops.mul(sr, st))
    u10 = ops.add(ops.mul(sr, ct), ops.mul(cr, st))
    u = Matrix([[u00, ops.neg(ops.mul(u10, sign))], [u10, ops.mul(u00, sign)]])
    zero = ops.zero(first)
    return u, Matrix([[first, zero], [zero, abs(second)]]), Matrix([[ct, ops.neg(st)], [st, ct]])


def _sym_eig2(matrix: Any) -> Any:
    parts = emit.components(matrix)
    size = _largest(parts)
    a, _, b, d = (ops.truediv(p, size) for p in parts)
    c, s, r = _diagonalize2(a, b, d)
    middle = ops.mul(ops.add(a, d), 0.5)
    values = [ops.mul(ops.add(middle, r), size), ops.mul(ops.sub(middle, r), size)]
    return Matrix(values), Matrix([[c, ops.neg(s)], [s, c]])


def _eig2(matrix: Any) -> Any:
    parts = emit.components(matrix)
    size = _largest(parts)
    a, b, c, d = (ops.truediv(p, size) for p in parts)
    f = ops.mul(ops.sub(a, d), 0.5)
    under = ops.add(ops.mul(f, f), ops.mul(b, c))
    real = ops.cmp_ge(under, 0.0)
    root = sqrt(abs(under))
    middle = ops.mul(ops.add(a, d), 0.5)
    zero = ops.zero(middle)
    values, vectors = [], []
    for k, sign in enumerate((1.0, -1.0)):
        step = ops.mul(root, sign)
        re, im = ops.add(middle, select(real, step, 0.0)), select(real, zero, step)
        values += [ops.mul(re, size), ops.mul(im, size)]
        # Perpendicular to the row of `A - value` with the larger norm. If both rows are zero, any vector will do.
        second = ops.sub(step, f), b
        first = ops.add(f, step), c
        longer = ops.cmp_ge(
            ops.add(ops.mul(first[0], first[0]), ops.mul(c, c)), ops.add(ops.mul(second[0], second[0]), ops.mul(b, b))
        )
        x, y = select(longer, first[0], second[1]), select(longer, first[1], second[0])
        length = sqrt(ops.add(ops.mul(x, x), ops.mul(y, y)))
        rx, ry = _normalize_or_x(x, y, length)
        if k == 1:
            some = cmp_gt(length, 0.0)
            rx, ry = select(some, rx, 0.0), select(some, ry, 1.0)
        # Complex: (value - d, c); c is nonzero.
        whole = sqrt(ops.add(ops.add(ops.mul(f, f), ops.mul(root, root)), ops.mul(c, c)))
        by = select(cmp_gt(whole, 0.0), whole, 1.0)
        vectors.append(
            [
                select(real, rx, ops.truediv(f, by)),
                select(real, zero, ops.truediv(step, by)),
                select(real, ry, ops.truediv(c, by)),
                zero,
            ]
        )
    return Matrix([values[:2], values[2:]]), Matrix([list(row) for row in zip(*vectors, strict=True)])


@func
def _orthogonalize(p: Any, q: Any, tolerance: Any) -> Any:  # type: ignore[no-untyped-def,unused-ignore]
    """Return cosine and sine of the rotation that makes two columns orthogonal; 1 and 0 if they already are."""
    cosine = ops.one(p[0])
    sine = ops.zero(p[0])
    alpha = p.norm_sqr()
    beta = q.norm_sqr()
    gamma = p.dot(q)
    if gamma * gamma > tolerance * tolerance * alpha * beta:
        delta = beta - alpha
        t = 2.0 * gamma / (abs(delta) + sqrt(delta * delta + 4.0 * gamma * gamma))
        if delta < 0.0:
            t = -t
        cosine = 1.0 / sqrt(1.0 + t * t)
        sine = cosine * t
    return cosine, sine


@func
def _perpendicular(v: Any) -> Any:
    """Return a unit vector perpendicular to a unit vector."""
    x = abs(v)
    w = Vector([0 * v[0], -v[2], v[1]])
    if x[0] > x[1] or x[0] > x[2]:
        w = Vector([v[1], -v[0], 0 * v[0]])
        if x[2] > x[1]:
            w = Vector([-v[2], 0 * v[0], v[0]])
    return w.normalized()


@func
def _svd3(A: Any, tolerance: Any) -> Any:
    size = abs(A).max()
    if size == 0.0:
        size = ops.one(size)
    B = A / size
    V = ops.zero(A)
    for k in static(range(3)):
        V[k, k] = 1.0
    # One-sided Jacobi: rotate pairs of columns until all are orthogonal.
    sweeps = 0
    rotated = True
    while rotated and sweeps < _MAX_SWEEPS:
        rotated = False
        sweeps += 1
        for p, q in static(((0, 1), (0, 2), (1, 2))):
            x = B[:, p]
            y = B[:, q]
            c, s = _orthogonalize(x, y, tolerance)
            if s != 0.0:
                rotated = True
                B[:, p] = c * x - s * y
                B[:, q] = s * x + c * y
                v = V[:, p]
                w = V[:, q]
                V[:, p] = c * v - s * w
                V[:, q] = s * v + c * w
    # Sort by descending norm. Negating one column of each swap preserves rotations.
    for p, q in static(((0, 1), (1, 2), (0, 1))):
        x = B[:, p]
        y = B[:, q]
        if x.norm_sqr() < y.norm_sqr():
            B[:, p] = y
            B[:, q] = -x
            v = V[:, p]
            V[:, p] = V[:, q]
            V[:, q] = -v
    first = B[:, 0].norm()
    u0 = Vector([ops.one(size), 0.0, 0.0])
    if first > 0.0:
        u0 = B[:, 0] / first
    u1 = B[:, 1] - u0 * u0.dot(B[:, 1])
    rest = u1.norm()
    # For a rank-deficient matrix, the remainder is noise in an arbitrary direction.
    if rest > 4.0 * tolerance * first:
        u1 = u1 / rest
        u1 = (u1 - u0 * u0.dot(u1)).normalized()
    else:
        u1 = _perpendicular(u0)
    u2 = u0.cross(u1)
    S = ops.zero(A)
    # Rounding must not reorder equal singular values or make noise negative.
    second = min(max(u1.dot(B[:, 1]), 0.0), first)
    third = min(max(u2.dot(B[:, 2]), -second), second)
    S[0, 0] = first * size
    S[1, 1] = second * size
    S[2, 2] = third * size
    return Matrix.cols([u0, u1, u2]), S, V


@func
def _sym_eig3(A: Any, tolerance: Any) -> Any:
    size = abs(A).max()
    if size == 0.0:
        size = ops.one(size)
    B = A / size
    B[0, 1] = B[1, 0]
    B[0, 2] = B[2, 0]
    B[1, 2] = B[2, 1]
    V = ops.zero(A)
    for k in static(range(3)):
        V[k, k] = 1.0
    # Jacobi: rotate pairs of rows and columns until the matrix is diagonal.
    sweeps = 0
    rotated = True
    while rotated and sweeps < _MAX_SWEEPS:
        rotated = False
        sweeps += 1
        for p, q, r in static(((0, 1, 2), (0, 2, 1), (1, 2, 0))):
            g = B[p, q]
            if abs(g) > 0.25 * tolerance:
                rotated = True
                delta = B[q, q] - B[p, p]
                t = 2.0 * g / (abs(delta) + sqrt(delta * delta + 4.0 * g * g))
                if delta < 0.0:
                    t = -t
                c = 1.0 / sqrt(1.0 + t * t)
                s = c * t
                B[p, p] -= t * g
                B[q, q] += t * g
                B[p, q] = 0.0
                B[q, p] = 0.0
                x = B[p, r]
                y = B[q, r]
                B[p, r] = c * x - s * y
                B[r, p] = B[p, r]
                B[q, r] = s * x + c * y
                B[r, q] = B[q, r]
                v = V[:, p]
                w = V[:, q]
                V[:, p] = c * v - s * w
                V[:, q] = s * v + c * w
    values = Vector([B[0, 0], B[1, 1], B[2, 2]]) * size
    for p, q in static(((0, 1), (1, 2), (0, 1))):
        if values[p] > values[q]:
            a = values[p]
            values[p] = values[q]
            values[q] = a
            v = V[:, p]
            V[:, p] = V[:, q]
            V[:, q] = -v
    return values, V


__all__ = ["eig", "polar_decompose", "solve", "svd", "sym_eig"]
