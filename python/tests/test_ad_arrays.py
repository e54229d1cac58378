"""Gradients of arrays whose values change between the launch and the gradient."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import wuji as ti


@ti.kernel
def square_in_place(x: ti.types.ndarray()):
    for i in x:
        x[i] = x[i] * x[i]


@ti.kernel
def square(x: ti.types.ndarray(), y: ti.types.ndarray()):
    for i in x:
        y[i] = x[i] * x[i]


@ti.kernel
def double(x: ti.types.ndarray(), y: ti.types.ndarray()):
    for i in x:
        y[i] = 2.0 * x[i]


@ti.kernel
def increment(x: ti.types.ndarray()):
    for i in x:
        x[i] += 1.0


@ti.kernel
def total(x: ti.types.ndarray(), loss: ti.types.ndarray()):
    for i in x:
        loss[0] += x[i]


@ti.kernel
def weighted(x: ti.types.ndarray(), weight: ti.types.ndarray(), loss: ti.types.ndarray()):
    for i in x:
        loss[0] += x[i] * weight[i]


@ti.kernel
def step(x: ti.types.ndarray(), t: ti.i32):
    for i in range(x.shape[1]):
        x[t + 1, i] = x[t, i] * x[t, i]


def arrays(*shapes: object) -> list[ti.Ndarray]:
    return [ti.ndarray(ti.f64, shape, needs_grad=True) for shape in shapes]


def test_values_that_a_launch_replaces_are_kept() -> None:
    x, loss = arrays(3, 1)
    x.fill(2.0)
    with ti.ad.Tape(loss):
        square_in_place(x)
        square_in_place(x)
        total(x, loss)
    assert x.grad.to_numpy().tolist() == [32.0] * 3
    assert x.to_numpy().tolist() == [16.0] * 3


def test_values_that_a_later_launch_overwrites_are_kept() -> None:
    x, y, loss = arrays(3, 3, 1)
    x.fill(2.0)
    with ti.ad.Tape(loss):
        square(x, y)
        increment(x)
        total(y, loss)
    assert x.grad.to_numpy().tolist() == [4.0] * 3
    assert x.to_numpy().tolist() == [3.0] * 3


def test_values_that_the_host_overwrites_are_kept() -> None:
    x, y, loss, other = arrays(3, 3, 1, 3)
    for overwrite in (lambda: x.fill(7.0), lambda: x.from_numpy(np.full(3, 7.0)), lambda: x.copy_from(other)):
        x.fill(2.0)
        other.fill(7.0)
        with ti.ad.Tape(loss):
            square(x, y)
            overwrite()
            total(y, loss)
        assert x.grad.to_numpy().tolist() == [4.0] * 3
        assert x.to_numpy().tolist() == [7.0] * 3


def test_numpy_arrays_may_change_between_launches() -> None:
    x, loss = arrays(3, 1)
    x.fill(1.0)
    weight = np.full(3, 2.0)
    with ti.ad.Tape(loss):
        weighted(x, weight, loss)
        weight[:] = 5.0
        weighted(x, weight, loss)
        weighted(x, weight, loss)
        weight[0] = 9.0
    assert loss[0] == 36.0
    assert x.grad.to_numpy().tolist() == [12.0] * 3
    assert weight.tolist() == [9.0, 5.0, 5.0]


def test_numpy_arrays_that_kernels_write_to_have_their_earlier_values() -> None:
    x, loss = arrays(3, 1)
    x.fill(1.0)
    weight = np.full(3, 2.0)
    with ti.ad.Tape(loss):
        weighted(x, weight, loss)
        increment(weight)
        weighted(x, weight, loss)
    assert x.grad.to_numpy().tolist() == [5.0] * 3


def test_views_of_numpy_arrays_share_their_values() -> None:
    x, loss = arrays(3, 1)
    x.fill(1.0)
    weight = np.arange(6.0)
    with ti.ad.Tape(loss):
        weighted(x, weight[1:4], loss)
        increment(weight[3:])
        weighted(x, weight[2:5], loss)
    assert x.grad.to_numpy().tolist() == [1.0 + 2.0, 2.0 + 4.0, 3.0 + 5.0]
    assert weight.tolist() == [0.0, 1.0, 2.0, 4.0, 5.0, 6.0]


def test_steps_along_an_axis_of_an_array_are_not_copied() -> None:
    x, loss = arrays((4, 2), 1)

    @ti.kernel
    def last(x: ti.types.ndarray(), loss: ti.types.ndarray()):
        for i in range(2):
            loss[0] += x[3, i]

    x.fill(2.0)
    with ti.ad.Tape(loss, validation=True):
        for t in range(3):
            step(x, t)
        last(x, loss)
    assert x.grad.to_numpy()[0].tolist() == [8 * 2.0**7] * 2


def test_validation_names_the_array_and_both_lines() -> None:
    x, y, loss = arrays(3, 3, 1)
    with pytest.raises(AssertionError, match=r"Array x is overwritten unexpectedly at .*test_ad_arrays.py:\d+[\s\S]*read at .*test_ad_arrays.py:\d+"), ti.ad.Tape(loss, validation=True):
        square(x, y)
        increment(x)
        total(y, loss)


def test_arguments_that_share_memory_are_refused_where_a_gradient_needs_both_values() -> None:
    x, loss = arrays(3, 1)
    with pytest.raises(ti.WujiRuntimeError, match="W0706.*share memory"), ti.ad.Tape(loss):
        square(x, x)
    x.fill(3.0)
    with ti.ad.Tape(loss):
        double(x, x)
        total(x, loss)
    assert x.grad.to_numpy().tolist() == [2.0] * 3


def test_functions_with_their_own_gradients_overwrite_arrays() -> None:
    x, y, loss = arrays(3, 3, 1)

    @ti.ad.no_grad
    def reset() -> None:
        increment(x)

    x.fill(2.0)
    with ti.ad.Tape(loss):
        square(x, y)
        reset()
        total(y, loss)
    assert x.grad.to_numpy().tolist() == [4.0] * 3


def test_an_array_that_is_read_before_and_after_it_is_written() -> None:
    x, loss = arrays(3, 1)
    x.fill(0.5)

    @ti.kernel
    def both(x: ti.types.ndarray(), loss: ti.types.ndarray()):
        for i in x:
            a = x[i]
            x[i] = ti.sin(a)
            b = x[i]
            x[i] = b * b * b
            loss[0] += a * a + b

    with ti.ad.Tape(loss):
        both(x, loss)
    assert np.allclose(x.grad.to_numpy(), 1.0 + np.cos(0.5))


def test_intermediate_results_without_gradients_are_warned_about() -> None:
    x, loss, picture = ti.field(ti.f64, 3, needs_grad=True, needs_dual=True), ti.field(ti.f64, (), needs_grad=True, needs_dual=True), ti.field(ti.f64, 3)

    @ti.kernel
    def compute(y: ti.types.ndarray()):
        for i in x:
            y[i] = x[i] ** 2
            picture[i] = y[i]

    @ti.kernel
    def use(y: ti.types.ndarray()):
        for i in x:
            loss[None] += y[i]

    y = np.zeros(3)
    with pytest.warns(RuntimeWarning, match="kernel `use` uses array y, which kernel `compute` has computed: it has no gradient"), ti.ad.Tape(loss):
        compute(y)
        use(y)
    with pytest.warns(RuntimeWarning, match="has no tangent"), ti.ad.FwdMode(loss=loss, param=x, seed=[1.0] * 3):
        compute(y)
        use(y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ti.ad.Tape(loss):
            compute(y)
            use(np.ones(3))
        z = ti.ndarray(ti.f64, 3, needs_grad=True)
        with ti.ad.Tape(loss):
            compute(z)
            use(z)


def test_checks_restore_arrays() -> None:
    x, loss = ti.field(ti.f64, 3, needs_grad=True), ti.field(ti.f64, (), needs_grad=True)
    y, z = ti.ndarray(ti.f64, 3, needs_grad=True), np.ones(3)

    @ti.kernel
    def compute(y: ti.types.ndarray(), z: ti.types.ndarray()):
        for i in x:
            y[i] = y[i] * y[i] + x[i]
            z[i] += 1.0
            loss[None] += y[i] * z[i]

    x.from_numpy(np.array([0.5, 1.0, 2.0]))
    y.fill(1.0)
    with warnings.catch_warnings(), ti.ad.Tape(loss, grad_check=[x]):
        # `z` does not depend on `x`.
        warnings.simplefilter("error")
        compute(y, z)
        compute(y, z)
    assert z.tolist() == [3.0] * 3


@ti.kernel
def _product(x: ti.types.ndarray(), y: ti.types.ndarray(), z: ti.types.ndarray()):
    for i in x:
        z[i] = x[i] * y[i]


def _with_dual(values, **options):
    array = ti.ndarray(ti.f64, len(values), needs_dual=True, **options)
    array.from_numpy(np.array(values))
    return array


def test_arrays_have_tangents_in_forward_mode():
    x, y, z = _with_dual([2.0, 3.0]), _with_dual([4.0, 5.0]), _with_dual([0.0, 0.0])
    with ti.ad.FwdMode(loss=z, param=x, seed=[1.0, 2.0]):
        _product(x, y, z)
    assert z.to_numpy().tolist() == [8.0, 15.0]
    assert z.dual.to_numpy().tolist() == [4.0, 10.0]
    # One array as two arguments.
    with ti.ad.FwdMode(loss=z, param=x, seed=[1.0, 1.0]):
        _product(x, x, z)
    assert z.dual.to_numpy().tolist() == [4.0, 6.0]
    assert x.dual.to_numpy().tolist() == [0.0, 0.0]


def test_the_host_ends_the_tangents_of_an_array():
    x, y, z = _with_dual([2.0, 3.0]), _with_dual([4.0, 5.0]), _with_dual([0.0, 0.0])
    with ti.ad.FwdMode(loss=z, param=x, seed=[1.0, 1.0]):
        _product(x, y, z)
        z[0] = 7.0
        y.copy_from(z)
    assert z.dual.to_numpy().tolist() == [0.0, 5.0]
    assert y.dual.to_numpy().tolist() == [0.0, 5.0]


def test_a_tape_in_forward_mode_multiplies_with_the_hessian_of_arrays():
    x = _with_dual([2.0, 3.0], needs_grad=True)
    loss = ti.field(ti.f64, (), needs_grad=True, needs_dual=True)

    @ti.kernel
    def cubes(x: ti.types.ndarray()):
        for i in x:
            loss[None] += x[i] ** 3

    with ti.ad.FwdMode(loss=loss, param=x, seed=[1.0, 0.0]):
        with ti.ad.Tape(loss):
            cubes(x)
    assert x.grad.to_numpy().tolist() == [12.0, 27.0]
    assert x.grad.dual.to_numpy().tolist() == [12.0, 0.0]


def test_an_array_without_a_tangent_cannot_be_a_parameter():
    x = ti.ndarray(ti.f64, 2)
    with pytest.raises(ti.TaichiRuntimeError, match="has no `dual`"):
        with ti.ad.FwdMode(loss=x, param=x, seed=[1.0, 0.0]):
            pass
    with pytest.raises(ti.TaichiRuntimeError, match="must be a field or a `ti.ndarray`"):
        with ti.ad.FwdMode(loss=x, param=np.zeros(2), seed=[1.0, 0.0]):
            pass
    with pytest.raises(ti.TaichiRuntimeError, match="not supported for ndarray"):
        ti.ndarray(ti.i32, 2, needs_dual=True)
