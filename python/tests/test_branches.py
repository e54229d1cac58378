"""Branches, breaks and code behind loops; domains without axes; long and deep code."""

import pytest

import wuji as ti


def test_a_loop_in_a_branch_is_serial_and_may_break() -> None:
    size = 10

    @ti.kernel
    def f(x: ti.i32) -> ti.types.vector(3, ti.i32):
        a, b, c = 0, 0, 1
        if x > 0:
            for i in range(10):
                if i > 3:
                    break
                a += 1
        if size > 2:
            for i in range(10):
                if i > 4:
                    break
                b += 1
            for _ in range(10):
                c = c * 2 + 1  # depends on the order of iterations
        return ti.Vector([a, b, c])

    assert f(1).to_list() == [4, 5, 2047]


@pytest.mark.parametrize("name", ["static", "plain", "function"])
def test_break_in_an_outermost_loop_is_an_error(name: str) -> None:
    @ti.func
    def function():  # type: ignore[no-untyped-def]
        for i in range(10):
            if i > 3:
                break

    @ti.kernel
    def f():  # type: ignore[no-untyped-def]
        if ti.static(name == "static"):
            for i in range(10):
                if i > 3:
                    break
        if ti.static(name == "plain"):
            for i in range(10):
                if i > 3:
                    break
        if ti.static(name == "function"):
            function()

    with pytest.raises(ti.TaichiSyntaxError, match="parallel loop"):
        f()


def test_code_behind_an_endless_loop_is_checked() -> None:
    @ti.kernel
    def endless():  # type: ignore[no-untyped-def]
        while True:
            a = 0
        print(a)

    @ti.kernel
    def nested(x: ti.i32) -> ti.i32:
        while True:
            b = 0
        if x > 0:
            x = 1 + b
        return x

    for kernel, args in ((endless, ()), (nested, (1,))):
        with pytest.raises(ti.TaichiNameError, match="is not defined"):
            kernel(*args)


def test_a_loop_that_only_returns_needs_no_code_behind_it() -> None:
    @ti.kernel
    def f(x: ti.i32) -> ti.i32:
        i = 0
        while True:
            i += 1
            if i > x:
                return i

    @ti.kernel
    def g(x: ti.i32) -> ti.i32:
        i = 0
        while True:
            i += 1
            if i > x:
                return i
        return -1

    assert f(5) == 6 and g(5) == 6


def test_the_only_element_of_something_without_axes_is_visited_once() -> None:
    x, v = ti.field(ti.i32, ()), ti.Vector.field(2, ti.i32, ())

    @ti.kernel
    def f():
        for i in ti.grouped(x):
            x[i] += 1
        for i in ti.grouped(v):
            v[i][0] += 3
            v[i] += 1
        for i in ti.grouped(ti.ndrange()):
            x[i] += 10
        for i in ti.grouped(ti.ndrange(*x.shape)):
            x[i] += 100
        for _ in ti.static(ti.grouped(ti.ndrange())):
            x[None] += 1000

    f()
    assert x[None] == 1111 and v[None].to_list() == [4, 1]
    assert list(ti.ndrange()) == [()]
    assert list(ti.ndrange(2)) == [(0,), (1,)]


def test_dictionary_comprehensions() -> None:
    @ti.kernel
    def f(y: ti.i32) -> ti.i32:
        d = {i: i * y for i in range(4) if i != 2}
        names = {a + b: y + i for i, (a, b) in ti.static(enumerate([("x", "y"), ("z", "w")]))}
        return d[3] * 100 + names["zw"]

    assert f(5) == 1506


def _kernel_of(source, tmp_path):
    import importlib.util

    file = tmp_path / "generated.py"
    file.write_text("import wuji as ti\n\n@ti.kernel\ndef f(x: ti.i32) -> ti.i32:\n" + source)
    spec = importlib.util.spec_from_file_location("generated", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def test_a_long_chain_of_branches(tmp_path) -> None:
    branches = "".join(f"    elif x == {k}:\n        r = {k}\n" for k in range(1, 1000))
    f = _kernel_of("    r = -1\n    if x == 0:\n        r = 0\n" + branches + "    else:\n        r = -2\n    return r\n", tmp_path)
    assert [f(k) for k in (0, 1, 500, 999, 1000)] == [0, 1, 500, 999, -2]


def test_a_long_chain_of_branches_that_return(tmp_path) -> None:
    branches = "".join(f"    elif x == {k}:\n        return {k}\n" for k in range(1, 100))
    f = _kernel_of("    if x == 0:\n        return 0\n" + branches + "    return -1\n", tmp_path)
    assert [f(k) for k in (0, 99, 100)] == [0, 99, -1]


def test_a_sum_with_many_terms(tmp_path) -> None:
    f = _kernel_of("    return " + " + ".join(["x"] * 1500) + "\n", tmp_path)
    assert f(2) == 3000


def test_an_error_in_a_chain_is_located_in_its_branch(tmp_path) -> None:
    f = _kernel_of("    if x == 0:\n        return 0\n    elif ti.Vector([x, x]):\n        return 1\n    return 2\n", tmp_path)
    with pytest.raises(ti.TaichiTypeError, match=r"generated.py:7:"):
        f(1)


def test_code_that_is_nested_too_deeply_is_a_coded_error(tmp_path) -> None:
    f = _kernel_of("    return " + "-" * 900 + "x\n", tmp_path)
    with pytest.raises(ti.TaichiSyntaxError, match=r"W0601.*nested too deeply"):
        f(1)
