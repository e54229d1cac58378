"""Quantized types: what a store leaves, against exact arithmetic."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import wuji as ti

quant = ti.types.quant
RNG = np.random.default_rng(7)


def packed(dtype: Any, n: int, word: int = 64) -> Any:
    """Returns a field of one number per word."""
    x = ti.field(dtype)
    pack = ti.BitpackedFields(max_num_bits=word)
    pack.place(x)
    ti.root.dense(ti.i, n).place(pack)
    return x


def stored(dtype: Any, values: Any) -> Any:
    """Returns what a kernel reads after a kernel stored values."""
    x = packed(dtype, len(values))
    source = ti.ndarray(x.dtype, len(values))
    source.from_numpy(values)
    out = ti.ndarray(x.dtype, len(values))

    @ti.kernel
    def write(a: ti.types.ndarray()):
        for i in x:
            x[i] = a[i]

    @ti.kernel
    def read(a: ti.types.ndarray()):
        for i in x:
            a[i] = x[i]

    write(source)
    read(out)
    found = out.to_numpy()
    assert np.array_equal(found, x.to_numpy(), equal_nan=True), "the host reads the same"
    x.fill(0)
    x.from_numpy(values)
    assert np.array_equal(found, x.to_numpy(), equal_nan=True), "the host stores the same"
    return found


def wrapped(value: int, bits: int, signed: bool) -> int:
    value %= 1 << bits
    return value - (1 << bits) if signed and value >> (bits - 1) else value


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("bits", [1, 2, 5, 8, 13, 16, 31, 32])
def test_integers_keep_the_low_bits(bits: int, signed: bool) -> None:
    values = RNG.integers(-(2**31), 2**31, 300, dtype=np.int64).astype(np.int32)
    values[:40] = np.arange(-20, 20)
    found = stored(quant.int(bits, signed, ti.i32), values)
    assert [int(v) for v in found] == [np.int64(wrapped(int(v), bits, signed)).astype(np.int32) for v in values]


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("bits", [33, 48, 63, 64])
def test_wide_integers_compute_in_64_bits(bits: int, signed: bool) -> None:
    dtype = quant.int(bits, signed)
    assert dtype.compute is (ti.i64 if signed else ti.u64)
    values = RNG.integers(-(2**63), 2**63, 200, dtype=np.int64).astype(np.int64 if signed else np.uint64)
    assert [int(v) for v in stored(dtype, values)] == [wrapped(int(v), bits, signed) for v in values]


def nearest(value: Fraction) -> int:
    """Rounds to the nearest integer, ties to even."""
    return round(value)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize(("bits", "scale"), [(1, 0.5), (4, 1.0), (8, 2.0**-7), (12, 2.0**-10), (16, 4.0), (21, 2.0**-20)])
def test_fixed_point_numbers_round_and_saturate(bits: int, scale: float, signed: bool) -> None:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    halves = np.arange(-40, 40) * scale / 4
    values = np.concatenate([halves, RNG.uniform(low * scale * 1.2 - 1, high * scale * 1.2, 400), [1e30, -1e30, np.inf, -np.inf]]).astype(np.float32)
    found = stored(quant.fixed(bits, signed, scale=scale), values)
    for value, got in zip(values, found, strict=True):
        exact = high if value == math.inf else low if value == -math.inf else nearest(Fraction(float(value)) / Fraction(scale))
        assert float(got) == min(max(exact, low), high) * scale, value


def test_nan_is_stored_as_zero_in_fixed_point() -> None:
    assert stored(quant.fixed(8), np.array([np.nan], np.float32)).tolist() == [0]


def test_scales_that_are_not_powers_of_two_lose_half_a_step() -> None:
    values = RNG.uniform(-3, 3, 500).astype(np.float32)
    found = stored(quant.fixed(10, max_value=3.0), values)
    step = 3.0 / 512
    assert np.abs(found - np.clip(values, -3, 3 - step)).max() <= step / 2 * 1.001


def test_max_value_is_the_end_of_the_range() -> None:
    found = stored(quant.fixed(8, True, 2.0), np.array([0.5, -1.99, 2.5, -7.0, 2.0], np.float32))
    # Taichi wraps here; numbers that fit are the same.
    assert found.tolist() == [0.5, -1.984375, 1.984375, -2.0, 1.984375]
    assert stored(quant.fixed(4, False, 8.0), np.array([7.4, 7.9, -1], np.float32)).tolist() == [7.5, 7.5, 0]


def rounded_float(value: float, exponent: int, digits: int, signed: bool) -> float:
    """A number with some bits of exponent and some digits behind the leading one; subnormal numbers are zero."""
    if math.isnan(value):
        return value
    if not signed and value < 0:
        return 0.0
    bias = (1 << (exponent - 1)) - 1
    if value == 0 or math.isinf(value):
        return value
    unit = Fraction(2) ** (math.frexp(value)[1] - 1 - digits)
    number = nearest(Fraction(value) / unit) * unit
    if abs(number) < Fraction(2) ** (1 - bias):
        return math.copysign(0.0, value)
    if abs(number) >= Fraction(2) ** (bias + 1):
        return math.copysign(math.inf, value)
    return float(number)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize(("exponent", "fraction"), [(5, 11), (8, 8), (4, 4), (6, 13), (2, 3), (8, 23)])
def test_floats_round_to_the_nearest(exponent: int, fraction: int, signed: bool) -> None:
    bias = (1 << (exponent - 1)) - 1
    powers = RNG.uniform(max(-bias - 2, -120), min(bias + 3, 120), 600)
    values = (RNG.uniform(-2, 2, 600) * 2.0**powers).astype(np.float32)
    values = np.concatenate([values, np.array([0.0, 1.0, -1.0, 1.5, np.inf, -np.inf, np.nan], np.float32)])
    found = stored(quant.float(exponent, fraction, signed), values)
    for value, got in zip(values, found, strict=True):
        expected = rounded_float(float(value), exponent, fraction - signed, signed)
        assert float(got) == expected or math.isnan(expected) and math.isnan(got), value


def test_a_float_with_5_and_11_bits_is_half_precision() -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    tiny = np.abs(values) < np.finfo(np.float16).tiny
    values = np.where(tiny, np.float16(0), values).astype(np.float32)
    assert np.array_equal(stored(quant.float(5, 11), values), values, equal_nan=True)


def test_double_precision_as_compute_type() -> None:
    values = RNG.uniform(-1, 1, 200)
    found = stored(quant.fixed(50, compute=ti.f64), values)
    assert found.dtype == np.float64 and np.abs(found - values).max() <= 2.0**-50
    found = stored(quant.float(11, 40, compute=ti.f64), values)
    assert np.abs(found / values - 1).max() <= 2.0**-40


def test_stochastic_rounding_has_the_right_mean() -> None:
    n = 20000
    x = packed(quant.fixed(8, scale=0.25, stochastic=True), n)

    @ti.kernel
    def write():
        for i in x:
            x[i] = 1.1

    write()
    found = x.to_numpy()
    assert set(found) == {1.0, 1.25}
    assert abs(found.mean() - 1.1) < 0.01


def test_numbers_that_share_an_exponent() -> None:
    v = ti.Vector.field(2, quant.float(6, 13))
    pack = ti.BitpackedFields(max_num_bits=32)
    pack.place(v, shared_exponent=True)
    ti.root.dense(ti.i, 4).place(pack)
    # The numbers of Taichi 1.7.4.
    v[0] = [1.0, 0.001]
    assert v[0].to_list() == [1.0, 9.765625e-04]
    v[0] = [3.0, 1e-9]
    assert v[0].to_list() == [3.0, 0.0]
    v[0].x = 0.0
    assert v[0].to_list() == [0.0, 0.0]


def test_groups_of_shared_exponents_are_independent() -> None:
    a, b, c, d = (ti.field(quant.float(5, 10)) for _ in range(4))
    kind = ti.field(quant.int(4, signed=False))
    pack = ti.BitpackedFields(max_num_bits=64)
    pack.place(a, b, shared_exponent=True)
    pack.place(kind)
    pack.place(c, d, shared_exponent=True)
    ti.root.dense(ti.i, 8).place(pack)

    @ti.kernel
    def write():
        for i in a:
            a[i], b[i] = 100.0, 0.25 * i
            c[i], d[i] = -0.001, 0.0005
            kind[i] = 15 - i

    write()
    step = 64 / 2**8
    for i in range(8):
        assert a[i] == 100 and abs(b[i] - 0.25 * i) <= step / 2
        assert abs(c[i] + 0.001) < 1e-5 and abs(d[i] - 0.0005) < 1e-5
        assert kind[i] == 15 - i


def test_compute_types() -> None:
    assert quant.int(5).compute is ti.i32 and quant.int(5, False).compute is ti.u32
    assert quant.fixed(5).compute is ti.f32 and quant.float(5, 5).compute is ti.f32
    assert ti.quant.int(5).compute is ti.i32, "as up to Taichi 1.0: unsigned, and seen as signed"
    ti.init(arch=ti.cpu, default_fp=ti.f64, default_ip=ti.i64, verbose=False)
    assert quant.int(5).compute is ti.i64 and quant.int(5, False).compute is ti.u64
    assert quant.fixed(5).compute is ti.f64 and quant.float(5, 5).compute is ti.f64


def test_old_spellings() -> None:
    assert ti.quant.int(bits=5, signed=True) == quant.int(5)
    assert ti.quant.int(5) == quant.int(5, False, ti.i32)
    assert ti.quant.int(40) == quant.int(40, False, ti.u64)
    for dtype in (ti.quant.fixed(frac=10, range=2.0), ti.quant.fixed(10, True, 2.0), ti.quant.fixed(frac=10, num_range=2.0), ti.quant.fixed(bits=10, max_value=2.0), ti.quant.fixed(num_bits=10, range=2.0)):
        assert dtype == quant.fixed(10, max_value=2.0)
    assert ti.quant.float(exp=6, frac=13) == quant.float(6, 13)


def test_types_are_values() -> None:
    dtype = quant.fixed(10, scale=0.5)
    assert dtype == quant.fixed(10, True, 256.0) and dtype != quant.fixed(11, scale=0.5) and len({dtype, quant.fixed(10, scale=0.5)}) == 1
    assert pickle.loads(pickle.dumps(dtype)) == dtype
    assert str(quant.int(5)) == "quant.int(5, signed=True, compute=i32)"


def test_types_do_not_need_a_world() -> None:
    ti.reset()

    @ti.dataclass
    class Cell:
        a: quant.int(5)
        b: ti.types.vector(2, quant.fixed(8))

    pack = ti.BitpackedFields(max_num_bits=32)
    ti.init(arch=ti.cpu, verbose=False)
    x = Cell.field()
    pack.place(x)
    ti.root.dense(ti.i, 4).place(pack)
    x[1].a = -16
    assert x[1].a == -16


def test_extensions() -> None:
    assert ti.extension.is_supported(ti.cpu, ti.extension.quant) and ti.extension.is_supported(ti.cpu, ti.extension.quant_basic)
