"""A constant in place of a variable never changes a result, and an integer constant never wraps silently."""

import linecache
import math
import struct
import warnings

import pytest

import wuji as ti

INTEGERS = [0, 1, -1, 2, 7, -7, 63, 2**31 - 1, -(2**31), -(2**63), 2**63 - 1]
FLOATS = [0.0, -0.0, 0.5, -1.0, 2.5, -7.25, 0.1, 1e300, 5e-324, -math.inf, math.nan]

# Operations of kernels.
BINARY = [
    "a + b",
    "a - b",
    "a * b",
    "a / b",
    "a // b",
    "a % b",
    "a and b",
    "a or b",
    "a < b",
    "a <= b",
    "a > b",
    "a >= b",
    "a == b",
    "a != b",
    "min(a, b)",
    "max(a, b)",
    "ti.select(a, b, a)",
    "ti.raw_div(a, b)",
    "ti.raw_mod(a, b)",
]
ON_FLOATS = [
    "a ** b",
    "ti.atan2(a, b)",
]
ON_INTEGERS = [
    "a ** (b & 15)",
    "a << (b & 31)",
    "a >> (b & 63)",
    "a & b",
    "a | b",
    "a ^ b",
    "ti.bit_shr(a, b & 63)",
]
UNARY = [
    "-a",
    "+a",
    "abs(a)",
    "not a",
    "float(a)",
    "bool(a)",
    "ti.math.sign(a)",
    "ti.cast(a, ti.i32)",
    "ti.cast(a, ti.u8)",
    "ti.cast(a, ti.f32)",
    "ti.sqrt(a)",
    "ti.rsqrt(a)",
]
ON_FLOATS_ALONE = ["round(a)", "ti.floor(a)", "ti.ceil(a)", "ti.math.fract(a)"]
FUNCTIONS = [f"ti.{name}(a)" for name in ("sin", "cos", "tan", "asin", "acos", "tanh", "exp", "log", "math.log2")]
ON_INTEGERS_ALONE = [
    "~a",
    "ti.math.popcnt(a)",
    "ti.math.clz(a)",
]


# Results on constants. Python folds them, whatever runs the kernel.
FOLDED = {}


def define(expression):
    """Return a function of `a` and `b`. Kernels need its source code."""
    file = f"<{expression}>"
    text = f"def f(a, b):\n    return {expression}\n"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names = {"ti": ti}
    exec(compile(text, file, "exec"), names)
    return names["f"]


def on_constants(expression, rows, result):
    """Return the results of an operation on constants."""
    operation, n = ti.func(define(expression)), len(rows)
    out = ti.field(result, n)

    @ti.kernel
    def run():
        for k in ti.static(range(n)):
            out[k] = operation(rows[k][0], rows[k][1])

    run()
    return out.to_numpy().tolist()


def on_variables(expression, rows, source, result):
    """Return the results of an operation on variables."""
    operation, n = ti.func(define(expression)), len(rows)
    x, y, out = ti.field(source, n), ti.field(source, n), ti.field(result, n)
    for k, (a, b) in enumerate(rows):
        x[k], y[k] = a, b

    @ti.kernel
    def run():
        for k in out:
            out[k] = operation(x[k], y[k])

    run()
    return out.to_numpy().tolist()


def same(a, b, digits=None):
    if isinstance(a, float) and math.isnan(a):
        return math.isnan(b)
    if digits is not None and math.isfinite(a):
        return a == pytest.approx(b, rel=digits)
    return struct.pack("<d", a) == struct.pack("<d", b) if isinstance(a, float) else a == b


def check(expression, rows, source, result, digits=None):
    key = (expression, tuple(rows), result)
    if key not in FOLDED:
        FOLDED[key] = on_constants(expression, rows, result)
    folded, computed = FOLDED[key], on_variables(expression, rows, source, result)
    wrong = [(row, a, b) for row, a, b in zip(rows, folded, computed) if not same(a, b, digits)]
    assert not wrong, f"{expression}: operands, result on constants, result on variables: {wrong}"


def fits(expression, row):
    """Return whether a result is an integer of 64 bits."""
    try:
        return -(2**63) <= define(expression)(*row) < 2**63
    except ZeroDivisionError:
        return True


