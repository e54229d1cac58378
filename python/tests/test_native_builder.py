"""The extension module: every method of the builder, and invalid operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from native_parts import Error, dense, fails, kernel, world
from wuji import _native as n


@pytest.fixture()
def w() -> n.World:
    return world()


def evaluate(w: n.World, type: str, build: Callable[[n.Builder], int]) -> Any:
    def body(b: n.Builder) -> None:
        b.result(type)
        b.jump_return(build(b))

    return kernel(w, body)()


def test_values(w: n.World) -> None:
    def vector(b: n.Builder, *numbers: float) -> int:
        return b.compose(f"f32x{len(numbers)}", [b.const("f32", x) for x in numbers])

    def matrix(b: n.Builder, *numbers: float) -> int:
        return b.compose("f32x2x2", [b.const("f32", x) for x in numbers])

    cases: list[tuple[str, Callable[[n.Builder], int], Any]] = [
        ("i32", lambda b: b.const("i32", 2**32 + 5), 5),
        ("i8", lambda b: b.const("i8", -129), 127),
        ("u64", lambda b: b.const("u64", -1), 2**64 - 1),
        ("u8", lambda b: b.const("u8", 10**30), 10**30 % 256),
        ("bool", lambda b: b.const("bool", True), True),
        ("bool", lambda b: b.const("bool", 2), True),
        ("f32", lambda b: b.const("f32", 3), 3.0),
        ("f64", lambda b: b.const("f64", 0.1), 0.1),
        ("f32x2", lambda b: b.zero("f32x2"), (0, 0)),
        ("i32", lambda b: b.zero("i32"), 0),
        ("f32", lambda b: b.unary("sqrt", b.const("f32", 9)), 3.0),
        ("i32", lambda b: b.binary("sub", b.const("i32", 3), b.const("i32", 5)), -2),
        ("bool", lambda b: b.compare("lt", b.const("i32", 3), b.const("i32", 5)), True),
        ("i32", lambda b: b.select(b.const("bool", 0), b.const("i32", 1), b.const("i32", 2)), 2),
        ("f32", lambda b: b.fma(b.const("f32", 2), b.const("f32", 3), b.const("f32", 4)), 10.0),
        ("i32", lambda b: b.convert(b.const("f32", -2.7), "i32"), -2),
        ("u32", lambda b: b.bitcast(b.const("f32", 1.0), "u32"), 0x3F800000),
        ("f32x3", lambda b: b.splat("f32x3", b.const("f32", 2)), (2, 2, 2)),
        ("f32", lambda b: b.extract(vector(b, 1, 2, 3), 2), 3),
        ("f32x2", lambda b: b.insert(vector(b, 1, 2), 0, b.const("f32", 9)), (9, 2)),
        ("f32", lambda b: b.extract_dyn(vector(b, 1, 2, 3), b.const("i32", 1)), 2),
        ("f32x2", lambda b: b.insert_dyn(vector(b, 1, 2), b.const("i32", 1), b.const("f32", 9)), (1, 9)),
        ("f32x3", lambda b: b.shuffle(vector(b, 1, 2), [1, 0, 1]), (2, 1, 2)),
        ("f32x2", lambda b: b.matmul(matrix(b, 1, 2, 3, 4), vector(b, 1, 1)), (3, 7)),
        ("f32x2x2", lambda b: b.transpose(matrix(b, 1, 2, 3, 4)), (1, 3, 2, 4)),
        ("f32", lambda b: b.dot(vector(b, 1, 2), vector(b, 3, 4)), 11),
        ("f32", lambda b: b.cross(vector(b, 1, 2), vector(b, 3, 4)), -2),
        ("f32x2x2", lambda b: b.outer(vector(b, 1, 2), vector(b, 3, 4)), (3, 4, 6, 8)),
        ("f32", lambda b: b.determinant(matrix(b, 1, 2, 3, 4)), -2),
        ("f32x2x2", lambda b: b.inverse(matrix(b, 2, 0, 0, 4)), (0.5, 0, 0, 0.25)),
        ("f32", lambda b: b.reduce("max", vector(b, 1, 5, 3)), 5),
        ("i32", lambda b: b.assume_range(b.const("i32", 3), b.const("i32", 2), 0, 4), 3),
    ]
    for type, build, expected in cases:
        assert evaluate(w, type, build) == expected
    assert evaluate(w, "u64", lambda b: b.random()) != evaluate(w, "u64", lambda b: b.random())


def test_load_store_and_atomics(w: n.World) -> None:
    v = dense(w, "i32x3", 4)

    def body(b: n.Builder) -> None:
        f = b.tree(v.tree)
        assert b.tree(v.tree) == f
        i, one = b.const("i32", 1), b.const("i32", 10)
        b.store(("f", f), one, [i], [2])
        b.store(("f", f), b.load(("f", f), [i], [(b.const("i32", 2),)]), [i], [(i,)])
        b.atomic("add", ("f", f), one, [i], [0])
        b.compare_exchange(("f", f), one, b.const("i32", 5), [i], [0])
        stack = b.local("stack", "i32", 8)
        b.store(("l", stack), one, [i])
        shared = b.local("shared", "i32")
        b.store(("l", shared), b.load(("l", stack), [i]))
        _, at = b.begin_foreach([(b.const("i32", 0), b.const("i32", 100))], block_size=8, simd=False)
        b.share(shared)
        b.share(shared)
        b.atomic("add", ("l", shared), at[0])
        b.end_foreach()
        _, at = b.begin_foreach(f, serial=True)
        b.cache(f)
        b.store(("f", f), b.load(("f", f), at, [1]), at, [2], activate=False)
        b.end_foreach()
        b.result("i32")
        b.jump_return(b.load(("l", shared)))

    assert kernel(w, body)() == 4960
    assert v.get((1,)) == (5, 10, 10)


def test_cells(w: n.World) -> None:
    layout = n.Layout(w)
    layout.place(layout.node(0, "dynamic", [0], [100]), "list", "i32")
    x = layout.finish().field(0)

    def body(b: n.Builder) -> None:
        f = b.tree(x.tree)
        number = b.cell("append", f, [])
        assert number is not None
        b.store(("f", f), b.const("i32", 4), [number])
        assert b.cell("activate", f, [b.const("i32", 5)]) is None
        active = b.cell("is_active", f, [b.const("i32", 9)])
        assert active is not None and b.type_of(active) == "bool"
        length = b.cell("length", f, [])
        assert length is not None
        b.result("i32")
        b.jump_return(length)

    assert kernel(w, body)() == 6
    assert x.get((0,)) == 4


def test_control(w: n.World) -> None:
    def body(b: n.Builder) -> None:
        n_ = b.param("n", "i32")
        b.result("i32")
        total = b.local("total", "i32")
        zero, one = b.const("i32", 0), b.const("i32", 1)
        label, i = b.begin_for(zero, n_, one)
        odd = b.compare("eq", b.binary("rem", i, b.const("i32", 2)), one)
        b.begin_if(odd)
        b.jump_continue(label)
        assert b.closed()
        b.end_if()
        assert not b.closed()
        b.begin_if(b.compare("ge", i, b.const("i32", 10)))
        b.jump_break(label)
        b.begin_else()
        b.store(("l", total), b.binary("add", b.load(("l", total)), i))
        b.end_if()
        b.end_for()
        block = b.begin_block()
        b.begin_if(b.compare("gt", b.load(("l", total)), b.const("i32", 19)))
        b.jump_break(block)
        b.end_if()
        b.store(("l", total), b.const("i32", -1))
        b.end_block()
        b.begin_if(b.compare("lt", n_, zero))
        late = b.const("i32", -9)
        b.jump_return(late)
        b.begin_else()
        b.jump_return(b.load(("l", total)))
        b.end_if()
        assert b.closed()
        # Unreachable code is checked and dropped.
        b.store(("l", total), b.const("i32", 5))
        b.begin_loop()
        b.end_loop()

    sums = kernel(w, body, ("p", 0))
    assert [sums(k) for k in (100, 5, -1)] == [20, -1, -9]


def test_endless_loops_close_their_region(w: n.World) -> None:
    b = n.Builder("k")
    b.result("i32")
    label = b.begin_loop()
    b.begin_if(b.const("bool", True))
    b.jump_return(b.const("i32", 3))
    b.end_if()
    b.jump_continue(label)
    b.jump_break(label)
    b.end_loop()
    assert b.closed()
    assert b.finish(w, [])() == 3


def test_functions(w: n.World) -> None:
    def body(b: n.Builder) -> None:
        fib = b.declare("fib", ["i32"], "i32")
        value = b.param("n", "i32")
        b.result("i32")
        (k,) = b.begin_function(fib)
        one = b.const("i32", 1)
        b.begin_if(b.compare("le", k, one))
        b.jump_return(k)
        b.end_if()
        parts = [b.call(fib, [b.binary("sub", k, b.const("i32", d))]) for d in (1, 2)]
        assert parts[0] is not None and parts[1] is not None
        b.jump_return(b.binary("add", parts[0], parts[1]))
        b.end_function()
        nothing = b.declare("nothing", [], None)
        assert b.begin_function(nothing) == []
        b.end_function()
        assert b.call(nothing, []) is None
        result = b.call(fib, [value])
        b.jump_return(result)

    assert kernel(w, body, ("p", 0))(15) == 610


def test_text_of_an_unfinished_kernel() -> None:
    b = n.Builder("sketch")
    b.begin_if(b.const("bool", True))
    assert 'kernel fn0 "sketch"' in b.text() and "const true" in b.text()


def test_invalid_operands_are_rejected(w: n.World) -> None:
    x = dense(w, "f32", 4)
    tries: list[Callable[[n.Builder], Any]] = [
        lambda b: b.binary("add", b.const("i32", 1), b.const("f32", 1)),
        lambda b: b.binary("plus", b.const("i32", 1), b.const("i32", 1)),
        lambda b: b.unary("sin", b.const("i32", 1)),
        lambda b: b.unary("sin", 99),
        lambda b: b.compare("spaceship", 0, 0),
        lambda b: b.const("f99", 1),
        lambda b: b.const("f32x2", 1),
        lambda b: b.zero("s3"),
        lambda b: b.compose("f32x2", [b.const("f32", 1)]),
        lambda b: b.extract(b.const("f32", 1), 0),
        lambda b: b.shuffle(b.zero("f32x2"), [2]),
        lambda b: b.inverse(b.zero("f32x5x5")),
        lambda b: b.load(("f", 0), []),
        lambda b: b.load(("a", 0), []),
        lambda b: b.load(("l", 0), []),
        lambda b: b.share(0),
        lambda b: b.share(b.local("a", "i32", 8)),
        lambda b: b.load(("q", 0), []),
        lambda b: b.load(("f", b.tree(x.tree)), []),
        lambda b: b.load(("f", b.tree(x.tree)), [b.const("f32", 0)]),
        lambda b: b.load(("f", b.tree(x.tree)), [b.const("i32", 0)], [1]),
        lambda b: b.store(("f", b.tree(x.tree)), b.const("i32", 0), [b.const("i32", 0)]),
        lambda b: b.atomic("and", ("f", b.tree(x.tree)), b.const("f32", 0), [b.const("i32", 0)]),
        lambda b: b.store(("a", b.array("a", "f32", 0, writable=False)), b.const("f32", 0)),
        lambda b: b.array("a", b.struct("s", [("a", "i32")]), 1),
        lambda b: b.array_extent(b.array("a", "f32", 1), 1),
        lambda b: b.cell("append", b.tree(x.tree), []),
        lambda b: b.cell("explode", b.tree(x.tree), []),
        lambda b: b.cell("deactivate", b.tree(x.tree), [b.const("i32", 0)]),
        lambda b: b.cache(0),
        lambda b: b.assume_range(b.const("i32", 0), b.const("i32", 0), 3, 3),
        lambda b: b.print([("f32", None)], []),
        lambda b: b.check(b.const("i32", 1), [], []),
        lambda b: b.check_index(b.const("f32", 1), 3),
        lambda b: b.begin_if(b.const("i32", 1)),
        lambda b: b.begin_else(),
        lambda b: b.end_if(),
        lambda b: b.end_for(),
        lambda b: (b.begin_loop(), b.end_block()),
        lambda b: b.jump_break(0),
        lambda b: b.jump_continue(b.begin_block()),
        lambda b: b.jump_return(b.const("i32", 1)),
        lambda b: (b.result("f32"), b.jump_return()),
        lambda b: b.begin_for(b.const("i32", 0), b.const("i64", 0), b.const("i32", 0)),
        lambda b: b.begin_foreach(0),
        lambda b: b.begin_foreach([(b.const("i32", 0), b.const("f32", 0))]),
        lambda b: b.begin_foreach(b.tree(x.tree), block_size=0),
        lambda b: (b.begin_foreach(b.tree(x.tree)), b.begin_foreach(b.tree(x.tree))),
        lambda b: b.jump_break(b.begin_foreach(b.tree(x.tree))[0]),
        lambda b: (b.begin_foreach(b.tree(x.tree)), b.jump_return()),
        lambda b: (b.const("i32", 0), b.param("late", "i32")),
        lambda b: b.param("p", "x"),
        lambda b: b.struct("s", [("a", "s0")]),
        lambda b: b.span(0, 1, 1),
        lambda b: b.call(0, []),
        lambda b: b.call(b.declare("f", ["i32"], None), []),
        lambda b: b.begin_function(0),
        lambda b: b.end_function(),
        lambda b: (b.begin_function(b.declare("f", [], "i32")), b.end_function()),
        lambda b: (b.declare("f", [], None), b.finish(w, [])),
        lambda b: (b.begin_loop(), b.finish(w, [])),
        lambda b: (b.result("i32"), b.finish(w, [])),
        lambda b: (b.param("p", "i32"), b.finish(w, [])),
        lambda b: b.finish(w, [("p", 0)]),
        lambda b: b.finish(w, [("a", 0)]),
        lambda b: (b.param("p", "i32"), b.finish(w, [("p", 0), ("p", 0)])),
        lambda b: (b.finish(w, []), b.const("i32", 1)),
        lambda b: (b.finish(w, []), b.finish(w, [])),
    ]
    for k, attempt in enumerate(tries):
        with pytest.raises(Error) as raised:
            attempt(n.Builder("wrong"))
        assert raised.value.code == "W0290", f"{k}: {raised.value}"


def test_verifier_errors(w: n.World) -> None:
    b = n.Builder("k")
    b.begin_if(b.const("bool", True))
    inside = b.const("i32", 1)
    b.end_if()
    b.unary("neg", inside)
    fails("W0025", lambda: b.finish(w, []))
    b = n.Builder("deep")
    for _ in range(250):
        b.begin_if(b.const("bool", True))
    for _ in range(250):
        b.end_if()
    fails("W0006", lambda: b.finish(w, []))


def test_errors_are_ordinary_exceptions() -> None:
    import pickle

    error = fails("W0290", lambda: n.Builder("k").const("x", 1))
    assert isinstance(error, Exception) and error.message and error.line == 0 and error.file is None
    again = pickle.loads(pickle.dumps(error))
    assert again.code == "W0290" and str(again) == str(error)
    with pytest.raises(TypeError):
        pickle.dumps(world())


def test_version_matches_the_package() -> None:
    assert n.__version__.count(".") == 2
