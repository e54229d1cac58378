"""Sparse matrices of numbers or symbols, in SciPy's formats."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import inconsistent, not_traceable
from .symbols import Array, Nodes, Symbolic, Tracer, current_tracer, flattened, lift, nodes_of, wrap

Indices = npt.NDArray[np.int64]


def _indices(value: Any) -> Indices:
    return np.ascontiguousarray(value, dtype=np.int64).reshape(-1)


class SparseArray:
    """A sparse matrix by rows (``format="csr"``) or columns (``"csc"``), as SciPy has it: ``data``, ``indices``, ``indptr``.

    ``data`` are numbers, or symbols while a function is traced. Indices of a row (or column) must ascend.
    """

    __array_priority__ = 2000.0
    __array_ufunc__ = None

    def __init__(self, data: Any, indices: Any, indptr: Any, shape: tuple[int, int], format: str = "csr") -> None:
        self.data: Any = data if isinstance(data, (Array, np.ndarray)) else np.asarray(data)
        self.indices, self.indptr = _indices(indices), _indices(indptr)
        self.shape = (int(shape[0]), int(shape[1]))
        self.format = format
        self._check()

    def _check(self) -> None:
        rows, columns = self.shape if self.format == "csr" else self.shape[::-1]
        lines = "rows" if self.format == "csr" else "columns"
        count = len(self.indices)
        if self.format not in ("csr", "csc"):
            raise inconsistent(f"a sparse matrix has the format `csr` or `csc`, not `{self.format}`")
        if len(self.data) != count:
            raise inconsistent(f"a sparse matrix has {count} positions and {len(self.data)} values")
        starts = self.indptr
        if len(starts) != rows + 1 or starts[0] != 0 or starts[-1] != count or (np.diff(starts) < 0).any():
            raise inconsistent(f"the {lines} of a sparse matrix do not start at ascending positions from 0 to {count}")
        if count and (self.indices.min() < 0 or self.indices.max() >= columns):
            raise inconsistent(f"an entry is outside of a matrix of shape {self.shape}")
        inside = np.ones(max(count - 1, 0), dtype=bool)
        ends = starts[1:-1]
        inside[ends[(ends > 0) & (ends < count)] - 1] = False
        if (np.diff(self.indices)[inside] <= 0).any():
            raise inconsistent(f"the indices of one of the {lines} do not ascend", "call `sum_duplicates()` and `sort_indices()` first")

    @property
    def nnz(self) -> int:
        return len(self.indices)

    @property
    def is_symbolic(self) -> bool:
        return isinstance(self.data, Array)

    def __repr__(self) -> str:
        return f"SparseArray({self.format}, shape={self.shape}, nnz={self.nnz})"

    def _with(self, data: Any) -> SparseArray:
        return SparseArray(data, self.indices, self.indptr, self.shape, self.format)

    def same_pattern(self, other: SparseArray) -> bool:
        return (
            (self.format, self.shape) == (other.format, other.shape)
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.indices, other.indices)
        )

    def coordinates(self) -> tuple[Indices, Indices]:
        """Return the row and column of each entry."""
        lines = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        return (lines, self.indices) if self.format == "csr" else (self.indices, lines)

    def transpose(self) -> SparseArray:
        flipped = "csc" if self.format == "csr" else "csr"
        return SparseArray(self.data, self.indices, self.indptr, self.shape[::-1], flipped)

    T = property(transpose)

    def _converted(self, format: str) -> SparseArray:
        if self.format == format:
            return self
        rows, columns = self.coordinates()
        order = np.lexsort((columns, rows) if format == "csr" else (rows, columns))
        lines, inner = (rows, columns) if format == "csr" else (columns, rows)
        count = self.shape[0] if format == "csr" else self.shape[1]
        starts = np.concatenate([[0], np.cumsum(np.bincount(lines, minlength=count))])
        return SparseArray(self.data[order], inner[order], starts, self.shape, format)

    def tocsr(self) -> SparseArray:
        return self._converted("csr")

    def tocsc(self) -> SparseArray:
        return self._converted("csc")

    def toarray(self) -> Any:
        """Return a dense array."""
        rows, columns = self.coordinates()
        if self.is_symbolic:
            tracer = self.data._tracer
            dense = wrap(tracer, tracer.constants(np.zeros(self.shape)).copy())
        else:
            dense = np.zeros(self.shape, dtype=self.data.dtype)
        dense[rows, columns] = self.data
        return dense

    def diagonal(self) -> Any:
        rows, columns = self.coordinates()
        dense = self._zeros(min(self.shape))
        on = rows == columns
        dense[rows[on]] = self.data[np.nonzero(on)[0]]
        return dense

    def _zeros(self, count: int) -> Any:
        if self.is_symbolic:
            tracer = self.data._tracer
            return wrap(tracer, tracer.constants(np.zeros(count)).copy())
        return np.zeros(count, dtype=self.data.dtype)

    def to_scipy(self) -> Any:
        """Return a SciPy matrix of numbers."""
        if self.is_symbolic:
            raise not_traceable("SciPy's matrices have numbers, not symbols", "return the sparse array from the traced function")
        import scipy.sparse

        kind = scipy.sparse.csr_array if self.format == "csr" else scipy.sparse.csc_array
        return kind((self.data, self.indices, self.indptr), shape=self.shape)

    def __neg__(self) -> SparseArray:
        return self._with(-self.data)

    def __mul__(self, factor: Any) -> SparseArray:
        if np.ndim(factor) != 0:
            raise not_traceable("a sparse array is multiplied by a scalar, or with `@`")
        return self._with(self.data * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> SparseArray:
        return self._with(self.data / divisor)

    def __add__(self, other: Any) -> SparseArray:
        return _combined("add", self, as_sparse(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> SparseArray:
        return self + (-as_sparse(other))

    def __rsub__(self, other: Any) -> SparseArray:
        return as_sparse(other) + (-self)

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, SparseArray) or is_scipy(other):
            return _combined("multiply", self, as_sparse(other))
        rows, columns = self.coordinates()
        vector: Any = other if isinstance(other, Symbolic) else np.asarray(other)
        if vector.ndim != 1 or len(vector) != self.shape[1]:
            raise inconsistent(f"cannot multiply a matrix of shape {self.shape} and a vector of shape {vector.shape}")
        products = self.data * vector[columns]
        result = np.zeros_like(products, shape=self.shape[0])
        np.add.at(result, rows, products)
        return result

    def __rmatmul__(self, other: Any) -> Any:
        if is_scipy(other):
            return as_sparse(other) @ self
        return self.T @ other


def is_scipy(value: Any) -> bool:
    """Whether a value is a sparse matrix of SciPy, which need not be installed."""
    module = sys.modules.get("scipy.sparse")
    return module is not None and bool(module.issparse(value))


def as_sparse(value: Any) -> SparseArray:
    """Return a sparse array or a SciPy matrix as a sparse array."""
    if isinstance(value, SparseArray):
        return value
    if not is_scipy(value):
        raise not_traceable(f"a sparse array is needed, not {type(value).__name__}")
    if value.format not in ("csr", "csc"):
        value = value.tocsr()
    if not value.has_canonical_format:
        value = value.copy()
        value.sum_duplicates()
    return SparseArray(value.data, value.indices, value.indptr, value.shape, value.format)


def csr(data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> SparseArray:
    """Return a sparse array by rows."""
    return SparseArray(data, indices, indptr, shape, "csr")


def csc(data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> SparseArray:
    """Return a sparse array by columns."""
    return SparseArray(data, indices, indptr, shape, "csc")


def assemble(values: Any, rows: Any, columns: Any, shape: tuple[int, int]) -> SparseArray:
    """Return the matrix with these entries, by rows. Entries at the same position are added."""
    tracer = values._tracer if isinstance(values, Symbolic) else current_tracer()
    nodes, mask = lift(tracer, values)
    if mask:
        raise not_traceable("the entries of a sparse array are numbers, not truth values")
    at = [_indices(np.broadcast_to(n, nodes.shape)) for n in (rows, columns)]
    return from_rows(tracer, shape, tracer.call(tracer.native.assemble, *shape, *at, flattened(nodes)))


def from_rows(tracer: Tracer, shape: tuple[int, int], found: tuple[bytes, bytes, bytes]) -> SparseArray:
    """Return a matrix that the core has computed."""
    starts, indices = (np.frombuffer(part, dtype=np.int64) for part in found[:2])
    return SparseArray(wrap(tracer, nodes_of(found[2])), indices, starts, shape)


def _rows(tracer: Tracer, matrix: SparseArray) -> tuple[int, int, Indices, Indices, Nodes]:
    nodes, _ = lift(tracer, matrix.data)
    return (*matrix.shape, matrix.indptr, matrix.indices, flattened(nodes))


def _combined(what: str, a: SparseArray, b: SparseArray) -> SparseArray:
    symbolic = next((m.data for m in (a, b) if m.is_symbolic), None)
    tracer = current_tracer() if symbolic is None else symbolic._tracer
    shape = (a.shape[0], b.shape[1]) if what == "multiply" else a.shape
    function = tracer.native.multiply if what == "multiply" else tracer.native.add
    return from_rows(tracer, shape, tracer.call(function, _rows(tracer, a.tocsr()), _rows(tracer, b.tocsr())))
