"""Conjugate gradients on sparse matrices."""

from __future__ import annotations

from typing import Any

from ..exceptions import WujiRuntimeError, WujiTypeError
from .sparse_matrix import SparseMatrix, as_vector


class SparseCG:
    """Solve ``A @ x = b`` for a symmetric positive definite matrix by conjugate gradients.

    Args:
        A: The matrix.
        b: The right-hand side: a field, array or NumPy array.
        x0: The initial guess; zero by default.
        max_iter: Maximum number of iterations.
        atol: Stop when the residual is at most ``atol`` times the norm of ``b``.
    """

    def __init__(self, A: Any, b: Any, x0: Any = None, max_iter: int = 50, atol: float = 1e-6) -> None:
        if not isinstance(A, SparseMatrix):
            raise WujiTypeError(f"`SparseCG` needs a `SparseMatrix`, not {type(A).__name__}")
        if A.n != A.m:
            raise WujiRuntimeError(f"`SparseCG` needs a square matrix, not shape {A.shape}")
        self.A = A
        self.b = b
        self.max_iter = int(max_iter)
        self.atol = float(atol)
        self._right = as_vector(b, A.dtype, "SparseCG")
        self._start = None if x0 is None else as_vector(x0, A.dtype, "SparseCG")
        for vector in (self._right, self._start):
            if vector is not None and len(vector) != A.n:
                raise WujiRuntimeError(f"`SparseCG`: the matrix has {A.n} rows, the vector {len(vector)} components")
        self.iterations = 0

    def solve(self) -> tuple[Any, bool]:
        """Return the solution as a NumPy array, and whether it converged."""
        import numpy

        x = numpy.zeros_like(self._right) if self._start is None else self._start.copy()
        self.iterations, converged = self.A.matrix.conjugate(self._right, x, self.atol, self.max_iter)
        return x, converged


__all__ = ["SparseCG"]
