"""Gradients through control flow, functions and several loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ad_programs import check

import wuji as ti

VALUES = [0.9, 0.4, -1.3, 2.0, 0.05]

PROGRAMS = {
    "if": """
        @ti.kernel
        def run():
            for i in x:
                if x[i] > 0.5:
                    loss[None] += x[i] ** 2
                else:
                    loss[None] += 3.0 * x[i]
        """,
    "if that changes a variable": """
        @ti.kernel
        def run():
            for i in x:
                y = x[i]
                if y > 0.5:
                    y = y * y
                elif y < 0.0:
                    y = ti.sin(y)
                loss[None] += y
        """,
    "nested if": """
        @ti.kernel
        def run():
            for i in x:
                if x[i] > 0.0:
                    if i % 2 == 0:
                        loss[None] += x[i] ** 3
                    else:
                        loss[None] += x[i] ** 2
        """,
    "for with a carried scalar": """
        @ti.kernel
        def run():
            for i in x:
                y = x[i]
                for k in range(4):
                    y = ti.sin(y) + x[i]
                loss[None] += y
        """,
    "for with a sum": """
        @ti.kernel
        def run():
            for i in x:
                s = 0.0
                for k in range(i + 1):
                    s += x[k] * x[i]
                loss[None] += s
        """,
    "nested for": """
        @ti.kernel
        def run():
            for i in x:
                y = 1.0
                for j in range(3):
                    for k in range(j + 1):
                        y = y * 0.5 + x[i] * y
                loss[None] += y
        """,
    "for with a run-time bound": """
        @ti.kernel
        def run():
            for i in x:
                y = x[i]
                for k in range(ti.cast(ti.abs(x[i]) * 3.0 + 0.5, ti.i32)):
                    y *= 0.9 + 0.1 * y
                loss[None] += y
        """,
    "while": """
        @ti.kernel
        def run():
            for i in x:
                y = x[i]
                n = 0
                while n < 3 + i:
                    y = 0.5 * y * y + 0.1
                    n += 1
                loss[None] += y
        """,
    "while on a value": """
        @ti.kernel
        def run():
            for i in x:
                y = ti.abs(x[i]) + 0.1
                while y < 5.0:
                    y = y * 1.7
                loss[None] += y
        """,
    "break": """
        @ti.kernel
        def run():
            for i in x:
                y = x[i]
                for k in range(10):
                    y = y * 1.3
                    if k == i:
                        break
                loss[None] += y
        """,
    "continue": """
        @ti.kernel
        def run():
            for i in x:
                y = x[i]
                for k in range(6):
                    if k % 2 == i % 2:
                        continue
                    y = y * x[i] + 1.0
                loss[None] += y
        """,
    "continue of the parallel loop": """
        @ti.kernel
        def run():
            for i in x:
                if x[i] < 0.0:
                    continue
                loss[None] += x[i] ** 2
        """,
    "static loop": """
        @ti.kernel
        def run():
            for i in x:
                y = 1.0
                for k in ti.static(range(3)):
                    y = y * x[i] + k
                loss[None] += y
        """,
    "function": """
        @ti.func
        def f(a, b):
            return a * b + ti.sin(a)

        @ti.kernel
        def run():
            for i in x:
                loss[None] += f(x[i], f(x[i], 2.0))
        """,
    "function with an early return": """
        @ti.real_func
        def f(a: ti.f64) -> ti.f64:
            if a > 0.5:
                return a * a
            return 2.0 * a

        @ti.kernel
        def run():
            for i in x:
                loss[None] += f(x[i])
        """,
    "local vector": """
        @ti.kernel
        def run():
            for i in x:
                v = ti.Vector([x[i], 2.0 * x[i], 1.0])
                for k in range(3):
                    v = v * x[i] + ti.Vector([1.0, 0.0, x[i]])
                loss[None] += v.norm_sqr()
        """,
    "local matrix with run-time indices": """
        @ti.kernel
        def run():
            for i in x:
                m = ti.Matrix.zero(ti.f64, 2, 2)
                for k in range(4):
                    m[k // 2, k % 2] += x[i] * (k + 1)
                loss[None] += (m @ m).trace()
        """,
    "two loops in one kernel": """
        y = ti.field(ti.f64, 5, needs_grad=True)

        @ti.kernel
        def run():
            for i in x:
                y[i] = x[i] * x[i]
            for i in y:
                loss[None] += y[i] * (i + 1)
        """,
    "neighbours": """
        @ti.kernel
        def run():
            for i in range(1, 4):
                d = x[i + 1] - 2.0 * x[i] + x[i - 1]
                loss[None] += d * d
        """,
    "indirection": """
        @ti.kernel
        def run():
            for i in x:
                loss[None] += x[(i * 3 + 1) % 5] * x[i]
        """,
    "serial code": """
        @ti.kernel
        def run():
            s = 1.0
            for i in range(1):
                pass
            a = x[0] * x[1]
            b = a + x[2]
            loss[None] += a * b * s
        """,
    "grouped loop": """
        @ti.kernel
        def run():
            for I in ti.grouped(x):
                loss[None] += x[I] ** 2 * I[0]
        """,
    "ndrange": """
        @ti.kernel
        def run():
            for i, j in ti.ndrange(5, 5):
                loss[None] += x[i] * x[j] * (i - j)  ** 2
        """,
    "sum in a variable of the kernel": """
        @ti.kernel
        def run():
            s = 0.0
            for i in x:
                s += x[i] ** 2
            loss[None] += ti.sqrt(s)
        """,
    "atomic_sub": """
        @ti.kernel
        def run():
            for i in x:
                ti.atomic_sub(loss[None], x[i] ** 2)
        """,
    "atomic_max": """
        @ti.kernel
        def run():
            for i in x:
                ti.atomic_max(loss[None], x[i] * x[i])
        """,
    "rounds that update the element": """
        @ti.kernel
        def run():
            for i in x:
                for k in range(5):
                    x[i] += 0.1 * ti.sin(x[i])
                    if x[i] > 0.5:
                        x[i] *= 0.9
                loss[None] += x[i] ** 2
        """,
    "an element that a loop with a condition updates": """
        @ti.kernel
        def run():
            for i in x:
                while abs(x[i]) > 0.2:
                    x[i] = 0.6 * x[i] + 0.05 * x[i] ** 2
                loss[None] += ti.exp(x[i])
        """,
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_gradients_of_control_flow(name: str) -> None:
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False, default_fp=ti.f64)
    check(PROGRAMS[name], VALUES)


SEVERAL = {
    "chain": """
        y = ti.field(ti.f64, 5, needs_grad=True)

        @ti.kernel
        def first():
            for i in x:
                y[i] = ti.sin(x[i]) * x[i]

        @ti.kernel
        def second():
            for i in y:
                loss[None] += y[i] ** 2

        def run():
            first()
            second()
        """,
    "steps with a time axis": """
        y = ti.field(ti.f64, (6, 5), needs_grad=True)

        @ti.kernel
        def start():
            for i in x:
                y[0, i] = x[i]

        @ti.kernel
        def step(t: ti.i32):
            for i in range(5):
                y[t + 1, i] = y[t, i] + 0.1 * y[t, (i + 1) % 5] * y[t, i]

        @ti.kernel
        def finish():
            for i in range(5):
                loss[None] += y[5, i] ** 2

        def run():
            start()
            for t in range(5):
                step(t)
            finish()
        """,
    "scalar arguments": """
        @ti.kernel
        def add(a: ti.f64, k: ti.i32):
            for i in x:
                loss[None] += a * x[i] ** k

        def run():
            add(0.5, 2)
            add(2.0, 3)
        """,
    "template arguments": """
        y = ti.field(ti.f64, 5, needs_grad=True)
        z = ti.field(ti.f64, 5, needs_grad=True)

        @ti.kernel
        def square(a: ti.template(), b: ti.template()):
            for i in a:
                b[i] = a[i] * a[i] + 1.0

        @ti.kernel
        def finish():
            for i in z:
                loss[None] += z[i]

        def run():
            square(x, y)
            square(y, z)
            finish()
        """,
    "methods": """
        @ti.data_oriented
        class Model:
            def __init__(self):
                self.y = ti.field(ti.f64, 5, needs_grad=True)

            @ti.kernel
            def forward(self, scale: ti.f64):
                for i in x:
                    self.y[i] = scale * x[i] ** 2

            @ti.kernel
            def sum(self):
                for i in self.y:
                    loss[None] += self.y[i] * i

        model = Model()

        def run():
            model.forward(2.0)
            model.sum()
        """,
    "overwritten state": """
        y = ti.field(ti.f64, 5, needs_grad=True)

        @ti.kernel
        def start():
            for i in x:
                y[i] = x[i]

        @ti.kernel
        def scale(a: ti.f64):
            for i in y:
                y[i] = a * y[i]

        @ti.kernel
        def finish():
            for i in y:
                loss[None] += y[i] * (i + 1)

        def run():
            start()
            scale(2.0)
            scale(3.0)
            finish()
        """,
    "particles and a grid": """
        steps, count, size = 3, 4, 8
        dx, dt = 1.0 / 8, 2e-2
        vec = ti.types.vector(2, ti.f64)
        mat = ti.types.matrix(2, 2, ti.f64)
        pos, vel = ti.Vector.field(2, ti.f64), ti.Vector.field(2, ti.f64)
        C, F = ti.Matrix.field(2, 2, ti.f64), ti.Matrix.field(2, 2, ti.f64)
        momentum, out, mass = ti.Vector.field(2, ti.f64), ti.Vector.field(2, ti.f64), ti.field(ti.f64)
        ti.root.dense(ti.ij, (steps + 1, count)).place(pos, vel, C, F)
        ti.root.dense(ti.ij, (size, size)).place(momentum, out, mass)
        ti.root.lazy_grad()

        @ti.kernel
        def start():
            for p in range(count):
                pos[0, p] = vec(0.3 + 0.1 * (p % 2), 0.4 + 0.1 * (p // 2))
                vel[0, p] = vec(x[0], x[1])
                F[0, p] = mat(1.0 + 0.1 * x[2], 0.05 * x[3], 0.0, 1.0)

        @ti.kernel
        def clear():
            for i, j in mass:
                mass[i, j] = 0.0
                momentum[i, j] = vec(0.0, 0.0)

        @ti.kernel
        def p2g(t: ti.i32):
            for p in range(count):
                base = ti.cast(pos[t, p] / dx - 0.5, ti.i32)
                fx = pos[t, p] / dx - ti.cast(base, ti.f64)
                w = [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1.0) ** 2, 0.5 * (fx - 0.5) ** 2]
                deformed = (mat(1.0, 0.0, 0.0, 1.0) + dt * C[t, p]) @ F[t, p]
                F[t + 1, p] = deformed
                J = deformed.determinant()
                stress = -dt * 4.0 / dx ** 2 * 1e-3 * (deformed @ deformed.transpose() + (1.0 + x[4]) * (J - 1.0) * mat(1.0, 0.0, 0.0, 1.0))
                affine = stress + 1e-2 * C[t, p]
                for i in ti.static(range(3)):
                    for j in ti.static(range(3)):
                        d = (vec(i, j) - fx) * dx
                        weight = w[i][0] * w[j][1]
                        momentum[base + ti.Vector([i, j])] += weight * (1e-2 * vel[t, p] + affine @ d)
                        mass[base + ti.Vector([i, j])] += weight * 1e-2

        @ti.kernel
        def update():
            for i, j in mass:
                v = momentum[i, j] / (mass[i, j] + 1e-10)
                v[1] -= dt * 9.8
                if i < 2 and v[0] < 0.0:
                    v[0] = 0.0
                if j < 2 and v[1] < 0.0:
                    v[1] = 0.0
                out[i, j] = v

        @ti.kernel
        def g2p(t: ti.i32):
            for p in range(count):
                base = ti.cast(pos[t, p] / dx - 0.5, ti.i32)
                fx = pos[t, p] / dx - ti.cast(base, ti.f64)
                w = [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1.0) ** 2, 0.5 * (fx - 0.5) ** 2]
                v = vec(0.0, 0.0)
                c = mat(0.0, 0.0, 0.0, 0.0)
                for i in ti.static(range(3)):
                    for j in ti.static(range(3)):
                        g = out[base + ti.Vector([i, j])]
                        weight = w[i][0] * w[j][1]
                        v += weight * g
                        c += 4.0 / dx * weight * g.outer_product(vec(i, j) - fx)
                vel[t + 1, p] = v
                pos[t + 1, p] = pos[t, p] + dt * v
                C[t + 1, p] = c

        @ti.kernel
        def finish():
            for p in range(count):
                loss[None] += (pos[steps, p] - vec(0.7, 0.6)).norm_sqr()

        def run():
            start()
            for t in range(steps):
                clear()
                p2g(t)
                update()
                g2p(t)
            finish()
        """,
    "grid that is filled again": """
        grid = ti.field(ti.f64, 3, needs_grad=True)

        @ti.kernel
        def scatter(k: ti.i32):
            for i in x:
                grid[(i + k) % 3] += x[i] * (k + 1)

        @ti.kernel
        def gather():
            for i in grid:
                loss[None] += grid[i] * (i + 1)

        def run():
            for k in range(3):
                grid.fill(0.0)
                scatter(k)
                gather()
        """,
}


@pytest.mark.parametrize("name", list(SEVERAL))
def test_gradients_across_kernels(name: str) -> None:
    check(SEVERAL[name], VALUES)


def test_rounds_that_copy_new_elements_back_are_refused() -> None:
    x, y, loss = (ti.field(ti.f64, shape, needs_grad=True) for shape in (8, 8, ()))

    @ti.kernel
    def jacobi(rounds: ti.i32):
        for _ in range(1):
            for _ in range(rounds):
                for i in range(1, 7):
                    y[i] = ti.sin(x[i - 1] + x[i + 1])
                for i in range(1, 7):
                    x[i] = y[i]

    with pytest.raises(ti.WujiRuntimeError, match="W0706.*overwrites values"), ti.ad.Tape(loss):
        jacobi(3)


def test_long_loops_have_exact_gradients() -> None:
    x = ti.field(ti.f64, 2, needs_grad=True)
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def run(n: ti.i32) -> None:
        for i in x:
            y = x[i]
            for _ in range(n):
                y = y + 1e-4 * ti.sin(y)
            loss[None] += y

    def evaluate(values: Any) -> float:
        y = values.copy()
        for _ in range(20000):
            y = y + 1e-4 * np.sin(y)
        return float(y.sum())

    values = np.array([0.3, 1.2])
    x.from_numpy(values)
    with ti.ad.Tape(loss):
        run(20000)
    assert abs(loss[None] - evaluate(values)) < 1e-9
    step = 1e-6
    expected = [(evaluate(values + step * e) - evaluate(values - step * e)) / (2 * step) for e in np.eye(2)]
    np.testing.assert_allclose(x.grad.to_numpy(), expected, rtol=1e-7)
