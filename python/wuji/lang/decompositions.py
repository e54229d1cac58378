"""Decompositions of 2x2 and 3x3 matrices in kernels: SVD, polar, eigenvalues; and linear solves.

The decompositions are functions of the Rust library, `wuji::lang`, which the builder adds to the kernel.
Their arithmetic is precise: results do not depend on the math mode.
"""

from __future__ import annotations

from typing import Any

from ..exceptions import WujiCompilationError, WujiSyntaxError
from . import context, dtypes, emit, ops
from .compound import MatrixType, VectorType
from .dtypes import DataType, defaults
from .matrix import Matrix
from .ops import abs, cmp_gt, select
from .values import Expr


def _need_square(value: Any, what: str, dt: Any) -> tuple[Expr, DataType]:
    """Convert a 2x2 or 3x3 matrix to a run-time matrix of floats; return it and the type of the results."""
    if context.compiling() is None:
        raise WujiSyntaxError(f"`{what}` can only be called in a kernel: Taichi functions cannot be called from Python-scope")
    matrix = emit.expr(value)
    if matrix.shape not in ((2, 2), (3, 3)):
        raise WujiCompilationError(f"{what.upper() if what == 'svd' else what} only supports 2D and 3D matrices (2x2 or 3x3), not shape {list(matrix.shape)}")
    dtype = _float(matrix.dtype, dt)
    # Half precision is computed in single precision and rounded.
    return emit.convert(matrix, dtypes.f32 if dtype is dtypes.f16 else dtype), dtype


def _float(dtype: DataType, dt: Any) -> DataType:
    """Return the float type to compute with: ``dt`` if given, else that of the matrix."""
    wanted = dtypes.need_scalar(dt) if dt is not None else dtype
    return wanted if wanted.is_float else defaults.fp


def _parts(name: str, matrix: Any) -> list[int]:
    """Emit a call of a decomposition of the library; return the numbers of its results."""
    builder = context.builder()
    result = builder.call(builder.decomposition(name, matrix.dtype.ir, matrix.shape[0]), [matrix.id])
    assert result is not None
    return [builder.extract(result, k) for k in range(3 if name == "svd" else 2)]


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
    matrix, dtype = _need_square(A, "svd", dt)
    n = matrix.shape[0]
    u, sigma, v = _parts("svd", matrix)
    values = emit.components(Expr(sigma, VectorType(n, matrix.dtype)))
    zero = emit.constant(0.0, matrix.dtype)
    s = emit.compose([values[r] if r == c else zero for r in range(n) for c in range(n)], (n, n), matrix.dtype)
    return tuple(emit.convert(x, dtype) for x in (Expr(u, matrix.ty), s, Expr(v, matrix.ty)))


def polar_decompose(A: Any, dt: Any = None) -> Any:
    """Compute the polar decomposition ``A = U @ P`` of a 2x2 or 3x3 matrix; ``U`` is orthogonal, ``P`` symmetric.

    2x2: ``P`` is positive semidefinite. 3x3: ``U`` is a rotation, even if the determinant of ``A`` is negative.

    Returns:
        ``U, P``.
    """
    matrix, dtype = _need_square(A, "polar_decompose", dt)
    return tuple(emit.convert(Expr(x, matrix.ty), dtype) for x in _parts("polar", matrix))


def sym_eig(A: Any, dt: Any = None) -> Any:
    """Compute the eigenvalues and eigenvectors of a symmetric 2x2 or 3x3 matrix. Only the lower triangle is read.

    Eigenvalues are in descending order for 2x2 and in ascending order for 3x3.

    Returns:
        Eigenvalues as a vector, and normalized eigenvectors as the columns of a matrix.
    """
    matrix, dtype = _need_square(A, "sym_eig", dt)
    n = matrix.shape[0]
    a = emit.components(matrix)
    matrix = emit.compose([a[max(r, c) * n + min(r, c)] for r in range(n) for c in range(n)], (n, n), matrix.dtype)
    found = _parts("symmetric_eigen", matrix)
    values, vectors = Expr(found[0], VectorType(n, matrix.dtype)), Expr(found[1], matrix.ty)
    if n == 3:
        # Ascending. Negating one of two columns makes the swap a rotation.
        x, y, z = emit.components(values)
        values = emit.compose([z, y, x], (3,), matrix.dtype)
        v = emit.components(vectors)
        vectors = emit.compose([w for r in (0, 3, 6) for w in (v[r + 2], v[r + 1], ops.neg(v[r]))], (3, 3), matrix.dtype)
    return emit.convert(values, dtype), emit.convert(vectors, dtype)


def eig(A: Any, dt: Any = None) -> Any:
    """Compute the eigenvalues and eigenvectors, possibly complex, of a 2x2 matrix.

    The larger eigenvalue, or the one with a positive imaginary part, comes first.

    Returns:
        Eigenvalues as the rows of a 2x2 matrix (real part, imaginary part), and eigenvectors as the columns of a 4x2 matrix
        (real and imaginary part of the first component, then of the second).
    """
    matrix, dtype = _need_square(A, "eig", dt)
    _need_size(2, matrix, "eig")
    values, vectors = _parts("eigen", matrix)
    columns = MatrixType(4, 2, 2, matrix.dtype)
    return emit.convert(Expr(values, matrix.ty), dtype), emit.convert(Expr(vectors, columns), dtype)


def _precise(op: str, a: Any, b: Any) -> Expr:
    return emit.binary(f"precise_{op}", a, b, op)


def solve(A: Any, b: Any, dt: Any = None) -> Any:
    """Solve ``A @ x = b`` for a 2x2 or 3x3 matrix. The result is not finite if ``A`` is singular."""
    matrix, dtype = _need_square(A, "solve", dt)
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
            factor = _precise("div", rows[r][k], rows[k][k])
            rows[r] = [_precise("sub", a, _precise("mul", factor, b)) for a, b in zip(rows[r], rows[k], strict=True)]
    found: list[Any] = [None] * n
    for k in reversed(range(n)):
        rest = rows[k][n]
        for c in range(k + 1, n):
            rest = _precise("sub", rest, _precise("mul", rows[k][c], found[c]))
        found[k] = _precise("div", rest, rows[k][k])
    return Matrix([emit.convert(x, dtype) for x in found])


__all__ = ["eig", "polar_decompose", "solve", "svd", "sym_eig"]
