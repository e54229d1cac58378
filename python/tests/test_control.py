"""Loops, branches, functions, static evaluation."""

import numpy as np
import pytest

import wuji as ti


def test_range_loops():
    x = ti.field(ti.i32, shape=20)

    @ti.kernel
    def f(n: ti.i32):
        for i in range(n):
            x[i] += 1
        for i in range(5, n):
            x[i] += 10

    f(10)
    assert x.to_numpy().tolist() == [1] * 5 + [11] * 5 + [0] * 10


def test_range_with_a_step_is_rejected():
    @ti.kernel
    def f():
        for i in range(0, 10, 2):
            print(i)

    with pytest.raises(ti.TaichiSyntaxError, match="1 or 2 arguments"):
        f()


def test_break_and_continue_in_inner_loops():
    @ti.kernel
    def f(n: ti.i32) -> ti.i32:
        s = 0
        for _ in range(1):
            for i in range(n):
                if i == 3:
                    continue
                if i == 7:
                    break
                s += i
        return s

    assert f(100) == 0 + 1 + 2 + 4 + 5 + 6


def test_break_in_a_parallel_loop_is_rejected():
    @ti.kernel
    def f():
        for i in range(10):
            if i == 3:
                break

    with pytest.raises(ti.TaichiSyntaxError, match="parallel loop"):
        f()


def test_ndrange():
    x = ti.field(ti.i32, shape=(4, 5))

    @ti.kernel
    def f():
        for i, j in ti.ndrange(4, (1, 5)):
            x[i, j] = i * 10 + j

    f()
    a = x.to_numpy()
    assert all(a[i, j] == (i * 10 + j if j else 0) for i in range(4) for j in range(5))


def test_break_leaves_the_whole_inner_ndrange():
    @ti.kernel
    def f() -> ti.i32:
        s = 0
        for _ in range(1):
            for i, j in ti.ndrange(3, 4):
                if i == 1 and j == 2:
                    break
                if j == 3:
                    continue
                s += 10 ** i
        return s

    assert f() == 3 + 20


def test_grouped_loops():
    x = ti.field(ti.i32, shape=(3, 4))

    @ti.kernel
    def f():
        for I in ti.grouped(x):
            x[I] = I[0] * 10 + I.y
        for I in ti.grouped(ti.ndrange(2, 2)):
            x[I] += 100

    f()
    a = x.to_numpy()
    assert all(a[i, j] == i * 10 + j + (100 if i < 2 and j < 2 else 0) for i in range(3) for j in range(4))


def test_while():
    @ti.kernel
    def collatz(n: ti.i32) -> ti.i32:
        steps = 0
        while n != 1:
            if n % 2 == 0:
                n //= 2
            else:
                n = 3 * n + 1
            steps += 1
        return steps

    assert collatz(27) == 111


def test_while_true():
    @ti.kernel
    def f() -> ti.i32:
        i = 0
        while True:
            i += 1
            if i > 10:
                break
        return i

    assert f() == 11


def test_static_loops_and_branches():
    x = ti.field(ti.i32, shape=8)

    @ti.kernel
    def f(flag: ti.template()):
        for i in ti.static(range(8)):
            if ti.static(i % 2 == 0):
                x[i] = i
            if ti.static(flag):
                x[i] += 100

    f(False)
    assert x.to_numpy().tolist() == [0, 0, 2, 0, 4, 0, 6, 0]
    f(True)
    assert x.to_numpy().tolist() == [100, 100, 102, 100, 104, 100, 106, 100]


def test_static_break_and_continue():
    x = ti.field(ti.i32, shape=8)

    @ti.kernel
    def f():
        for i in ti.static(range(8)):
            if ti.static(i == 2):
                continue
            if ti.static(i == 5):
                break
            x[i] = 1

    f()
    assert x.to_numpy().tolist() == [1, 1, 0, 1, 1, 0, 0, 0]


def test_break_in_a_static_loop_under_a_run_time_condition_is_rejected():
    @ti.kernel
    def f(n: ti.i32):
        for i in ti.static(range(8)):
            if n == i:
                break

    with pytest.raises(ti.TaichiSyntaxError, match="static loop"):
        f(3)


def test_static_zip_and_enumerate():
    names = ["a", "b", "c"]
    x = ti.field(ti.i32, shape=3)

    @ti.kernel
    def f():
        for k, (name, v) in ti.static(enumerate(zip(names, (5, 6, 7)))):
            if ti.static(name != "b"):
                x[k] = v

    f()
    assert x.to_numpy().tolist() == [5, 0, 7]


