"""The extension module: arguments, results, reports, threads, signals and processes."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import numpy as np
import pytest
from native_parts import (
    SCALARS,
    Error,
    dense,
    double,
    endless,
    fails,
    kernel,
    params,
    unfit,
    world,
)
from wuji import _native as n


@pytest.fixture()
def w() -> n.World:
    return world()


def kind_of(type: str) -> Any:
    return bool if type == "bool" else float if type[0] == "f" else int


@pytest.mark.parametrize("type", SCALARS)
def test_parameters_of_every_scalar_type(w: n.World, type: str) -> None:
    dtype, values = SCALARS[type]
    give = params(w, "i32", type)
    for value in values:
        assert give(1, value) == value
        assert give(np.int64(1), dtype(value)) == value
        assert isinstance(give(1, value), kind_of(type))
    for bad in ("x", None, 1j, [1]):
        with unfit(TypeError):
            give(1, bad)
    with unfit(TypeError):
        give(1)
    with unfit(TypeError):
        give(1, values[0], 3)
    with pytest.raises(TypeError):
        give(a=1)
    with unfit(OverflowError):
        give(2**31, values[0])


def test_vector_parameters(w: n.World) -> None:
    assert params(w, "f32x3")((1, 2, 3)) == (1.0, 2.0, 3.0)
    assert params(w, "i8x2x2")(np.array([1, 2, 3, -4])) == (1, 2, 3, -4)
    assert params(w, "f32x1")([5]) == (5.0,)

    def body(b: n.Builder) -> None:
        inner = b.struct("inner", [("a", "i32"), ("b", "f64x2")])
        outer = b.struct("outer", [("c", inner), ("d", "bool")])
        assert (inner, outer) == ("s0", "s1")
        value = b.param("p", outer)
        b.result(outer)
        b.jump_return(b.compose(outer, [b.extract(value, 0), b.unary("not", b.extract(value, 1))]))

    assert kernel(w, body, ("p", 0))((7, 0.5, 1.5, True)) == (7, 0.5, 1.5, False)
    with unfit(TypeError):
        params(w, "f32x3")((1, 2))
    with unfit(OverflowError):
        params(w, "i8x2")((1, 200))


def test_many_arguments(w: n.World) -> None:
    assert params(w, *["i32"] * 64)(*range(64)) == 63


def test_reports_have_locations_and_results(w: n.World) -> None:
    x = dense(w, "f32", 4)

    def body(b: n.Builder) -> None:
        f = b.tree(x.tree)
        i = b.param("i", "i32")
        b.result("i32")
        b.span(b.file("there.py"), 12, 5)
        b.store(("f", f), b.const("f32", 1.0), [i])
        b.jump_return(i)

    write = kernel(w, body, ("p", 0))
    assert write(3) == 3 and x.get((3,)) == 1.0
    error = fails("W0401", lambda: write(9))
    assert (error.file, error.line, error.column) == ("there.py", 12, 5)
    assert "there.py:12:5" in str(error) and "`x`" in error.message
    assert isinstance(error.notes, list) and (error.help is None or isinstance(error.help, str))
    assert error.result == 9

    def check(b: n.Builder) -> None:
        i = b.param("i", "i32")
        ok = b.compare("lt", i, b.const("i32", 3))
        b.check(ok, ["i is ", ("i32", None)], [i])
        b.check_index(i, 2)

    asserts = kernel(w, check, ("p", 0))
    asserts(1)
    assert "i is 7" in str(fails("W0403", lambda: asserts(7)))
    with pytest.raises(Error):
        asserts(2)


def test_two_worlds() -> None:
    w, other = world(), world()
    x = dense(w, "f32", 4)
    fails("W0114", lambda: double(other, x))


def test_interpreter_worlds() -> None:
    w = world(interpreter=True)
    x = dense(w, "i32", 4)
    x.fill(3)
    double(w, x)()
    assert x.get((3,)) == 6
    assert params(w, "f32", "i8x2")(0.5, (1, -2)) == (1, -2)

    def body(b: n.Builder) -> None:
        a = b.array("a", "f32", 1, contiguous=False)
        b.store(("a", a), b.const("f32", 7), [b.const("i32", 1)])

    y = np.zeros(6, np.float32)
    kernel(w, body, ("a", 0))(y[::-2])
    assert y.tolist() == [0, 0, 0, 7, 0, 0]
    fails("W0409", endless(world(interpreter=True, time_limit=0.05)))


def test_time_limit() -> None:
    fails("W0409", endless(world(time_limit=0.05)))


def test_launches_release_the_gil(w: n.World) -> None:
    program, steps, errors = endless(w), [0], list[Error]()

    def launch() -> None:
        with pytest.raises(Error) as raised:
            program()
        errors.append(raised.value)

    thread = threading.Thread(target=launch)
    thread.start()
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        steps[0] += 1
    assert thread.is_alive()
    w.interrupt()
    thread.join(10)
    assert not thread.is_alive() and errors[0].code == "W0405" and steps[0] > 1000


def test_threads_share_a_world(w: n.World) -> None:
    x = dense(w, "i32", 1000)
    x.fill(1)

    def body(b: n.Builder) -> None:
        f = b.tree(x.tree)
        _, at = b.begin_foreach(f)
        b.atomic("add", ("f", f), b.const("i32", 1), at)
        b.end_foreach()

    program = kernel(w, body)
    threads = [threading.Thread(target=lambda: [program() for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.get((999,)) == 201


def run(source: str) -> subprocess.CompletedProcess[str]:
    prelude = """
        import os, signal, sys, threading, time
        from wuji import _native as n
        # A test in the background inherits that SIGINT is ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        w = n.World(cache="off")
        b = n.Builder("endless")
        i = b.local("i", "i32")
        label = b.begin_loop()
        b.store(("l", i), b.binary("rem", b.load(("l", i)), b.const("i32", 7)))
        b.begin_if(b.compare("eq", b.load(("l", i)), b.const("i32", 8)))
        b.jump_break(label)
        b.end_if()
        b.end_loop()
        endless = b.finish(w, [])
        def later():
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGINT)
    """
    code = textwrap.dedent(prelude) + textwrap.dedent(source)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


def test_ctrl_c_interrupts_a_kernel() -> None:
    done = run("""
        for _ in range(2):
            threading.Thread(target=later).start()
            try:
                endless()
            except KeyboardInterrupt:
                print("kernel")
            threading.Thread(target=later).start()
            try:
                time.sleep(10)
            except KeyboardInterrupt:
                print("sleep")
            # System calls are interrupted, too.
            threading.Thread(target=later).start()
            try:
                os.read(os.pipe()[0], 1)
            except KeyboardInterrupt:
                print("read")
        # A handler installed later runs, too. The kernel goes on if it returns.
        def mine(*_):
            print("mine")
            signal.signal(signal.SIGINT, signal.default_int_handler)
            threading.Thread(target=later).start()

        signal.signal(signal.SIGINT, mine)
        threading.Thread(target=later).start()
        try:
            endless()
        except KeyboardInterrupt:
            print("kernel")
    """)
    assert done.stdout.split() == ["kernel", "sleep", "read"] * 2 + ["mine", "kernel"], done.stderr


def test_after_fork() -> None:
    done = run("""
        L = n.Layout(w)
        L.place(L.node(0, "dense", [0], [1 << 20]), "x", "f32")
        tree = L.finish()
        b = n.Builder("fill")
        f = b.tree(tree)
        _, at = b.begin_foreach(f)
        b.store(("f", f), b.const("f32", 1.0), at)
        b.end_foreach()
        fill = b.finish(w, [])
        fill()
        child = os.fork()
        if child == 0:
            try:
                fill()
                print("ran", flush=True)
            except n.NativeError as error:
                print("fork" in str(error), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        fill()
        print("parent")
    """)
    assert done.stdout.split() == ["True", "parent"], done.stdout + done.stderr


def test_multiprocessing_with_spawn(tmp_path: Any) -> None:
    script = tmp_path / "spawned.py"
    script.write_text(
        textwrap.dedent("""
        import multiprocessing
        def work(k):
            from wuji import _native as n
            w = n.World(cache="off")
            L = n.Layout(w)
            L.place(0, "x", "i32")
            x = L.finish().field(0)
            x.set((), k)
            return x.get(())
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                print(pool.map(work, [3, 4]))
        """)
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[3, 4]", done.stderr
