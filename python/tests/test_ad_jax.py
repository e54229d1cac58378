"""Kernels are operations of JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wuji as ti

jax = pytest.importorskip("jax")
jnp = jax.numpy


@ti.kernel
def square(x: ti.types.ndarray(), y: ti.types.ndarray()):
    for i in x:
        y[i] = x[i] * x[i]


@ti.kernel
def combine(a: ti.types.ndarray(), b: ti.types.ndarray(), scale: ti.f32, total: ti.types.ndarray(), product: ti.types.ndarray()):
    for i in a:
        total[i] = scale * (a[i] + ti.sin(b[i]))
        product[i] = a[i] * b[i]


@ti.kernel
def gather(x: ti.types.ndarray(), at: ti.types.ndarray(), y: ti.types.ndarray()):
    for i in at:
        y[i] = x[at[i]] ** 2


squared = ti.jax.op(square, lambda x: x)


def test_gradients_are_those_of_jax() -> None:
    x = jnp.array([1.0, -2.0, 3.0])
    weight = jnp.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(squared(x), x * x)
    np.testing.assert_allclose(jax.grad(lambda x: (squared(x) * weight).sum())(x), 2 * x * weight, rtol=1e-6)


def test_operations_are_compiled_with_the_rest_of_a_program() -> None:
    def loss(x: Any) -> Any:
        return jnp.exp(squared(jnp.sin(x))).sum()

    def expected(x: Any) -> Any:
        return jnp.exp(jnp.sin(x) ** 2).sum()

    x = jnp.linspace(0.0, 1.0, 5)
    value, gradient = jax.jit(jax.value_and_grad(loss))(x)
    np.testing.assert_allclose(value, expected(x), rtol=1e-6)
    np.testing.assert_allclose(gradient, jax.grad(expected)(x), rtol=1e-5)


def test_several_inputs_outputs_and_constants() -> None:
    both = ti.jax.op(combine, lambda a, b, scale: (a, jax.ShapeDtypeStruct(b.shape, b.dtype)))
    a, b = jnp.array([1.0, 2.0]), jnp.array([0.5, -0.5])

    def loss(a: Any, b: Any) -> Any:
        total, product = both(a, b, 3.0)
        return (total * jnp.array([1.0, 2.0])).sum() + (product**2).sum()

    def expected(a: Any, b: Any) -> Any:
        return (3.0 * (a + jnp.sin(b)) * jnp.array([1.0, 2.0])).sum() + ((a * b) ** 2).sum()

    for found, wanted in zip(jax.grad(loss, (0, 1))(a, b), jax.grad(expected, (0, 1))(a, b), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_integers_have_no_gradient() -> None:
    taken = ti.jax.op(gather, lambda x, at: jax.ShapeDtypeStruct(at.shape, x.dtype))
    x, at = jnp.array([1.0, 2.0, 3.0]), jnp.array([2, 0, 2])
    np.testing.assert_allclose(jax.grad(lambda x: taken(x, at).sum())(x), [2.0, 0.0, 12.0])


def test_batches_and_double_precision() -> None:
    x = jnp.arange(6.0).reshape(3, 2)
    np.testing.assert_allclose(jax.vmap(jax.grad(lambda x: squared(x).sum()))(x), 2 * x)
    with jax.enable_x64(True):
        y = jnp.array([1.0 + 1e-12], jnp.float64)
        assert squared(y).dtype == jnp.float64
        np.testing.assert_allclose(jax.grad(lambda x: squared(x).sum())(y), 2 * y, rtol=1e-15)


def test_functions_of_several_launches_and_fields() -> None:
    factor = ti.field(ti.f32, (), needs_grad=True)
    factor[None] = 4.0

    @ti.kernel
    def scaled(x: ti.types.ndarray(), y: ti.types.ndarray()):
        for i in x:
            y[i] = factor[None] * x[i]

    def twice(x: Any, y: Any) -> None:
        between = ti.ndarray(ti.f32, x.shape, needs_grad=True)
        square(x, between)
        scaled(between, y)

    operation = ti.jax.op(twice, lambda x: x)
    x = jnp.array([1.0, 3.0])
    np.testing.assert_allclose(jax.grad(lambda x: operation(x).sum())(x), 8.0 * x)
    assert factor.grad[None] == 10.0


def test_second_derivatives_are_refused() -> None:
    with pytest.raises(ValueError, match="[Cc]allbacks do not support JVP"):
        jax.grad(lambda x: jax.grad(lambda x: squared(x).sum())(x).sum())(jnp.array([1.0]))
