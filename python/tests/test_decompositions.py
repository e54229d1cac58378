"""Decompositions of small matrices, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import ON_GPU

import wuji as ti

# Tolerance, relative to the largest entry of the matrix.
NEAR = {ti.f32: 1e-6, ti.f64: 2e-15}
TYPES = [ti.f32, ti.f64]


def matrices(n: int) -> np.ndarray:
    """Random matrices, and many kinds of degenerate ones."""
    rng = np.random.default_rng(7)
    turn, _ = np.linalg.qr(rng.normal(size=(n, n)))
    other, _ = np.linalg.qr(rng.normal(size=(n, n)))
    mirror = np.eye(n)
    mirror[0, 0] = -1
    rank_one = np.outer(rng.normal(size=n), rng.normal(size=n))
    repeated = np.diag([2.0] * (n - 1) + [1.0])
    small = np.diag(10.0 ** -np.arange(n) ** 2)
    special = [
        np.zeros((n, n)),
        np.eye(n),
        -np.eye(n),
        mirror,
        mirror[::-1],
        turn,
        turn @ mirror,
        rank_one,
        turn @ repeated @ other,
        turn @ small @ other,
        turn @ repeated @ turn.T,
        np.ones((n, n)),
        np.triu(np.ones((n, n))),
        np.fliplr(np.eye(n)),
        np.diag(np.arange(n) + 1.0),
        np.diag(np.arange(n)[::-1] * 1.0),
        1e-12 * rng.normal(size=(n, n)),
        1e12 * rng.normal(size=(n, n)),
        1e-25 * rng.normal(size=(n, n)),
        1e25 * rng.normal(size=(n, n)),
    ]
    return np.concatenate([np.array(special), rng.normal(size=(200, n, n))])


def near(a: np.ndarray, b: np.ndarray, size: np.ndarray, dtype: Any, times: float = 1.0) -> None:
    error = np.abs(a.astype(np.float64) - b.astype(np.float64)).reshape(len(a), -1).max(axis=1)
    assert np.isfinite(error).all()
    worst = int(np.argmax(error - NEAR[dtype] * times * size))
    assert error[worst] <= NEAR[dtype] * times * size[worst] + 1e-300, (worst, error[worst], size[worst])


def orthogonal(q: np.ndarray, dtype: Any) -> None:
    n = q.shape[1]
    near(np.einsum("kij,kil->kjl", q, q), np.broadcast_to(np.eye(n), q.shape), np.ones(len(q)), dtype)


def fields(n: int, dtype: Any, count: int, *shapes: tuple[int, ...]) -> list[Any]:
    make = lambda s: ti.Vector.field(s[0], dtype, count) if len(s) == 1 else ti.Matrix.field(*s, dtype, count)  # noqa: E731
    return [make(s) for s in ((n, n), *shapes)]


def given(n: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    a = matrices(n).astype(dtype.numpy_name)
    return a, np.abs(a).max(axis=(1, 2)).astype(np.float64)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [2, 3])
def test_svd(n: int, dtype: Any) -> None:
    a, size = given(n, dtype)
    A, U, S, V = fields(n, dtype, len(a), (n, n), (n, n), (n, n))
    A.from_numpy(a)

    @ti.kernel
    def run():
        for i in A:
            U[i], S[i], V[i] = ti.svd(A[i])

    run()
    u, s, v = U.to_numpy(), S.to_numpy(), V.to_numpy()
    orthogonal(u, dtype)
    orthogonal(v, dtype)
    near(np.einsum("kij,kjl,kml->kim", u, s, v), a, size, dtype)
    values = np.einsum("kii->ki", s)
    assert (s[:, ~np.eye(n, dtype=bool)] == 0).all()
    near(np.abs(values), np.linalg.svd(a.astype(np.float64))[1], size, dtype)
    assert (np.linalg.det(v.astype(np.float64)) > 0).all()
    if n == 2:
        assert (values >= 0).all() and (values[:, 0] >= values[:, 1]).all()
    else:
        assert (np.linalg.det(u.astype(np.float64)) > 0).all()
        assert (values[:, :2] >= 0).all() and (values[:, 0] >= values[:, 1]).all()
        assert (values[:, 1] >= np.abs(values[:, 2])).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [2, 3])
def test_polar_decompose(n: int, dtype: Any) -> None:
    a, size = given(n, dtype)
    A, U, P = fields(n, dtype, len(a), (n, n), (n, n))
    A.from_numpy(a)

    @ti.kernel
    def run():
        for i in A:
            U[i], P[i] = ti.polar_decompose(A[i])

    run()
    u, p = U.to_numpy(), P.to_numpy()
    orthogonal(u, dtype)
    near(u @ p, a, size, dtype, 2)
    near(p, np.swapaxes(p, 1, 2), size, dtype)
    if n == 3:
        assert (np.linalg.det(u.astype(np.float64)) > 0).all()
    else:
        assert (np.linalg.eigvalsh(p.astype(np.float64)) >= -4 * NEAR[dtype] * size[:, None]).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [2, 3])
def test_sym_eig(n: int, dtype: Any) -> None:
    a, _ = given(n, dtype)
    a = (a + np.swapaxes(a, 1, 2)) / 2
    size = np.abs(a).max(axis=(1, 2)).astype(np.float64)
    A, L, V = fields(n, dtype, len(a), (n,), (n, n))
    A.from_numpy(a)

    @ti.kernel
    def run():
        for i in A:
            L[i], V[i] = ti.sym_eig(A[i])

    run()
    values, v = L.to_numpy(), V.to_numpy()
    orthogonal(v, dtype)
    near(a @ v, v * values[:, None, :], size, dtype, 2)
    expected = np.linalg.eigvalsh(a.astype(np.float64))
    near(values, expected[:, ::-1] if n == 2 else expected, size, dtype)
    order = values[:, :-1] >= values[:, 1:] if n == 2 else values[:, :-1] <= values[:, 1:]
    assert order.all()


@pytest.mark.parametrize("dtype", TYPES)
def test_eig(dtype: Any) -> None:
    a, size = given(2, dtype)
    A, L, V = fields(2, dtype, len(a), (2, 2), (4, 2))
    A.from_numpy(a)

    @ti.kernel
    def run():
        for i in A:
            L[i], V[i] = ti.eig(A[i])

    run()
    l, v = L.to_numpy().astype(np.float64), V.to_numpy().astype(np.float64)
    values = l[..., 0] + 1j * l[..., 1]
    vectors = v[:, 0::2, :] + 1j * v[:, 1::2, :]
    near(np.linalg.norm(vectors, axis=1), np.ones((len(a), 2)), np.ones(len(a)), dtype)
    residual = np.abs(a.astype(np.float64) @ vectors - vectors * values[:, None, :])
    near(residual, 0 * residual, size, dtype, 2)
    # Trace and determinant confirm that both eigenvalues were found.
    exact = a.astype(np.float64)
    near(np.sum(values, axis=1).real, np.trace(exact, axis1=1, axis2=2), size, dtype, 2)
    near(np.prod(values / np.where(size, size, 1)[:, None], axis=1).real, np.linalg.det(exact / np.where(size, size, 1)[:, None, None]), np.ones(len(a)), dtype, 4)
    real = l[:, 0, 1] == 0
    assert (l[real, 0, 0] >= l[real, 1, 0]).all() and (l[~real, 0, 1] > 0).all() and not real.all() and real.any()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [2, 3])
def test_solve(n: int, dtype: Any) -> None:
    a, size = given(n, dtype)
    keep = [k for k in range(len(a)) if size[k] and np.linalg.cond(a[k].astype(np.float64)) < 100]
    a, size = a[keep], size[keep]
    x = np.random.default_rng(3).normal(size=(len(a), n))
    b = np.einsum("kij,kj->ki", a.astype(np.float64), x).astype(dtype.numpy_name)
    A, B, X = fields(n, dtype, len(a), (n,), (n,))
    A.from_numpy(a)
    B.from_numpy(b)

    @ti.kernel
    def run():
        for i in A:
            X[i] = ti.solve(A[i], B[i])

    run()
    near(X.to_numpy(), x, np.ones(len(a)), dtype, 100)


def hard_matrices(n: int, dtype: Any) -> np.ndarray:
    """Matrices on which careless arithmetic underflows, overflows or cancels."""
    rng = np.random.default_rng(11)
    count, single = 25, dtype is ti.f32
    large, small = (37.9, -38.0) if single else (300.0, -300.0)
    any_ = lambda: rng.uniform(-1, 1, size=(count, n, n))  # noqa: E731
    power = lambda low, high: 10.0 ** rng.uniform(low, high, size=(count, 1, 1))  # noqa: E731
    turn, other = (np.stack([np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(count)]) for _ in range(2))
    eye = np.eye(n)
    shear = np.zeros((count, n, n))
    shear[:, 0, 1] = power(-45 if single else small, -1)[:, 0, 0]
    diagonal = eye * rng.normal(size=(count, 1, n))
    equal = 1 + power(-20, -1) * rng.normal(size=(count, 1, n))
    kinds = [
        any_() * power(small, large),
        any_() * 10.0 ** rng.uniform(-30 if single else -250, 0, size=(count, n, n)),
        eye + any_() * power(-45 if single else small, -1),
        eye + any_() * power(-19, -17),
        eye + shear,
        diagonal + any_() * power(-40, -1),
        turn * power(small, large),
        turn * equal @ np.swapaxes(other, 1, 2),
        turn * 10.0 ** rng.uniform(-30, 0, size=(count, 1, n)) @ np.swapaxes(other, 1, 2),
        any_()[:, :, :1] * any_()[:, :1, :],
        rng.integers(-2, 3, size=(count, n, n)),
        rng.integers(-3, 4, size=(count, n, n)) * (1e-45 if single else 5e-324),
        np.broadcast_to([[1, 1e-22], [0, 1]], (1, 2, 2)) if n == 2 else np.zeros((1, n, n)),
        np.broadcast_to([[1, 3.1e-19], [-3.2e-19, 1]], (1, 2, 2)) if n == 2 else np.ones((1, n, n)),
    ]
    return np.concatenate(kinds).astype(dtype.numpy_name)


def in_ulps(error: np.ndarray, size: np.ndarray, dtype: Any) -> float:
    """The largest error, next to the size of each matrix. Subnormal numbers have few digits."""
    info = np.finfo(dtype.numpy_name)
    rest = np.abs(error).reshape(len(error), -1).max(axis=1) - 4 * info.tiny
    assert not np.isnan(rest).any()
    return float((np.maximum(rest, 0) / np.where(size > 0, size, 1)).max() / info.eps)


def decompose(a: np.ndarray, dtype: Any) -> list[np.ndarray]:
    n, count = a.shape[1], len(a)
    A, U, S, V, R, P, W = (ti.Matrix.field(n, n, dtype, count) for _ in range(7))
    L = ti.Vector.field(n, dtype, count)
    F, E = ti.Matrix.field(2, 2, dtype, count), ti.Matrix.field(4, 2, dtype, count)
    A.from_numpy(a)

    @ti.kernel
    def run():
        for i in A:
            U[i], S[i], V[i] = ti.svd(A[i])
            R[i], P[i] = ti.polar_decompose(A[i])
            L[i], W[i] = ti.sym_eig(A[i])
            if ti.static(n == 2):
                F[i], E[i] = ti.eig(A[i])

    run()
    return [x.to_numpy() for x in (U, S, V, R, P, L, W, F, E)]


@pytest.mark.skipif(ON_GPU, reason="tiers and the interpreter are of the CPU; a GPU takes subnormal numbers for zeros")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [2, 3])
def test_hard_matrices_in_every_tier_and_math_mode(n: int, dtype: Any) -> None:
    a = hard_matrices(n, dtype)
    # Fast math flushes subnormal numbers. Apart from that, all results are the same.
    for fast_math in (True, False):
        results = []
        for options in ({"tier": "fast"}, {"tier": "best"}, {"interpreter": True}):
            ti.init(arch=ti.cpu, offline_cache=False, verbose=False, fast_math=fast_math, **options)
            results.append(decompose(a, dtype))
        for other in results[1:]:
            for x, y in zip(results[0], other, strict=True):
                np.testing.assert_array_equal(x, y)
        check_decompositions(a, dtype, results[0])


def check_decompositions(a: np.ndarray, dtype: Any, results: list[np.ndarray]) -> None:
    n = a.shape[1]
    u, s, v, r, p, l, w, f, e = (x.astype(np.longdouble) for x in results)
    exact = a.astype(np.longdouble)
    size = np.sqrt((exact**2).sum(axis=(1, 2)))
    for q in (u, v, r, w):
        assert in_ulps(np.swapaxes(q, 1, 2) @ q - np.eye(n), np.ones(len(a)), dtype) < 4.5
    assert in_ulps(u @ s @ np.swapaxes(v, 1, 2) - exact, size, dtype) < 4.5
    assert in_ulps(r @ p - exact, size, dtype) < 4.5
    assert (p == np.swapaxes(p, 1, 2)).all()
    values = np.einsum("kii->ki", s)
    assert (np.diff(np.abs(values), axis=1) <= 0).all() and (values[:, : 2 if n == 3 else None] >= 0).all()
    lower = np.tril(exact) + np.swapaxes(np.tril(exact, -1), 1, 2)
    assert in_ulps((w * l[:, None, :]) @ np.swapaxes(w, 1, 2) - lower, size, dtype) < 4.5
    assert ((np.diff(l, axis=1) <= 0) if n == 2 else (np.diff(l, axis=1) >= 0)).all()
    if n == 2:
        vectors = e[:, 0::2, :] + 1j * e[:, 1::2, :]
        lengths = np.sqrt((np.abs(vectors) ** 2).sum(axis=1))
        assert in_ulps(lengths - 1, np.ones(len(a)), dtype) < 3
        residual = exact @ vectors - vectors * (f[..., 0] + 1j * f[..., 1])[:, None, :]
        assert in_ulps(np.abs(residual), size, dtype) < 3


@pytest.mark.parametrize("n", [2, 3])
def test_factors_of_a_matrix_near_the_identity_do_not_drift(n: int) -> None:
    small = 10.0 ** np.linspace(-45, -7.9, 500)
    a = np.eye(n) + small[:, None, None] * np.triu(np.ones((n, n)), 1)
    U, S, V, R = decompose(a.astype(np.float32), ti.f32)[:4]
    for rotation in (U @ np.swapaxes(V, 1, 2), R, S):
        assert (np.einsum("kii->ki", rotation) == 1).all()


def test_solve_of_large_and_small_matrices() -> None:
    scales = 10.0 ** np.linspace(-36, 37, 147)
    base = np.array([[4.0, 1.0, 2.0], [1.0, 3.0, 0.0], [2.0, 0.0, 5.0]])
    a = (base * scales[:, None, None]).astype(np.float32)
    b = (base @ [1.0, 2.0, 3.0] * scales[:, None]).astype(np.float32)
    A, B, X = fields(3, ti.f32, len(a), (3,), (3,))
    A.from_numpy(a)
    B.from_numpy(b)

    @ti.kernel
    def run():
        for i in A:
            X[i] = ti.solve(A[i], B[i])

    run()
    np.testing.assert_allclose(X.to_numpy(), np.broadcast_to([1.0, 2.0, 3.0], (len(a), 3)), rtol=5e-6)


def test_half_precision() -> None:
    @ti.kernel
    def run() -> ti.types.vector(2, ti.f16):
        u, s, v = ti.svd(ti.Matrix([[ti.f16(3.0), ti.f16(0.0)], [ti.f16(4.0), ti.f16(5.0)]]))
        return ti.Vector([s[0, 0], s[1, 1]])

    np.testing.assert_allclose(run().to_numpy(), [45**0.5, 5**0.5], rtol=1e-3)


def test_solve_needs_pivots() -> None:
    @ti.kernel
    def run() -> ti.types.vector(3, ti.f32):
        return ti.solve(ti.Matrix([[0.0, 0.0, 2.0], [0.0, 3.0, 0.0], [4.0, 0.0, 0.0]]), ti.Vector([2.0, 3.0, 4.0]))

    assert list(run()) == [1.0, 1.0, 1.0]


def test_decompositions_outside_loops_and_of_integers() -> None:
    @ti.kernel
    def run() -> ti.f32:
        u, s, v = ti.svd(ti.Matrix([[3, 0, 0], [0, 2, 0], [0, 0, 1]]))
        return s[0, 0] * 100 + s[1, 1] * 10 + s[2, 2]

    assert run() == pytest.approx(321)


def test_explicit_dtype() -> None:
    @ti.kernel
    def run() -> ti.f64:
        values, vectors = ti.sym_eig(ti.Matrix([[2.0, 0.0], [0.0, 1.0 / 3.0]]), ti.f64)
        return values[1]

    assert run() == pytest.approx(1 / 3, rel=1e-6)


@pytest.mark.parametrize("what", [ti.svd, ti.polar_decompose, ti.sym_eig, ti.eig])
def test_other_shapes_are_rejected(what: Any) -> None:
    @ti.kernel
    def run():
        what(ti.Matrix.zero(ti.f32, 4, 4))

    with pytest.raises(ti.TaichiCompilationError, match="2x2 or 3x3"):
        run()


def test_eig_of_3x3_is_rejected() -> None:
    @ti.kernel
    def run():
        ti.eig(ti.Matrix.zero(ti.f32, 3, 3))

    with pytest.raises(ti.TaichiCompilationError, match="2x2"):
        run()


def test_decompositions_cannot_be_called_from_python() -> None:
    with pytest.raises(ti.TaichiSyntaxError, match="in a kernel"):
        ti.svd(ti.Matrix([[1.0, 2.0], [3.0, 4.0]]))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n", [2, 3])
def test_results_do_not_depend_on_default_types(n: int) -> None:
    ti.init(arch=ti.cpu, default_fp=ti.f64, default_ip=ti.i64, offline_cache=False, verbose=False)
    A = ti.Matrix.field(n, n, ti.f32, 4)
    x = ti.Vector.field(n, ti.f32, 4)
    types = []

    @ti.kernel
    def run():
        for i in A:
            u, s, v = ti.svd(A[i])
            r, p = ti.polar_decompose(A[i])
            values, vectors = ti.sym_eig(A[i])
            x[i] = ti.solve(A[i], x[i])
            types.extend([u.dtype, s.dtype, v.dtype, r.dtype, p.dtype, values.dtype, vectors.dtype])
            if ti.static(n == 2):
                pairs, columns = ti.eig(A[i])
                types.extend([pairs.dtype, columns.dtype])

    run()
    assert set(types) == {ti.f32}
