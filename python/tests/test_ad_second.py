"""Second derivatives: a tape in forward mode."""

from __future__ import annotations

import numpy as np
import pytest

import wuji as ti


def test_the_tangents_of_gradients_are_hessian_vector_products() -> None:
    x = ti.field(ti.f64, 3, needs_grad=True, needs_dual=True)
    loss = ti.field(ti.f64, (), needs_grad=True, needs_dual=True)

    @ti.kernel
    def compute():
        for i in x:
            loss[None] += x[i] ** 3 * x[(i + 1) % 3]

    values = np.array([1.0, 2.0, 0.5])
    x.from_numpy(values)
    hessian = np.zeros((3, 3))
    for i in range(3):
        j = (i + 1) % 3
        hessian[i, i] += 6 * values[i] * values[j]
        hessian[i, j] += 3 * values[i] ** 2
        hessian[j, i] += 3 * values[i] ** 2
    for k in range(3):
        with ti.ad.FwdMode(loss=loss, param=x, seed=np.eye(3)[k]), ti.ad.Tape(loss):
            compute()
        np.testing.assert_allclose(x.grad.dual.to_numpy(), hessian[k], rtol=1e-12)
        np.testing.assert_allclose(loss.dual[None], x.grad.to_numpy()[k], rtol=1e-12)


def test_second_derivatives_go_through_steps_and_overwritten_values() -> None:
    """x <- x * x three times, of which the tape keeps the values and the tangents."""
    x = ti.Vector.field(2, ti.f64, shape=(), needs_grad=True, needs_dual=True)
    loss = ti.field(ti.f64, (), needs_grad=True, needs_dual=True)

    @ti.kernel
    def square():
        x[None] = x[None] * x[None]

    @ti.kernel
    def finish():
        loss[None] += x[None][0] * x[None][1]

    x[None] = [1.1, 0.9]
    with ti.ad.FwdMode(loss=loss, param=x, seed=[1.0, 0.0]), ti.ad.Tape(loss):
        square()
        square()
        square()
        finish()
    # The loss is x**8 * y**8.
    np.testing.assert_allclose(x.grad.dual[None], [56 * 1.1**6 * 0.9**8, 64 * 1.1**7 * 0.9**7], rtol=1e-12)


def test_copies_and_writes_of_the_host_have_second_derivatives() -> None:
    x, y = (ti.field(ti.f64, 2, needs_grad=True, needs_dual=True) for _ in range(2))
    loss = ti.field(ti.f64, (), needs_grad=True, needs_dual=True)

    @ti.kernel
    def cube(f: ti.template()):
        for i in f:
            loss[None] += f[i] ** 3

    x.from_numpy(np.array([1.0, 2.0]))
    with ti.ad.FwdMode(loss=loss, param=x, seed=[1.0, 1.0]), ti.ad.Tape(loss):
        cube(x)
        y.copy_from(x)
        cube(y)
        x[0] = 5.0
    np.testing.assert_allclose(x.grad.dual.to_numpy(), [12.0, 24.0], rtol=1e-12)


def test_a_tape_outside_of_forward_mode_is_refused() -> None:
    x = ti.field(ti.f64, (), needs_grad=True, needs_dual=True)
    with pytest.raises(ti.WujiRuntimeError, match="W0734.*cannot be entered in the block of a tape"), ti.ad.Tape(x), ti.ad.FwdMode(loss=x, param=x):
        pass


def test_gradients_of_gradients_are_refused() -> None:
    x = ti.field(ti.f64, (), needs_grad=True)
    y = ti.field(ti.f64, (), needs_grad=True)
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def square():
        y[None] = x[None] ** 2

    @ti.kernel
    def use():
        loss[None] += x.grad[None] ** 2

    with pytest.raises(ti.WujiRuntimeError, match="W0739.*gradients of gradients"), ti.ad.Tape(loss):
        with ti.ad.Tape(y, clear_gradients=False):
            square()
        use()
    with pytest.raises(ti.WujiRuntimeError, match="W0739.*gradients of gradients"), ti.ad.Tape(loss):
        square()
        y.grad[None] = 1.0
        square.grad()
        use()


def test_functions_with_their_own_gradients_are_refused_in_second_derivatives() -> None:
    x = ti.field(ti.f64, (), needs_grad=True, needs_dual=True)
    loss = ti.field(ti.f64, (), needs_grad=True, needs_dual=True)

    @ti.kernel
    def square():
        loss[None] += x[None] ** 2

    @ti.ad.grad_replaced
    def replaced() -> None:
        square()

    @ti.ad.grad_for(replaced)
    def backward() -> None:
        square.grad()

    with pytest.raises(ti.WujiRuntimeError, match="W0734"), ti.ad.FwdMode(loss=loss, param=x), ti.ad.Tape(loss):
        replaced()
