"""Parallel loops under other control flow."""

import numpy as np

import wuji as ti


N = 20_000


@ti.kernel
def solve(x: ti.template(), r: ti.template(), p: ti.template(), ap: ti.template()) -> ti.i32:
    rounds = 0
    rr = 0.0
    for i in range(N):
        p[i] = r[i]
        rr += r[i] * r[i]
    while rr > 1e-6 and rounds < 500:
        pap = 0.0
        for i in range(N):
            left = 0.0
            right = 0.0
            if i > 0:
                left = p[i - 1]
            if i < N - 1:
                right = p[i + 1]
            ap[i] = 2.5 * p[i] - left - right
            pap += p[i] * ap[i]
        alpha = rr / pap
        following = 0.0
        for i in x:
            x[i] += alpha * p[i]
            r[i] -= alpha * ap[i]
            following += r[i] * r[i]
        for i in x:
            p[i] = r[i] + following / rr * p[i]
        rr = following
        rounds += 1
    return rounds


def test_an_iterative_solver_is_one_kernel():
    """Loops under a `while` whose iterations are independent run in parallel."""
    x, r, p, ap = (ti.field(ti.f32, N) for _ in range(4))
    b = (np.arange(N) % 17 - 3.0).astype(np.float32)
    r.from_numpy(b)
    rounds = solve(x, r, p, ap)
    assert 5 < rounds < 100
    found = x.to_numpy().astype(np.float64)
    around = np.pad(found, 1)
    residual = b - (2.5 * found - around[:-2] - around[2:])
    assert np.abs(residual).max() < 1e-3


@ti.kernel
def smooth(x: ti.template(), y: ti.template(), rounds: ti.i32):
    ti.loop_config(serialize=True)
    for k in range(rounds):
        for i, j in x:
            y[i, j] = x[i, j] + 1
        for i, j in y:
            x[i, j] = y[i, j] * 2


def test_a_serial_loop_around_parallel_ones():
    x, y = (ti.field(ti.i32, (60, 70)) for _ in range(2))
    smooth(x, y, 5)
    assert (x.to_numpy() == 62).all()
    assert (y.to_numpy() == 31).all()
