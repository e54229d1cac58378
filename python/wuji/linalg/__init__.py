"""Sparse matrices and linear solvers."""

from .conjugate import SparseCG
from .matrix_free import LinearOperator, MatrixFreeBICGSTAB, MatrixFreeCG
from .sparse_matrix import SparseMatrix, SparseMatrixBuilder
from .sparse_solver import SparseSolver

__all__ = [
    "LinearOperator", "MatrixFreeBICGSTAB", "MatrixFreeCG", "SparseCG", "SparseMatrix", "SparseMatrixBuilder", "SparseSolver",
]  # fmt: skip
