"""The derivative of each operation, compared with central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ad_programs import check, compiled

import wuji as ti

# Expressions of `a` and `b`, which are x[0] and x[1], and the values of these.
SCALARS = [
    ("a + b", [0.5, 2.0]),
    ("a - b", [0.5, 2.0]),
    ("a * b", [0.5, 2.0]),
    ("a / b", [0.5, 2.0]),
    ("-a * b", [0.5, -2.0]),
    ("1 / (a * a + 1)", [0.5, 0.0]),
    ("a ** 2 + b ** 3", [1.5, -0.5]),
    ("a ** b", [1.5, 2.5]),
    ("a ** -2", [1.5, 0.0]),
    ("a ** 0.5", [1.5, 0.0]),
    ("ti.pow(a, 3) * b", [-1.5, 2.0]),
    ("ti.sqrt(a) * b", [2.0, 3.0]),
    ("ti.rsqrt(a) * b", [2.0, 3.0]),
    ("ti.exp(a) * b", [0.7, -1.0]),
    ("ti.log(a) * b", [0.7, -1.0]),
    ("ti.sin(a) * ti.cos(b)", [0.7, -1.0]),
    ("ti.tan(a) + ti.tanh(b)", [0.7, -1.0]),
    ("ti.asin(a) * ti.acos(b)", [0.3, -0.4]),
    ("ti.atan2(a, b)", [0.3, -0.4]),
    ("ti.abs(a) * ti.abs(b)", [0.3, -0.4]),
    ("ti.max(a, b) * a", [0.3, 0.4]),
    ("ti.min(a, b) * a", [0.3, 0.4]),
    ("ti.max(a, b, 0.1) + ti.min(a, b, 0.2)", [0.3, 0.4]),
    ("ti.floor(a) * b + ti.ceil(a) + ti.round(b)", [1.3, 2.6]),
    ("a % b", [7.3, 2.0]),
    ("a // b * a", [7.3, 2.0]),
    ("ti.select(a > b, a * a, b * b)", [1.3, 0.6]),
    ("ti.select(a < b, a * a, b * b)", [1.3, 0.6]),
    ("a * a if a > 1.0 else b", [1.3, 0.6]),
    ("ti.cast(ti.cast(a, ti.i32), ti.f64) * b", [1.5, 2.0]),
    ("tm.clamp(a, 0.0, 1.0) * b + tm.clamp(b, 0.0, 1.0)", [0.5, 2.0]),
    ("tm.mix(a, b, 0.25) * a", [0.5, 2.0]),
    ("tm.smoothstep(0.0, 1.0, a) * b", [0.3, 2.0]),
    ("tm.fract(a) * b", [1.3, 2.0]),
    ("tm.sign(a) * b * a", [-1.3, 2.0]),
    ("tm.length(ti.Vector([a, b]))", [3.0, 4.0]),
    ("ti.Vector([a, b]).dot(ti.Vector([b, a * a]))", [3.0, 4.0]),
    ("ti.Vector([a, b]).normalized()[0]", [3.0, 4.0]),
    ("ti.Vector([a, b]).norm_sqr()", [3.0, 4.0]),
    ("ti.Vector([a, b, 1.0]).cross(ti.Vector([b, a, 2.0])).sum()", [3.0, 4.0]),
    ("ti.Vector([a, b]).outer_product(ti.Vector([b, a]))[0, 1]", [3.0, 4.0]),
    ("ti.Matrix([[a, b], [b, a * a]]).determinant()", [3.0, 4.0]),
    ("ti.Matrix([[a, b], [b, a * a]]).inverse()[0, 1]", [3.0, 1.0]),
    ("ti.Matrix([[a, b], [b, a * a]]).trace()", [3.0, 4.0]),
    ("(ti.Matrix([[a, b], [b, a]]) @ ti.Matrix([[b, 1.0], [a, b]])).sum()", [3.0, 4.0]),
    ("(ti.Matrix([[a, b], [b, a]]).transpose() @ ti.Vector([a, 1.0]))[1]", [3.0, 4.0]),
    ("ti.Vector([a, b]).max() * ti.Vector([a, b]).min()", [3.0, 4.0]),
    ("ti.math.dot(ti.Vector([a, b]), ti.Vector([1.0, 2.0])) ** 2", [3.0, 4.0]),
    ("ti.stop_grad(b) * 0.0 + a", [3.0, 0.0]),
    ("ti.exp(-(a - b) ** 2 / 0.5)", [0.7, 0.4]),
    ("ti.log(1.0 + ti.exp(a * b))", [0.7, 0.4]),
]


@pytest.mark.parametrize(("expression", "values"), SCALARS, ids=[e for e, _ in SCALARS])
def test_derivatives_of_operations(expression: str, values: Any) -> None:
    check(
        f"""
        @ti.kernel
        def run():
            for _ in range(1):
                a = x[0]
                b = x[1]
                loss[None] += {expression}
        """,
        values,
    )


@pytest.mark.parametrize(("expression", "values"), SCALARS[:30], ids=[e for e, _ in SCALARS[:30]])
def test_derivatives_are_right_outside_loops(expression: str, values: Any) -> None:
    check(
        f"""
        @ti.kernel
        def run():
            a = x[0]
            b = x[1]
            loss[None] += {expression}
        """,
        values,
    )


def test_stop_grad_makes_a_value_a_constant() -> None:
    x = ti.field(ti.f64, (), needs_grad=True)
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def run() -> None:
        loss[None] += x[None] * ti.stop_grad(x[None])

    x[None] = 3.0
    with ti.ad.Tape(loss):
        run()
    assert loss[None] == 9.0 and x.grad[None] == 3.0


def test_stop_grad_of_a_field_counts_for_its_block() -> None:
    x = ti.field(ti.f64, 3, needs_grad=True)
    y = ti.field(ti.f64, 3, needs_grad=True)
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def run() -> None:
        for i in x:
            loss[None] += x[i] * y[i]
            ti.stop_grad(x)
        for i in x:
            loss[None] += x[i]

    x.fill(3.0)
    y.fill(2.0)
    with ti.ad.Tape(loss):
        run()
    assert x.grad.to_numpy().tolist() == [1.0] * 3
    assert y.grad.to_numpy().tolist() == [3.0] * 3


def test_the_norm_of_zero_has_no_nan() -> None:
    x = ti.Vector.field(2, ti.f64, 2, needs_grad=True)
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def run() -> None:
        for i in x:
            loss[None] += x[i].norm()

    x[0] = [3.0, 4.0]
    with ti.ad.Tape(loss):
        run()
    np.testing.assert_allclose(x.grad.to_numpy(), [[0.6, 0.8], [0.0, 0.0]], atol=1e-12)


@pytest.mark.parametrize("expression", ["v.norm()", "v.dot(v) * v[0]", "v.normalized()[1]", "(v * v).sum()", "v.max()", "ti.sin(v).sum()", "v.xy.norm_sqr() + v.z", "(2.0 / (v + 3.0)).sum()"])
def test_derivatives_of_vectors(expression: str) -> None:
    check(
        f"""
        @ti.kernel
        def run():
            for i in x:
                v = x[i]
                loss[None] += {expression}
        """,
        [[0.5, 2.0, -1.0], [1.5, 0.25, 0.75]],
        element=ti.types.vector(3, ti.f64),
    )


@pytest.mark.parametrize(
    "expression", ["m.determinant()", "m.inverse()[0, 1]", "(m @ m).trace()", "(m.transpose() @ m).sum()", "m.norm_sqr()", "(m @ ti.Vector([1.0, 2.0])).norm()", "m[0, 1] * m[1, 0]"]
)
def test_derivatives_of_matrices(expression: str) -> None:
    check(
        f"""
        @ti.kernel
        def run():
            for i in x:
                m = x[i]
                loss[None] += {expression}
        """,
        [[[2.0, 0.5], [0.25, 1.5]]],
        element=ti.types.matrix(2, 2, ti.f64),
    )


@pytest.mark.parametrize("n", [2, 3])
def test_derivatives_of_singular_values(n: int) -> None:
    values = np.random.default_rng(1).standard_normal((1, n, n))
    check(
        """
        @ti.kernel
        def run():
            for i in x:
                U, S, V = ti.svd(x[i], ti.f64)
                loss[None] += S.trace() + (U @ V.transpose())[0, 1]
        """,
        values,
        1e-5,
        element=ti.types.matrix(n, n, ti.f64),
    )


def test_derivatives_of_polar_decompositions() -> None:
    check(
        """
        @ti.kernel
        def run():
            for i in x:
                R, S = ti.polar_decompose(x[i], ti.f64)
                loss[None] += (x[i] - R).norm_sqr() + S[0, 1]
        """,
        [[[1.2, 0.3], [-0.1, 0.9]]],
        1e-5,
        element=ti.types.matrix(2, 2, ti.f64),
    )


def test_single_precision_has_gradients() -> None:
    x = ti.field(ti.f32, 4, needs_grad=True)
    loss = ti.field(ti.f32, (), needs_grad=True)

    @ti.kernel
    def run() -> None:
        for i in x:
            loss[None] += ti.sin(x[i]) * x[i]

    values = np.array([0.1, 0.5, -1.0, 2.0], np.float32)
    x.from_numpy(values)
    with ti.ad.Tape(loss):
        run()
    np.testing.assert_allclose(x.grad.to_numpy(), np.cos(values) * values + np.sin(values), rtol=1e-5)


def test_casts_between_floats_have_gradients() -> None:
    x, loss = ti.field(ti.f64, (), needs_grad=True), ti.field(ti.f32, (), needs_grad=True)

    @ti.kernel
    def run() -> None:
        half = ti.cast(x[None], ti.f16)
        loss[None] += ti.cast(half, ti.f32) * 3.0 + ti.cast(x[None], ti.f32)

    x[None] = 1.5
    with ti.ad.Tape(loss):
        run()
    assert loss[None] == 6.0 and x.grad[None] == 4.0


def test_integers_have_no_gradient() -> None:
    space = compiled(
        """
        x = ti.field(ti.f64, 3, needs_grad=True)
        n = ti.field(ti.i32, 3)
        loss = ti.field(ti.f64, (), needs_grad=True)

        @ti.kernel
        def run():
            for i in x:
                loss[None] += x[i] * n[i]
        """,
        {},
    )
    space["n"].from_numpy(np.array([1, 2, 3], np.int32))
    with ti.ad.Tape(space["loss"]):
        space["run"]()
    assert space["x"].grad.to_numpy().tolist() == [1.0, 2.0, 3.0]
    assert space["n"].grad is None
