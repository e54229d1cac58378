"""What kernels print."""

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
        "0.250000 200 true",
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


def test_lines_come_in_the_order_of_iterations(capsys):
    @ti.kernel
    def f():
        for i in range(20):
            print(i)

    f()
    assert capsys.readouterr().out.split() == [str(i) for i in range(20)]


def test_formats_that_do_not_fit():
    @ti.kernel
    def f(x: ti.f32):
        print(f"{x:d}")

    with pytest.raises(ti.TaichiTypeError, match="integers"):
        f(1.0)


def test_static_print(capsys):
    @ti.kernel
    def f():
        ti.static_print("compiled", 3)

    f()
    f()
    assert capsys.readouterr().out == "compiled 3\n"
