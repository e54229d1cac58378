"""Gradients of kernels with several loops that overwrite values which the gradients of earlier loops need."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wuji as ti

N, CELLS = 5, 8


class Mpm:
    """Particles and a grid in one dimension; a step is one kernel."""

    def __init__(self) -> None:
        duals = {"needs_grad": True, "needs_dual": True}
        self.first, self.x, self.v = (ti.field(ti.f64, N, **duals) for _ in range(3))
        self.momentum, self.mass = (ti.field(ti.f64, CELLS, **duals) for _ in range(2))
        self.loss = ti.field(ti.f64, (), **duals)
        self.first.from_numpy(np.array([1.3, 1.7, 2.4, 3.1, 4.6]))
        first, x, v, momentum, mass, loss = self.first, self.x, self.v, self.momentum, self.mass, self.loss

        @ti.kernel
        def begin():
            for p in x:
                x[p] = first[p]
                v[p] = 0.1 * first[p] * first[p]

        @ti.kernel
        def substep(dt: ti.f64):
            for i in mass:
                momentum[i] = 0.0
                mass[i] = 0.0
            for p in x:
                cell = int(ti.floor(x[p]))
                part = x[p] - cell
                mass[cell] += 1.0 - part
                mass[cell + 1] += part
                momentum[cell] += (1.0 - part) * v[p]
                momentum[cell + 1] += part * v[p]
            for i in mass:
                if mass[i] > 0.0:
                    momentum[i] = ti.sin(momentum[i] / mass[i])
            for p in x:
                cell = int(ti.floor(x[p]))
                part = x[p] - cell
                v[p] = (1.0 - part) * momentum[cell] + part * momentum[cell + 1]
                x[p] += dt * v[p] * v[p]

        @ti.kernel
        def energy():
            for p in x:
                loss[None] += x[p] * x[p] + ti.sin(v[p])

        self.begin, self.substep, self.energy = begin, substep, energy

    def run(self, steps: int) -> None:
        self.begin()
        for _ in range(steps):
            self.substep(0.1)
        self.energy()

    def value(self, first: Any, steps: int) -> float:
        self.first.from_numpy(first)
        self.loss[None] = 0.0
        self.run(steps)
        return float(self.loss[None])

    def gradient(self, steps: int) -> Any:
        with ti.ad.Tape(self.loss):
            self.run(steps)
        return self.first.grad.to_numpy()

    def differences(self, steps: int) -> Any:
        start = self.first.to_numpy()
        found = np.zeros(N)
        for k in range(N):
            step = np.zeros(N)
            step[k] = 1e-6
            found[k] = (self.value(start + step, steps) - self.value(start - step, steps)) / 2e-6
        self.first.from_numpy(start)
        return found


def test_a_whole_step_in_one_kernel() -> None:
    mpm = Mpm()
    expected = mpm.differences(3)
    mpm.loss[None] = 0.0
    assert np.allclose(mpm.gradient(3), expected, rtol=1e-5, atol=1e-7)


def test_it_agrees_with_the_check_of_the_tape() -> None:
    mpm = Mpm()
    with ti.ad.Tape(mpm.loss, grad_check=[mpm.first]):
        mpm.run(2)


def test_values_are_those_of_the_kernel() -> None:
    mpm = Mpm()
    mpm.run(3)
    x, momentum = mpm.x.to_numpy(), mpm.momentum.to_numpy()
    mpm.gradient(3)
    assert np.allclose(mpm.x.to_numpy(), x, rtol=1e-14)
    assert np.allclose(mpm.momentum.to_numpy(), momentum, rtol=1e-14)


def test_the_gradient_of_one_launch() -> None:
    mpm = Mpm()
    expected = mpm.gradient(1)
    ti.ad.clear_all_gradients()
    mpm.begin()
    x, v = mpm.x.to_numpy(), mpm.v.to_numpy()
    mpm.substep(0.1)
    mpm.energy()
    grid = mpm.momentum.to_numpy()
    mpm.loss.grad[None] = 1.0
    mpm.energy.grad()
    # It runs the kernel again, from the values that it started with.
    mpm.x.from_numpy(x)
    mpm.v.from_numpy(v)
    mpm.substep.grad(0.1)
    assert mpm.x.to_numpy().tolist() == x.tolist()
    assert np.allclose(mpm.momentum.to_numpy(), grid, rtol=1e-14)
    mpm.begin.grad()
    assert np.allclose(mpm.first.grad.to_numpy(), expected, rtol=1e-10)


def test_products_with_the_hessian() -> None:
    mpm = Mpm()
    start = mpm.first.to_numpy()
    sides = []
    for step in (1e-5, -1e-5):
        mpm.first.from_numpy(start + step)
        sides.append(mpm.gradient(2))
    expected = (sides[0] - sides[1]) / 2e-5
    mpm.first.from_numpy(start)
    with ti.ad.FwdMode(loss=mpm.loss, param=mpm.first, seed=[1.0] * N), ti.ad.Tape(mpm.loss):
        mpm.run(2)
    assert np.allclose(mpm.first.grad.dual.to_numpy(), expected, rtol=1e-4, atol=1e-5)


def test_arrays() -> None:
    x, y, loss = (ti.ndarray(ti.f64, n, needs_grad=True) for n in (3, 3, 1))

    @ti.kernel
    def smooth(x: ti.types.ndarray(), y: ti.types.ndarray(), loss: ti.types.ndarray()):
        for i in x:
            y[i] = ti.sin(x[i])
        for i in x:
            x[i] = y[i] * y[i] * x[i]
        for i in x:
            y[i] = x[i] * x[i]
        for i in x:
            loss[0] += x[i] * y[i] * y[i]

    def value(step: float) -> float:
        x.from_numpy(np.array([0.4, 0.9, 1.2]) + step)
        loss.fill(0.0)
        smooth(x, y, loss)
        return float(loss[0])

    expected = (value(1e-5) - value(-1e-5)) / 2e-5
    x.from_numpy(np.array([0.4, 0.9, 1.2]))
    with ti.ad.Tape(loss):
        smooth(x, y, loss)
    assert x.grad.to_numpy().sum() == pytest.approx(expected, rel=1e-6)


def test_one_iteration_reads_what_it_has_just_stored() -> None:
    first, x, v = (ti.field(ti.f64, 3, needs_grad=True) for _ in range(3))
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def begin():
        for i in x:
            x[i] = first[i]
            v[i] = first[i] * first[i]

    @ti.kernel
    def drag():
        for i in range(3):
            v[i] -= 0.1 * v[i] * v[i] + ti.sin(x[i])
            x[i] += v[i] * v[i]
            v[i] = v[i] * x[i]
            loss[None] += v[i] * x[i]

    first.from_numpy(np.array([0.3, 0.8, 1.1]))
    with ti.ad.Tape(loss, grad_check=[first]):
        begin()
        for _ in range(3):
            drag()


def test_a_sparse_grid() -> None:
    grid = ti.field(ti.f64, needs_grad=True)
    block = ti.root.pointer(ti.i, 8)
    block.dense(ti.i, 2).place(grid, grid.grad)
    first, x = (ti.field(ti.f64, 3, needs_grad=True) for _ in range(2))
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def begin():
        for p in x:
            x[p] = first[p]

    @ti.kernel
    def spread():
        for p in x:
            grid[int(ti.floor(x[p]))] += x[p] * x[p]
        for i in grid:
            grid[i] = ti.sin(grid[i]) * grid[i]
        for p in x:
            x[p] += 0.01 * grid[int(ti.floor(x[p]))] * x[p]

    @ti.kernel
    def total():
        for p in x:
            loss[None] += x[p] * x[p]

    def value(at: Any) -> float:
        block.deactivate_all()
        first.from_numpy(at)
        loss[None] = 0.0
        begin()
        spread()
        total()
        return float(loss[None])

    start = np.array([1.4, 1.7, 5.2])
    expected = (value(start + 1e-6) - value(start - 1e-6)) / 2e-6
    block.deactivate_all()
    first.from_numpy(start)
    with ti.ad.Tape(loss):
        begin()
        spread()
        total()
    assert first.grad.to_numpy().sum() == pytest.approx(expected, rel=1e-5)


def test_an_element_that_an_iteration_stores_tests_and_stores_again() -> None:
    v = ti.Vector.field(2, ti.f64, (3, 4), needs_grad=True)
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def walls(t: ti.i32):
        for i in range(4):
            v[t + 1, i] = v[t, i] * 1.5
            v[t + 1, i][1] -= 0.1
            if i < 2 and v[t + 1, i][0] < 0:
                v[t + 1, i][0] = 0.25
            v[t + 1, i][1] = ti.max(v[t + 1, i][1], -0.5)
            n = v[t + 1, i].norm()
            if n > 0.8:
                v[t + 1, i] *= 0.8 / n

    @ti.kernel
    def total():
        for i in range(4):
            loss[None] += (i + 1) * (v[2, i][0] + 0.5 * v[2, i][1] ** 2)

    start = np.array([[-0.3, 0.2], [0.4, -0.9], [0.7, 0.6], [-0.2, 0.1]])

    def run(x: np.ndarray) -> float:
        v.fill(0.0)
        for i in range(4):
            v[0, i] = x[i]
        loss[None] = 0.0
        walls(0)
        walls(1)
        total()
        return loss[None]

    run(start)
    loss[None] = 0.0
    with ti.ad.Tape(loss):
        walls(0)
        walls(1)
        total()
    found = v.grad.to_numpy()[0]
    for k in np.ndindex(start.shape):
        step = np.zeros_like(start)
        step[k] = 1e-6
        expected = (run(start + step) - run(start - step)) / 2e-6
        assert found[k] == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_a_loop_that_overwrites_what_its_gradient_needs_is_refused() -> None:
    x, y = (ti.field(ti.f64, 3, needs_grad=True) for _ in range(2))
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def both():
        for i in x:
            a = x[i]
            x[i] = ti.sin(a)
            y[i] = x[0] * x[0]

    with pytest.raises(ti.WujiError, match="W0736"), ti.ad.Tape(loss):
        both()
    with pytest.raises(ti.WujiError, match="W0736"):
        both.grad()
