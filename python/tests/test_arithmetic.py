"""Arithmetic in kernels: types, promotion, and operators with Python's semantics."""

import math

import numpy as np
import pytest

import wuji as ti


def run(f, *args):
    return f(*args)


@pytest.mark.parametrize("a,b", [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3), (-6, 3), (0, 5), (5, 0)])
def test_integer_division_and_remainder_match_python(a, b):
    @ti.kernel
    def quotient(x: ti.i32, y: ti.i32) -> ti.i32:
        return x // y

    @ti.kernel
    def rest(x: ti.i32, y: ti.i32) -> ti.i32:
        return x % y

    # Division by zero yields zero: no kernel can crash the process.
    assert quotient(a, b) == (a // b if b else 0)
    assert rest(a, b) == (a % b if b else 0)


@pytest.mark.parametrize("n", [1, 2, 4, 8, 3, 7, -4])
def test_division_by_constants(n):
    @ti.kernel
    def both(x: ti.i32) -> ti.types.vector(2, ti.i32):
        return ti.Vector([x // n, x % n])

    for x in (-9, -8, -1, 0, 1, 5, 8, 100):
        assert both(x).to_list() == [x // n, x % n]


def test_float_division_and_remainder():
    @ti.kernel
    def both(x: ti.f64, y: ti.f64) -> ti.types.vector(2, ti.f64):
        return ti.Vector([x // y, x % y])

    for x, y in [(7.5, 2.0), (-7.5, 2.0), (7.5, -2.0), (1.0, 0.25)]:
        assert both(x, y).to_list() == [x // y, x % y]


def test_true_division_of_integers_yields_a_float():
    @ti.kernel
    def half(x: ti.i32) -> ti.f32:
        return x / 2

    assert half(3) == 1.5


def test_powers():
    @ti.kernel
    def powers(x: ti.f32, n: ti.i32, m: ti.i32) -> ti.types.vector(4, ti.f32):
        return ti.Vector([x**2, x**-1, float(m**n), x**0.5])

    assert powers(4.0, 5, 3).to_list() == [16.0, 0.25, 243.0, 2.0]


def test_shifts_and_bits():
    @ti.kernel
    def bits(x: ti.i32) -> ti.types.vector(6, ti.i32):
        return ti.Vector([x << 3, x >> 1, x & 12, x | 1, x ^ 5, ~x])

    for x in (-9, 0, 12, 1 << 30):
        wrapped = ((x << 3) + 2**31) % 2**32 - 2**31
        assert bits(x).to_list() == [wrapped, x >> 1, x & 12, x | 1, x ^ 5, ~x]


def test_bit_shr_is_a_logical_shift():
    @ti.kernel
    def f(x: ti.i32) -> ti.i32:
        return ti.bit_shr(x, 28)

    assert f(-1) == 15


def test_bitwise_operators_reject_floats():
    @ti.kernel
    def f(x: ti.f32) -> ti.f32:
        return x & 1

    with pytest.raises(ti.TaichiTypeError, match="needs integers"):
        f(1.0)


def test_promotion():
    @ti.kernel
    def f():
        a = ti.u8(200)
        b = ti.i16(100)
        ti.static_assert((a + b).dtype is ti.i16)
        ti.static_assert((a + 1).dtype is ti.i32)
        ti.static_assert((ti.u32(1) + 1).dtype is ti.u32)
        ti.static_assert((ti.i64(1) + ti.u32(1)).dtype is ti.i64)
        ti.static_assert((ti.f16(1) + ti.i64(1)).dtype is ti.f16)
        ti.static_assert((ti.f16(1) + 1.0).dtype is ti.f32)
        ti.static_assert((ti.f64(1) * ti.f32(1)).dtype is ti.f64)
        ti.static_assert((a < b).dtype is ti.u1)

    f()


@pytest.mark.parametrize("default", [ti.f32, ti.f64])
def test_quotients_and_angles_of_integers_and_narrow_floats(default):
    ti.init(arch=ti.cpu, default_fp=default, offline_cache=False, verbose=False)

    @ti.kernel
    def f(h: ti.f16, x: ti.f32, n: ti.i32) -> ti.f64:
        ti.static_assert((h / h).dtype is ti.f16)
        ti.static_assert((h / n).dtype is default and (n / h).dtype is default and (h / 2).dtype is default)
        ti.static_assert((x / n).dtype is default and (n / x).dtype is default and (n / n).dtype is default)
        ti.static_assert(ti.atan2(h, h).dtype is ti.f32 and ti.atan2(h, n).dtype is ti.f32 and ti.atan2(n, h).dtype is ti.f32)
        ti.static_assert(ti.atan2(h, ti.f64(1)).dtype is ti.f64 and ti.atan2(n, n).dtype is default)
        return ti.cast(n / h, ti.f64)

    digits = np.float32 if default is ti.f32 else np.float64
    assert f(3.1, 1.0, 11) == digits(11) / digits(np.float16(3.1))


def test_default_types():
    ti.init(arch=ti.cpu, default_fp=ti.f64, default_ip=ti.i64, offline_cache=False, verbose=False)

    @ti.kernel
    def f(x: float, n: int) -> float:
        a = 1
        ti.static_assert(a.dtype is ti.i64)
        return x + 0.1 + n

    assert f(0.0, 2**40) == 2**40 + 0.1


def test_integer_literals_out_of_range_are_rejected():
    @ti.kernel
    def f() -> ti.i32:
        a = 3000000000
        return a

    with pytest.raises(ti.TaichiTypeError, match="exceeded the range of default_ip: i32"):
        f()


def test_typed_literals():
    @ti.kernel
    def f() -> ti.u32:
        return ti.u32(3000000000)

    assert f() == 3000000000


def test_f64_literals_are_exact():
    x = ti.field(ti.f64, shape=())

    @ti.kernel
    def f():
        x[None] = x[None] + 0.1

    f()
    assert x[None] == 0.1


def test_casts():
    @ti.kernel
    def f(x: ti.f32) -> ti.types.vector(4, ti.i32):
        return ti.Vector([int(x), ti.cast(x, ti.i32), ti.i32(x), ti.cast(ti.cast(x, ti.u8), ti.i32)])

    assert f(3.9).to_list() == [3, 3, 3, 3]
    assert f(-3.9).to_list() == [-3, -3, -3, 0]
    assert f(1e10).to_list() == [2**31 - 1] * 3 + [255]


def test_bit_cast():
    @ti.kernel
    def f(x: ti.f32) -> ti.i32:
        return ti.bit_cast(x, ti.i32)

    assert f(1.0) == 0x3F800000


def test_comparisons_chain_and_short_circuit():
    hits = ti.field(ti.i32, shape=())

    @ti.func
    def hit(x):
        hits[None] += 1
        return x

    @ti.kernel
    def between(x: ti.i32) -> ti.i32:
        return 0 < x < 10

    @ti.kernel
    def shortcut(x: ti.i32) -> ti.i32:
        r = 0
        if x > 0 and hit(x) > 5:
            r += 1
        if x > 0 or hit(x) > 5:
            r += 2
        return r

    assert [between(x) for x in (-1, 0, 5, 10)] == [0, 0, 1, 0]
    assert shortcut(7) == 3
    assert hits[None] == 1
    assert shortcut(-7) == 0
    assert hits[None] == 2


def test_not():
    @ti.kernel
    def f(x: ti.i32) -> ti.i32:
        return not x

    assert (f(0), f(3)) == (1, 0)


def test_conditional_expressions():
    @ti.kernel
    def f(x: ti.i32, y: ti.i32) -> ti.f32:
        return (x / y if y != 0 else -1.0) + (1 if x > 3 else 0.5)

    assert f(6, 3) == 3.0
    assert f(1, 0) == -0.5


def test_math_functions():
    names = ["sin", "cos", "tan", "asin", "acos", "tanh", "exp", "log", "sqrt", "floor", "ceil", "abs"]

    @ti.kernel
    def f(x: ti.f64, g: ti.template()) -> ti.f64:
        return g(x)

    for name in names:
        expected = abs(0.37) if name == "abs" else getattr(math, name)(0.37)
        assert f(0.37, getattr(ti, name)) == pytest.approx(expected, rel=1e-14)
        assert getattr(ti, name)(0.37) == pytest.approx(expected)
    assert f(2.5, ti.round) == 3.0 and f(-0.5, ti.round) == -1.0
    assert f(4.0, ti.rsqrt) == 0.5


def test_min_and_max_of_many():
    @ti.kernel
    def f(a: ti.i32, b: ti.f32, c: ti.i32) -> ti.types.vector(2, ti.f32):
        return ti.Vector([ti.min(a, b, c), max(a, b, c)])

    assert f(3, 1.5, 7).to_list() == [1.5, 7.0]


def test_select():
    @ti.kernel
    def f(c: ti.i32) -> ti.types.vector(2, ti.f32):
        return ti.select(c, ti.Vector([1.0, 2.0]), ti.Vector([3.0, 4.0]))

    assert f(1).to_list() == [1.0, 2.0]
    assert f(0).to_list() == [3.0, 4.0]


def test_random_numbers_are_uniform():
    x = ti.field(ti.f32, shape=10000)
    k = ti.field(ti.i32, shape=10000)

    @ti.kernel
    def f():
        for i in x:
            x[i] = ti.random()
            k[i] = ti.random(ti.i32)

    f()
    a = x.to_numpy()
    assert 0 <= a.min() and a.max() < 1
    assert abs(a.mean() - 0.5) < 0.02
    assert (k.to_numpy() < 0).mean() == pytest.approx(0.5, abs=0.03)


def test_randn():
    x = ti.field(ti.f32, shape=20000)

    @ti.kernel
    def f():
        for i in x:
            x[i] = ti.randn()

    f()
    a = x.to_numpy()
    assert abs(a.mean()) < 0.03 and abs(a.std() - 1) < 0.03


def test_frexp():
    @ti.kernel
    def f(x: ti.f32) -> ti.types.vector(2, ti.f32):
        m, e = ti.frexp(x)
        return ti.Vector([m, e])

    for x in (1.0, 0.75, -13.5, 1e-3, 0.0):
        x = float(__import__("numpy").float32(x))
        assert tuple(f(x).to_list()) == math.frexp(x)


def test_fast_math_flushes_subnormal_numbers():
    tiny = 1e-40

    @ti.kernel
    def f(x: ti.f32) -> ti.types.vector(3, ti.f32):
        return ti.Vector([x * 1.5, ti.f32(tiny) * 1.5, ti.f32(x != 0)])

    for options in ({"tier": "fast"}, {"tier": "best"}, {"interpreter": True}):
        for fast in (True, False):
            ti.init(arch=ti.cpu, fast_math=fast, offline_cache=False, verbose=False, **options)
            product = f(tiny).to_list()
            assert (product == [0.0, 0.0, 0.0]) if fast else (product == pytest.approx([1.5e-40, 1.5e-40, 1.0], rel=1e-4)), options
            # Python is not affected.
            assert 5e-324 * 3 > 0.0


def test_numpy_scalars_are_constants():
    np = pytest.importorskip("numpy")
    c = np.float32(0.5)
    n = np.int64(3)

    @ti.kernel
    def f(x: ti.f32, k: ti.i32) -> ti.f32:
        return x * c + k * n

    assert f(np.float64(2.0), np.int32(2)) == 7.0


def test_sums_of_bools_are_integers():
    @ti.kernel
    def f(a: ti.i32, b: ti.i32) -> ti.i32:
        return (a > 0) + (b > 0)

    assert f(1, 1) == 2


def test_and_and_or_return_the_deciding_operand():
    @ti.func
    def seen(x):
        return x

    @ti.kernel
    def run(a: ti.i32, b: ti.i32) -> ti.types.vector(4, ti.i32):
        return ti.Vector([a and b, a or b, a and seen(b), a or seen(b)])

    for a, b in ((5, 7), (0, 7), (5, 0), (0, 0)):
        assert run(a, b).to_list() == [a and b, a or b, a and b, a or b]


def test_shifts_and_powers_keep_the_type_of_the_left_operand():
    @ti.kernel
    def run(a: ti.i32, b: ti.u32, c: ti.u8, d: ti.i64) -> ti.types.vector(5, ti.i64):
        return ti.Vector(
            [ti.i64(a >> b), ti.i64(a << b), ti.i64(a**b), ti.i64(c << d), ti.i64(ti.bit_shr(a, d))]
        )

    assert run(-7, 3, 200, 1).to_list() == [-1, -56, -343, 144, 2147483644]


def test_negation_of_unsigned_integers_wraps():
    total = ti.field(ti.u32, ())

    @ti.kernel
    def run(a: ti.u32, b: ti.u8) -> ti.types.vector(2, ti.i64):
        total[None] = 10
        for _ in range(4):
            total[None] -= a
        v = -ti.Vector([b, b])
        return ti.Vector([ti.i64(-a), ti.i64(v[1])])

    assert run(2, 7).to_list() == [4294967294, 249]
    assert total[None] == 2
