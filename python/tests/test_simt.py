"""Warp and block primitives. They run on the interpreter, which simulates thread blocks, and on a GPU with `TI_ARCH=cuda`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wuji as ti
from wuji.simt import block, grid, subgroup, warp

ON_GPU = os.environ.get("TI_ARCH") == "cuda"
ALL = 0xFFFFFFFF


@pytest.fixture(autouse=True)
def threads(world: None) -> None:
    if ON_GPU:
        ti.init(arch=ti.cuda, offline_cache=False, verbose=False)
    else:
        ti.init(arch=ti.cpu, interpreter=True, offline_cache=False, verbose=False)


def test_shared_array() -> None:
    x = ti.field(ti.f32, 300)
    y = ti.field(ti.f32, 300)
    x.from_numpy(np.arange(300, dtype=np.float32))

    @ti.kernel
    def turn():
        ti.loop_config(block_dim=64)
        for i in range(300):
            pad = block.SharedArray((64,), ti.f32)
            t = block.thread_idx()
            pad[t] = x[i] + 1
            block.sync()
            y[i] = pad[63 - t]

    turn()
    # Threads beyond the end never existed; what they would have written is zero.
    found = y.to_numpy()
    expected = np.zeros(320, np.float32)
    expected[:300] = np.arange(300) + 1
    expected = expected.reshape(5, 64)[:, ::-1].reshape(-1)[:300]
    assert (found == expected).all()


def test_shared_arrays_of_vectors_and_atomics() -> None:
    out = ti.field(ti.f32, (4, 3))
    vec = ti.types.vector(3, ti.f32)

    @ti.kernel
    def add():
        ti.loop_config(block_dim=96)
        for i in range(96):
            rows = block.SharedArray((4, 3), ti.f32)
            sums = block.SharedArray(2, vec)
            rows[i % 4, i % 3] += 1.0
            ti.atomic_max(sums[0].y, ti.cast(i, ti.f32))
            sums[1] += ti.Vector([1.0, 2.0, 3.0])
            block.sync()
            if i < 12:
                out[i // 3, i % 3] = rows[i // 3, i % 3] + sums[0].y + sums[1].z

    add()
    assert (out.to_numpy() == 8 + 95 + 288).all()


def test_tree_reduction() -> None:
    x = ti.field(ti.i32, 1024)
    x.from_numpy(np.arange(1024, dtype=np.int32))
    total = ti.field(ti.i32, 4)

    @ti.kernel
    def add():
        ti.loop_config(block_dim=256)
        for i in x:
            pad = block.SharedArray(256, ti.i32)
            t = i % 256
            pad[t] = x[i]
            block.sync()
            width = 128
            while width > 0:
                if t < width:
                    pad[t] += pad[t + width]
                block.sync()
                width //= 2
            if t == 0:
                total[i // 256] = pad[0]

    add()
    assert total.to_numpy().tolist() == np.arange(1024).reshape(4, 256).sum(1).tolist()


def test_tiled_matrix_product() -> None:
    n, side = 48, 16
    a, b, c = (ti.field(ti.f32, (n, n)) for _ in range(3))
    rng = np.random.default_rng(1)
    x, y = (rng.integers(0, 5, (n, n)).astype(np.float32) for _ in range(2))
    a.from_numpy(x)
    b.from_numpy(y)

    @ti.kernel
    def multiply():
        ti.loop_config(block_dim=side * side)
        for tile, t in ti.ndrange((n // side) ** 2, side * side):
            left = block.SharedArray((side, side), ti.f32)
            right = block.SharedArray((side, side), ti.f32)
            row, column = t // side, t % side
            i = tile // (n // side) * side + row
            j = tile % (n // side) * side + column
            total = 0.0
            for k in range(n // side):
                left[row, column] = a[i, k * side + column]
                right[row, column] = b[k * side + row, j]
                block.sync()
                for l in range(side):
                    total += left[row, l] * right[l, column]
                block.sync()
            c[i, j] = total

    multiply()
    assert (c.to_numpy() == x @ y).all()


def test_tiled_all_pairs() -> None:
    n, size = 96, 32
    at = ti.Vector.field(3, ti.f32, n)
    pull = ti.Vector.field(3, ti.f32, n)
    places = np.random.default_rng(2).random((n, 3)).astype(np.float32)
    at.from_numpy(places)

    @ti.kernel
    def attract():
        ti.loop_config(block_dim=size)
        for i in range(n):
            tile = block.SharedArray((size, 3), ti.f32)
            t = block.thread_idx()
            own = at[i]
            sum_ = ti.Vector([0.0, 0.0, 0.0])
            for k in range(n // size):
                for c in ti.static(range(3)):
                    tile[t, c] = at[k * size + t][c]
                block.sync()
                for l in range(size):
                    d = ti.Vector([tile[l, 0], tile[l, 1], tile[l, 2]]) - own
                    r = ti.rsqrt(d.dot(d) + 1e-2)
                    sum_ += d * (r * r * r)
                block.sync()
            pull[i] = sum_

    attract()
    d = (places[None] - places[:, None]).astype(np.float64)
    r = 1 / np.sqrt((d**2).sum(-1) + 1e-2)
    assert np.allclose(pull.to_numpy(), (d * r[..., None] ** 3).sum(1), rtol=1e-3)


def test_barriers_with_predicates() -> None:
    out = ti.field(ti.i32, (2, 4))

    @ti.kernel
    def ask():
        ti.loop_config(block_dim=64)
        for i in range(128):
            n = block.sync_count_nonzero(i % 3)
            all_ = block.sync_all_nonzero(i < 100)
            any_ = block.sync_any_nonzero(i == 100)
            block.mem_sync()
            grid.memfence()
            if block.thread_idx() == 5:
                out[i // 64, 0] = n
                out[i // 64, 1] = all_
                out[i // 64, 2] = any_
                out[i // 64, 3] = block.global_thread_idx()

    ask()
    assert out.to_numpy().tolist() == [[42, 1, 0, 5], [43, 0, 1, 69]]


def test_uniform_loop_exit() -> None:
    """Like a splat renderer: process a list in chunks until all threads are done."""
    lengths = ti.field(ti.i32, 3)
    lengths.from_numpy(np.array([5, 0, 9], np.int32))
    turns = ti.field(ti.i32, (3, 32))

    @ti.kernel
    def walk():
        ti.loop_config(block_dim=32)
        for tile, t in ti.ndrange(3, 32):
            piece = block.SharedArray(32, ti.i32)
            done = 0
            count = 0
            for k in range(lengths[tile]):
                if block.sync_all_nonzero(done):
                    break
                piece[t] = k
                block.sync()
                if done == 0:
                    count += piece[31 - t] - k + 1
                    done = count >= 7
            turns[tile, t] = count

    walk()
    assert turns.to_numpy().tolist() == [[5] * 32, [0] * 32, [7] * 32]


def _lanes(value: Callable[..., Any], dtype: Any = ti.i32, start: Any = None, size: int = 32) -> list[Any]:
    x = ti.field(dtype, size)
    y = ti.field(dtype, size)
    x.from_numpy(np.arange(size) if start is None else start)

    @ti.kernel
    def run():
        ti.loop_config(block_dim=64)
        for i in range(size):
            y[i] = value(x[i])

    run()
    return y.to_numpy().tolist()


def test_votes() -> None:
    ones = np.ones(32, np.int32)
    some = ones.copy()
    some[7] = 0
    cases: list[tuple[Any, Any, Any]] = [
        (lambda v: warp.all_nonzero(ALL, v), 1, 0),
        (lambda v: warp.any_nonzero(ALL, v), 1, 1),
        (lambda v: warp.unique(ALL, v), 1, 0),
        (lambda v: subgroup.all_true(v), 1, 0),
        (lambda v: subgroup.any_true(v), 1, 1),
        (lambda v: subgroup.all_equal(v), 1, 0),
    ]
    for ask, full, holed in cases:
        f = ask
        assert _lanes(f, start=ones) == [full] * 32
        assert _lanes(f, start=some) == [holed] * 32
        # Only existing lanes of the mask count.
        assert _lanes(f, start=some[:7], size=7) == [full] * 7
    masked = lambda v: warp.all_nonzero(ALL & ~(1 << 7), v)
    assert _lanes(masked, start=some) == [1] * 32


def test_ballots_and_matches() -> None:
    assert _lanes(lambda v: warp.ballot(v % 2), ti.u32) == [0xAAAAAAAA] * 32
    match = _lanes(lambda v: warp.match_any(ALL, v // 16), ti.u32)
    assert match == [0xFFFF] * 16 + [0xFFFF0000] * 16
    assert _lanes(lambda v: warp.match_all(ALL, v), ti.u32) == [0] * 32
    assert _lanes(lambda v: warp.match_all(ALL, v), ti.u32, np.full(32, 3)) == [ALL] * 32


@pytest.mark.parametrize("dtype", [ti.i32, ti.f32, ti.i64, ti.f64, ti.u32])
def test_shuffles(dtype: Any) -> None:
    lanes = list(range(32))
    assert _lanes(lambda v: subgroup.shuffle(v, 5), dtype) == [5] * 32
    assert _lanes(lambda v: subgroup.broadcast(v, 31), dtype) == [31] * 32
    assert _lanes(lambda v: subgroup.broadcast_first(v + 1), dtype) == [1] * 32
    assert _lanes(lambda v: subgroup.shuffle_up(v, 2), dtype) == [0, 1, *lanes[:30]]
    assert _lanes(lambda v: subgroup.shuffle_down(v, 2), dtype) == [*lanes[2:], 30, 31]
    assert _lanes(lambda v: subgroup.shuffle_xor(v, 3), dtype) == [k ^ 3 for k in lanes]


def test_warp_shuffles() -> None:
    lanes = list(range(32))
    for dtype, kind in ((ti.i32, "i32"), (ti.f32, "f32")):
        get = {name: getattr(warp, f"shfl_{name}_{kind}") for name in ("sync", "up", "down")}
        assert _lanes(lambda v: get["sync"](ALL, v, 9), dtype) == [9] * 32  # noqa: B023
        assert _lanes(lambda v: get["up"](ALL, v, 1), dtype) == [0, *lanes[:31]]  # noqa: B023
        assert _lanes(lambda v: get["down"](ALL, v, 1), dtype) == [*lanes[1:], 31]  # noqa: B023
    assert _lanes(lambda v: warp.shfl_xor_i32(ALL, v, 16)) == [k ^ 16 for k in lanes]


OPERATIONS: dict[str, Any] = {
    "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip
IDENTITY = {"add": 0, "mul": 1, "min": 2**31 - 1, "max": -(2**31), "and": -1, "or": 0, "xor": 0}


@pytest.mark.parametrize("size", [32, 19])
@pytest.mark.parametrize("op", OPERATIONS)
def test_subgroup_reductions_and_scans(op: str, size: int) -> None:
    numbers = np.random.default_rng(3).integers(-9, 9, size).astype(np.int32)
    scan = np.array(OPERATIONS[op].accumulate(numbers), np.int32)
    before = [IDENTITY[op], *scan[:-1].tolist()]
    for kind, expected in (("reduce", [int(scan[-1])] * size), ("inclusive", scan.tolist()), ("exclusive", before)):
        f = getattr(subgroup, f"{kind}_{op}")
        assert _lanes(lambda v: f(v), start=numbers, size=size) == expected, kind  # noqa: B023


def test_subgroup_scans_of_floats() -> None:
    start = np.linspace(-1, 1, 32).astype(np.float32)
    assert _lanes(lambda v: subgroup.reduce_max(v), ti.f32, start) == [1.0] * 32
    assert _lanes(lambda v: subgroup.exclusive_min(v), ti.f32, start)[:3] == [np.inf, -1.0, -1.0]
    with pytest.raises(ti.WujiTypeError, match="not f32"):
        _lanes(lambda v: subgroup.reduce_xor(v), ti.f32)


def test_elect_per_matching_group() -> None:
    total = ti.field(ti.i32, ())

    @ti.kernel
    def count():
        for i in range(2677):
            n = subgroup.reduce_add(1)
            warp.sync(ALL)
            subgroup.barrier()
            subgroup.memory_barrier()
            if subgroup.elect():
                total[None] += n
            assert subgroup.group_size() == 32
            assert subgroup.invocation_id() == i % 32

    count()
    assert total[None] == 2677


def test_exited_lanes_are_not_waited_for() -> None:
    x = ti.field(ti.i32, 64)

    @ti.kernel
    def some():
        ti.loop_config(block_dim=64)
        for i in range(64):
            if i % 3 == 0:
                continue
            block.sync()
            x[i] = block.sync_count_nonzero(1)

    some()
    assert x.to_numpy().tolist() == [0 if i % 3 == 0 else 42 for i in range(64)]


def test_barriers_outside_loops_have_no_effect() -> None:
    x = ti.field(ti.i32, 32)

    @ti.kernel
    def run():
        for i in x:
            x[i] = i
        warp.sync(ALL)
        block.sync()
        for i in range(16):
            x[i] = x[i + 16]

    run()
    assert x.to_numpy().tolist() == [i % 16 + 16 for i in range(32)]


def test_invalid_shared_arrays_are_rejected() -> None:
    with pytest.raises(ti.WujiRuntimeError, match="only be"):
        block.sync()
    with pytest.raises(ti.WujiRuntimeError, match="only be"):
        block.SharedArray((4,), ti.f32)

    @ti.kernel
    def outside():
        pad = block.SharedArray((4,), ti.f32)
        for i in range(4):
            pad[i] = 1.0

    with pytest.raises(ti.WujiTypeError, match="inside a parallel loop"):
        outside()

    @ti.kernel
    def grows(n: int):
        for i in range(4):
            pad = block.SharedArray((n,), ti.f32)
            pad[i] = 1.0

    with pytest.raises(ti.WujiTypeError, match="compile-time constants"):
        grows(3)

    @ti.kernel
    def axes():
        for i in range(4):
            pad = block.SharedArray((2, 2), ti.f32)
            pad[i] = 1.0

    with pytest.raises(ti.WujiTypeError, match="2 axes cannot be indexed with 1 indices"):
        axes()

    @ti.kernel
    def component(k: int):
        for i in range(4):
            pad = block.SharedArray(2, ti.types.vector(3, ti.f32))
            pad[0][k] = 1.0

    with pytest.raises(ti.WujiTypeError, match="an axis of the array"):
        component(1)


@pytest.mark.skipif(ON_GPU, reason="about CPUs")
def test_block_operations_are_rejected_on_the_cpu() -> None:
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False)

    @ti.kernel
    def meet():
        for _ in range(64):
            block.sync()

    with pytest.raises(ti.WujiCompilationError, match="a barrier needs a GPU") as caught:
        meet()
    assert "W0350" in str(caught.value)


def test_divergent_threads() -> None:
    x = ti.field(ti.i32, 64)

    @ti.kernel
    def part():
        for i in x:
            if x[i] > 0:
                block.sync()

    if ON_GPU:
        with pytest.raises(ti.WujiCompilationError, match="not all threads of the block reach a barrier"):
            part()
    else:
        ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
        y = ti.field(ti.i32, 64)

        @ti.kernel
        def apart():
            for i in y:
                if y[i] > 0:
                    block.sync()

        with pytest.raises(ti.WujiCompilationError, match="not all threads of the block reach a barrier"):
            apart()
