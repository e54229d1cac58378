"""Output of `print` in kernels."""

import re

import pytest

import wuji as ti


def test_values_of_every_kind(capsys):
    @ti.kernel
    def f(n: ti.i32):
        v = ti.Vector([1.5, 2.0])
        m = ti.Matrix([[1, 2], [3, 4]])
        print("a", n, 1.5, v, m)
        print(ti.Struct(a=n, b=v))
        print(ti.f64(0.25), ti.u8(200), n > 3)

    f(7)
    assert capsys.readouterr().out.splitlines() == [
        "a 7 1.500000 [1.500000, 2.000000] [[1, 2], [3, 4]]",
        "{a: 7, b: [1.500000, 2.000000]}",
        "0.250000000000 200 1",
    ]


def test_formats(capsys):
    @ti.kernel
    def f(n: ti.i32, x: ti.f32):
        print(f"n={n:d} x={x:.2f} {ti.Vector([x, x]):.1f}", "end", sep="|")
        print("{} and {:.1f}".format(n, x))
        print(n, end="")
        print("!", end=";\n")

    f(3, 0.5)
    assert capsys.readouterr().out.splitlines() == ["n=3 x=0.50 [0.5, 0.5]|end", "3 and 0.5", "3!;"]


def test_python_format_specifications(capsys):
    @ti.kernel
    def f(n: ti.i32, x: ti.f32):
        print(f"[{n:5d}] [{n:<4}] [{n:x}] [{x:8.3f}] [{x:.3e}] [{x:g}] [{ti.Vector([x, x]):6.1f}] [{ti.u64(2)**40:,}]")

    f(255, 0.5)
    assert capsys.readouterr().out == "[  255] [255 ] [ff] [   0.500] [5.000e-01] [0.5] [[   0.5,    0.5]] [1,099,511,627,776]\n"


def test_printf_formats(capsys):
    @ti.kernel
    def f(n: ti.i32, x: ti.f32):
        print("n=%d x=%.2f %s 100%%" % (n, x, "end"))
        print("[%5d] [%-4i] [%x] [%#o] [%05d] [%+d] [%8.3f] [%e]" % (n, n, n, n, n, n, x, x))
        print("%d %f %s" % (x + 1.25, n, ti.Vector([n, n])), "%(a)d-%(b)s" % {"a": n, "b": 2})
        print("%s" % n, "%3d|" % 7)

    f(255, 0.5)
    assert capsys.readouterr().out.splitlines() == [
        "n=255 x=0.50 end 100%",
        "[  255] [255 ] [ff] [0o377] [00255] [+255] [   0.500] [5.000000e-01]",
        "1 255.000000 [255, 255] 255-2",
        "255   7|",
    ]


@pytest.mark.parametrize(
    ("expression", "error", "message"),
    [
        ('"%d %d" % (n,)', ti.TaichiTypeError, "there is no value for `%d`: not enough arguments for format string"),
        ('"%d" % (n, n)', ti.TaichiTypeError, "not all arguments converted"),
        ('"%(a)d" % {"b": n}', ti.TaichiTypeError, "needs a dictionary with the key 'a'"),
        ('"%c" % n', ti.TaichiTypeError, "`%c` is not a format of run-time values"),
        ('"%.3d" % n', ti.TaichiTypeError, "`%.3d` has a precision"),
        ('"{} {}".format(n)', IndexError, "there is no value for replacement 1"),
        ('"{} {} {}".format(n)', ti.TaichiSyntaxError, "Expected 3 positional argument(s), but received 1 instead"),
        ('"{0} {4}".format(n)', ti.TaichiSyntaxError, "Expected 5 positional argument(s), but received 1 instead"),
        ('"{} {b}".format(n)', ti.TaichiSyntaxError, "Keyword 'b' not found"),
        ('"{".format(n)', ti.TaichiSyntaxError, "Single '{' encountered in format string"),
        ('"{a}".format(n)', ti.TaichiTypeError, "`format` has no value named 'a'"),
    ],
)
def test_mistakes_in_formats(expression, error, message, tmp_path):
    path = tmp_path / "formats.py"
    path.write_text(f"import wuji as ti\n@ti.kernel\ndef f(n: ti.i32):\n    print({expression})\n")
    program = {}
    exec(compile(path.read_text(), str(path), "exec"), program)
    with pytest.raises(error, match=re.escape(message)):
        program["f"](1)


