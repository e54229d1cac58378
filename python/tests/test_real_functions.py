"""Functions that are called instead of inlined: methods, template arguments and references."""

import pytest

import wuji as ti


def test_real_functions_as_methods() -> None:
    @ti.data_oriented
    class Scale:
        def __init__(self, factor: int) -> None:
            self.factor = factor
            self.calls = ti.field(ti.i32, ())

        @ti.real_func
        def once(self, a: ti.i32) -> ti.i32:
            self.calls[None] += 1
            return a * self.factor

        @ti.real_func
        def sum(self, n: ti.i32) -> ti.i32:
            r = 0
            if n > 0:
                r = self.sum(n - 1) + self.once(n)
            return r

        @ti.kernel
        def run(self, n: ti.i32) -> ti.i32:
            return self.sum(n)

    three, four = Scale(3), Scale(4)

    @ti.kernel
    def both(a: ti.i32) -> ti.i32:
        return three.once(a) * 100 + four.once(a)

    assert three.run(4) == 30 and three.calls[None] == 4
    assert both(5) == 1520 and four.calls[None] == 1


def test_real_functions_with_template_arguments() -> None:
    x, y = ti.field(ti.i32, 4), ti.field(ti.i32, 4)
    x.fill(3)
    y.fill(4)

    @ti.func
    def square(v):
        return v * v

    @ti.real_func
    def get(field: ti.template(), i: ti.i32) -> ti.i32:
        return field[i]

    @ti.real_func
    def repeat(n: ti.template(), f: ti.template(), b: ti.i32) -> ti.i32:
        s = 0
        for _ in ti.static(range(n)):
            s += f(b)
        return s

    @ti.real_func
    def read(v: ti.template()) -> ti.i32:
        return v + 1

    @ti.real_func
    def write(v: ti.template()) -> ti.i32:
        v += 1
        return v

    @ti.kernel
    def f(b: ti.i32) -> ti.types.vector(4, ti.i32):
        return ti.Vector([get(x, 1) * 10 + get(y, 1), repeat(2, square, b), repeat(3, square, b), read(b)])

    @ti.kernel
    def g(b: ti.i32) -> ti.i32:
        return write(b)

    assert f(5).to_list() == [34, 50, 75, 6]
    with pytest.raises(ti.TaichiCompilationError):
        g(1)


def test_references_of_real_functions() -> None:
    x = ti.field(ti.i32, 3)

    @ti.real_func
    def add(a: ti.ref(ti.i32), b: ti.i32) -> ti.i32:
        a += b
        return a

    @ti.real_func
    def count(n: ti.i32, a: ti.ref(ti.i32)):
        if n > 0:
            a += n
            count(n - 1, a)

    @ti.dataclass
    class Counter:
        n: ti.i32

        @ti.real_func
        def step(self, by: ti.i32) -> ti.i32:
            self.n += by
            return self.n

    @ti.kernel
    def f() -> ti.types.vector(4, ti.i32):
        s, total = 10, 0
        r = add(s, 5)
        count(4, s)
        c = Counter(n=1)
        c.step(2)
        for i in x:
            add(x[i], 7)
            add(total, i + 1)  # all iterations share the variable
        return ti.Vector([s, r, c.n, total])

    @ti.kernel
    def wrong() -> ti.f32:
        s = 1.5
        add(s, 1)
        return s

    assert f().to_list() == [25, 15, 3, 6]
    assert x.to_numpy().tolist() == [7] * 3
    with pytest.raises(ti.TaichiTypeError, match="a variable of type i32, not f32"):
        wrong()


def test_results_need_an_annotation():
    @ti.real_func
    def f(a: ti.i32):
        return a

    @ti.kernel
    def g() -> ti.i32:
        return f(1)

    with pytest.raises(ti.TaichiSyntaxError, match="A function with a return value must be annotated with a return type"):
        g()


def test_a_recursive_function_that_is_inlined_is_named():
    @ti.func
    def direct(a):
        return direct(a) + 1

    @ti.func
    def nested(a):
        r = 0
        for i in range(2):
            if a > i:
                r += (nested(a - 1) + 1) * 2
        return r

    for function, name in ((direct, "direct"), (nested, "nested")):

        @ti.kernel
        def run(a: ti.i32) -> ti.i32:
            return function(a)  # noqa: B023

        with pytest.raises(ti.TaichiCompilationError, match=f"{name}.* recursive"):
            run(1)
