"""Programs with quantized fields that give the numbers of Taichi 1.7.4, which were recorded there."""

from __future__ import annotations

from typing import Any

import wuji as ti

quant = ti.types.quant


def test_two_fixed_point_fields() -> None:
    x, y = ti.field(quant.fixed(bits=16, max_value=2.0)), ti.field(quant.fixed(bits=16, signed=False, max_value=3.0))
    pack = ti.BitpackedFields(max_num_bits=32)
    pack.place(x, y)
    ti.root.dense(ti.ij, (4, 4)).place(pack)

    @ti.kernel
    def write():
        for i, j in x:
            x[i, j] = 0.1 * i - 0.3 * j
            y[i, j] = 0.7 * i + 0.01 * j

    write()
    assert [(x[i, j], y[i, j]) for i, j in ((0, 1), (1, 3), (2, 2), (3, 0), (3, 3))] == [
        (-0.29998779296875, 0.009979248046875),
        (-0.79998779296875, 0.7299957275390625),
        (-0.4000244140625, 1.41998291015625),
        (0.29998779296875, 2.0999908447265625),
        (-0.5999755859375, 2.1300201416015625),
    ]


def test_floats_and_a_bit() -> None:
    x, y, z = ti.field(quant.float(exp=5, frac=11)), ti.field(quant.float(6, 9)), ti.field(quant.int(1, False))
    pack = ti.BitpackedFields(max_num_bits=32)
    pack.place(x, y, z)
    ti.root.dense(ti.i, 10).place(pack)

    @ti.kernel
    def write():
        for i in x:
            x[i] = 1.7 * i - 3.0
            y[i] = 0.01 * 2.0**i
            z[i] = i % 2

    write()
    assert [(x[i], y[i], z[i]) for i in range(10)] == [
        (-3.0, 0.010009765625, 0), (-1.2998046875, 0.02001953125, 1), (0.39990234375, 0.0400390625, 0), (2.099609375, 0.080078125, 1), (3.80078125, 0.16015625, 0),
        (5.5, 0.3203125, 1), (7.19921875, 0.640625, 0), (8.8984375, 1.28125, 1), (10.6015625, 2.5625, 0), (12.296875, 5.125, 1),
    ]  # fmt: skip


def test_a_shared_exponent_and_another_float() -> None:
    a, b, c = ti.field(quant.float(5, 10)), ti.field(quant.float(5, 10)), ti.field(quant.float(5, 10, signed=False))
    pack = ti.BitpackedFields(max_num_bits=64)
    pack.place(a, b, shared_exponent=True)
    pack.place(c)
    ti.root.place(pack)
    found: list[Any] = []
    for s in (1.0, 3.14, 1e-3, 100.0):
        a[None], b[None], c[None] = s, s / 7, s
        found.append((a[None], b[None], c[None]))
        a[None] = 0
        found.append(b[None])
    assert found == [
        (1.0, 0.14453125, 1.0), 0.14453125, (3.140625, 0.4453125, 3.140625), 0.4453125,
        (0.0009765625, 0.000141143798828125, 0.0010004043579101562), 0.000141143798828125, (100.0, 14.25, 100.0), 14.25,
    ]  # fmt: skip


def test_vectors_that_share_exponents() -> None:
    x, y = ti.Vector.field(2, quant.float(6, 13)), ti.Vector.field(3, quant.float(5, 9))
    for field, bits in ((y, 64), (x, 32)):
        pack = ti.BitpackedFields(bits)
        pack.place(field, shared_exponent=True)
        ti.root.dense(ti.i, 8).place(pack)

    @ti.kernel
    def run():
        for i in x:
            x[i] = ti.Vector([ti.sin(i * 1.3) * 3, ti.cos(i * 0.7) * 0.01])
            y[i] = ti.Vector([i * 1.1, i * 0.2, -i * 0.05])
        for i in x:
            x[i] += ti.Vector([0.125, 0.25])
            y[i] *= 2

    run()
    assert [[round(v, 6) for v in (*x[i].to_list(), *y[i].to_list())] for i in (0, 1, 3, 4, 6)] == [
        [0.125, 0.26001, 0.0, 0.0, 0.0],
        [3.015625, 0.257812, 2.203125, 0.40625, -0.09375],
        [-1.938477, 0.245117, 6.59375, 1.1875, -0.3125],
        [-2.525391, 0.240234, 8.8125, 1.625, -0.375],
        [3.121094, 0.245117, 13.1875, 2.375, -0.625],
    ]