def test_static_assert():
    @ti.kernel
    def f():
        ti.static_assert(1 + 1 == 3, "arithmetic")

    with pytest.raises(ti.TaichiCompilationError, match="arithmetic"):
        f()


def test_reduction_into_a_local_variable():
    x = ti.field(ti.f32, shape=1000)

    @ti.kernel
    def total() -> ti.f32:
        s = 0.0
        for i in x:
            s += x[i]
        return s

    x.fill(0.5)
    assert total() == 500.0


def test_flag_set_in_a_parallel_loop():
    x = ti.field(ti.i32, shape=100)

    @ti.kernel
    def has(v: ti.i32) -> ti.i32:
        found = 0
        for i in x:
            if x[i] == v:
                found = 1
        return found

    x[77] = 5
    assert has(5) == 1
    assert has(6) == 0


def test_max_reduction_of_a_field():
    x = ti.field(ti.f32, shape=100)

    @ti.kernel
    def greatest() -> ti.f32:
        m = -1e9
        for i in x:
            ti.atomic_max(m, x[i])
        return m

    x.from_numpy(__import__("numpy").linspace(-3, 4.5, 100, dtype="f4"))
    assert greatest() == 4.5


def test_early_returns_from_functions():
    @ti.func
    def classify(x):
        if x < 0:
            return -1
        for i in range(10):
            if i * i >= x:
                return i
        return 100

    @ti.kernel
    def f(x: ti.i32) -> ti.i32:
        return classify(x)

    assert [f(x) for x in (-5, 0, 5, 81, 82)] == [-1, 0, 3, 9, 100]


def test_functions_return_tuples():
    @ti.func
    def both(x):
        return x + 1, ti.Vector([x, 2 * x])

    @ti.kernel
    def f(x: ti.i32) -> ti.i32:
        a, v = both(x)
        return a + v[1]

    assert f(3) == 10


def test_functions_take_arguments_by_value_and_templates_by_reference():
    @ti.func
    def change(a):
        a += 1
        return a

    @ti.func
    def change_there(a: ti.template()):
        a += 1

    @ti.kernel
    def f() -> ti.i32:
        x = 1
        y = change(x)
        change_there(x)
        return x * 10 + y

    assert f() == 22


def test_default_and_keyword_arguments():
    @ti.func
    def g(a, b=10, c=100):
        return a + b * 2 + c * 3

    @ti.kernel
    def f(x: ti.i32, y: ti.i32 = 5) -> ti.i32:
        return g(x, c=y) + g(b=1, a=2)

    for _ in range(3):
        assert f(1) == 1 + 20 + 15 + 2 + 2 + 300
        assert f(1, 5) == f(1)
    assert f(y=0, x=1) == 21 + 304
    for wrong in ((), (1, 2, 3)):
        with pytest.raises(TypeError, match="f"):
            f(*wrong)


def test_functions_as_template_arguments():
    @ti.func
    def twice(f: ti.template(), x):
        return f(f(x))

    @ti.func
    def inc(x):
        return x + 1

    @ti.kernel
    def k() -> ti.i32:
        return twice(inc, 5)

    assert k() == 7


def test_recursion_needs_a_real_function():
    @ti.func
    def f(x):
        return f(x)

    @ti.kernel
    def k() -> ti.i32:
        return f(5)

    with pytest.raises(ti.TaichiCompilationError, match="real_func"):
        k()


def test_real_functions_are_recursive():
    @ti.real_func
    def fib(n: ti.i32) -> ti.i32:
        r = n
        if n > 1:
            r = fib(n - 1) + fib(n - 2)
        return r

    @ti.real_func
    def early(n: ti.i32) -> ti.i32:
        if n > 3:
            return 1
        return 0

    @ti.kernel
    def f(n: ti.i32) -> ti.i32:
        return fib(n) * 10 + early(n)

    assert f(10) == 551
    assert f(2) == 10


def test_real_functions_take_references():
    @ti.real_func
    def split(x: ti.i32, low: ti.ref(ti.i32)) -> ti.i32:
        low = x % 10
        return x // 10

    @ti.kernel
    def f(x: ti.i32) -> ti.i32:
        low = 0
        high = split(x, low)
        return high * 100 + low

    assert f(47) == 407


def test_real_functions_in_parallel_loops():
    x = ti.field(ti.i32, shape=50)

    @ti.real_func
    def square(n: ti.i32) -> ti.i32:
        return n * n

    @ti.kernel
    def f():
        for i in x:
            x[i] = square(i)

    f()
    assert x.to_numpy().tolist() == [i * i for i in range(50)]


