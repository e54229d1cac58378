"""Gradients where the active cells of sparse trees change between launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wuji as ti


def sparse(kind: str) -> tuple[Any, Any]:
    """Return a field, and the node whose cells come and go."""
    x = ti.field(ti.f64)
    node = ti.root.pointer(ti.i, 4) if kind == "pointer" else ti.root.bitmasked(ti.i, 16)
    (node.dense(ti.i, 4) if kind == "pointer" else node).place(x, x.grad)
    return x, node


def scalar() -> Any:
    return ti.field(ti.f64, (), needs_grad=True)


@ti.kernel
def total(x: ti.template(), loss: ti.template()):
    for i in x:
        loss[None] += (x[i] - 1.0) ** 2


@pytest.mark.parametrize("kind", ["pointer", "bitmasked"])
def test_cells_that_become_active_later_do_not_count(kind: str) -> None:
    x, node = sparse(kind)
    loss, shift = scalar(), scalar()

    @ti.kernel
    def count():
        for _i in x:
            loss[None] += ti.exp(shift[None])

    @ti.kernel
    def grow():
        for i in range(16):
            x[i] = 2.0

    x[5] = 3.0
    before = 4 if kind == "pointer" else 1
    with ti.ad.Tape(loss):
        count()
        grow()
    assert loss[None] == shift.grad[None] == before
    assert x[5] == x[15] == 2.0


@pytest.mark.parametrize("kind", ["pointer", "bitmasked"])
def test_deactivated_cells_have_the_gradients_of_their_launches(kind: str) -> None:
    x, node = sparse(kind)
    loss = scalar()
    a = ti.field(ti.f64, 2, needs_grad=True)

    @ti.kernel
    def spread(at: ti.i32, k: ti.i32):
        for j in range(1):
            x[at + j] += a[k] * a[k]

    a.from_numpy(np.array([2.0, 3.0]))
    with ti.ad.Tape(loss):
        for k in range(2):
            node.deactivate_all()
            spread(9 * k, k)
            total(x, loss)
    # The loss has (a**2 - 1)**2, and constants for the other elements of a cell.
    np.testing.assert_allclose(a.grad.to_numpy(), [4 * 2 * 3.0, 4 * 3 * 8.0], rtol=1e-12)
    assert x[9] == 9.0 and x[0] == 0.0


def test_kernels_may_deactivate_cells() -> None:
    x, node = sparse("bitmasked")
    loss = scalar()

    @ti.kernel
    def clear():
        for i in x:
            ti.deactivate(node, i)

    x[3] = 4.0
    with ti.ad.Tape(loss):
        total(x, loss)
        clear()
        total(x, loss)
    assert loss[None] == 9.0 and not x.grad[3]
    y = ti.field(ti.f64, 16, needs_grad=True)

    @ti.kernel
    def write():
        for i in range(3, 5):
            x[i] = y[i] ** 2

    y.fill(2.0)
    with ti.ad.Tape(loss):
        write()
        total(x, loss)
        clear()
    np.testing.assert_allclose(y.grad.to_numpy()[2:6], [0.0, 24.0, 24.0, 0.0])


def test_gradients_of_cells_that_become_active_on_the_tape_can_be_read() -> None:
    x, node = sparse("bitmasked")
    loss, a = scalar(), scalar()

    @ti.kernel
    def add(at: ti.i32):
        for j in range(1):
            x[at + j] += a[None]

    a[None] = 3.0
    with ti.ad.Tape(loss):
        for t in range(3):
            add(t)
            total(x, loss)
    assert [x.grad[t] for t in range(3)] == [12.0, 8.0, 4.0]
    assert a.grad[None] == 24.0


def test_a_kernel_that_activates_cells_it_loops_over_is_refused() -> None:
    x, node = sparse("bitmasked")
    loss = scalar()

    @ti.kernel
    def spread():
        for i in x:
            x[i + 1] = 2.0 * x[i]

    x[3] = 1.0
    with pytest.raises(ti.WujiRuntimeError, match="W0736.*`spread` activates cells"), ti.ad.Tape(loss):
        spread()


@pytest.mark.parametrize("lazy", [False, True])
def test_a_loop_over_a_list_activates_cells_of_a_grid_below_the_same_root(lazy) -> None:
    at, grid = ti.field(ti.f64, needs_grad=not lazy), ti.field(ti.f64, needs_grad=not lazy)
    ti.root.dynamic(ti.i, 64, chunk_size=16).place(at)
    block = ti.root.pointer(ti.i, 8)
    block.dense(ti.i, 4).place(grid)
    if lazy:
        ti.root.lazy_grad()
    loss = scalar()

    @ti.kernel
    def scatter():
        for p in at:
            cell = ti.cast(at[p] * 16, ti.i32)
            grid[cell] += at[p] * at[p]
            grid[cell + 1] += at[p] * 0.5

    @ti.kernel
    def gather():
        for p in at:
            at[p] += grid[ti.cast(at[p] * 16, ti.i32)] * 0.125

    @ti.kernel
    def squares():
        for i in grid:
            loss[None] += grid[i] ** 2

    def run(start):
        loss[None] = 0.0
        for p, value in enumerate(start):
            at[p] = value
        for _ in range(2):
            block.deactivate_all()
            scatter()
            gather()
        squares()
        return loss[None]

    start = np.array([0.1, 0.23, 0.37, 0.55, 0.71])
    with ti.ad.Tape(loss):
        run(start)
    found = [at.grad[p] for p in range(5)]
    steps = np.eye(5) * 1e-6
    expected = [(run(start + step) - run(start - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_lists_that_grow_after_a_launch_are_refused() -> None:
    x = ti.field(ti.f64)
    node = ti.root.dynamic(ti.i, 16, chunk_size=4)
    node.place(x, x.grad)
    loss = scalar()

    @ti.kernel
    def append():
        for _ in range(1):
            ti.append(node, [], 2.0)

    append()
    with ti.ad.Tape(loss):
        total(x, loss)
    assert x.grad[0] == 2.0
    with pytest.raises(ti.WujiRuntimeError, match="W0736|W0703"), ti.ad.Tape(loss):
        total(x, loss)
        append()


def test_writes_of_the_host_activate_cells() -> None:
    x, node = sparse("bitmasked")
    loss, a = scalar(), scalar()

    @ti.kernel
    def count():
        for _i in x:
            loss[None] += a[None] ** 2

    x[3], a[None] = 1.0, 3.0
    with ti.ad.Tape(loss):
        count()
        x[4] = 2.0
        count()
    assert loss[None] == 27.0 and a.grad[None] == 18.0
    assert x[4] == 2.0


def test_checks_restore_active_cells() -> None:
    x, node = sparse("bitmasked")
    loss = scalar()
    y = ti.field(ti.f64, 4, needs_grad=True)

    @ti.kernel
    def write():
        for i in y:
            x[3 * i] = y[i] ** 2

    y.from_numpy(np.array([0.5, 1.0, 2.0, 0.1]))
    with ti.ad.Tape(loss, grad_check=[y]):
        total(x, loss)
        write()
        total(x, loss)
