"""Powers with constant exponents, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import ON_GPU

import wuji as ti

EXPONENTS = [0.5, -0.5, 1.5, 2.0, 3.0, 4.0, 5.0, -1.0, -2.0, -3.0, 0.3]


def bases(dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(3)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 4.0, -4.0]
    powers = 10.0 ** rng.uniform(-37 if dtype is ti.f32 else -300, 37 if dtype is ti.f32 else 300, size=500)
    return np.concatenate([special, powers, -powers, rng.normal(size=500)]).astype(dtype.numpy_name)


@pytest.mark.parametrize("options", [{"fast_math": True}, {"fast_math": False}, {"interpreter": True}], ids=["fast", "strict", "interpreter"])
@pytest.mark.parametrize("dtype", [ti.f32, ti.f64])
def test_powers_with_constant_exponents(dtype: Any, options: dict[str, bool]) -> None:
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False, **options)
    x = bases(dtype)
    X = ti.field(dtype, len(x))
    Y = ti.Vector.field(len(EXPONENTS), dtype, len(x))
    X.from_numpy(x)

    @ti.kernel
    def run():
        for i in X:
            for k in ti.static(range(len(EXPONENTS))):
                Y[i][k] = X[i] ** ti.static(EXPONENTS[k])

    run()
    y = Y.to_numpy()
    for k, exponent in enumerate(EXPONENTS):
        with np.errstate(all="ignore"):
            expected = (x.astype(np.longdouble) ** np.longdouble(x.dtype.type(exponent))).astype(x.dtype)
        np.testing.assert_array_equal(np.isnan(y[:, k]), np.isnan(expected))
        finite = np.isfinite(expected) & (np.abs(expected) >= np.finfo(x.dtype).tiny)
        np.testing.assert_allclose(y[finite, k], expected[finite], rtol=4.1 * np.finfo(x.dtype).eps)
        infinite = np.isinf(expected)
        np.testing.assert_array_equal(y[infinite, k], expected[infinite])
        if options != {"fast_math": True}:
            zero = x == 0
            np.testing.assert_array_equal(np.signbit(y[zero, k]), np.signbit(expected[zero]))


@pytest.mark.skipif(ON_GPU, reason="bits are compared with the interpreter's")
def test_constant_and_variable_roots_agree() -> None:
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False, fast_math=False)
    x = np.abs(bases(ti.f64))
    X, Y, Z = (ti.field(ti.f64, len(x)) for _ in range(3))
    X.from_numpy(x)

    @ti.kernel
    def run(exponent: ti.f64):
        for i in X:
            Y[i] = X[i] ** 0.5
            Z[i] = X[i] ** exponent

    run(0.5)
    np.testing.assert_array_equal(Y.to_numpy(), Z.to_numpy())
    np.testing.assert_array_equal(Y.to_numpy(), np.sqrt(x))