def test_outermost_loops_in_functions_are_parallel():
    x = ti.field(ti.i32, shape=50)

    @ti.func
    def fill(v):
        for i in x:
            x[i] = v

    @ti.kernel
    def f(v: ti.i32):
        fill(v)
        fill(v + 1)

    f(3)
    assert x.to_numpy().tolist() == [4] * 50


def test_names_are_scoped_to_their_block():
    @ti.kernel
    def f(x: ti.i32) -> ti.i32:
        if x > 0:
            y = 1
        return y

    with pytest.raises(ti.TaichiNameError, match="inside an inner block"):
        f(1)


def test_undefined_names_are_rejected():
    @ti.kernel
    def f():
        print(nothing_of_that_name)  # noqa: F821

    with pytest.raises(ti.TaichiNameError, match='Name "nothing_of_that_name" is not defined'):
        f()


def test_tuples_and_swaps():
    @ti.kernel
    def f(a: ti.i32, b: ti.i32) -> ti.i32:
        a, b = b, a
        (c, d), e = (a, b), 7
        return c * 100 + d * 10 + e

    assert f(1, 2) == 217


def test_walrus():
    @ti.kernel
    def f(x: ti.i32) -> ti.i32:
        r = 0
        if (y := x * 2) > 5:
            r = y
        return r

    assert (f(3), f(2)) == (6, 0)


def test_list_comprehensions():
    @ti.kernel
    def f(x: ti.i32) -> ti.i32:
        v = ti.Vector([x * i for i in range(4)])
        return v.sum()

    assert f(2) == 12


def test_global_numbers_are_compile_time_constants():
    scale = 3

    @ti.kernel
    def f(x: ti.i32) -> ti.i32:
        return x * scale

    assert f(2) == 6
    scale = 4
    assert f(2) == 6


def test_kernels_cannot_call_kernels():
    @ti.kernel
    def g():
        pass

    @ti.kernel
    def f():
        g()

    with pytest.raises(ti.TaichiSyntaxError, match="Kernels cannot call other kernels"):
        f()


def test_functions_cannot_be_called_from_python():
    @ti.func
    def g():
        pass

    with pytest.raises(ti.TaichiSyntaxError, match="from kernels"):
        g()


def test_pyfunc_works_in_kernels_and_python():
    @ti.pyfunc
    def g(x):
        return x * 2 + 1

    @ti.kernel
    def f(x: ti.i32) -> ti.i32:
        return g(x)

    assert g(3) == f(3) == 7


@pytest.mark.parametrize(
    "body",
    [
        "try:\n    pass\nexcept Exception:\n    pass",
        "with open('x') as f:\n    pass",
        "raise ValueError",
        "import math",
        "global zz",
        "del a",
        "def g():\n    pass",
        "f = lambda x: x",
        "s = {1, 2}",
        "yield 3",
        "for i in range(3):\n    pass\nelse:\n    pass",
        "while False:\n    pass\nelse:\n    pass",
    ],
)
def test_unsupported_syntax_is_rejected(body, tmp_path):
    lines = "\n".join("    " + line for line in body.split("\n"))
    path = tmp_path / "rejected.py"
    path.write_text(f"import wuji as ti\n\n@ti.kernel\ndef k():\n    a = 1\n{lines}\n")
    scope = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    with pytest.raises(ti.TaichiSyntaxError):
        scope["k"]()


def test_parameters_need_annotations():
    @ti.kernel
    def f(x):
        pass

    with pytest.raises(ti.TaichiSyntaxError, match="type annotated"):
        f(1)


def test_star_arguments_are_rejected():
    @ti.kernel
    def f(*x):
        pass

    with pytest.raises(ti.TaichiSyntaxError, match=r"\*args"):
        f(1)


def test_return_values_need_an_annotation():
    @ti.kernel
    def f():
        return 1

    with pytest.raises(ti.TaichiSyntaxError, match="return type"):
        f()


def test_kernels_return_tuples_and_structs():
    pair = ti.types.struct(a=ti.i32, v=ti.types.vector(2, ti.f32))

    @ti.kernel
    def f(x: ti.i32) -> (ti.i32, ti.types.vector(2, ti.f32)):
        return x, ti.Vector([1.5, 2.5])

    @ti.kernel
    def g(x: ti.i32) -> pair:
        return pair(a=x, v=[1.0, 2.0])

    a, v = f(3)
    assert a == 3 and v.to_list() == [1.5, 2.5]
    s = g(4)
    assert s.a == 4 and s.v.to_list() == [1.0, 2.0]