@pytest.fixture(params=[{"interpreter": True}, {"tier": "fast"}, {"tier": "best"}], ids=["interpreter", "fast", "best"])
def wide(request):
    ti.init(arch=ti.cpu, default_fp=ti.f64, default_ip=ti.i64, fast_math=False, unrolling_limit=0, offline_cache=False, verbose=False, **request.param)


def test_operations_on_float_constants(wide):
    pairs = [(a, b) for a in FLOATS for b in FLOATS]
    for expression in BINARY:
        check(expression, pairs, ti.f64, ti.f64)
    for expression in ON_FLOATS:
        check(expression, pairs, ti.f64, ti.f64, 1e-15)
    for expression in UNARY + ON_FLOATS_ALONE:
        check(expression, [(a, 0) for a in FLOATS], ti.f64, ti.f64)
    for expression in FUNCTIONS:
        check(expression, [(a, 0) for a in FLOATS], ti.f64, ti.f64, 1e-15)


def test_operations_on_integer_constants(wide):
    pairs = [(a, b) for a in INTEGERS for b in INTEGERS]
    for expression in BINARY + ON_INTEGERS:
        rows = [row for row in pairs if fits(expression, row)]
        check(expression, rows, ti.i64, ti.f64 if expression == "a / b" else ti.i64)
    rows = [(a, 0) for a in INTEGERS if a > -(2**63)]
    for expression in UNARY + ON_INTEGERS_ALONE:
        floats = expression in ("ti.sqrt(a)", "ti.rsqrt(a)", "float(a)", "ti.math.sign(a)", "ti.cast(a, ti.f32)")
        check(expression, rows, ti.i64, ti.f64 if floats else ti.i64)


def test_operations_on_constants_of_the_default_types():
    ti.init(arch=ti.cpu, unrolling_limit=0, fast_math=False, offline_cache=False, verbose=False)
    floats = [0.0, -0.0, 0.5, -0.5, 2.5, -2.5, 3.0, 0.25, math.inf, -math.inf, math.nan]
    integers = [0, 1, -1, 2, 7, -7, 255, 2**31 - 1, -(2**31)]
    exact = ("a // b", "a % b", "a and b", "a or b", "a < b", "a == b", "min(a, b)", "max(a, b)", "a - b", "a / b")
    for expression in exact:
        check(expression, [(a, b) for a in floats for b in floats], ti.f32, ti.f32)
    for expression in exact[:8]:
        rows = [(a, b) for a in integers for b in integers if (a, b) != (-(2**31), -1)]
        check(expression, rows, ti.i32, ti.i32)
    for expression in ("round(a)", "ti.floor(a)", "ti.ceil(a)", "abs(a)", "not a", "bool(a)"):
        check(expression, [(a, 0) for a in floats], ti.f32, ti.f32)


def test_the_complement_of_a_bool_is_a_bool():
    @ti.kernel
    def f(a: ti.i32) -> ti.types.vector(4, ti.i32):
        return ti.Vector([~True, ~(a > 0), ~False, ~(a < 0)])

    assert f(1).to_list() == [0, 0, 1, 1]


def test_rounding_is_the_same_in_both_scopes():
    for x in (0.5, 1.5, 2.5, -0.5, -2.5, 0.49999999999999994, 4503599627370497.5):
        assert ti.round(x) == math.copysign(math.floor(abs(x)) + (abs(x) % 1 >= 0.5), x)


def test_an_integer_to_a_negative_power_is_a_float():
    @ti.kernel
    def f(a: ti.i32, b: ti.u8, c: ti.f32) -> ti.types.vector(5, ti.f32):
        return ti.Vector([2 ** -1, a ** -1, b ** -100, 2.0 ** -1, c ** -1])

    # On a GPU, `pow` in fast math is a few ulp off.
    assert f(2, 2, 2.0).to_list() == pytest.approx([0.5, 0.5, 2.0**-100, 0.5, 0.5], rel=1e-6, abs=0)


def test_a_run_time_integer_power_truncates():
    @ti.kernel
    def f(a: ti.i32, n: ti.i32) -> ti.i32:
        return a**n

    assert [f(a, -1) for a in (-2, -1, 0, 1, 2)] == [0, -1, 0, 1, 0]
    assert [f(-1, n) for n in (-2, -3)] == [1, -1]
    assert [f(3, n) for n in (0, 1, 5)] == [1, 3, 243]


