"""Sparse matrices and solvers, compared with NumPy."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wuji as ti

TYPES = [ti.f32, ti.f64]


@ti.kernel
def add_all(
    K: ti.types.sparse_matrix_builder(),
    rows: ti.types.ndarray(dtype=ti.i32, ndim=1),
    columns: ti.types.ndarray(dtype=ti.i32, ndim=1),
    values: ti.types.ndarray(ndim=1),
):
    for k in rows:
        K[rows[k], columns[k]] += values[k]


def random_matrix(shape: tuple[int, int], count: int, dtype: Any, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Return a sparse matrix and its dense NumPy copy. Some entries occur more than once."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, shape[0], count).astype(np.int32)
    columns = rng.integers(0, shape[1], count).astype(np.int32)
    values = rng.normal(size=count).astype(dtype.numpy_name)
    K = ti.linalg.SparseMatrixBuilder(*shape, max_num_triplets=count, dtype=dtype)
    add_all(K, rows, columns, values)
    dense = np.zeros(shape)
    np.add.at(dense, (rows, columns), values)
    return K.build(), dense


def near(a: Any, b: np.ndarray, dtype: Any) -> None:
    assert a.dtype == dtype.numpy_name
    assert np.allclose(a, b, atol=2e-5 if dtype is ti.f32 else 1e-12)


def test_assembly_in_kernels() -> None:
    K = ti.linalg.SparseMatrixBuilder(4, 4, max_num_triplets=100)

    @ti.kernel
    def fill(K: ti.types.sparse_matrix_builder(), v: ti.f32):
        for i in range(4):
            K[i, i] += v
            K[i, i] += i
            if i < 3:
                K[i, i + 1] -= 0.5

    fill(K, 2.0)
    A = K.build()
    expected = np.diag([2.0, 3, 4, 5]) - 0.5 * np.eye(4, k=1)
    assert (A.to_numpy() == expected).all()
    assert A.shape == (4, 4) and A.nnz == 7
    # `build` clears the builder.
    fill(K, 1.0)
    fill(K, 1.0)
    assert (K.build().to_numpy() == 2 * (expected - np.eye(4))).all()


def test_assembly_in_functions() -> None:
    @ti.func
    def both(K: ti.types.sparse_matrix_builder(), i: ti.i32, j: ti.i32, v: ti.f32):
        K[i, j] += v
        K[j, i] += v

    @ti.func
    def spring(K, i, v: ti.f32):
        both(K, i, i + 1, v)

    @ti.kernel
    def fill(K: ti.types.sparse_matrix_builder()):
        for i in range(3):
            spring(K, i, 1.0 + i)

    K = ti.linalg.SparseMatrixBuilder(4, 4, max_num_triplets=6)
    fill(K)
    upper = np.diag([1.0, 2, 3], k=1)
    assert (K.build().to_numpy() == upper + upper.T).all()


def test_two_builders() -> None:
    @ti.kernel
    def fill(K: ti.types.sparse_matrix_builder(), M: ti.types.sparse_matrix_builder()):
        for i in range(3):
            K[i, i] += 1
            M[i, i] += 2

    K, M = (ti.linalg.SparseMatrixBuilder(3, 3, max_num_triplets=6) for _ in range(2))
    fill(K, M)
    assert (K.build().to_numpy() == np.eye(3)).all() and (M.build().to_numpy() == 2 * np.eye(3)).all()
    fill(K, K)
    assert (K.build().to_numpy() == 3 * np.eye(3)).all()


def test_triplets_are_printed(capsys: Any) -> None:
    K = ti.linalg.SparseMatrixBuilder(2, 3, max_num_triplets=10)

    @ti.kernel
    def fill(K: ti.types.sparse_matrix_builder()):
        K[1, 2] += 1.5

    fill(K)
    K.print_triplets()
    assert capsys.readouterr().out == "n=2, m=3, num_triplets=1 (max=10)\n[1, 2] = 1.5\n"


def test_too_many_triplets() -> None:
    K = ti.linalg.SparseMatrixBuilder(10, 10, max_num_triplets=3)

    @ti.kernel
    def fill(K: ti.types.sparse_matrix_builder()):
        for i in range(10):
            K[i, i] += 1

    fill(K)
    with pytest.raises(ti.TaichiRuntimeError, match="10 entries .*max_num_triplets=3.*; 7 of them"):
        K.build()
    # The builder can be reused.
    assert K.build().nnz == 0


def test_triplets_out_of_range() -> None:
    K = ti.linalg.SparseMatrixBuilder(3, 3, max_num_triplets=3)

    @ti.kernel
    def fill(K: ti.types.sparse_matrix_builder(), i: ti.i32):
        K[i, 0] += 1

    for i in (3, -1):
        fill(K, i)
        with pytest.raises(ti.TaichiIndexError, match="shape"):
            K.build()


@pytest.mark.parametrize(
    "statement",
    ["K[0, 0] = 1.0", "K[0, 0] *= 2.0", "K[0] += 1.0", "K[0.5, 0] += 1.0", "x = K[0, 0] + 1.0"],
)
def test_other_operations_on_builders_are_rejected(statement: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(f"import wuji as ti\n@ti.kernel\ndef run(K: ti.types.sparse_matrix_builder()):\n    {statement}\n")
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(file.read_text(), str(file), "exec"), names)
    with pytest.raises(ti.TaichiCompilationError):
        names["run"](ti.linalg.SparseMatrixBuilder(2, 2, max_num_triplets=2))


def test_builder_arguments_are_checked() -> None:
    @ti.kernel
    def run(K: ti.types.sparse_matrix_builder()):
        pass

    with pytest.raises(ti.TaichiRuntimeTypeError, match="`K`"):
        run(3)
    with pytest.raises(ti.TaichiRuntimeTypeError, match="`K`"):
        run(ti.Texture(ti.Format.r8, (2, 2)))


@pytest.mark.parametrize("dtype", TYPES)
def test_arithmetic(dtype: Any) -> None:
    A, a = random_matrix((20, 30), 150, dtype)
    B, b = random_matrix((20, 30), 150, dtype, 1)
    C, c = random_matrix((30, 7), 60, dtype, 2)
    near(A.to_numpy(), a, dtype)
    near((A + B).to_numpy(), a + b, dtype)
    near((A - B).to_numpy(), a - b, dtype)
    near((A * B).to_numpy(), a * b, dtype)
    near((A * 2.5).to_numpy(), a * 2.5, dtype)
    near((3 * A).to_numpy(), 3 * a, dtype)
    near((-A).to_numpy(), -a, dtype)
    near((A @ C).to_numpy(), a @ c, dtype)
    near((A @ A.transpose()).to_numpy(), a @ a.T, dtype)
    near(A.transpose().to_numpy(), a.T, dtype)
    near((A - A).to_numpy(), 0 * a, dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_products_with_vectors(dtype: Any) -> None:
    A, a = random_matrix((20, 30), 150, dtype)
    x = np.random.default_rng(3).normal(size=30).astype(dtype.numpy_name)
    near(A @ x, a @ x, dtype)
    field, array = ti.field(dtype, 30), ti.ndarray(dtype, 30)
    field.from_numpy(x)
    array.from_numpy(x)
    near(A @ field, a @ x, dtype)
    result = A @ array
    assert isinstance(result, ti.Ndarray)
    near(result.to_numpy(), a @ x, dtype)


def test_element_access() -> None:
    A, a = random_matrix((5, 6), 10, ti.f32)
    assert all(A[i, j] == pytest.approx(a[i, j]) for i in range(5) for j in range(6))
    A[0, 5] = 7
    A[4, 0] = 8
    A[0, 5] = 9
    a[0, 5], a[4, 0] = 9, 8
    near(A.to_numpy(), a, ti.f32)
    for at in [(5, 0), (0, 6), (-1, 0), 3]:
        with pytest.raises(ti.TaichiIndexError):
            A[at]


def test_build_from_ndarray() -> None:
    A = ti.linalg.SparseMatrix(n=3, m=4, dtype=ti.f32)
    assert A.nnz == 0 and (A.to_numpy() == np.zeros((3, 4))).all()
    triplets = ti.Vector.ndarray(3, ti.f32, 3)
    triplets.from_numpy(np.array([[0, 0, 1.5], [2, 1, 3], [2, 1, 1]], dtype=np.float32))
    A.build_from_ndarray(triplets)
    assert A[0, 0] == 1.5 and A[2, 1] == 4 and A.nnz == 2
    with pytest.raises(ti.TaichiRuntimeError, match="3 components"):
        A.build_from_ndarray(ti.ndarray(ti.f32, 3))


def test_str_and_mmwrite(tmp_path: Path) -> None:
    K = ti.linalg.SparseMatrixBuilder(2, 2, max_num_triplets=4, dtype=ti.f64)
    add_all(K, np.array([0, 1], np.int32), np.array([1, 0], np.int32), np.array([1 / 3, -2]))
    A = K.build()
    assert str(A) == "[       0, 0.333333]\n[      -2,        0]"
    A.mmwrite(str(tmp_path / "a.mtx"))
    lines = (tmp_path / "a.mtx").read_text().splitlines()
    assert lines[0] == "%%MatrixMarket matrix coordinate real general"
    assert lines[2:] == ["2 2 2", "2 1 -2", f"1 2 {1 / 3:.17g}"]


def test_shape_and_type_mismatches_are_rejected() -> None:
    A, _ = random_matrix((3, 4), 5, ti.f32)
    B, _ = random_matrix((3, 4), 5, ti.f64)
    with pytest.raises(ti.TaichiTypeError, match="f32 and f64"):
        A + B
    with pytest.raises(ti.TaichiRuntimeError, match="shape mismatch"):
        A + A.transpose()
    with pytest.raises(ti.TaichiRuntimeError, match="`a @ b`"):
        A * A.transpose()
    with pytest.raises(ti.TaichiRuntimeError, match="shape mismatch"):
        A @ A
    with pytest.raises(AssertionError, match=r"Dimension mismatch between sparse matrix \(3, 4\) and vector \(3,\)"):
        A @ np.zeros(3, np.float32)
    with pytest.raises(ti.TaichiTypeError):
        A + 3
    with pytest.raises(ti.TaichiRuntimeTypeError, match="i32"):
        ti.linalg.SparseMatrixBuilder(3, 3, max_num_triplets=1, dtype=ti.i32)
    with pytest.raises(ti.TaichiRuntimeError, match="storage_format"):
        ti.linalg.SparseMatrixBuilder(3, 3, storage_format="diagonal")


def symmetric(n: int, dtype: Any, shift: float) -> tuple[Any, np.ndarray]:
    A, a = random_matrix((n, n), 4 * n, dtype)
    S, s = A + A.transpose(), a + a.T
    K = ti.linalg.SparseMatrixBuilder(n, n, max_num_triplets=n, dtype=dtype)
    k = np.arange(n, dtype=np.int32)
    add_all(K, k, k, np.full(n, shift, dtype.numpy_name))
    return S + K.build(), s + shift * np.eye(n)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("ordering", ["AMD", "COLAMD"])
@pytest.mark.parametrize("solver_type", ["LLT", "LDLT", "LU"])
@pytest.mark.filterwarnings("ignore:.*COLAMD")
def test_solvers(solver_type: str, ordering: str, dtype: Any) -> None:
    n = 200
    A, a = symmetric(n, dtype, 20.0)
    x = np.random.default_rng(4).normal(size=n)
    b = (a @ x).astype(dtype.numpy_name)
    solver = ti.linalg.SparseSolver(dtype=dtype, solver_type=solver_type, ordering=ordering)
    solver.analyze_pattern(A)
    solver.factorize(A)
    assert solver.info() is True
    field, array = ti.field(dtype, n), ti.ndarray(dtype, n)
    field.from_numpy(b)
    array.from_numpy(b)
    near(solver.solve(b), x, dtype)
    near(solver.solve(field), x, dtype)
    found = solver.solve(array)
    assert isinstance(found, ti.Ndarray)
    near(found.to_numpy(), x, dtype)
    # Same pattern with other values, then a different matrix.
    solver.factorize(A * 2.0)
    near(solver.solve(b) * 2, x, dtype)
    other, o = symmetric(50, dtype, 30.0)
    solver.compute(other)
    near(o.astype(dtype.numpy_name) @ solver.solve(np.ones(50, dtype.numpy_name)), np.ones(50), dtype)


@pytest.mark.parametrize("solver_type", ["LLT", "LDLT"])
def test_orderings_agree(solver_type: str) -> None:
    A, a = symmetric(300, ti.f32, 30.0)
    b = np.ones(300, np.float32)
    found = {}
    for ordering in ("AMD", "COLAMD", None):
        solver = ti.linalg.SparseSolver(solver_type=solver_type, ordering=ordering)
        solver.compute(A)
        found[ordering] = solver.solve(b)
        near(a.astype(np.float32) @ found[ordering], b, ti.f32)
    # Another order of additions rounds differently.
    assert (found["AMD"] != found["COLAMD"]).any()
    assert (found["AMD"] == found[None]).all()


def test_lu_ignores_the_ordering() -> None:
    with pytest.warns(UserWarning, match="COLAMD"):
        ti.linalg.SparseSolver(solver_type="LU", ordering="AMD")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ti.linalg.SparseSolver(solver_type="LU")
        ti.linalg.SparseSolver(solver_type="LU", ordering="COLAMD")


def test_lu_of_a_nonsymmetric_matrix() -> None:
    A, a = random_matrix((60, 60), 500, ti.f64)
    assert np.linalg.matrix_rank(a) == 60
    solver = ti.linalg.SparseSolver(dtype=ti.f64, solver_type="LU")
    solver.compute(A)
    b = np.arange(60.0)
    assert np.allclose(a @ solver.solve(b), b, atol=1e-8)


def test_ldlt_of_a_matrix_with_negative_eigenvalues() -> None:
    A, a = symmetric(40, ti.f64, 0.0)
    K = ti.linalg.SparseMatrixBuilder(40, 40, max_num_triplets=40, dtype=ti.f64)
    k = np.arange(40, dtype=np.int32)
    add_all(K, k, k, np.where(k % 2, 50.0, -50.0))
    A, a = A + K.build(), a + np.diag(np.where(k % 2, 50.0, -50.0))
    b = np.ones(40)
    solver = ti.linalg.SparseSolver(dtype=ti.f64, solver_type="LDLT")
    solver.compute(A)
    assert solver.info() and np.allclose(a @ solver.solve(b), b)
    llt = ti.linalg.SparseSolver(dtype=ti.f64, solver_type="LLT")
    llt.compute(A)
    assert llt.info() is False
    with pytest.raises(ti.TaichiRuntimeError, match="LLT factorization"):
        llt.solve(b)


@pytest.mark.parametrize("solver_type", ["LLT", "LDLT", "LU"])
def test_singular_matrices(solver_type: str) -> None:
    K = ti.linalg.SparseMatrixBuilder(2, 2, max_num_triplets=4)
    add_all(K, np.array([0, 0, 1, 1], np.int32), np.array([0, 1, 0, 1], np.int32), np.ones(4, np.float32))
    for matrix in (K.build(), ti.linalg.SparseMatrix(n=2)):
        solver = ti.linalg.SparseSolver(solver_type=solver_type)
        solver.compute(matrix)
        assert solver.info() is False


def test_solvers_reject_invalid_arguments() -> None:
    with pytest.raises(ti.TaichiRuntimeError, match="QR"):
        ti.linalg.SparseSolver(solver_type="QR")
    with pytest.raises(ti.TaichiRuntimeError, match="RANDOM"):
        ti.linalg.SparseSolver(ordering="RANDOM")
    with pytest.raises(ti.TaichiRuntimeTypeError, match="i32"):
        ti.linalg.SparseSolver(dtype=ti.i32)
    solver = ti.linalg.SparseSolver()
    with pytest.raises(ti.TaichiRuntimeError, match="needs a factorization"):
        solver.solve(np.zeros(3, np.float32))
    with pytest.raises(ti.TaichiTypeError, match="f64"):
        solver.compute(ti.linalg.SparseMatrix(n=3, dtype=ti.f64))
    with pytest.raises(ti.TaichiRuntimeError, match="square matrix"):
        solver.compute(ti.linalg.SparseMatrix(n=3, m=4))
    A, _ = symmetric(10, ti.f32, 30.0)
    solver.compute(A)
    with pytest.raises(ti.TaichiRuntimeError, match="10 rows"):
        solver.solve(np.zeros(3, np.float32))


@pytest.mark.parametrize(("dtype", "atol"), [(ti.f32, 1e-5), (ti.f64, 1e-12)])
def test_conjugate_gradients(dtype: Any, atol: float) -> None:
    A, a = symmetric(100, dtype, 20.0)
    b = np.random.default_rng(5).normal(size=100).astype(dtype.numpy_name)
    x, converged = ti.linalg.SparseCG(A, b, max_iter=200, atol=atol).solve()
    assert converged is True and np.linalg.norm(a @ x - b) <= 3 * atol * np.linalg.norm(b)
    start = ti.ndarray(dtype, 100)
    start.from_numpy(x)
    right = ti.ndarray(dtype, 100)
    right.from_numpy(b)
    again = ti.linalg.SparseCG(A, right, x0=start, max_iter=200, atol=10 * atol)
    y, converged = again.solve()
    assert isinstance(y, np.ndarray) and converged and again.iterations == 0
    _, converged = ti.linalg.SparseCG(A, b, max_iter=1, atol=atol).solve()
    assert converged is False


def test_poisson_in_two_dimensions() -> None:
    n = 64

    @ti.kernel
    def fill(K: ti.types.sparse_matrix_builder()):
        for i, j in ti.ndrange(n, n):
            row = i * n + j
            K[row, row] += 4.0
            for k in ti.static(range(4)):
                p = i + ti.static((1, -1, 0, 0)[k])
                q = j + ti.static((0, 0, 1, -1)[k])
                if 0 <= p < n and 0 <= q < n:
                    K[row, p * n + q] -= 1.0

    K = ti.linalg.SparseMatrixBuilder(n * n, n * n, max_num_triplets=5 * n * n, dtype=ti.f64)
    fill(K)
    A = K.build()
    assert A.nnz == 5 * n * n - 4 * n
    b = np.ones(n * n)
    solver = ti.linalg.SparseSolver(dtype=ti.f64, solver_type="LLT")
    solver.compute(A)
    x = solver.solve(b)
    assert np.abs(A @ x - b).max() < 1e-9
    y, converged = ti.linalg.SparseCG(A, b, max_iter=1000, atol=1e-12).solve()
    assert converged and np.abs(x - y).max() < 1e-6