def test_assertion_messages_are_formatted():
    ti.init(arch=ti.cpu, debug=True, offline_cache=False, verbose=False)

    @ti.kernel
    def f(x: ti.f32):
        assert x > 1, f"x is {x:.2f}, {x:8.1e}"

    with pytest.raises(ti.TaichiAssertionError, match="x is 0.25,  2.5e-01"):
        f(0.25)

    @ti.kernel
    def g(n: ti.i32, x: ti.f32):
        assert x > 1, "%d: x is %.2f" % (n, x)

    with pytest.raises(ti.TaichiAssertionError, match="3: x is 0.25"):
        g(3, 0.25)


def test_serial_lines_print_in_order(capsys):
    @ti.kernel
    def f():
        for i in range(20):
            print(i)

    f()
    assert capsys.readouterr().out.split() == [str(i) for i in range(20)]


def test_invalid_format_specifications_are_rejected():
    @ti.kernel
    def f(x: ti.f32):
        print(f"{x:d}")

    with pytest.raises(ti.TaichiTypeError, match="it is not a format of floats"):
        f(1.0)


def test_static_print(capsys):
    @ti.kernel
    def f():
        ti.static_print("compiled", 3)

    f()
    f()
    assert capsys.readouterr().out == "compiled 3\n"


def test_constants_print_like_run_time_values(capsys):
    @ti.kernel
    def f(x: ti.f32, m: ti.math.mat2):
        print(ti.Vector([1.5, x]), ti.static(ti.Vector([1.5, 2.5])), True, x > 1, (m > 2).sum())

    f(2.5, ti.math.mat2(1, 2, 3, 4))
    assert capsys.readouterr().out == "[1.500000, 2.500000] [1.500000, 2.500000] 1 1 2\n"


def test_format_specifications_match_python(capsys):
    @ti.kernel
    def f(x: ti.f32, n: ti.i32):
        print(f"{x:e} {x:.2e} {x:g} {n:x} {n:X}|{ti.Vector([x, x]):.1e}")

    f(1234.5, 255)
    assert capsys.readouterr().out == "1.234500e+03 1.23e+03 1234.5 ff FF|[1.2e+03, 1.2e+03]\n"


def test_formats_fit_the_types_of_values():
    @ti.kernel
    def integer(x: ti.i32):
        print(f"{x:.2f}")

    @ti.kernel
    def vector(x: ti.i32):
        print(f"{ti.Vector([x, x]):e}")

    @ti.kernel
    def number(x: ti.f32):
        print("{:d}".format(x))

    for kernel, spec, dtype in ((integer, ".2f", "i32"), (vector, "e", "i32"), (number, "d", "f32")):
        with pytest.raises(ti.TaichiTypeError, match=f"'{spec}' doesn't match '{dtype}'"):
            kernel(1)


def test_nodes_and_sparse_fields_print_as_in_taichi():
    x, y = ti.field(ti.i32), ti.field(ti.f32)
    blocks = ti.root.pointer(ti.ij, (4, 2))
    cells = blocks.dense(ti.ij, (2, 4))
    cells.place(x)
    ti.root.pointer(ti.ij, (1024, 1024)).dense(ti.ij, (8, 8)).place(y)
    assert f"{ti.root} {blocks}" == "ti.root ti.root => pointer [4, 2]"
    assert str(x.snode) == f"{cells} => place [8, 8]" == "ti.root => pointer [4, 2] => dense [8, 8] => place [8, 8]"
    assert repr(cells) == "ti.root.pointer(ij, [4, 2]).dense(ij, [2, 4])"
    x[7, 7] = 3
    assert str(x) == str(x.to_numpy())
    # It would need 256 MiB.
    assert str(y) == "<ti.field y f32, shape (8192, 8192)>"


def test_a_kernel_prints_to_the_standard_output_only():
    @ti.kernel
    def say():
        print(1, file=3)

    with pytest.raises(TypeError, match="`print` takes no `file`"):
        say()
