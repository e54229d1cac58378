"""Debug mode: overflow is reported, out-of-range accesses and negative exponents are errors."""

import operator

import pytest

import wuji as ti

TYPES = [ti.i8, ti.u8, ti.i16, ti.u16, ti.i32, ti.u32, ti.i64, ti.u64]


@pytest.fixture(autouse=True, params=[{}, {"interpreter": True}], ids=["compiled", "interpreted"])
def debug(request, world):
    ti.init(arch=ti.cpu, debug=True, offline_cache=False, verbose=False, **request.param)


def reported(capfd, launch):
    capfd.readouterr()
    launch()
    return capfd.readouterr().out


@pytest.mark.parametrize("ty", TYPES, ids=str)
def test_integer_overflow_is_reported(capfd, ty):
    @ti.kernel
    def add(a: ty, b: ty) -> ty:
        return a + b

    @ti.kernel
    def sub(a: ty, b: ty) -> ty:
        return a - b

    @ti.kernel
    def mul(a: ty, b: ty) -> ty:
        return a * b

    @ti.kernel
    def shl(a: ty, b: ty) -> ty:
        return a << b

    low, high = ty.range()
    cases = [
        (add, "Addition", high, 1, True),
        (add, "Addition", high, 0, False),
        (add, "Addition", low, high, False),
        (sub, "Subtraction", low, 1, True),
        (sub, "Subtraction", high, high, False),
        (mul, "Multiplication", high, 2, True),
        (mul, "Multiplication", high, 1, False),
        (mul, "Multiplication", 0, high, False),
        (shl, "Shift left", high, 1, True),
        (shl, "Shift left", 1, ty.bits - 2, False),
    ]
    if low < 0:
        cases += [(add, "Addition", low, -1, True), (mul, "Multiplication", low, -1, True), (mul, "Multiplication", -1, low, True), (sub, "Subtraction", 0, low, True)]
    for kernel, name, a, b, overflows in cases:
        plain = {add: operator.add, sub: operator.sub, mul: operator.mul, shl: operator.lshift}[kernel](a, b)
        results = []
        out = reported(capfd, lambda kernel=kernel, a=a, b=b, results=results: results.append(kernel(a, b)))
        assert results == [ty.wrap(plain)]
        assert (f"{name} overflow detected in File" in out) == overflows, (name, a, b, out)


def test_overflow_names_the_line(capfd):
    @ti.func
    def doubled(v):
        return v + v

    @ti.kernel
    def run(a: ti.i32):
        for k in range(2):
            doubled(ti.Vector([a, k]))

    out = reported(capfd, lambda: run(2**30))
    assert out.count("Addition overflow detected in File") == 2
    assert "in doubled:" in out and "return v + v" in out and "^^^^^" in out


def test_overflow_of_a_variable_is_reported(capfd):
    @ti.kernel
    def run(a: ti.i32) -> ti.i32:
        b = a
        b += a
        return b

    assert "Addition overflow detected in File" in reported(capfd, lambda: run(2**30))


def test_overflow_is_not_reported_without_debug_mode(capfd):
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False)

    @ti.kernel
    def run(a: ti.i32) -> ti.i32:
        return a + a

    assert reported(capfd, lambda: run(2**30)) == ""


def test_a_negative_integer_exponent_is_an_error():
    @ti.kernel
    def run(a: ti.i32, n: ti.i32) -> ti.i32:
        return a**n

    assert run(2, 10) == 1024
    with pytest.raises(ti.TaichiAssertionError, match=r"Negative exponent in pow\(int, int\) is not allowed"):
        run(2, -1)


def test_elements_that_do_not_exist_raise_in_python():
    x, v, a = ti.field(ti.i32, 8), ti.Vector.field(3, ti.f32, 4), ti.ndarray(ti.i32, 4)

    def write():
        x[-9] = 1

    for access in (lambda: x[8], lambda: x[-9], write, lambda: v[4], lambda: a[4]):
        for kind in (IndexError, AssertionError, ti.TaichiAssertionError):
            with pytest.raises(kind):
                access()


def test_constant_components_that_do_not_exist_are_rejected():
    v = ti.Vector.field(3, ti.f32, 4)

    @ti.kernel
    def local() -> ti.i32:
        return ti.Vector([1, 2, 3])[5]

    @ti.kernel
    def element() -> ti.f32:
        return v[0][5]

    for kernel in (local, element):
        with pytest.raises(ti.TaichiIndexError, match="index 5 is out of range"):
            kernel()
    with pytest.raises(IndexError):
        v[0][5]


def reads():
    """Return kernels that read element `i` of places with 8 elements."""
    x = ti.field(ti.i32, 8)
    v = ti.Vector.field(2, ti.i32, 8)
    s = ti.field(ti.i32)
    ti.root.pointer(ti.i, 2).dense(ti.i, 4).place(s)
    a = ti.ndarray(ti.i32, 8)

    @ti.kernel
    def of_field(i: ti.i32) -> ti.i32:
        return x[i]

    @ti.kernel
    def of_component(i: ti.i32) -> ti.i32:
        return v[i][1]

    @ti.kernel
    def of_sparse_field(i: ti.i32) -> ti.i32:
        return s[i]

    @ti.kernel
    def of_array(b: ti.types.ndarray(), i: ti.i32) -> ti.i32:
        return b[i]

    @ti.kernel
    def in_a_loop(i: ti.i32) -> ti.i32:
        total = 0
        for k in range(8):
            total += x[k + i]
        return total

    @ti.kernel
    def guarded(i: ti.i32) -> ti.i32:
        r = 0
        if 0 <= i < 8:
            r = x[i] + s[i] + v[i].x
        return r

    return [of_field, of_component, of_sparse_field, lambda i: of_array(a, i), in_a_loop], guarded


@pytest.mark.parametrize("options", [{"debug": True}, {"check_out_of_bound": True}], ids=str)
def test_out_of_range_reads_are_errors(options, request):
    interpreter = "interpreted" in request.node.name
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False, interpreter=interpreter, **options)
    kernels, guarded = reads()
    for kernel in kernels:
        assert kernel(0) == 0
        for i in (8, -1):
            with pytest.raises(ti.TaichiAssertionError, match="W0401.* read .*outside of its bounds"):
                kernel(i)
    for i in (-1, 3, 8):
        assert guarded(i) == 0


def test_out_of_range_reads_are_zero_without_debug_mode():
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
    kernels, _ = reads()
    for kernel in kernels:
        assert kernel(8) == 0
