"""Direct sparse solvers."""

from __future__ import annotations

from typing import Any

from .. import _native
from ..exceptions import WujiRuntimeError, WujiTypeError
from ..lang import dtypes
from ..lang.runtime import warn
from .sparse_matrix import SparseMatrix, _float_type, as_vector, is_symmetric, like

_TYPES = ("LLT", "LDLT", "LU")
_ORDERINGS = ("AMD", "COLAMD")


class SparseSolver:
    """Solve ``A @ x = b`` by factorization. One factorization serves many right-hand sides.

    Args:
        dtype: ``ti.f32`` or ``ti.f64``.
        solver_type: ``"LLT"`` for symmetric positive definite matrices, ``"LDLT"`` for other symmetric ones, ``"LU"`` for any
            square one. Symmetric solvers take a symmetric matrix, or only its lower triangle.
        ordering: Fill-reducing ordering, ``"AMD"`` by default; ``"LU"`` always uses ``"COLAMD"``.
    """

    def __init__(self, dtype: Any = dtypes.f32, solver_type: str = "LLT", ordering: str | None = None) -> None:
        requested, ordering = ordering, ordering or ("COLAMD" if solver_type == "LU" else "AMD")
        if solver_type not in _TYPES or ordering not in _ORDERINGS:
            raise WujiRuntimeError(
                f"The solver type {solver_type} with {ordering} is not supported: "
                f"choose from {', '.join(_TYPES)} with {', '.join(_ORDERINGS)}"
            )
        self.dtype = _float_type(dtype, "SparseSolver")
        self.solver_type = solver_type
        if solver_type == "LU" and requested == "AMD":
            warn('`SparseSolver(solver_type="LU")` always uses the COLAMD ordering; `ordering="AMD"` has no effect')
        self._native = _native.SparseSolver(solver_type, ordering)
        self._analyzed = False
        self._rows: int | None = None
        self._solved = False
        self._symmetric = True

    def _matrix(self, matrix: Any, what: str) -> SparseMatrix:
        if not isinstance(matrix, SparseMatrix):
            raise WujiRuntimeError(f"`SparseSolver.{what}` needs a `SparseMatrix`, not {type(matrix).__name__}")
        if matrix.dtype is not self.dtype:
            raise WujiTypeError(f"dtype mismatch: `SparseSolver` {self.dtype}, matrix {matrix.dtype}")
        if matrix.n != matrix.m:
            raise WujiRuntimeError(f"`SparseSolver` needs a square matrix, not shape {matrix.shape}")
        return matrix

    def analyze_pattern(self, sparse_matrix: SparseMatrix) -> None:
        """Analyze the sparsity pattern. Matrices with the same pattern can share the analysis."""
        self._solved = False
        self._analyzed = self._native.analyze(self._matrix(sparse_matrix, "analyze_pattern").matrix)

    def factorize(self, sparse_matrix: SparseMatrix) -> None:
        """Compute the factorization. `info` returns whether it succeeded."""
        matrix = self._matrix(sparse_matrix, "factorize")
        self._rows = matrix.n
        # A signal may end it.
        self._solved = False
        # A symmetric solver reads the lower triangle only; it would solve another system.
        self._symmetric = self.solver_type == "LU" or is_symmetric(matrix)
        self._solved = self._symmetric and self._native.factorize(matrix.matrix)

    def compute(self, sparse_matrix: SparseMatrix) -> None:
        """Analyze the pattern and factorize."""
        self.analyze_pattern(sparse_matrix)
        self.factorize(sparse_matrix)

    def solve(self, b: Any) -> Any:
        """Return ``x`` with ``A @ x = b``: an array if ``b`` is an array, else a NumPy array."""
        if self._rows is None:
            raise WujiRuntimeError("`SparseSolver.solve` needs a factorization\n  = help: call `compute(matrix)` first")
        if not self._solved:
            help = "" if self.solver_type == "LU" else "\n  = help: use `solver_type='LU'`, which works for any invertible matrix"
            why = "" if self._symmetric else ": the matrix is not symmetric"
            raise WujiRuntimeError(f"the {self.solver_type} factorization of the matrix failed{why}{help}")
        import numpy

        right = as_vector(b, self.dtype, "SparseSolver.solve")
        if len(right) != self._rows:
            raise WujiRuntimeError(f"shape mismatch: the matrix has {self._rows} rows, the right-hand side {len(right)} components")
        x = numpy.empty_like(right)
        self._native.solve(right, x)
        return like(x, b, self.dtype)

    def info(self) -> bool:
        """Return whether the last factorization succeeded."""
        return self._solved


__all__ = ["SparseSolver"]
