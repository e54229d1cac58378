"""Sparse matrices, and their assembly in kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _native
from ..exceptions import WujiAssertionError, WujiIndexError, WujiRuntimeError, WujiRuntimeTypeError, WujiTypeError
from ..lang import context, dtypes, emit, runtime
from ..lang.access import ArrayVal
from ..lang.arguments import Parameter
from ..lang.compound import MatrixType, NdarrayType, SparseMatrixBuilderType
from ..lang.dtypes import DataType
from ..lang.field import Field
from ..lang.ndarray import Ndarray, ScalarNdarray, ndarray
from ..lang.signatures import MISSING
from ..lang.values import Expr

_FORMATS = ("col_major", "row_major")


def _float_type(dtype: Any, what: str) -> DataType:
    found = dtypes.need_scalar(dtype)
    if found not in (dtypes.f32, dtypes.f64):
        raise WujiRuntimeTypeError(f"`{what}` needs f32 or f64, not {found}")
    return found


def _count(value: Any, what: str) -> int:
    """Return a number of rows, columns or entries."""
    if not hasattr(value, "__index__") or not 0 <= value < 1 << 31:
        raise WujiRuntimeTypeError(f"invalid `{what}`: a number of rows, columns or entries must be an integer from 0 to 2^31 - 1, not {value!r}")
    return int(value)


def as_vector(value: Any, dtype: DataType, what: str) -> Any:
    """Convert a field, array or NumPy array to a 1-D NumPy array."""
    import numpy

    if isinstance(value, (Field, Ndarray)):
        value = value.to_numpy()
    found = numpy.asarray(value)
    if found.dtype.kind not in "fiub":
        raise WujiTypeError(f"`{what}` needs a field, array or NumPy array of numbers, not {type(value).__name__}")
    return numpy.ascontiguousarray(found, dtype=dtype.numpy_name).reshape(-1)


def like(result: Any, given: Any, dtype: DataType) -> Any:
    """Return the result as the same kind of container as the input: an array for an array, else a NumPy array."""
    if not isinstance(given, Ndarray):
        return result
    created = ScalarNdarray(dtype, (len(result),))
    created.from_numpy(result)
    return created



def is_symmetric(matrix: SparseMatrix) -> bool:
    """Return whether a matrix is symmetric up to rounding, or stores its lower triangle only."""
    import numpy

    rows, columns, values = _entries(matrix.matrix)
    if not len(values) or not (rows < columns).any():
        return True
    _, _, differences = _entries(matrix.matrix.plus(matrix.matrix.transposed(), -1.0))
    # Entries that kernels add up in any order differ in their last bits.
    tolerance = 1000 * numpy.finfo(values.dtype).eps * numpy.abs(values).max()
    return not len(differences) or bool(numpy.abs(differences).max() <= tolerance)


def _entries(matrix: _native.SparseMatrix) -> tuple[Any, Any, Any]:
    import numpy

    count = matrix.stored
    rows, columns = numpy.empty(count, numpy.int32), numpy.empty(count, numpy.int32)
    values = numpy.empty(count, dtypes.by_ir(matrix.dtype).numpy_name)
    matrix.triplets(rows, columns, values)
    return rows, columns, values


class SparseMatrixBuilder:
    """Assembles a sparse matrix in kernels: ``K[i, j] += v`` where ``K: ti.types.sparse_matrix_builder()``.

    Entries at the same position are added up.

    Args:
        num_rows: Number of rows.
        num_cols: Number of columns; that of rows by default.
        max_num_triplets: Capacity: the maximum number of entries.
        dtype: ``ti.f32`` or ``ti.f64``.
        storage_format: Accepted for compatibility.
    """

    def __init__(
        self,
        num_rows: int | None = None,
        num_cols: int | None = None,
        max_num_triplets: int = 0,
        dtype: Any = dtypes.f32,
        storage_format: str = "col_major",
    ) -> None:
        if num_rows is None:
            raise WujiRuntimeError("`SparseMatrixBuilder` needs a number of rows")
        if storage_format not in _FORMATS:
            raise WujiRuntimeError(f"`storage_format` must be one of {', '.join(_FORMATS)}, not {storage_format!r}")
        runtime.current()
        self.num_rows = _count(num_rows, "SparseMatrixBuilder")
        self.num_cols = _count(num_rows if num_cols is None else num_cols, "SparseMatrixBuilder")
        max_num_triplets = _count(max_num_triplets, "SparseMatrixBuilder")
        if self.num_rows < 0 or self.num_cols < 0 or max_num_triplets < 0:
            raise WujiRuntimeError(f"invalid `SparseMatrixBuilder`: {self.num_rows} x {self.num_cols} with {max_num_triplets} triplets")
        self.dtype = _float_type(dtype, "SparseMatrixBuilder")
        self.max_num_triplets = int(max_num_triplets)
        capacity = (self.max_num_triplets,)  # may be zero
        self._rows, self._columns = (ScalarNdarray(dtypes.i32, capacity) for _ in range(2))
        self._values = ScalarNdarray(self.dtype, capacity)
        self._count = ndarray(dtypes.i64, 1)

    @property
    def num_triplets(self) -> int:
        """Number of entries added since the last `build`."""
        return int(self._count[0])

    def _triplets(self) -> tuple[Any, Any, Any]:
        count = self.num_triplets
        if count > self.max_num_triplets:
            raise WujiRuntimeError(
                f"{count} entries were added to a `SparseMatrixBuilder` with `max_num_triplets={self.max_num_triplets}`; "
                f"{count - self.max_num_triplets} of them were dropped\n  = help: increase `max_num_triplets`"
            )
        return self._rows.to_numpy()[:count], self._columns.to_numpy()[:count], self._values.to_numpy()[:count]

    def print_triplets(self) -> None:
        """Print the entries added so far."""
        rows, columns, values = self._triplets()
        print(f"n={self.num_rows}, m={self.num_cols}, num_triplets={len(values)} (max={self.max_num_triplets})")
        for row, column, value in zip(rows, columns, values, strict=True):
            print(f"[{row}, {column}] = {value:g}")

    def build(self, dtype: Any = None, _format: str = "CSR") -> SparseMatrix:
        """Build the matrix and clear the builder."""
        try:
            rows, columns, values = self._triplets()
        finally:
            self._count[0] = 0
        try:
            native = _native.SparseMatrix(self.dtype.ir, self.num_rows, self.num_cols, rows, columns, values)
        except IndexError as e:
            raise WujiIndexError(f"{e}, which a kernel added to it") from None
        return SparseMatrix(sm=native)

    # Binding to kernels.
    def _wuji_key(self, annotation: Any) -> Any:
        if annotation is not SparseMatrixBuilderType and not isinstance(annotation, SparseMatrixBuilderType):
            raise WujiRuntimeTypeError(f"expected {annotation!r}, got a `SparseMatrixBuilder`")
        return ("sparse_matrix_builder", self.dtype)

    def _wuji_bind(self, binder: Any, name: str, get: Callable[[tuple[Any, ...]], Any]) -> BuilderVal:
        def part(attribute: str) -> ArrayVal:
            array: Ndarray = getattr(self, attribute)
            spec = NdarrayType(dtype=array.dtype, ndim=1)
            parameter = Parameter(name, f"{name}.{attribute[1:]}", spec, MISSING, False)
            created: ArrayVal = binder.array(parameter, spec, parameter.name, array, lambda args: getattr(get(args), attribute))
            return created

        return BuilderVal(name, part("_rows"), part("_columns"), part("_values"), part("_count"))


class BuilderVal:
    """A builder inside a kernel."""

    def __init__(self, name: str, rows: ArrayVal, columns: ArrayVal, values: ArrayVal, count: ArrayVal) -> None:
        self.name = name
        self.rows = rows
        self.columns = columns
        self.values = values
        self.count = count

    def _wuji_subscript(self, cx: context.Compilation, indices: list[Any]) -> Entry:
        if len(indices) != 2:
            raise WujiIndexError(f"`{self.name}` needs 2 indices (row, column), not {len(indices)}")
        for index in indices:
            if emit.element(index).is_float or (isinstance(index, Expr) and index.shape):
                raise WujiIndexError(f"{emit.describe(index)} cannot be an index")
        return Entry(self, [emit.convert(i, dtypes.i32) for i in indices])

    def __repr__(self) -> str:
        return f"the sparse matrix builder `{self.name}`"


class Entry:
    """``K[i, j]`` in a kernel. It only supports `+=` and `-=`."""

    def __init__(self, builder: BuilderVal, position: list[Expr]) -> None:
        self.builder = builder
        self.position = position

    def _wuji_update(self, what: str, value: Any) -> None:
        if what not in ("+", "-"):
            raise WujiTypeError(f"sparse matrix entries only support `+=` and `-=`, not `{what}=`")
        to = self.builder
        added = emit.fit(value, to.values.dtype)
        if what == "-":
            added = emit.unary("neg", added)
        cx, b = context.current(), context.builder()
        number = to.count._wuji_subscript(cx, [0]).atomic("add", 1)
        # Entries beyond the capacity are dropped, but counted for the error message.
        room = Expr(b.array_extent(to.values.number, 0), dtypes.i64)
        b.begin_if(emit.compare("lt", number, room, "<").id)
        for array, part in ((to.rows, self.position[0]), (to.columns, self.position[1]), (to.values, added)):
            array._wuji_subscript(cx, [number]).store(part)
        b.end_if()

    def __repr__(self) -> str:
        return f"an entry of {self.builder!r}"


class SparseMatrix:
    """A sparse matrix. Create it with `SparseMatrixBuilder.build`."""

    def __init__(
        self, n: int | None = None, m: int | None = None, sm: Any = None, dtype: Any = dtypes.f32, storage_format: str = "col_major"
    ) -> None:
        if storage_format not in _FORMATS:
            raise WujiRuntimeError(f"`storage_format` must be one of {', '.join(_FORMATS)}, not {storage_format!r}")
        if isinstance(sm, SparseMatrix):
            sm = sm.matrix
        if sm is None:
            if n is None:
                raise WujiRuntimeError("`SparseMatrix` needs a number of rows")
            import numpy

            n, m = _count(n, "SparseMatrix"), _count(n if m is None else m, "SparseMatrix")
            found = _float_type(dtype, "SparseMatrix")
            empty = numpy.zeros(0, dtype=numpy.int32)
            sm = _native.SparseMatrix(found.ir, n, m, empty, empty, numpy.zeros(0, dtype=found.numpy_name))
        self.matrix: _native.SparseMatrix = sm
        self.dtype = dtypes.by_ir(sm.dtype)

    @property
    def n(self) -> int:
        return self.matrix.rows

    @property
    def m(self) -> int:
        return self.matrix.columns

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.rows, self.matrix.columns

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return self.matrix.stored

    # Arithmetic.
    def __add__(self, other: Any) -> SparseMatrix:
        return self._plus(other, 1.0, "+")

    def __sub__(self, other: Any) -> SparseMatrix:
        return self._plus(other, -1.0, "-")

    def __neg__(self) -> SparseMatrix:
        return SparseMatrix(sm=self.matrix.scaled(-1.0))

    def _plus(self, other: Any, factor: float, what: str) -> SparseMatrix:
        right = self._other(other, what)
        if right.shape != self.shape:
            raise WujiAssertionError(f"Dimension mismatch between sparse matrices {self.shape} and {right.shape}: shape mismatch of `{what}`")
        return SparseMatrix(sm=self.matrix.plus(right.matrix, factor))

    def __mul__(self, other: Any) -> SparseMatrix:
        """Multiply by a scalar, or element-wise by a matrix."""
        if emit.is_number(other):
            return SparseMatrix(sm=self.matrix.scaled(float(other)))
        right = self._other(other, "*")
        if right.shape != self.shape:
            raise WujiAssertionError(
                f"Dimension mismatch between sparse matrices {self.shape} and {right.shape}: shape mismatch of `*`\n"
                "  = help: use `a @ b` for a matrix product"
            )
        return SparseMatrix(sm=self.matrix.times(right.matrix))

    def __rmul__(self, other: Any) -> SparseMatrix:
        return self.__mul__(other)

    def __matmul__(self, other: Any) -> Any:
        """Multiply by a matrix, or by a vector in a field, array or NumPy array."""
        if isinstance(other, SparseMatrix):
            right = self._other(other, "@")
            if right.n != self.m:
                raise WujiAssertionError(f"Dimension mismatch between sparse matrices {self.shape} and {right.shape}: shape mismatch of `@`")
            return SparseMatrix(sm=self.matrix.product(right.matrix))
        import numpy

        x = as_vector(other, self.dtype, "SparseMatrix @")
        if len(x) != self.m:
            raise WujiAssertionError(f"Dimension mismatch between sparse matrix {self.shape} and vector ({len(x)},): shape mismatch of `@`")
        y = numpy.empty(self.n, dtype=self.dtype.numpy_name)
        self.matrix.apply(x, y)
        return like(y, other, self.dtype)

    def _other(self, other: Any, what: str) -> SparseMatrix:
        if not isinstance(other, SparseMatrix):
            raise WujiTypeError(f"`{what}` is not defined for a sparse matrix and {type(other).__name__}")
        if other.dtype is not self.dtype:
            raise WujiTypeError(f"dtype mismatch: `{what}` of sparse matrices of {self.dtype} and {other.dtype}")
        return other

    def transpose(self) -> SparseMatrix:
        """Return the transpose."""
        return SparseMatrix(sm=self.matrix.transposed())

    # Elements.
    def _position(self, at: Any) -> tuple[int, int]:
        if not isinstance(at, tuple) or len(at) != 2:
            raise WujiIndexError(f"a sparse matrix needs 2 indices (row, column), not {at!r}")
        row, column = (int(k) for k in at)
        if not (0 <= row < self.n and 0 <= column < self.m):
            raise WujiIndexError(f"index {(row, column)} is out of range for a sparse matrix of shape {self.shape}")
        return row, column

    def __getitem__(self, at: Any) -> float:
        return self.matrix.get(*self._position(at))

    def __setitem__(self, at: Any, value: Any) -> None:
        self.matrix.set(*self._position(at), float(value))

    def build_from_ndarray(self, ndarray: Any) -> None:
        """Replace the entries by those of an array of vectors (row, column, value)."""
        if not isinstance(ndarray, Ndarray) or not isinstance(ndarray.element_type, MatrixType) or ndarray.element_shape != (3,):
            raise WujiRuntimeError("`build_from_ndarray` needs an array of vectors with 3 components: row, column, value")
        import numpy

        triplets = ndarray.to_numpy().reshape(-1, 3)
        rows, columns = (numpy.ascontiguousarray(triplets[:, k].astype(numpy.int32)) for k in range(2))
        values = numpy.ascontiguousarray(triplets[:, 2].astype(self.dtype.numpy_name))
        try:
            self.matrix = _native.SparseMatrix(self.dtype.ir, self.n, self.m, rows, columns, values)
        except IndexError as e:
            raise WujiIndexError(str(e)) from None

    def triplets(self) -> tuple[Any, Any, Any]:
        """Return rows, columns and values of all stored entries as NumPy arrays, in column-major order."""
        import numpy

        count = self.nnz
        rows, columns = (numpy.empty(count, dtype=numpy.int32) for _ in range(2))
        values = numpy.empty(count, dtype=self.dtype.numpy_name)
        self.matrix.triplets(rows, columns, values)
        return rows, columns, values

    def to_numpy(self) -> Any:
        """Convert to a dense NumPy array."""
        import numpy

        dense = numpy.zeros(self.shape, dtype=self.dtype.numpy_name)
        rows, columns, values = self.triplets()
        dense[rows, columns] = values
        return dense

    def mmwrite(self, filename: str) -> None:
        """Write the matrix to a file in Matrix Market format."""
        rows, columns, values = self.triplets()
        with open(filename, "w", encoding="ascii") as file:
            file.write(f"%%MatrixMarket matrix coordinate real general\n%\n{self.n} {self.m} {len(values)}\n")
            # Enough digits for an exact round trip.
            digits = 9 if self.dtype is dtypes.f32 else 17
            for row, column, value in zip(rows.tolist(), columns.tolist(), values.tolist(), strict=True):
                file.write(f"{row + 1} {column + 1} {value:.{digits}g}\n")

    def __str__(self) -> str:
        if self.n * self.m > 10_000:
            return f"<sparse matrix {self.n} x {self.m} of {self.dtype}, {self.nnz} elements>"
        rows = [[f"{x:g}" for x in row] for row in self.to_numpy().tolist()]
        width = max((len(x) for row in rows for x in row), default=0)
        return "\n".join("[" + ", ".join(x.rjust(width) for x in row) + "]" for row in rows)

    __repr__ = __str__


__all__ = ["SparseMatrix", "SparseMatrixBuilder"]
