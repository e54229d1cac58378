"""Forward mode: results of functions without gradients, and deactivated elements, have no tangents."""

from __future__ import annotations

from typing import Any

import pytest

import wuji as ti


def scalars(n: int) -> list[Any]:
    return [ti.field(ti.f64, (), needs_dual=True) for _ in range(n)]


@ti.kernel
def product(x: ti.template(), by: ti.f64, y: ti.template()):
    y[None] = by * x[None]


@ti.ad.no_grad
def constant(x: Any, y: Any) -> None:
    product(x, 5.0, y)


def test_what_a_function_without_gradient_stores_has_no_tangent() -> None:
    x, y, z = scalars(3)
    x[None] = 1.0
    with ti.ad.FwdMode(loss=z, param=x):
        product(x, 3.0, y)
        constant(x, y)
        product(y, 2.0, z)
    assert (z[None], z.dual[None], y.dual[None]) == (10.0, 0.0, 0.0)


def test_launches_after_the_function_have_tangents_again() -> None:
    x, y, z = scalars(3)
    x[None] = 1.0
    with ti.ad.FwdMode(loss=z, param=x):
        constant(x, y)
        product(x, 3.0, y)
        product(y, 2.0, z)
    assert (z[None], z.dual[None]) == (6.0, 6.0)


def test_forward_mode_differentiates_a_function_whose_gradient_is_replaced() -> None:
    x, y = scalars(2)
    x[None] = 1.0

    @ti.ad.grad_replaced
    def replaced():
        product(x, 5.0, y)

    with ti.ad.FwdMode(loss=y, param=x):
        replaced()
    assert y.dual[None] == 5.0


def test_a_copy_in_a_function_without_gradient_has_no_tangent() -> None:
    x, y = scalars(2)
    x[None] = 1.0

    @ti.ad.no_grad
    def copy():
        y.copy_from(x)

    with ti.ad.FwdMode(loss=y, param=x):
        product(x, 3.0, y)
        copy()
    assert (y[None], y.dual[None]) == (1.0, 0.0)


def test_an_array_that_a_function_without_gradient_writes_has_no_tangent() -> None:
    x = ti.field(ti.f64, (), needs_dual=True)
    y = ti.ndarray(ti.f64, (2,), needs_dual=True)

    @ti.kernel
    def spread(y: ti.types.ndarray(), by: ti.f64):
        for i in y:
            y[i] = by * x[None]

    @ti.ad.no_grad
    def constant() -> None:
        spread(y, 5.0)

    x[None] = 1.0
    with ti.ad.FwdMode(loss=y, param=x):
        spread(y, 2.0)
        assert y.dual.to_numpy().tolist() == [2.0, 2.0]
        constant()
    assert y.to_numpy().tolist() == [5.0, 5.0]
    assert y.dual.to_numpy().tolist() == [0.0, 0.0]


@pytest.mark.parametrize("layout", ["shared", "apart"])
def test_elements_that_a_kernel_deactivates_have_no_tangents(layout: str) -> None:
    x, y = (ti.field(ti.f64, needs_dual=True) for _ in range(2))
    node = ti.root.pointer(ti.i, 4)
    if layout == "shared":
        node.dense(ti.i, 4).place(x, y, x.dual, y.dual)
    else:
        node.dense(ti.i, 4).place(x, y)
        for dual in (x.dual, y.dual):
            ti.root.pointer(ti.i, 4).dense(ti.i, 4).place(dual)
    p = ti.field(ti.f64, (), needs_dual=True)
    p[None] = 2.0

    @ti.kernel
    def fill():
        for i in range(16):
            x[i] = p[None] * i
            y[i] = p[None]

    @ti.kernel
    def drop():
        for i in range(2):
            ti.deactivate(node, [i])

    with ti.ad.FwdMode(loss=x, param=p):
        fill()
        drop()
    assert x.dual.to_numpy().tolist() == [0.0] * 8 + [float(i) for i in range(8, 16)]
    assert y.dual.to_numpy().tolist() == [0.0] * 8 + [1.0] * 8