BIG = 3000000000


def rejected(body, *args):
    with pytest.raises(ti.TaichiTypeError, match="exceeded the range of"):
        body(*args)


def test_integers_out_of_range_are_rejected_in_every_position():
    word, wide, line, array = ti.field(ti.i32, ()), ti.field(ti.i64, ()), ti.field(ti.i32, 4), ti.ndarray(ti.i32, 4)

    @ti.func
    def identity(x: ti.i32):
        return x

    @ti.real_func
    def real(x: ti.i32) -> ti.i32:
        return x

    @ti.kernel
    def comparison(a: ti.i32) -> ti.i32:
        return a < BIG

    @ti.kernel
    def operand(a: ti.i32) -> ti.i32:
        return a & 0xFFFFFFFF

    @ti.kernel
    def folded():
        word[None] = 2147483647 + 1

    @ti.kernel
    def conversion() -> ti.i32:
        return ti.cast(BIG, ti.i32)

    @ti.kernel
    def typed() -> ti.i32:
        return ti.u8(-1)

    @ti.kernel
    def argument() -> ti.i32:
        return identity(BIG)

    @ti.kernel
    def real_argument() -> ti.i32:
        return real(BIG)

    @ti.kernel
    def returned() -> ti.i32:
        return BIG

    @ti.kernel
    def chosen(a: ti.i32) -> ti.i32:
        return ti.select(a > 0, BIG, 1)

    @ti.kernel
    def entry() -> ti.i32:
        return ti.Vector([1, BIG])[1]

    @ti.kernel
    def huge():
        wide[None] = 2**70

    @ti.kernel
    def index() -> ti.i32:
        return line[BIG]

    @ti.kernel
    def low_index():
        line[-BIG] = 1

    @ti.kernel
    def array_index(a: ti.types.ndarray()) -> ti.i32:
        return a[BIG]

    for call in (folded, conversion, typed, argument, real_argument, returned, entry, huge, index, low_index, lambda: array_index(array)):
        rejected(call)
    for call in (comparison, operand, chosen):
        rejected(call, 5)


def test_integers_that_fit_the_type_of_their_position_are_exact():
    wide, bits, number = ti.field(ti.i64, ()), ti.field(ti.u32, ()), ti.field(ti.f32, ())

    @ti.kernel
    def f(a: ti.i64, b: ti.u32) -> ti.i32:
        wide[None] = BIG
        wide[None] += BIG
        wide[None] -= 1
        bits[None] = 0xFFFFFFFF
        bits[None] -= 1
        number[None] = BIG
        return (a < BIG) + 2 * (b < 0xFFFFFFFF)

    assert f(5, 5) == 3
    assert (wide[None], bits[None], number[None]) == (2 * BIG - 1, 0xFFFFFFFE, 3e9)


def test_an_explicit_cast_wraps():
    @ti.kernel
    def f(a: ti.i32) -> ti.types.vector(4, ti.i64):
        return ti.Vector([ti.i64(ti.cast(300, ti.u8)), ti.i64(ti.cast(a, ti.u8)), ti.i64(ti.cast(-1, ti.u32)), ti.cast(BIG, ti.i64)])

    assert f(300).to_list() == [44, 44, 0xFFFFFFFF, BIG]


def test_integers_that_fit_the_default_type_wrap_with_a_warning():
    byte = ti.field(ti.u8, ())

    @ti.kernel
    def stored():
        byte[None] = -1
        byte[None] += 300

    @ti.kernel
    def compared(a: ti.u32) -> ti.i32:
        return a < -1

    with pytest.warns(RuntimeWarning, match="300 is out of range for u8 and wraps to 44") as seen:
        stored()
    assert all(w.filename == __file__ for w in seen)
    assert byte[None] == 43
    with pytest.warns(RuntimeWarning, match="-1 is out of range for u32 and wraps to 4294967295"):
        assert compared(5) == 1


def test_warnings_about_wrapping_can_be_errors():
    byte = ti.field(ti.u8, ())

    @ti.kernel
    def stored():
        byte[None] = 300

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ti.TaichiCompilationError, match="wraps to 44"):
            stored()
