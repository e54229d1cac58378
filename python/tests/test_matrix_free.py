"""Matrix-free solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wuji as ti


def poisson(n: int) -> Any:
    """Return the Poisson operator on a square."""

    @ti.kernel
    def apply(v: ti.template(), out: ti.template()):
        for i, j in v:
            left = v[i - 1, j] if i > 0 else 0.0 * v[i, j]
            right = v[i + 1, j] if i < n - 1 else 0.0 * v[i, j]
            down = v[i, j - 1] if j > 0 else 0.0 * v[i, j]
            up = v[i, j + 1] if j < n - 1 else 0.0 * v[i, j]
            out[i, j] = 4 * v[i, j] - left - right - down - up

    return ti.linalg.LinearOperator(apply)


@pytest.mark.parametrize("solver", [ti.linalg.MatrixFreeCG, ti.linalg.MatrixFreeBICGSTAB])
@pytest.mark.parametrize(("dtype", "tol"), [(ti.f32, 1e-4), (ti.f64, 1e-10)])
def test_poisson(solver: Any, dtype: Any, tol: float) -> None:
    n = 16
    A = poisson(n)
    b, x, check = (ti.field(dtype, (n, n)) for _ in range(3))
    given = np.random.default_rng(0).normal(size=(n, n))
    b.from_numpy(given.astype(dtype.numpy_name))
    assert solver(A, b, x, tol=tol, maxiter=1000) is True
    A.matvec(x, check)
    assert np.linalg.norm(check.to_numpy() - given) < 2 * tol + 1e-5 * (dtype is ti.f32)
    # Starting at the solution takes no iterations.
    before = x.to_numpy()
    assert solver(A, b, x, tol=10 * tol, maxiter=1000) is True
    assert (x.to_numpy() == before).all()


@pytest.mark.parametrize("solver", [ti.linalg.MatrixFreeCG, ti.linalg.MatrixFreeBICGSTAB])
def test_vectors(solver: Any) -> None:
    n = 8
    A = poisson(n)
    b, x, check = (ti.Vector.field(2, ti.f64, (n, n)) for _ in range(3))
    given = np.random.default_rng(0).normal(size=(n, n, 2))
    b.from_numpy(given)
    assert solver(A, b, x, tol=1e-9)
    A.matvec(x, check)
    assert np.abs(check.to_numpy() - given).max() < 1e-8


def test_nonsymmetric_operators() -> None:
    n = 50

    @ti.kernel
    def apply(v: ti.template(), out: ti.template()):
        for i in v:
            out[i] = 3 * v[i]
            if i > 0:
                out[i] -= 2 * v[i - 1]
            if i < n - 1:
                out[i] += 0.5 * v[i + 1]

    A = ti.linalg.LinearOperator(apply)
    b, x, check = (ti.field(ti.f64, n) for _ in range(3))
    b.from_numpy(np.linspace(-1, 1, n))
    assert ti.linalg.MatrixFreeBICGSTAB(A, b, x, tol=1e-10)
    A.matvec(x, check)
    assert np.abs(check.to_numpy() - np.linspace(-1, 1, n)).max() < 1e-9


def test_methods_as_operators() -> None:
    @ti.data_oriented
    class Scale:
        def __init__(self) -> None:
            self.weights = ti.field(ti.f32, 4)
            self.weights.from_numpy(np.arange(1, 5, dtype=np.float32))

        @ti.kernel
        def apply(self, v: ti.template(), out: ti.template()):
            for i in v:
                out[i] = self.weights[i] * v[i]

    b, x = ti.field(ti.f32, 4), ti.field(ti.f32, 4)
    b.fill(1)
    assert ti.linalg.MatrixFreeCG(ti.linalg.LinearOperator(Scale().apply), b, x)
    assert np.allclose(x.to_numpy(), [1, 1 / 2, 1 / 3, 1 / 4])


def test_iteration_limit_and_output(capsys: Any) -> None:
    b, x = ti.field(ti.f32, (16, 16)), ti.field(ti.f32, (16, 16))
    b.fill(1)
    assert ti.linalg.MatrixFreeCG(poisson(16), b, x, maxiter=2, quiet=False) is False
    output = capsys.readouterr().out
    assert "Initial residual" in output and "failed to converge" in output


def test_invalid_arguments_are_rejected() -> None:
    A = poisson(4)
    b, x = ti.field(ti.f32, (4, 4)), ti.field(ti.f32, (4, 4))
    with pytest.raises(ti.TaichiTypeError, match="LinearOperator"):
        ti.linalg.MatrixFreeCG(1, b, x)
    with pytest.raises(ti.TaichiTypeError, match="dtype"):
        ti.linalg.MatrixFreeCG(A, b, ti.field(ti.f64, (4, 4)))
    with pytest.raises(ti.TaichiRuntimeError, match="dimension"):
        ti.linalg.MatrixFreeBICGSTAB(A, b, ti.field(ti.f32, (4, 5)))
    with pytest.raises(ti.TaichiTypeError, match="fields"):
        ti.linalg.MatrixFreeCG(A, np.zeros(4), x)
