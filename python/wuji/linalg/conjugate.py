"""Equations with sparse matrices, solved step by step."""

from __future__ import annotations

from typing import Any

from ..exceptions import WujiRuntimeError, WujiTypeError
from .sparse_matrix import SparseMatrix, as_vector


class SparseCG:
    """Solves ``A @ x = b`` for a symmetric matrix with positive eigenvalues, by conjugate gradients.

    Ends after ``max_iter`` steps, or when what is left of ``b`` is at most ``atol`` of its length. ``x0`` is where it starts.
    """

    def __init__(self, A: Any, b: Any, x0: Any = None, max_iter: int = 50, atol: float = 1e-6) -> None:
        if not isinstance(A, SparseMatrix):
            raise WujiTypeError(f"`SparseCG` takes a `SparseMatrix`, not {type(A).__name__}")
        if A.n != A.m:
            raise WujiRuntimeError(f"`SparseCG` of a matrix of shape {A.shape}, which is not square")
        self.A = A
        self.b = b
        self.max_iter = int(max_iter)
        self.atol = float(atol)
        self._right = as_vector(b, A.dtype, "SparseCG")
        self._start = None if x0 is None else as_vector(x0, A.dtype, "SparseCG")
        for vector in (self._right, self._start):
            if vector is not None and len(vector) != A.n:
                raise WujiRuntimeError(f"`SparseCG` of a matrix with {A.n} rows and a vector with {len(vector)} numbers")
        self.iterations = 0

    def solve(self) -> tuple[Any, bool]:
        """The solution as a NumPy array, and whether it is as exact as was asked for."""
        import numpy

        x = numpy.zeros_like(self._right) if self._start is None else self._start.copy()
        self.iterations, converged = self.A.matrix.conjugate(self._right, x, self.atol, self.max_iter)
        return x, converged


__all__ = ["SparseCG"]
