"""Equations with sparse matrices, solved exactly."""

from __future__ import annotations

from typing import Any

from .. import _native
from ..exceptions import WujiRuntimeError, WujiTypeError
from ..lang import dtypes
from ..lang.runtime import warn
from .sparse_matrix import SparseMatrix, _float_type, as_vector, like

_TYPES = ("LLT", "LDLT", "LU")
_ORDERINGS = ("AMD", "COLAMD")


class SparseSolver:
    """Solves ``A @ x = b``, again and again for one matrix.

    ``solver_type``: ``"LLT"`` for symmetric matrices with positive eigenvalues, ``"LDLT"`` for other symmetric ones, ``"LU"`` for all
    square ones. Of symmetric ones the lower triangle counts. ``ordering``, in which rows and columns are taken to keep factors sparse, is ``"AMD"``
    unless it is given; ``"LU"`` always takes ``"COLAMD"``.
    """

    def __init__(self, dtype: Any = dtypes.f32, solver_type: str = "LLT", ordering: str | None = None) -> None:
        asked, ordering = ordering, ordering or ("COLAMD" if solver_type == "LU" else "AMD")
        if solver_type not in _TYPES or ordering not in _ORDERINGS:
            raise WujiRuntimeError(
                f"The solver type {solver_type} with {ordering} is not supported: "
                f"there are {', '.join(_TYPES)} with {', '.join(_ORDERINGS)}"
            )
        self.dtype = _float_type(dtype, "SparseSolver")
        self.solver_type = solver_type
        if solver_type == "LU" and asked == "AMD":
            warn('`SparseSolver(solver_type="LU")` takes columns in the order of COLAMD; `ordering="AMD"` changes nothing, and results are the same')
        self._native = _native.SparseSolver(solver_type, ordering)
        self._analyzed = False
        self._rows: int | None = None
        self._solved = False

    def _matrix(self, matrix: Any, what: str) -> SparseMatrix:
        if not isinstance(matrix, SparseMatrix):
            raise WujiRuntimeError(f"`SparseSolver.{what}` takes a `SparseMatrix`, not {type(matrix).__name__}")
        if matrix.dtype is not self.dtype:
            raise WujiTypeError(f"a `SparseSolver` of {self.dtype} for a matrix of {matrix.dtype}")
        if matrix.n != matrix.m:
            raise WujiRuntimeError(f"a `SparseSolver` for a matrix of shape {matrix.shape}, which is not square")
        return matrix

    def analyze_pattern(self, sparse_matrix: SparseMatrix) -> None:
        """Looks at which elements the matrix has; others with the same ones need not be looked at again."""
        self._solved = False
        self._analyzed = self._native.analyze(self._matrix(sparse_matrix, "analyze_pattern").matrix)

    def factorize(self, sparse_matrix: SparseMatrix) -> None:
        """Computes the factors. `info` says whether there are any."""
        matrix = self._matrix(sparse_matrix, "factorize")
        self._rows = matrix.n
        self._solved = self._native.factorize(matrix.matrix)

    def compute(self, sparse_matrix: SparseMatrix) -> None:
        """Both of the above."""
        self.analyze_pattern(sparse_matrix)
        self.factorize(sparse_matrix)

    def solve(self, b: Any) -> Any:
        """The ``x`` with ``A @ x = b``: an array when ``b`` is one, a NumPy array when it is that or a field."""
        if self._rows is None:
            raise WujiRuntimeError("`SparseSolver.solve` before there are factors\n  = help: call `compute(matrix)` first")
        if not self._solved:
            help = "" if self.solver_type == "LU" else "\n  = help: `solver_type='LU'` works for all matrices that have an inverse"
            raise WujiRuntimeError(f"the matrix has no factors of type {self.solver_type}{help}")
        import numpy

        right = as_vector(b, self.dtype, "SparseSolver.solve")
        if len(right) != self._rows:
            raise WujiRuntimeError(f"a right side with {len(right)} numbers for a matrix with {self._rows} rows")
        x = numpy.empty_like(right)
        self._native.solve(right, x)
        return like(x, b, self.dtype)

    def info(self) -> bool:
        """Whether the last factorization succeeded."""
        return self._solved


__all__ = ["SparseSolver"]