def test_data_oriented_classes():
    @ti.data_oriented
    class Counter:
        def __init__(self, n, step):
            self.n = n
            self.step = step
            self.x = ti.field(ti.i32, shape=n)

        @ti.func
        def value(self, i):
            return i * self.step

        @ti.kernel
        def run(self, offset: ti.i32):
            for i in self.x:
                self.x[i] = self.value(i) + offset

        @staticmethod
        @ti.kernel
        def double(v: ti.i32) -> ti.i32:
            return v * 2

    a, b = Counter(4, 2), Counter(3, 5)
    a.run(1)
    b.run(0)
    assert a.x.to_numpy().tolist() == [1, 3, 5, 7]
    assert b.x.to_numpy().tolist() == [0, 5, 10]
    assert Counter.double(4) == 8


def test_kernel_methods_need_data_oriented():
    class Plain:
        @ti.kernel
        def run(self):
            pass

    with pytest.raises(ti.TaichiSyntaxError, match="data_oriented"):
        Plain().run()


def test_loop_config():
    x = ti.field(ti.i32, shape=100)
    order = ti.field(ti.i32, shape=())

    @ti.kernel
    def f():
        ti.loop_config(serialize=True)
        for i in range(100):
            x[i] = order[None]
            order[None] += 1
        ti.loop_config(block_dim=8)
        for i in x:
            x[i] += 1

    f()
    assert x.to_numpy().tolist() == [i + 1 for i in range(100)]


def test_loop_variables_can_be_assigned_to():
    @ti.kernel
    def f() -> ti.i32:
        s = 0
        for _ in range(1):
            for i in range(5):
                i = i * 2
                s += i
        return s

    assert f() == 20


def test_real_functions_with_arrays():
    @ti.real_func
    def at(a: ti.types.ndarray(ndim=1), i: ti.i32) -> ti.f32:
        r = 0.0
        if ti.static(a.element_shape() == []):
            if i >= 0:
                r = a[i]
        return r

    @ti.kernel
    def total(a: ti.types.ndarray(ndim=1)) -> ti.f32:
        s = 0.0
        for i in range(-1, 4):
            s += at(a, i)
        return s

    assert total(np.arange(4, dtype=np.float32)) == 6


def test_function_results_are_converted_to_the_annotation():
    @ti.func
    def number(x) -> ti.i32:
        return x * 0.7

    @ti.func
    def vector(x) -> ti.i32:
        return ti.Vector([x * 0.7, x])

    @ti.kernel
    def run() -> ti.f32:
        v = vector(3)
        return number(3) + 10 * v[0] + 100 * v[1]

    assert run() == 322


def test_templates_distinguish_equal_but_different_numbers():
    import math

    import numpy as np

    @ti.kernel
    def half(x: ti.template()) -> ti.f32:
        return ti.atan2(0.0, x)

    assert half(0.0) == 0 and half(-0.0) == np.float32(math.pi)

    @ti.kernel
    def quotient(v: ti.template()) -> ti.f32:
        return v[0] // 2 + (v[0] / 2 - v[0] // 2) * ti.static(v.dtype.is_float)

    assert quotient(ti.Vector([3, 4])) == 1
    assert quotient(ti.Vector([3.0, 4.0])) == 1.5

    @ti.kernel
    def same(x: ti.template()) -> ti.f32:
        return x

    for _ in range(3):
        assert same(np.float32(0.5)) == 0.5
        assert math.isnan(same(math.nan))
    assert len(same._latest().codes) == 2


def test_loop_variables_must_not_shadow_locals():
    @ti.kernel
    def outside() -> ti.i32:
        i = 100
        for i in range(3):
            pass
        return i

    @ti.kernel
    def inside():
        for i in range(3):
            for j, i in ti.ndrange(2, 2):
                pass

    @ti.kernel
    def argument(n: ti.i32):
        for n in range(3):
            pass

    for kernel, args in ((outside, ()), (inside, ()), (argument, (1,))):
        with pytest.raises(ti.TaichiSyntaxError, match="already declared in the outer scope"):
            kernel(*args)

    @ti.kernel
    def fine() -> ti.i32:
        s = 0
        for i in range(3):
            s += i
        for i in range(3):
            for _ in range(2):
                for _ in range(2):
                    s += 1
        i = 5
        return s + i

    assert fine() == 3 + 12 + 5


def test_compile_time_integers_are_unbounded():
    wide = 1 << 40

    @ti.kernel
    def f() -> ti.i64:
        a: ti.i64 = 1 << 40
        b = ti.cast(1 << 33, ti.i64)
        c = (1 << 31) >> 31
        return a + b + c + (wide >> 38) + 2**40 // 2**38

    assert f() == 2**40 + 2**33 + 1 + 4 + 4
