"""Parallel loops under other control flow."""

import numpy as np
import pytest

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


def sparse():
    x = ti.field(ti.f32)
    ti.root.pointer(ti.i, 8).bitmasked(ti.i, 8).place(x)
    return x


@ti.kernel
def grow(x: ti.template(), rounds: ti.i32) -> ti.i32:
    total = 0
    k = 0
    while k < rounds:
        visited = 0
        for i in x:
            visited += 1
            x[i + 1] += 1.0
        total += visited
        k += 1
    return total


def test_active_cells_are_visited_inside_of_control_flow():
    """Every round visits the cells that are active then."""
    x = sparse()
    x[6] = 1.0
    assert grow(x, 3) == 1 + 2 + 3
    assert [x[i] for i in range(5, 11)] == [0, 1, 3, 2, 1, 0]


@ti.kernel
def raise_all(x: ti.template(), rounds: ti.i32, wanted: ti.i32) -> ti.f32:
    ti.loop_config(serialize=True)
    for k in range(rounds):
        for i in x:
            x[i] += k
    total = 0.0
    if wanted:
        for i in x:
            total += x[i]
    return total


def test_serial_loops_and_branches_around_active_cells():
    x = sparse()
    for i in (3, 40):
        x[i] = 1.0
    assert raise_all(x, 4, 1) == 2 * (1 + 0 + 1 + 2 + 3)
    assert raise_all(x, 0, 0) == 0


@ti.kernel
def in_parallel(x: ti.template(), n: ti.i32):
    for k in range(n):
        for i in x:
            x[i] += k


@ti.kernel
def draws(x: ti.template(), n: ti.i32):
    if n > 0:
        for i in x:
            x[i] = ti.random()


@ti.kernel
def prints(x: ti.template(), n: ti.i32):
    while n > 0:
        for i in x:
            print(i)
        break


@ti.kernel
def leaves(x: ti.template(), n: ti.i32) -> ti.i32:
    if n > 0:
        for i in x:
            if i > 3:
                break
    return n


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (in_parallel, "cannot be inside of a parallel loop"),
        (draws, "neither draws random numbers nor prints"),
        (prints, "neither draws random numbers nor prints"),
        (leaves, "break"),
    ],
)
def test_what_loops_over_active_cells_cannot_do(kernel, message):
    with pytest.raises(ti.WujiCompilationError, match=message):
        kernel(sparse(), 2)


def test_gradient_of_a_loop_over_active_cells_under_a_condition():
    x = ti.field(ti.f32, needs_grad=True)
    ti.root.pointer(ti.i, 8).place(x, x.grad)
    loss = ti.field(ti.f32, shape=(), needs_grad=True)

    @ti.kernel
    def rounds(n: ti.i32):
        if n > 0:
            for i in x:
                loss[None] += x[i] * x[i]

    x[3] = 2.0
    with ti.ad.Tape(loss):
        rounds(1)
    assert x.grad[3] == 4.0
    with ti.ad.Tape(loss):
        rounds(0)
    assert x.grad[3] == 0.0


def test_no_gradient_of_rounds_that_overwrite():
    x = ti.field(ti.f32, needs_grad=True)
    ti.root.pointer(ti.i, 8).place(x, x.grad)
    loss = ti.field(ti.f32, shape=(), needs_grad=True)

    @ti.kernel
    def rounds(n: ti.i32):
        k = 0
        while k < n:
            for i in x:
                loss[None] += x[i] * x[i]
            k += 1

    x[3] = 2.0
    with pytest.raises(ti.WujiRuntimeError, match="W0711"), ti.ad.Tape(loss):
        rounds(1)
