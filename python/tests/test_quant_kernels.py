"""Kernels on quantized fields: updates, options, gradients, and small simulations."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import wuji as ti

quant = ti.types.quant


def place(n: Any, *fields: Any, bits: int = 32, shared_exponent: bool = False) -> None:
    pack = ti.BitpackedFields(max_num_bits=bits)
    pack.place(*fields, shared_exponent=shared_exponent)
    ti.root.dense(ti.ij if isinstance(n, tuple) else ti.i, n).place(pack)


def test_a_number_that_was_just_stored_is_rounded() -> None:
    x, n = ti.field(quant.fixed(5, max_value=1.0)), ti.field(quant.int(5))
    place(1, x, n)

    @ti.kernel
    def rounded(value: ti.f32) -> ti.f32:
        x[0] = value
        return x[0]

    @ti.kernel
    def wrapped(value: ti.i32) -> ti.i32:
        n[0] = value
        return n[0]

    assert rounded(0.3) == x[0] == 0.3125
    assert wrapped(20) == n[0] == -12


def test_atomic_updates() -> None:
    x, y, z = ti.field(quant.int(12)), ti.field(quant.int(10, signed=False)), ti.field(quant.fixed(10, max_value=8.0))
    place(4, x, y, z)
    y.fill(0b1111)
    old = ti.field(ti.i32, shape=4)

    @ti.kernel
    def update():
        for i in range(1000):
            x[i % 4] += 3
            x[3] -= 1
            ti.atomic_max(y[1], i % 777)
            ti.atomic_min(y[2], 5)
            y[0] &= 0b1010
            y[0] |= 0b100000
            z[i % 4] += 1 / 64
        old[0] = ti.atomic_add(x[0], 1)

    update()
    assert x.to_numpy().tolist() == [751, 750, 750, -250]
    assert y.to_numpy().tolist() == [0b101010, 776, 5, 15]
    assert z.to_numpy().tolist() == [250 / 64] * 4
    assert old[0] == 750


def test_atomic_updates_of_floats() -> None:
    x = ti.field(quant.float(8, 24))
    u, v = ti.field(quant.float(6, 16)), ti.field(quant.float(6, 16))
    place(2, x)
    place(2, u, v, bits=64, shared_exponent=True)

    @ti.kernel
    def update():
        for i in range(512):
            x[0] += 0.5
            ti.atomic_max(x[1], float(i))
            u[0] += 1.0
            v[0] -= 0.25

    update()
    assert x.to_numpy().tolist() == [256, 511] and (u[0], v[0]) == (512, -128)


def test_parallel_updates_of_one_array() -> None:
    n = 4096
    x = ti.field(quant.int(4))
    ti.root.dense(ti.i, n // 8).quant_array(ti.i, 8, max_num_bits=32).place(x)

    @ti.kernel
    def count():
        for i in range(n * 5):
            x[i % n] += 1

    count()
    assert (x.to_numpy() == 5).all()


@pytest.mark.parametrize("off", [{}, {"quant_opt_store_fusion": False}, {"quant_opt_atomic_demotion": False}, {"quant_opt_store_fusion": False, "quant_opt_atomic_demotion": False}])
def test_options_do_not_change_results(off: dict[str, bool]) -> None:
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False, **off)
    x, y, z = ti.field(quant.int(13)), ti.field(quant.int(7)), ti.field(quant.fixed(12, max_value=2.0))
    place(100, x, y, z)

    @ti.kernel
    def write():
        for i in x:
            x[i] = i * 11
            y[i] = 60 - i
            z[i] = i / 64.0

    write()
    for i in range(100):
        assert (x[i], y[i], z[i]) == (i * 11, 60 - i, i / 64)


def test_options_reach_the_compiler() -> None:
    from wuji.lang import options

    config = options.read(ti.cpu, {"quant_opt_store_fusion": False, "quant_opt_atomic_demotion": False})
    assert config.native()["without"] == ["store_fusion", "quantized_ownership"]
    assert options.read(ti.cpu, {}).native()["without"] == []


def test_matmul() -> None:
    n = 32
    a, b, c = (ti.field(quant.int(8)), ti.field(quant.int(8)), ti.field(ti.i32, shape=(n, n)))
    for field in (a, b):
        ti.root.dense(ti.ij, (n, n // 4)).quant_array(ti.j, 4, max_num_bits=32).place(field)
    rng = np.random.default_rng(3)
    x, y = rng.integers(-128, 128, (2, n, n))
    a.from_numpy(x.astype(np.int32))
    b.from_numpy(y.astype(np.int32))

    @ti.kernel
    def multiply():
        for i, j in c:
            total = 0
            for k in range(n):
                total += a[i, k] * b[k, j]
            c[i, j] = total

    multiply()
    assert np.array_equal(c.to_numpy(), x @ y)


@pytest.mark.parametrize("vectorized", [False, True])
def test_life(vectorized: bool) -> None:
    n = 64
    now, later = ti.field(quant.int(1, signed=False)), ti.field(quant.int(1, signed=False))
    for field in (now, later):
        ti.root.dense(ti.ij, (n, n // 32)).quant_array(ti.j, 32, max_num_bits=32).place(field)

    @ti.kernel
    def step():
        ti.loop_config(bit_vectorize=vectorized)
        for i, j in now:
            total = ti.u32(0)
            for di, dj in ti.static(ti.ndrange((-1, 2), (-1, 2))):
                if ti.static(di != 0 or dj != 0):
                    total += now[(i + di) % n, (j + dj) % n]
            later[i, j] = (total == 3) | ((total == 2) & (now[i, j] == 1))

    board = np.random.default_rng(5).integers(0, 2, (n, n)).astype(np.uint32)
    now.from_numpy(board)
    for _ in range(8):
        step()
        now.copy_from(later)
        around = sum(np.roll(board, (di, dj), (0, 1)) for di in (-1, 0, 1) for dj in (-1, 0, 1)) - board
        board = ((around == 3) | ((around == 2) & (board == 1))).astype(np.uint32)
        assert np.array_equal(now.to_numpy(), board)


def test_particles() -> None:
    """Particles scatter to a grid and gather from it, with and without quantization."""

    def simulate(quantized: bool) -> Any:
        ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
        n, grid = 256, 16
        position = quant.fixed(16, signed=False, max_value=1.0) if quantized else ti.f32
        velocity = quant.fixed(16, max_value=4.0) if quantized else ti.f32
        x, v = ti.Vector.field(2, position), ti.Vector.field(2, velocity)
        momentum, mass = ti.Vector.field(2, ti.f32, shape=(grid, grid)), ti.field(ti.f32, shape=(grid, grid))
        if quantized:
            place(n, x)
            place(n, v)
        else:
            ti.root.dense(ti.i, n).place(x, v)

        @ti.kernel
        def start():
            for i in x:
                x[i] = [0.3 + 0.4 * (i % 16) / 16, 0.3 + 0.4 * (i // 16) / 16]
                v[i] = [0.5, -0.25]

        @ti.kernel
        def step():
            for i, j in mass:
                mass[i, j] = 0
                momentum[i, j] = [0, 0]
            for p in x:
                cell = ti.cast(x[p] * grid, ti.i32)
                mass[cell] += 1.0
                momentum[cell] += v[p]
            for p in x:
                cell = ti.cast(x[p] * grid, ti.i32)
                v[p] = 0.5 * v[p] + 0.5 * momentum[cell] / mass[cell]
                v[p].y -= 0.01
                x[p] += 0.01 * v[p]

        start()
        for _ in range(20):
            step()
        return x.to_numpy(), v.to_numpy()

    exact, rough = simulate(False), simulate(True)
    assert np.abs(exact[0] - rough[0]).max() < 1e-3 and np.abs(exact[1] - rough[1]).max() < 2e-3


@pytest.mark.parametrize("needs_grad", [False, True])
def test_gradients_are_in_the_compute_type(needs_grad: bool) -> None:
    x, y = ti.field(quant.fixed(12, max_value=4.0), needs_grad=needs_grad), ti.field(quant.fixed(8, max_value=4.0), needs_grad=needs_grad)
    loss = ti.field(ti.f32, shape=(), needs_grad=True)
    place(8, x)
    ti.root.dense(ti.i, 2).quant_array(ti.i, 4, max_num_bits=32).place(y)
    if not needs_grad:
        ti.root.lazy_grad()
    x.from_numpy(np.arange(8) / 4)
    y.fill(0.5)

    @ti.kernel
    def add():
        for i in x:
            loss[None] += x[i] ** 2 * y[i] / 1000

    with ti.ad.Tape(loss):
        add()
    assert x.grad.dtype is ti.f32
    assert np.allclose(x.grad.to_numpy(), np.arange(8) / 4 / 1000)
    assert np.allclose(y.grad.to_numpy(), (np.arange(8) / 4) ** 2 / 1000)


def test_templates_and_functions_take_packed_fields() -> None:
    x, y = ti.field(quant.int(5)), ti.Vector.field(2, quant.int(5))
    place(4, x)
    place(4, y)

    @ti.func
    def twice(v):
        return v * 2

    @ti.kernel
    def run(a: ti.template(), b: ti.template()) -> ti.i32:
        for i in a:
            a[i] = twice(i)
            b[i] = twice(ti.Vector([i, -i]))
        return a[3] + b[3][1]

    assert run(x, y) == 0 and y[2].to_list() == [4, -4]


def test_debug_mode() -> None:
    ti.init(arch=ti.cpu, debug=True, offline_cache=False, verbose=False)
    x = ti.field(quant.int(5))
    place(4, x)

    @ti.kernel
    def write(i: ti.i32):
        x[i] = 3

    write(2)
    assert x[2] == 3
    with pytest.raises(AssertionError):
        write(9)


def test_the_interpreter() -> None:
    ti.init(arch=ti.cpu, interpreter=True, verbose=False)
    x, v = ti.field(quant.fixed(10, max_value=2.0)), ti.Vector.field(2, quant.float(5, 8))
    place(4, x)
    place(4, v, shared_exponent=True)

    @ti.kernel
    def write():
        for i in x:
            x[i] = 0.25 * i
            v[i] = [1.0 * i, -0.5]
        for _ in range(10):
            x[0] += 0.125

    write()
    assert x.to_numpy().tolist() == [1.25, 0.25, 0.5, 0.75] and v[3].to_list() == [3, -0.5]


def bits(n: int, count: int) -> list[Any]:
    """Return square fields of single bits in words of 32."""
    fields = [ti.field(ti.types.quant.int(1, False)) for _ in range(count)]
    for field in fields:
        ti.root.dense(ti.ij, (n, n // 32)).quant_array(ti.j, 32, max_num_bits=32).place(field)
    return fields


def test_a_loop_that_cannot_handle_words_warns_with_the_reason() -> None:
    (x,) = bits(64, 1)
    y = ti.field(ti.i32, (64, 64))

    @ti.kernel
    def scale():
        ti.loop_config(bit_vectorize=True)
        for i, j in x:
            x[i, j] = j % 3

    @ti.kernel
    def other():
        ti.loop_config(bit_vectorize=True)
        for i, j in y:
            y[i, j] = i

    with pytest.warns(RuntimeWarning, match="kernel `scale`: .*coordinate"):
        scale()
    with pytest.warns(RuntimeWarning, match="kernel `other`: it is not a parallel loop over an array of single bits"):
        other()
    assert x[0, 4] == 1 and y[3, 0] == 3


@pytest.mark.parametrize(("size", "word"), [((64, 32), 32), ((40, 64), 32), ((40, 96), 32), ((7, 192), 64), ((7, 24), 8), ((7, 48), 16)])
def test_life_with_periodic_neighbours(size: tuple[int, int], word: int) -> None:
    n, m = size
    x, y = ti.field(quant.int(1, False)), ti.field(quant.int(1, False))
    for field in (x, y):
        ti.root.dense(ti.ij, (n, m // word)).quant_array(ti.j, word, max_num_bits=word).place(field)

    @ti.kernel
    def start():
        for i, j in x:
            x[i, j] = ti.cast((i * 5 + j * 3 + i * j) % 7 < 3, ti.u32)

    @ti.kernel
    def step():
        ti.loop_config(bit_vectorize=True)  # a warning is an error
        for i, j in x:
            count = ti.u32(0)
            for k, l in ti.static(ti.ndrange((-1, 2), (-1, 2))):
                if ti.static(k != 0 or l != 0):
                    count += x[(i + k) % n, (j + l) % m]
            y[i, j] = (count == 3) | ((count == 2) & (x[i, j] == 1))

    start()
    expected = x.to_numpy()
    for _ in range(5):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            step()
        x.copy_from(y)
        around = [np.roll(expected, (k, l), (0, 1)) for k in (-1, 0, 1) for l in (-1, 0, 1) if (k, l) != (0, 0)]
        count = sum(around)
        expected = ((count == 3) | ((count == 2) & (expected == 1))).astype(expected.dtype)
    assert (x.to_numpy() == expected).all() and expected.any()


@pytest.mark.parametrize("interpreter", [False, True])
def test_debug_mode_reports_numbers_that_do_not_fit(interpreter: bool) -> None:
    ti.init(arch=ti.cpu, debug=True, interpreter=interpreter, offline_cache=False, verbose=False)
    x, y, bit = ti.field(quant.int(5)), ti.field(quant.fixed(8, max_value=1.0)), ti.field(quant.int(1, False))
    place(4, x, y)
    ti.root.quant_array(ti.i, 32, max_num_bits=32).place(bit)

    @ti.kernel
    def add(v: ti.i32):
        x[1] += v

    @ti.kernel
    def store(v: ti.f32):
        y[1] = v

    @ti.kernel
    def count():
        for i in bit:
            bit[i] = bit[i] + ti.u32(1)

    add(10)
    with pytest.raises(ti.TaichiAssertionError, match="field `x` cannot store 20: it has 5 bits"):
        add(10)
    store(1e-9)  # numbers near zero are common
    with pytest.raises(ti.TaichiAssertionError, match="field `y` cannot store 1.5"):
        store(1.5)
    count()
    with pytest.raises(ti.TaichiAssertionError, match="field `bit` cannot store 2"):
        count()


def test_lost_precision_is_reported_where_it_is_asked_for() -> None:
    ti.init(arch=ti.cpu, check_precision=4, offline_cache=False, verbose=False)
    x = ti.field(quant.fixed(8, max_value=1.0))
    place(4, x)

    @ti.kernel
    def store(v: ti.f32):
        x[1] = v

    store(0.5)
    store(0.0)
    store(0.25001)
    with pytest.raises(ti.TaichiAssertionError, match="field `x` cannot store 0.01: it becomes 0.0078125, a multiple of 0.0078125"):
        store(0.01)
