"""Where quantized fields can be placed, and how they are accessed there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wuji as ti

quant = ti.types.quant
N = 64

PARENTS: dict[str, Callable[[], Any]] = {
    "dense": lambda: ti.root.dense(ti.i, N),
    "nested": lambda: ti.root.dense(ti.i, 8).dense(ti.i, 8),
    "pointer": lambda: ti.root.pointer(ti.i, 8).dense(ti.i, 8),
    "bitmasked": lambda: ti.root.bitmasked(ti.i, N),
    "pointer_bitmasked": lambda: ti.root.pointer(ti.i, 8).bitmasked(ti.i, 8),
    "dynamic": lambda: ti.root.dynamic(ti.i, N, chunk_size=16),
    "hash": lambda: ti.root.hash(ti.i, 8).dense(ti.i, 8),
}


@pytest.mark.parametrize("parent", PARENTS)
def test_bit_structs_below_every_node(parent: str) -> None:
    a, b = ti.field(quant.int(7)), ti.field(quant.fixed(16, max_value=2.0))
    c = ti.field(quant.float(5, 4))
    pack = ti.BitpackedFields(max_num_bits=32)
    pack.place(a, b, c)
    PARENTS[parent]().place(pack)
    total = ti.field(ti.f32, shape=3)

    @ti.kernel
    def write():
        for i in range(N):
            if i % 3 != 1 or i < 8:
                a[i] = i - 40
                b[i] = i / 64.0 - 0.5
                c[i] = 2.0 ** (i % 8)

    @ti.kernel
    def add():
        for i in a:
            total[0] += a[i]
            total[1] += b[i]
            total[2] += c[i]

    write()
    add()
    written = [i for i in range(N) if i % 3 != 1 or i < 8]
    assert a.to_numpy().tolist() == [i - 40 if i in written else 0 for i in range(N)]
    assert total.to_numpy().tolist() == [sum(i - 40 for i in written), sum(i / 64 - 0.5 for i in written), sum(2 ** (i % 8) for i in written)]
    assert b[3] == 3 / 64 - 0.5 and c[15] == 128


@pytest.mark.parametrize("parent", [p for p in PARENTS if p != "dynamic"])
@pytest.mark.parametrize(("dtype", "size", "word"), [("int", 1, 32), ("int", 8, 64), ("fixed", 4, 32), ("int", 5, 8)])
def test_bit_arrays_below_every_node(parent: str, dtype: str, size: int, word: int) -> None:
    n = word // size
    x = ti.field(quant.int(size, signed=False) if dtype == "int" else quant.fixed(size, signed=False, scale=0.25))
    PARENTS[parent]().quant_array(ti.i, n, max_num_bits=word).place(x)
    assert x.shape == (N * n,)
    step = 1 if dtype == "int" else 0.25
    seen = ti.field(ti.i32, shape=())

    @ti.kernel
    def write():
        for i in range(N * n // 2, N * n):
            x[i] = (i * 7 % 2**size) * step

    @ti.kernel
    def double():
        for i in x:
            seen[None] += 1
            x[i] = x[i] * 2

    write()
    expected = [i * 7 % 2**size * step if i >= N * n // 2 else 0 for i in range(N * n)]
    assert x.to_numpy().tolist() == expected
    double()
    top = (2**size - 1) * step
    assert x.to_numpy().tolist() == [v * 2 % 2**size if dtype == "int" else min(v * 2, top) for v in expected]
    assert seen[None] in (N * n, N * n // 2)


def test_two_dimensional_bit_arrays() -> None:
    x = ti.field(quant.int(1, signed=False))
    ti.root.dense(ti.ij, (4, 2)).quant_array(ti.ij, (4, 8), max_num_bits=32).place(x)
    board = np.random.default_rng(1).integers(0, 2, (16, 16)).astype(np.uint32)
    x.from_numpy(board)
    assert np.array_equal(x.to_numpy(), board)
    assert x[3, 9] == board[3, 9]
    assert x.to_numpy().dtype == np.uint32


def test_memory_is_that_of_the_words() -> None:
    x = ti.field(quant.int(1, signed=False))
    builder = ti.FieldsBuilder()
    builder.dense(ti.ij, (1024, 32)).quant_array(ti.j, 32, max_num_bits=32).place(x)
    tree = builder.finalize()
    assert x.shape == (1024, 1024) and tree.memory_used() == 1024 * 1024 // 8


def test_offsets() -> None:
    x, y = ti.field(quant.int(5)), ti.field(quant.int(5))
    pack = ti.BitpackedFields(max_num_bits=16)
    pack.place(x, y)
    ti.root.dense(ti.ij, 4).place(pack, offset=(-2, 10))
    z = ti.field(quant.int(4))
    ti.root.dense(ti.i, 4).quant_array(ti.i, 4, max_num_bits=16).place(z, offset=-8)

    @ti.kernel
    def write():
        for i, j in x:
            x[i, j] = i
            y[i, j] = j
        for i in z:
            z[i] = i

    write()
    assert x[-2, 10] == -2 and x[1, 13] == 1 and y[1, 13] == 13 and y[-1, 12] == 12
    assert [z[i] for i in range(-8, 8)] == list(range(-8, 8))


@pytest.mark.parametrize("way", ["aos", "soa"])
def test_vectors_and_matrices(way: str) -> None:
    v = ti.Vector.field(3, quant.fixed(10, max_value=2.0))
    m = ti.Matrix.field(2, 2, quant.int(8))
    if way == "aos":
        for field in (v, m):
            pack = ti.BitpackedFields(max_num_bits=32)
            pack.place(field)
            ti.root.dense(ti.i, 4).place(pack)
    else:
        for field in (*(v.get_scalar_field(k) for k in range(3)), *(m.get_scalar_field(i, j) for i in range(2) for j in range(2))):
            pack = ti.BitpackedFields(max_num_bits=16)
            pack.place(field)
            ti.root.dense(ti.i, 4).place(pack)

    @ti.kernel
    def write():
        for i in v:
            v[i] = ti.Vector([0.5, -0.25, 1.5]) * (i % 2 + 1) * 0.5
            m[i] = ti.Matrix([[i, -i], [2 * i, 100]])

    write()
    assert v[0].to_list() == [0.25, -0.125, 0.75] and v[1].to_list() == [0.5, -0.25, 1.5]
    assert m[3].to_list() == [[3, -3], [6, 100]]
    v[2] = [1, -1, 0.5]
    v[2].y = 0.75
    assert v.to_numpy()[2].tolist() == [1, 0.75, 0.5]
    m.fill(-7)
    assert (m.to_numpy() == -7).all()


def test_vectors_in_bit_arrays() -> None:
    x = ti.Vector.field(2, quant.int(4))
    ti.root.dense(ti.i, 4).quant_array(ti.i, 4, max_num_bits=32).place(x)
    x[5] = [-3, 7]
    assert x[5].to_list() == [-3, 7] and x[4].to_list() == [0, 0] and x[6].to_list() == [0, 0]


def test_a_type_for_each_component() -> None:
    v = ti.Vector.field(3, dtype=[quant.int(3), quant.int(9), quant.int(20)])
    pack = ti.BitpackedFields(max_num_bits=32)
    pack.place(v)
    ti.root.dense(ti.i, 4).place(pack)
    v[1] = [-4, 255, -(2**19)]
    assert v[1].to_list() == [-4, 255, -(2**19)]
    x, y = v.get_scalar_field(0), v.get_scalar_field(1)
    assert x[1] == -4 and y[1] == 255


def test_structs() -> None:
    @ti.dataclass
    class Particle:
        x: ti.types.vector(2, quant.fixed(12, max_value=4.0))
        kind: quant.int(3, signed=False)

        @ti.func
        def norm(self):
            return self.x.norm()

    assert Particle.members["kind"] is ti.u32
    p = Particle.field()
    pack = ti.BitpackedFields(max_num_bits=32)
    pack.place(p)
    ti.root.dense(ti.i, 4).place(pack)

    @ti.kernel
    def write() -> ti.f32:
        for i in p:
            p[i].x = [i * 0.5, 1.0]
            p[i].kind = 7 - i
        p[3] = Particle(x=[3.0, -2.0], kind=5)
        return p[1].norm()

    assert write() == pytest.approx(1.25**0.5)
    assert p[2].x.to_list() == [1, 1] and p[2].kind == 5
    assert p.to_numpy()["x"][3].tolist() == [3, -2]
    q = ti.Struct.field({"a": quant.int(5), "b": quant.fixed(10, max_value=2.0)})
    pack = ti.BitpackedFields(max_num_bits=16)
    pack.place(q)
    ti.root.dense(ti.i, 4).place(pack)
    q[0] = {"a": -16, "b": 0.5}
    assert q[0].a == -16 and q[0].b == 0.5


def test_old_nodes() -> None:
    x, y = ti.field(ti.quant.int(5, True)), ti.field(ti.quant.fixed(frac=10, range=2.0))
    u, v = ti.field(ti.quant.float(6, 13)), ti.field(ti.quant.float(6, 13))
    word = ti.root.dense(ti.i, 4).bit_struct(num_bits=64)
    word.place(x, y)
    word.place(u, v, shared_exponent=True)
    b = ti.field(ti.quant.int(1))
    ti.root.dense(ti.i, 4).bit_array(ti.i, 32, num_bits=32).place(b)
    x[1], y[1], u[1], v[1] = -16, -0.5, 8.0, 0.5
    b[127] = 1
    assert (x[1], y[1], u[1], v[1]) == (-16, -0.5, 8.0, 0.5) and b.to_numpy().sum() == 1


def test_copies() -> None:
    x, y = ti.field(quant.int(5)), ti.field(quant.int(5))
    z, w = ti.field(ti.i32, shape=8), ti.field(quant.fixed(8, scale=1.0))
    pack = ti.BitpackedFields(max_num_bits=32)
    pack.place(x, y, w)
    ti.root.dense(ti.i, 8).place(pack)
    x.from_numpy(np.arange(-4, 4))
    y.copy_from(x)
    z.copy_from(y)
    y.fill(3)
    w.copy_from(x)
    assert x.to_numpy().tolist() == z.to_numpy().tolist() == list(range(-4, 4))
    assert y.to_numpy().tolist() == [3] * 8 and w.to_numpy().tolist() == list(range(-4, 4))
    x.copy_from(z)
    assert x[0] == -4


def test_plain_fields_beside_words() -> None:
    x, y = ti.field(quant.int(5)), ti.field(ti.f32)
    pack = ti.BitpackedFields(max_num_bits=8)
    pack.place(x)
    ti.root.dense(ti.i, 8).place(pack, y)
    assert repr(x) == "<ti.field x quant.int(5, signed=True, compute=i32), shape (8,)>"
    x[3], y[3] = -5, 0.25
    assert x[3] == -5 and y[3] == 0.25 and x[2] == 0


def test_struct_fors_over_arrays() -> None:
    x = ti.field(quant.int(4))
    cell = ti.root.pointer(ti.i, 4)
    array = cell.dense(ti.i, 4).quant_array(ti.i, 4, max_num_bits=16)
    array.place(x)
    seen = ti.field(ti.i32, shape=64)
    x[17] = 5

    @ti.kernel
    def visit():
        for i in x:
            seen[i] += 1
        for i in array:
            seen[i] += 10
        for i in cell:
            seen[i * 16] += 100

    visit()
    assert seen.to_numpy().tolist() == [0] * 16 + [111] + [11] * 15 + [0] * 32
    cell.deactivate_all()
    assert x[17] == 0


def test_sizes_as_declared() -> None:
    x, y = ti.field(quant.int(5)), ti.field(quant.int(5))
    pack = ti.BitpackedFields(max_num_bits=16)
    pack.place(x, y)
    node = ti.root.dense(ti.i, 8)
    node.place(pack)
    array = ti.root.dense(ti.j, 4)
    z = ti.field(quant.int(4))
    array.quant_array(ti.j, 8, max_num_bits=32).place(z)
    assert node._cell_size_bytes == 2 and array._cell_size_bytes == 4


def test_words_are_nodes_between_fields_and_their_parents() -> None:
    x, y = ti.field(quant.int(8)), ti.field(quant.int(8))
    pack = ti.BitpackedFields(32)
    pack.place(x)
    block = ti.root.pointer(ti.i, 4)
    block.dense(ti.i, 4).place(pack)
    ti.root.pointer(ti.i, 4).quant_array(ti.i, 4, max_num_bits=32).place(y)

    @ti.kernel
    def write():
        x[5] = 1
        y[5] = 1

    @ti.kernel
    def active(i: ti.i32) -> ti.i32:
        return ti.is_active(x.parent(3), i) + 10 * ti.is_active(y.parent(2), i) + 100 * ti.is_active(x.parent(), 4 * i)

    @ti.kernel
    def sums() -> ti.i32:
        total = 0
        for i in x.parent():
            total += i
        for i in x.parent(2):
            total += 100 * i
        return total

    write()
    assert (active(1), active(0), sums()) == (111, 0, 22 * 101)
    assert str(x.snode) == "ti.root => pointer [4] => dense [16] => bit_struct [16] => place [16]"
    assert x.parent().shape == (16,) and x.parent(3) is block
    x.parent(3).deactivate_all()
    assert active(1) == 10