def test_seven_fields_of_one_word() -> None:
    fields = [ti.field(quant.int(k + 1, False)) for k in range(7)]
    pack = ti.BitpackedFields(32)
    for field in fields:
        pack.place(field)
    ti.root.dense(ti.i, 5).place(pack)

    @ti.kernel
    def write():
        for i in range(5):
            for k in ti.static(range(7)):
                fields[k][i] = ti.cast(i * 37 + k * 11, ti.u32)

    write()
    assert [[field[i] for field in fields] for i in range(5)] == [
        [0, 3, 6, 1, 12, 55, 66], [1, 0, 3, 6, 17, 28, 103], [0, 1, 0, 11, 22, 1, 12], [1, 2, 5, 0, 27, 38, 49], [0, 3, 2, 5, 0, 11, 86],
    ]  # fmt: skip


def test_particles_in_a_list_with_rows_of_a_matrix_in_words() -> None:
    @ti.data_oriented
    class Particles:
        def __init__(self) -> None:
            self.x = ti.Vector.field(3, dtype=quant.fixed(21, True, 2.0))
            self.F = ti.Matrix.field(3, 3, dtype=quant.fixed(16, True, 4.0))
            node = ti.root.dynamic(ti.i, 1024, chunk_size=64)
            pack = ti.BitpackedFields(max_num_bits=64)
            pack.place(self.x)
            node.place(pack)
            for i in range(3):
                row = ti.BitpackedFields(max_num_bits=64)
                for j in range(3):
                    row.place(self.F.get_scalar_field(i, j))
                node.place(row)

        @ti.kernel
        def run(self) -> ti.f32:
            for i in range(100):
                self.x[i] = ti.Vector([0.01, 0.02, -0.01]) * i
                self.F[i] = ti.Matrix.identity(ti.f32, 3) * (1 + 0.01 * i)
            s = 0.0
            for i in range(100):
                s += self.F[i].trace() + self.x[i].sum()
            return s

    particles = Particles()
    assert abs(particles.run() - 547.5) < 0.01 and particles.x[50][1] == 1.0 and particles.F[7][1, 1] == 1.0699462890625


def test_an_array_below_a_sparse_node() -> None:
    x = ti.field(quant.int(7, True))
    cell = ti.root.pointer(ti.i, 4)
    cell.dense(ti.i, 4).quant_array(ti.i, 4, max_num_bits=32).place(x)

    @ti.kernel
    def activate():
        for i in range(64):
            if i // 16 % 2 == 0:
                x[i] = i

    @ti.kernel
    def add():
        for i in x:
            x[i] += 1

    activate()
    add()
    assert [x[i] for i in range(64)] == [i + 1 if i // 16 % 2 == 0 else 0 for i in range(64)]


def test_threads_that_write_bits_of_one_word() -> None:
    # Taichi loses bits here: the number is by exact arithmetic.
    n = 32
    x = ti.field(quant.int(1, False))
    ti.root.dense(ti.i, 4).quant_array(ti.i, 8, max_num_bits=8).place(x)

    @ti.kernel
    def run() -> ti.i32:
        for i in range(n):
            x[i] = i % 3 == 0
        s = 0
        for i in range(n):
            if x[i]:
                s += i
        for i in range(n):
            x[i] = 1 - x[i]
        for i in range(n):
            if x[i] == 1:
                s += 100
        return s

    assert run() == 165 + 2100
