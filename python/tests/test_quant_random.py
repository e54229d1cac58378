"""Random layouts of quantized fields: compiled kernels give what the interpreter gives."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import wuji as ti

quant = ti.types.quant


def random_type(rng: random.Random, most: int, compute: str) -> Any:
    if compute == "int":
        return quant.int(rng.randint(1, min(most, 32)), rng.random() < 0.5, ti.i32)
    if rng.random() < 0.5 or most < 6:
        return quant.fixed(rng.randint(1, min(most, 22)), rng.random() < 0.7, scale=rng.choice([0.25, 1.0, 0.01]))
    exponent = rng.randint(2, min(8, most - 3))
    return quant.float(exponent, rng.randint(2, min(most - exponent, 23)), rng.random() < 0.7)


def random_node(rng: random.Random, extents: tuple[int, int]) -> Any:
    a, b = extents
    kind = rng.choice(["dense", "nested", "pointer", "bitmasked", "transposed"])
    if kind == "nested":
        return ti.root.dense(ti.ij, (a // 2, b)).dense(ti.i, 2)
    if kind == "pointer":
        return ti.root.pointer(ti.ij, (a // 2, b)).dense(ti.i, 2)
    if kind == "bitmasked":
        return ti.root.bitmasked(ti.ij, (a, b))
    if kind == "transposed":
        return ti.root.dense(ti.j, b).dense(ti.i, a)
    return ti.root.dense(ti.ij, (a, b))


def random_fields(rng: random.Random) -> tuple[list[Any], list[list[Any]]]:
    """Packs fields until words are full, and places some in arrays. All have the shape (12, 16). Returns those that share exponents, too."""
    fields: list[Any] = []
    groups: list[list[Any]] = []
    count = rng.randint(1, 8)
    while len(fields) < count:
        word = rng.choice([8, 16, 32, 64])
        if rng.random() < 0.4:
            n = rng.choice([2, 4, 8, 16])
            if word // n == 0:
                continue
            x = ti.field(random_type(rng, word // n, rng.choice(["int", "float"])), name=f"x{len(fields)}")
            random_node(rng, (12, 16 // n)).quant_array(ti.j, n, max_num_bits=word).place(x)
            fields.append(x)
            continue
        pack = ti.BitpackedFields(max_num_bits=word)
        left = word
        if word >= 32 and rng.random() < 0.5:
            shared = [ti.field(quant.float(5, rng.randint(3, 10)), name=f"x{len(fields) + k}") for k in range(2)]
            pack.place(*shared, shared_exponent=True)
            fields += shared
            groups.append(shared)
            left -= 25
        while left > 0 and rng.random() < 0.8:
            width = rng.randint(1, left)
            x = ti.field(random_type(rng, width, rng.choice(["int", "float"])), name=f"x{len(fields)}")
            pack.place(x)
            fields.append(x)
            left -= width
        random_node(rng, (12, 16)).place(pack)
    return fields, groups


def run(seed: int, steps: int, **options: Any) -> list[Any]:
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False, fast_math=False, **options)
    rng = random.Random(seed)
    fields, groups = random_fields(rng)
    constants = [rng.uniform(-4, 4) for _ in fields]

    @ti.kernel
    def write(x: ti.template(), c: ti.f32):
        for i, j in ti.ndrange(12, 16):
            if (i * 5 + j) % 7 != 3:
                x[i, j] = ti.cast(c * (i - 5) + 0.37 * j, x.dtype)

    @ti.kernel
    def combine(x: ti.template(), y: ti.template()):
        for i, j in x:
            x[i, j] = ti.cast(x[i, j] + y[i, j] * 2, x.dtype)

    @ti.kernel
    def shift(x: ti.template(), y: ti.template()):
        for i, j in ti.ndrange((1, 11), (1, 15)):
            y[i, j] = ti.cast(x[i - 1, j + 1] - x[i, j - 1], y.dtype)

    @ti.kernel
    def scatter(x: ti.template()):
        for i, j in ti.ndrange(12, 16):
            x[j % 12, (i * 5) % 16] += ti.cast(i - 3, x.dtype)
        for i, j in ti.ndrange(12, 16):
            # The same number for all: those that the type does not have would make the order matter.
            ti.atomic_max(x[0, j], ti.cast(1, x.dtype))

    for x, c in zip(fields, constants, strict=True):
        write(x, c)
    for _ in range(steps):
        x, y = rng.choice(fields), rng.choice(fields)
        kind = rng.randrange(3)
        if kind == 0:
            combine(x, y)
        elif kind == 1 and x is not y and not any(all(any(z is f for f in g) for z in (x, y)) for g in groups):
            # A number that is stored rounds those that share its exponent, which other iterations would read.
            shift(x, y)
        elif x.dtype.is_int:
            # The order of the updates of a float matters.
            scatter(x)
    return [x.to_numpy() for x in fields]


@pytest.mark.parametrize("seed", range(12))
def test_random_layouts(seed: int) -> None:
    expected = run(seed, 4, interpreter=True)
    for found, wanted in zip(run(seed, 4), expected, strict=True):
        assert np.array_equal(found, wanted, equal_nan=True)
