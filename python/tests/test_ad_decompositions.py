"""Gradients of matrix decompositions, compared with central differences, and where factors are not unique."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ad_programs import check, compiled

import wuji as ti

SVD = """
@ti.kernel
def run():
    for i in x:
        U, S, V = ti.svd(x[i], {dtype})
        R = U @ V.transpose()
        loss[None] += {function}
"""


def rotation(n: int, seed: int) -> Any:
    q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))
    return q * np.sign(np.linalg.det(q))


def gradient(source: str, values: Any, element: Any) -> Any:
    values = np.asarray(values)
    x = ti.field(element, len(values), needs_grad=True)
    loss = ti.field(element.dtype, (), needs_grad=True)
    run = compiled(source, {"x": x, "loss": loss})["run"]
    x.from_numpy(values)
    with ti.ad.Tape(loss):
        run()
    return x.grad.to_numpy()


def matrices(n: int) -> Any:
    """Return matrices of both orientations, with distinct singular values."""
    found = np.random.default_rng(n).standard_normal((4, n, n))
    found[0] = rotation(n, 0) @ np.diag([2.0, 1.0, 0.5][:n])
    return found


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("function", ["U[0, 1] * V[1, 0]", "U[1, 0] + V[0, 0]", "S[0, 0] * S[1, 1]", "R[0, 1]", "(U @ S)[1, 1]"])
def test_svd(n: int, function: str) -> None:
    check(SVD.format(function=function, dtype="ti.f64"), matrices(n), 1e-5, ti.types.matrix(n, n, ti.f64))


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("function", ["R[0, 1]", "S[0, 1]", "R[1, 0] * S[0, 0]", "(x[i] - R).norm_sqr()", "(R @ S)[0, 1]"])
def test_polar_decompositions(n: int, function: str) -> None:
    source = f"""
    @ti.kernel
    def run():
        for i in x:
            R, S = ti.polar_decompose(x[i], ti.f64)
            loss[None] += {function}
    """
    # Multiples of rotations have equal singular values.
    values = np.concatenate([matrices(n), [rotation(n, 1), 3.0 * rotation(n, 2), np.eye(n)]])
    check(source, values, 1e-5, ti.types.matrix(n, n, ti.f64))


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("function", ["w[0] * w[1]", "Q[0, 1]", "Q[1, 1] * w[0]", "Q[0, 0] * Q[1, 0]"])
def test_symmetric_eigenvalues(n: int, function: str) -> None:
    source = f"""
    @ti.kernel
    def run():
        for i in x:
            w, Q = ti.sym_eig(x[i] + x[i].transpose(), ti.f64)
            loss[None] += {function}
    """
    check(source, matrices(n), 1e-5, ti.types.matrix(n, n, ti.f64))


def test_symmetric_eigenvalues_depend_on_the_lower_triangle() -> None:
    source = """
    @ti.kernel
    def run():
        for i in x:
            w, Q = ti.sym_eig(x[i], ti.f64)
            loss[None] += w[0] + Q[0, 1]
    """
    found = check(source, matrices(3), 1e-5, ti.types.matrix(3, 3, ti.f64))
    assert (found[:, [0, 0, 1], [1, 2, 2]] == 0.0).all()


@pytest.mark.parametrize("function", ["w[0, 0] * w[1, 0]", "w[0, 0]", "w[0, 1]", "Q[0, 0] * Q[2, 1]", "Q[1, 0] + Q[2, 0]"])
def test_eigenvalues(function: str) -> None:
    source = f"""
    @ti.kernel
    def run():
        for i in x:
            w, Q = ti.eig(x[i], ti.f64)
            loss[None] += {function}
    """
    values = [[[1.0, 2.0], [0.5, -1.0]], [[1.0, 2.0], [-3.0, 0.5]], [[3.0, 0.25], [0.5, 1.0]]]
    check(source, values, 1e-5, ti.types.matrix(2, 2, ti.f64))


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("dtype", ["ti.f32", "ti.f64"])
@pytest.mark.parametrize("distance", [0.0, 1e-6, 1e-5, 1e-3])
def test_rotation_factors_where_singular_values_are_close(n: int, dtype: str, distance: float) -> None:
    real = ti.f32 if dtype == "ti.f32" else ti.f64
    number = np.float32 if dtype == "ti.f32" else np.float64
    a, b = rotation(n, 3), rotation(n, 4)
    values = np.array([a @ np.diag([1.0 + distance, 1.0, 1.0 - distance][:n]) @ b, np.eye(n)], number)
    weight = np.random.default_rng(5).standard_normal((n, n))
    function = " + ".join(f"{weight[i, j]} * R[{i}, {j}]" for i in range(n) for j in range(n))
    found = gradient(SVD.format(function=function, dtype=dtype), values, ti.types.matrix(n, n, real))

    def loss(m: Any) -> Any:
        u, _, vt = np.linalg.svd(m)
        return (weight * (u @ vt)).sum()

    for k, value in enumerate(values.astype(np.float64)):
        for at in np.ndindex(n, n):
            step = np.zeros((n, n))
            step[at] = 1e-5
            expected = (loss(value + step) - loss(value - step)) / 2e-5
            assert abs(found[k][at] - expected) <= (1e-5 if real is ti.f32 else 1e-8)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("dtype", ["ti.f32", "ti.f64"])
def test_gradients_are_finite_for_all_matrices(n: int, dtype: str) -> None:
    real = ti.f32 if dtype == "ti.f32" else ti.f64
    values = np.array(
        [
            np.zeros((n, n)),
            np.ones((n, n)),
            np.eye(n),
            -np.eye(n),
            np.diag([1.0] * (n - 1) + [-1.0]),
            np.diag([1.0] + [0.0] * (n - 1)),
            np.diag([1.0, 1.0 + 1e-6, 1.0][:n]),
            rotation(n, 6),
            1e-15 * rotation(n, 7),
        ],
        np.float32 if dtype == "ti.f32" else np.float64,
    )
    source = f"""
    @ti.kernel
    def run():
        for i in x:
            U, S, V = ti.svd(x[i], {dtype})
            R, P = ti.polar_decompose(x[i], {dtype})
            w, Q = ti.sym_eig(x[i], {dtype})
            loss[None] += U[0, 1] + S[0, 0] + V[1, 0] + R[0, 1] + P[0, 1] + w[0] + Q[0, 1]
    """
    assert np.isfinite(gradient(source, values, ti.types.matrix(n, n, real))).all()


def test_eigenvalues_that_are_equal_have_finite_gradients() -> None:
    source = """
    @ti.kernel
    def run():
        for i in x:
            w, Q = ti.eig(x[i], ti.f64)
            loss[None] += w[0, 0] + w[1, 0] + Q[0, 0] + Q[2, 1]
    """
    values = np.array([np.eye(2), np.zeros((2, 2)), [[1.0, 1.0], [0.0, 1.0]]])
    found = gradient(source, values, ti.types.matrix(2, 2, ti.f64))
    assert np.isfinite(found).all(), found
