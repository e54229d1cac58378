"""Worlds with `async_mode=True`: the same results, with fewer tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wuji as ti
from wuji.lang.runtime import current


def statistics() -> tuple[int, ...]:
    return current().native.lazy_statistics()


def tasks() -> int:
    return statistics()[2]


@pytest.fixture
def lazy() -> None:
    ti.init(arch=ti.cpu, async_mode=True, offline_cache=False)


def test_loops_over_the_same_elements_become_one(lazy: None) -> None:
    x, y, z = (ti.field(ti.f32, 1000) for _ in range(3))

    @ti.kernel
    def copy(a: ti.template(), b: ti.template(), amount: ti.f32):  # type: ignore[valid-type]
        for i in a:
            b[i] = a[i] + amount

    @ti.kernel
    def inc(a: ti.template()):  # type: ignore[valid-type]
        for i in range(1000):
            a[i] += 1

    for _ in range(10):
        inc(x)
    copy(x, y, 1)
    copy(y, z, 4)
    assert tasks() == 0
    np.testing.assert_array_equal(z.to_numpy(), np.full(1000, 15, np.float32))
    assert tasks() == 1
    assert x[5] == 10 and y[5] == 11


def test_stencils_are_not_fused_with_what_they_read(lazy: None) -> None:
    x, y = ti.field(ti.f32, (64, 64)), ti.field(ti.f32, (64, 64))

    @ti.kernel
    def init():
        for i, j in x:
            x[i, j] = i * 64 + j

    @ti.kernel
    def blur(a: ti.template(), b: ti.template()):  # type: ignore[valid-type]
        for i, j in ti.ndrange((1, 63), (1, 63)):
            b[i, j] = (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]) / 4

    init()
    for _ in range(3):
        blur(x, y)
        blur(y, x)
    got = x.to_numpy()
    want = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    other = np.zeros_like(want)
    for _ in range(3):
        for a, b in ((want, other), (other, want)):
            b[1:-1, 1:-1] = (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]) / 4
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_what_is_overwritten_is_not_computed(lazy: None) -> None:
    x, loss = ti.field(ti.f32, 100, needs_grad=True), ti.field(ti.f32, (), needs_grad=True)

    @ti.kernel
    def compute():
        for i in x:
            loss[None] += x[i] * x[i]

    x.fill(1)
    ti.sync()
    before = tasks()
    for _ in range(3):
        with ti.ad.Tape(loss):
            compute()
    assert loss[None] == 100
    np.testing.assert_array_equal(x.grad.to_numpy(), np.full(100, 2, np.float32))
    assert tasks() > before


def test_errors_come_with_the_line_of_their_kernel(lazy: None) -> None:
    x = ti.field(ti.i32, 8)

    @ti.kernel
    def check(n: ti.i32):
        for i in x:
            x[i] = n

    check(3)
    assert "check" in ti.flow_graph()
    ti.async_flush()
    assert ti.flow_graph() == ""
    assert x[0] == 3


def test_graphs_can_be_drawn(lazy: None) -> None:
    x, y = ti.field(ti.f32, 8), ti.field(ti.f32, 8)

    @ti.kernel
    def f(a: ti.template(), b: ti.template()):  # type: ignore[valid-type]
        for i in a:
            b[i] = a[i] + 1

    f(x, y)
    f(y, x)
    assert ti.flow_graph("dot").count("->") == 2
    assert ti.flow_graph("dot", optimized=True).count("label") == 1
    assert ti.flow_graph("svg").startswith("<svg")
    with pytest.raises(ValueError, match="there is no format `png`"):
        ti.flow_graph("png")


@pytest.mark.parametrize("options", [{}, {"async_opt_fusion": False}, {"async_opt_dse": False}, {"async_flush_every": 3}, {"without": "task_dataflow"}])
def test_the_options_do_not_change_results(options: dict[str, Any]) -> None:
    def run(**options: Any) -> np.ndarray[Any, Any]:
        ti.init(arch=ti.cpu, offline_cache=False, fast_math=False, **options)
        n = 256
        x, v, f = (ti.Vector.field(2, ti.f32, n) for _ in range(3))

        @ti.kernel
        def init():
            for i in x:
                x[i] = [ti.sin(i * 0.1), ti.cos(i * 0.3)]
                v[i] = [0, 0]

        @ti.kernel
        def clear():
            for i in f:
                f[i] = [0, 0]

        @ti.kernel
        def springs():
            for i in range(n - 1):
                d = x[i + 1] - x[i]
                f[i] += d
                f[i + 1] -= d

        @ti.kernel
        def step(dt: ti.f32):
            for i in v:
                v[i] += dt * f[i]

        @ti.kernel
        def move(dt: ti.f32):
            for i in x:
                x[i] += dt * v[i]

        init()
        for _ in range(10):
            clear()
            springs()
            step(0.01)
            move(0.01)
        return x.to_numpy()

    # The order of the two updates of a force is not defined.
    np.testing.assert_allclose(run(async_mode=True, **options), run(), atol=1e-6)


def test_unique_indices_are_fused():
    def run(**options):
        ti.init(arch=ti.cpu, cpu_max_num_threads=2, **options)
        order, x, v = ti.field(ti.i32, 53), ti.field(ti.f32, 53), ti.field(ti.f32, 53)
        order.from_numpy(np.array([i * 5 % 53 for i in range(53)], np.int32))
        v.fill(1.0)

        @ti.kernel
        def move():
            for i in range(53):
                p = ti.lang.misc.loop_unique(order[i], covers=x)
                x[p] = x[p] + v[p]

        @ti.kernel
        def kick():
            for i in range(53):
                p = ti.lang.misc.loop_unique(order[i], covers=[x])
                v[p] = v[p] - 0.25 * x[p]

        for _ in range(3):
            move()
            kick()
        graph = ti.flow_graph(optimized=True) if options else ""
        return x.to_numpy(), graph

    eager, _ = run()
    lazy, graph = run(async_mode=True)
    assert np.array_equal(eager, lazy)
    tasks = [line for line in graph.splitlines() if not line.startswith(" ")]
    assert len(tasks) == 2, graph  # the fill of v, and one loop


def test_covers_needs_fields_with_one_axis():
    ti.init(arch=ti.cpu)
    x, y = ti.field(ti.f32, 8), ti.field(ti.f32, (8, 8))

    @ti.kernel
    def square():
        for i in range(8):
            x[ti.lang.misc.loop_unique(i, covers=y)] = 1.0

    @ti.kernel
    def number():
        for i in range(8):
            x[ti.lang.misc.loop_unique(i, covers=[3])] = 1.0

    with pytest.raises(ti.TaichiCompilationError, match="one axis"):
        square()
    with pytest.raises(ti.TaichiCompilationError, match="needs fields"):
        number()


def test_loops_over_ndarrays_become_one(lazy: None) -> None:
    x, y = ti.ndarray(ti.f32, 1000), ti.ndarray(ti.f32, 1000)

    @ti.kernel
    def inc(a: ti.types.ndarray(dtype=ti.f32, ndim=1), amount: ti.f32):  # type: ignore[valid-type]
        for i in a:
            a[i] += amount

    @ti.kernel
    def copy(a: ti.types.ndarray(dtype=ti.f32, ndim=1), b: ti.types.ndarray(dtype=ti.f32, ndim=1)):  # type: ignore[valid-type]
        for i in a:
            b[i] = 2 * a[i]

    x.fill(1)
    for _ in range(10):
        inc(x, 1)
    copy(x, y)
    assert tasks() == 0
    assert y[999] == 22 and x[0] == 11
    assert tasks() == 1
    np.testing.assert_array_equal(y.to_numpy(), np.full(1000, 22, np.float32))


def test_the_same_ndarray_twice_is_one_state(lazy: None) -> None:
    x = ti.ndarray(ti.i32, 16)

    @ti.kernel
    def add(a: ti.types.ndarray(dtype=ti.i32, ndim=1), b: ti.types.ndarray(dtype=ti.i32, ndim=1)):  # type: ignore[valid-type]
        for i in a:
            b[i] = a[i] + i

    for _ in range(3):
        add(x, x)
    np.testing.assert_array_equal(x.to_numpy(), 3 * np.arange(16))


def test_shared_memory_is_up_to_date(lazy: None) -> None:
    x = ti.ndarray(ti.f32, 100)

    @ti.kernel
    def inc(a: ti.types.ndarray(dtype=ti.f32, ndim=1)):  # type: ignore[valid-type]
        for i in a:
            a[i] += 1

    inc(x)
    assert tasks() == 0
    shared = np.from_dlpack(x)
    assert tasks() == 1
    assert shared[7] == 1
    # From now on, others may look at any time.
    inc(x)
    assert shared[7] == 2


def test_a_numpy_array_runs_what_waits(lazy: None) -> None:
    x, given = ti.ndarray(ti.f32, 10), np.ones(10, np.float32)

    @ti.kernel
    def inc(a: ti.types.ndarray(dtype=ti.f32, ndim=1)):  # type: ignore[valid-type]
        for i in a:
            a[i] += 1

    inc(x)
    inc(given)
    assert tasks() == 1
    assert given[3] == 2 and x[3] == 1


def test_results_are_in_the_window_of_what_they_depend_on(lazy: None) -> None:
    x = ti.ndarray(ti.f32, 100)

    @ti.kernel
    def fill(a: ti.types.ndarray(dtype=ti.f32, ndim=1), value: ti.f32):  # type: ignore[valid-type]
        for i in a:
            a[i] = value

    @ti.kernel
    def total(a: ti.types.ndarray(dtype=ti.f32, ndim=1)) -> ti.f32:  # type: ignore[valid-type]
        sum = 0.0
        for i in a:
            sum += a[i]
        return sum

    for value in range(5):
        fill(x, value)
    assert total(x) == 400
    launches, launched, ran, windows, *_ = statistics()
    assert (launches, windows) == (6, 1)
    # Only the last fill is computed.
    assert ran < launched


def test_an_ndarray_that_nothing_can_read_is_not_filled(lazy: None) -> None:
    x, y = ti.ndarray(ti.f32, 10), ti.ndarray(ti.f32, 10)

    @ti.kernel
    def fill(a: ti.types.ndarray(dtype=ti.f32, ndim=1)):  # type: ignore[valid-type]
        for i in a:
            a[i] = 1

    fill(x)
    fill(y)
    del x
    assert tasks() == 0
    assert y[3] == 1
    assert tasks() == 1
