"""The extension module by itself: every class and method of the stub, and wrong use of them."""

from __future__ import annotations

import array
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from wuji import _native as n

Error = n.NativeError


def world(**options: Any) -> n.World:
    return n.World(cache="off", **options)


@pytest.fixture()
def w() -> n.World:
    return world()


def dense(w: n.World, type: str = "f32", *shape: int, **place: Any) -> n.Field:
    layout = n.Layout(w)
    node = layout.node(0, "dense", range(len(shape)), shape) if shape else 0
    number = layout.place(node, "x", type, **place)
    return layout.finish().field(number)


def fails(code: str, work: Callable[[], Any]) -> Error:
    with pytest.raises(Error) as raised:
        work()
    assert raised.value.code == code, str(raised.value)
    return raised.value


def kernel(w: n.World, body: Callable[[n.Builder], None], *arguments: tuple[str, int]) -> n.Program:
    b = n.Builder("k")
    body(b)
    return b.finish(w, arguments)


# Worlds


def test_settings_of_worlds() -> None:
    w = n.World(
        threads=2,
        math="fast",
        seed=7,
        debug=True,
        deterministic=True,
        memory_limit=1 << 20,
        cache="off",
        cache_limit=1 << 20,
        log="off",
        tier="best",
        time_limit=60.0,
        without=["simplify"],
        printer=print,
    )
    assert w.threads == 2 and w.kernels() == 0 and w.memory_used() == 0
    assert w.cache_folder() is None
    assert "World" in repr(w)
    fails("W0110", lambda: dense(w, "f64", 1 << 20))
    for bad in ({"math": "x"}, {"log": "x"}, {"tier": "x"}, {"threads": 0}, {"time_limit": 0.0}):
        fails("W0115", lambda bad=bad: n.World(**bad))
    with pytest.raises(ValueError):
        n.World(time_limit=-1.0)
    with pytest.raises(TypeError):
        n.World(speed=3)
    with pytest.raises(OverflowError):
        n.World(seed=-1)
    for level in ("off", "error", "warn", "info", "debug", "trace"):
        w.set_log_level(level)
    fails("W0115", lambda: w.set_log_level("loud"))


def test_a_cache_in_a_folder(tmp_path: Any) -> None:
    for _ in range(2):
        w = n.World(cache=str(tmp_path))
        assert w.cache_folder() == str(tmp_path)
        x = dense(w, "i32", 4)
        double(w, x)()
    assert any(tmp_path.iterdir())


def double(w: n.World, x: n.Field) -> n.Program:
    def body(b: n.Builder) -> None:
        f = b.tree(x.tree)
        _, at = b.begin_foreach(f)
        v = b.load(("f", f), at)
        b.store(("f", f), b.binary("add", v, v), at)
        b.end_foreach()

    return kernel(w, body)


def test_reports_of_worlds(w: n.World) -> None:
    x = dense(w, "f32", 1000)
    program = double(w, x)
    w.profile(True)
    for _ in range(3):
        program()
    w.profile(False)
    w.finish_compiling()
    (task,) = [t for t in w.profile_tasks() if t[0] == "k"]
    name, _, count, total, least, mean, most = task
    assert name == "k" and count == 3 and 0 < least <= mean <= most <= total
    assert '"traceEvents"' in w.profile_trace()
    assert "k" in w.profile_report()
    w.profile_clear()
    assert w.profile_tasks() == []
    assert w.kernels() == 1 and program.name == "k" and "foreach" in program.text()
    assert isinstance(w.explain(), list)
    assert "root" in w.memory_report() and "root" in x.tree.report()
    assert w.memory_used() == x.tree.memory_used() == 4000


def test_prints_go_to_the_printer_or_to_sys_stdout(capsys: Any) -> None:
    def body(b: n.Builder) -> None:
        v = b.compose("f32x2", [b.const("f32", 1.5), b.const("f32", 2)])
        b.print(["v = ", ("f32x2", 2), ", n = ", ("i32", None)], [v, b.const("i32", -3)])

    lines: list[str] = []
    kernel(world(printer=lines.append), body)()
    assert lines == ["v = [1.50, 2.00], n = -3"]
    kernel(world(), body)()
    assert capsys.readouterr().out == "v = [1.50, 2.00], n = -3\n"


def test_a_closed_world(w: n.World) -> None:
    x = dense(w, "f32", 1000)
    program = double(w, x)
    empty = kernel(w, lambda b: None)
    w.close()
    w.close()
    assert w.memory_used() == 0
    for use in (
        program,
        empty,
        lambda: x.get((0,)),
        lambda: x.fill(1.0),
        lambda: x.shape,
        lambda: x.tree.clear(),
        lambda: dense(w, "f32", 4),
        lambda: kernel(w, lambda b: None),
    ):
        fails("W0132", use)


def test_a_destroyed_tree(w: n.World) -> None:
    x, y = dense(w, "f32", 1000), dense(w, "f32", 4)
    program = double(w, x)
    tree = x.tree
    tree.destroy()
    tree.destroy()
    assert w.memory_used() == 16
    for use in (
        program,
        lambda: x.get((0,)),
        lambda: x.name,
        lambda: tree.field(0),
        tree.clear,
        tree.report,
        lambda: double(w, x),
        lambda: y.copy_from(x),
    ):
        fails("W0131", use)
    y.fill(2.0)
    double(w, y)()
    assert y.get((3,)) == 4.0


def test_memory_goes_with_its_handles(w: n.World) -> None:
    x = dense(w, "f32", 1000)
    program = double(w, x)
    del x
    assert w.memory_used() == 4000
    del program
    assert w.memory_used() == 0


# Layouts and fields


def test_layouts_of_every_kind(w: n.World) -> None:
    layout = n.Layout(w)
    block = layout.node(0, "pointer", [0, 1], [4, 4])
    cell = layout.node(block, "dense", [0, 1], [8, 8], morton=True)
    a = layout.place(cell, "a", "f32", offset=[-16, 0])
    blocks = layout.cells(block, "blocks")
    bits = layout.place(layout.node(0, "bitmasked", [2], [100]), "b", "i32x2")
    entry = layout.node(layout.node(0, "dense", [3], [3]), "dynamic", [4], [1000], chunk=16)
    items = layout.place(entry, "items", "u8")
    tree = layout.finish()
    fails("W0105", layout.finish)
    fails("W0105", lambda: layout.cells(0, "late"))

    x = tree.field(a)
    assert (x.shape, x.offset, x.type, x.name) == ((32, 32), (-16, 0), "f32", "a")
    assert x.tree == tree and x == tree.field(a) and x != tree.field(bits)
    x.set((-16, 31), 2.5)
    assert x.get((-16, 31)) == 2.5 and x.get((0, 0)) == 0.0
    assert x.is_active((-16, 31)) and not x.is_active((0, 0)) and not x.is_active((99, 0))
    assert x.count_active() == 64 and x.active()[0] == (-16, 24)

    c = tree.field(blocks)
    assert c.type == "cells" and c.active() == [(-2, 3)]
    c.activate((0, 0))
    assert c.count_active() == 2
    c.deactivate((-2, 3))
    assert c.active() == [(0, 0)] and x.get((-16, 31)) == 0.0
    for use in (lambda: c.get((0, 0)), lambda: c.set((0, 0), 1), lambda: c.fill(0)):
        fails("W0107", use)
    fails("W0125", lambda: x.deactivate((0, 0)))
    x.deactivate_all()
    assert c.count_active() == 0

    b = tree.field(bits)
    b.set((7,), (3, -4))
    b.set_part((9,), 1, 5)
    assert b.active() == [(7,), (9,)] and b.get((9,)) == (0, 5) and b.get_part((7,), 1) == -4
    b.fill((1, 2))
    assert b.get((7,)) == (1, 2) and b.get((8,)) == (0, 0)

    lists = tree.field(items)
    assert [lists.append((1,), v) for v in (9, 8)] == [0, 1]
    assert (lists.length((1,)), lists.length((0,)), lists.get((1, 1))) == (2, 0, 8)
    fails("W0126", lambda: x.append((0,), 1.0))
    assert tree.memory_used() > 0
    tree.clear()
    assert lists.length((1,)) == 0 and b.count_active() == 0


def test_a_hash_node_without_bounds(w: n.World) -> None:
    layout = n.Layout(w)
    node = layout.node(layout.node(0, "hash", [0, 1], []), "dense", [0, 1], [4, 4])
    layout.place(node, "x", "i32")
    x = layout.finish().field(0)
    x.set((-1_000_000, 2_000_000_000), 5)
    assert x.get((-1_000_000, 2_000_000_000)) == 5 and x.count_active() == 16

    def body(b: n.Builder) -> None:
        f = b.tree(x.tree)
        _, at = b.begin_foreach(f)
        assert b.type_of(at[0]) == "i32"
        b.store(("f", f), at[0], at)
        b.end_foreach()

    kernel(w, body)()
    assert x.get((-1_000_000, 2_000_000_000)) == -1_000_000
    fails("W0129", lambda: x.read_into(bytearray(16)))


def test_wrong_layouts(w: n.World) -> None:
    def layout(work: Callable[[n.Layout], Any]) -> Callable[[], Any]:
        def build() -> n.Tree:
            fresh = n.Layout(w)
            work(fresh)
            return fresh.finish()

        return build

    fails("W0105", layout(lambda l: None))
    fails("W0105", layout(lambda l: l.node(0, "dense", [0], [4])))
    fails("W0102", layout(lambda l: l.node(0, "dense", [0, 0], [4, 4])))
    fails("W0102", layout(lambda l: l.node(0, "dense", [0], [4, 4])))
    fails("W0102", layout(lambda l: l.node(0, "dense", [8], [4])))
    fails("W0102", layout(lambda l: l.node(7, "dense", [0], [4])))
    fails("W0102", layout(lambda l: l.node(0, "sparse", [0], [4])))
    fails("W0101", layout(lambda l: l.node(0, "dense", [0], [0])))
    fails("W0101", layout(lambda l: l.node(0, "dense", [0], [-4])))
    fails("W0122", layout(lambda l: l.node(0, "dense", [0], [3], morton=True)))
    fails("W0120", layout(lambda l: l.node(l.node(0, "dense", [0], [3]), "hash", [1], [4])))
    fails("W0123", layout(lambda l: l.node(0, "dynamic", [0], [3], chunk=9)))
    fails("W0104", layout(lambda l: l.place(0, "x", "f32", offset=[1])))
    for bad in ("f99", "f32x0", "f32x300", "f32x2x2x2", "s0", ""):
        fails("W0290", layout(lambda l, bad=bad: l.place(0, "x", bad)))
    fails("W0111", lambda: dense(w, "f32", 4).tree.field(9))
    fails("W0106", layout(lambda l: l.place(l.node(0, "dense", [0], [1 << 62]), "x", "f64")))


SCALARS = {
    "bool": (np.bool_, [True, False]),
    "i8": (np.int8, [-128, 127]),
    "i16": (np.int16, [-32768, 32767]),
    "i32": (np.int32, [-(2**31), 2**31 - 1]),
    "i64": (np.int64, [-(2**63), 2**63 - 1]),
    "u8": (np.uint8, [0, 255]),
    "u16": (np.uint16, [0, 65535]),
    "u32": (np.uint32, [0, 2**32 - 1]),
    "u64": (np.uint64, [0, 2**64 - 1]),
    "f16": (np.float16, [0.5, -math.inf]),
    "f32": (np.float32, [1.5, -math.inf]),
    "f64": (np.float64, [0.1, 1e300]),
}


@pytest.mark.parametrize("type", SCALARS)
def test_elements_of_every_scalar_type(w: n.World, type: str) -> None:
    dtype, values = SCALARS[type]
    for holder in (dense(w, type, 2), n.Ndarray(type, [2])):
        for value in values:
            holder.set((1,), value)
            assert holder.get((1,)) == value
            holder.set((0,), dtype(value))
            assert holder.get((0,)) == value
        out = np.empty(2, dtype)
        holder.read_into(out)
        assert (out == values[1]).all()
        holder.write_from(np.array(values, dtype))
        assert [holder.get((0,)), holder.get((1,))] == values
        holder.fill(values[0])
        assert holder.get((1,)) == values[0] and holder.get_part((1,), 0) == values[0]
        with pytest.raises(TypeError):
            holder.set((0,), "one")
        with pytest.raises(TypeError):
            holder.set((0,), None)
        if type[0] != "f":
            with pytest.raises(OverflowError):
                holder.set((0,), values[0] - 1 if type != "bool" else 2)
            with pytest.raises(OverflowError):
                holder.set((0,), 2**64)
            with pytest.raises(OverflowError):
                holder.set((0,), -(2**70))
            with pytest.raises(TypeError):
                holder.set((0,), 1.0)
        assert describe(holder, type)


def describe(holder: n.Field | n.Ndarray, type: str) -> bool:
    if isinstance(holder, n.Field):
        return n.describe_array(holder) is None
    return n.describe_array(holder) == (type, (2,), True, True)


def test_vectors_and_matrices(w: n.World) -> None:
    for holder in (dense(w, "f32x2x3", 2, 2), n.Ndarray("f32x2x3", (2, 2))):
        assert holder.type == "f32x2x3" and holder.shape == (2, 2)
        holder.set((1, 0), range(6))
        assert holder.get((1, 0)) == (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
        holder.set_part((1, 0), 4, np.float64(-1))
        assert holder.get_part((1, 0), 4) == -1.0
        out = np.empty((2, 2, 2, 3), np.float32)
        holder.read_into(out)
        assert out[1, 0].tolist() == [[0, 1, 2], [3, -1, 5]] and out[0].sum() == 0
        holder.write_from(out * 2)
        assert holder.get((1, 0))[5] == 10.0
        holder.fill(np.arange(6))
        assert holder.get((0, 0)) == holder.get((1, 1)) == (0, 1, 2, 3, 4, 5)
        for bad in ((1, 2), range(7), 5, [[1, 2, 3], [4, 5, 6]]):
            with pytest.raises(TypeError):
                holder.set((0, 0), bad)
        fails("W0111", lambda: holder.get_part((0, 0), 6))
        fails("W0111", lambda: holder.set_part((0, 0), 6, 1))
        for at in ((2, 0), (0, -1), (0,), (0, 0, 0), (2**70, 0)):
            fails("W0111", lambda at=at: holder.get(at))
            fails("W0111", lambda at=at: holder.set(at, range(6)))
        with pytest.raises(TypeError):
            holder.get([0, 0])  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            holder.get((0.5, 0))  # type: ignore[arg-type]
        fails("W0112", lambda: holder.read_into(np.empty(3, np.float32)))
        fails("W0112", lambda: holder.write_from(np.empty(99, np.float32)))
        with pytest.raises(BufferError):
            holder.read_into(bytes(96))
        with pytest.raises((BufferError, ValueError)):
            holder.write_from(np.empty((24, 2), np.float32)[:, 0])
        with pytest.raises(TypeError):
            holder.read_into(7)


def test_copies_between_layouts(w: n.World) -> None:
    a = dense(w, "f32", 4, 6)
    a.write_from(np.arange(24, dtype=np.float32))
    layout = n.Layout(w)
    node = layout.node(layout.node(0, "pointer", [1, 0], [3, 2]), "dense", [0, 1], [2, 2])
    layout.place(node, "s", "f32", offset=[10, 10])
    s = layout.finish().field(0)
    assert s.shape == (4, 6)
    s.copy_from(a)
    assert s.get((13, 15)) == 23.0 and s.count_active() == 24
    s.deactivate_all()
    s.set((10, 11), 7.0)
    b = dense(world(), "f32", 4, 6)
    b.fill(-1.0)
    b.copy_from(s)
    out = np.empty((4, 6), np.float32)
    b.read_into(out)
    assert out[0, 1] == 7.0 and (out == 0).sum() == 3 and (out == -1).sum() == 20
    fails("W0112", lambda: a.copy_from(dense(w, "f32", 6, 4)))
    fails("W0112", lambda: a.copy_from(dense(w, "i32", 4, 6)))
    a.copy_from(a)


def test_a_field_of_one_element(w: n.World) -> None:
    x = dense(w, "i64")
    x.set((), 2**62)
    assert x.get(()) == 2**62 and x.shape == ()
    out = np.empty((), np.int64)
    x.read_into(out)
    assert out == 2**62


# Arrays


def test_arrays_of_ours_and_numpy() -> None:
    a = n.Ndarray("i32x2", [3])
    a.set((2,), (5, 6))
    view = np.asarray(a)
    assert view.shape == (3, 2) and view.dtype == np.int32 and view.tolist() == [[0, 0], [0, 0], [5, 6]]
    view[0, 1] = 9
    assert a.get((0,)) == (0, 9)
    packed = np.from_dlpack(a)
    assert packed.tolist() == view.tolist()
    del a
    assert view[2, 1] == 6 and packed[2, 1] == 6
    memory = memoryview(n.Ndarray("f64", [2, 3]))
    assert (memory.shape, memory.strides, memory.format, memory.readonly) == ((2, 3), (24, 8), "d", False)
    assert n.Ndarray("f32", []).get(()) == 0.0
    assert n.Ndarray("f32", [0, 3]).shape == (0, 3)
    assert np.asarray(n.Ndarray("u8", [0])).size == 0
    assert n.Ndarray("f32", [1]).__dlpack_device__() == (1, 0)
    n.Ndarray("f32", [4]).__dlpack__()
    fails("W0117", lambda: n.Ndarray("f32", [-1]))
    fails("W0117", lambda: n.Ndarray("f32", [1] * 9))
    fails("W0110", lambda: n.Ndarray("f32", [2**40, 2**40]))
    fails("W0290", lambda: n.Ndarray("x", [1]))


def test_describing_arrays() -> None:
    d = n.describe_array
    a = np.zeros((3, 4), np.float32)
    assert d(a) == ("f32", (3, 4), True, True)
    assert d(a.T) == ("f32", (4, 3), False, True)
    assert d(a[:, ::2]) == ("f32", (3, 2), False, True)
    assert d(a[::-1]) == ("f32", (3, 4), False, True)
    a.setflags(write=False)
    assert d(a) == ("f32", (3, 4), True, False)
    assert d(np.zeros((), np.int8)) == ("i8", (), True, True)
    assert d(np.zeros((0, 3), np.uint64)) == ("u64", (0, 3), True, True)
    assert d(np.zeros(2, np.float16)) == ("f16", (2,), True, True)
    assert d(np.zeros(2, np.bool_)) == ("bool", (2,), True, True)
    assert d(b"abc") == ("u8", (3,), True, False)
    assert d(bytearray(3)) == ("u8", (3,), True, True)
    assert d(array.array("l", [1])) == ("i64", (1,), True, True)
    assert d(n.Ndarray("f32x3", [2])) == ("f32", (2, 3), True, True)

    class Packed:
        def __init__(self, value: Any) -> None:
            self.value = value

        def __dlpack__(self, **options: Any) -> object:
            return self.value.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    assert d(Packed(np.zeros((2, 3)).T)) == ("f64", (3, 2), False, True)

    class Elsewhere(Packed):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    for other in (
        np.zeros(2, np.complex64),
        np.zeros(2, ">f4"),
        np.zeros(2, [("a", "i4")]),
        np.array(["x"]),
        Elsewhere(np.zeros(2)),
        3,
        "abc",
        [1, 2],
        None,
    ):
        assert d(other) is None


def test_arrays_as_arguments(w: n.World) -> None:
    def add(rank: int, type: str = "f32", **flags: bool) -> n.Program:
        def body(b: n.Builder) -> None:
            a = b.array("a", type, rank, **flags)
            zero = b.const("i64", 0)
            _, at = b.begin_foreach([(zero, b.array_extent(a, k)) for k in range(rank)])
            v = b.load(("a", a), at)
            b.store(("a", a), b.binary("add", v, v), at)
            b.end_foreach()

        return kernel(w, body, ("a", 0))

    one = add(1)
    x = np.arange(5, dtype=np.float32)
    assert one(x) is None and x.tolist() == [0, 2, 4, 6, 8]
    own = n.Ndarray("f32", [3])
    own.fill(2.0)
    one(own)
    assert own.get((2,)) == 4.0
    one(np.zeros(0, np.float32))
    read_only = x.copy()
    read_only.setflags(write=False)
    for other in (x.astype(np.float64), x[::2], x.reshape(5, 1), read_only, 7, [1.0], None):
        assert one(other) is NotImplemented
    assert x.tolist() == [0, 2, 4, 6, 8]

    strided = add(2, contiguous=False)
    y = np.arange(12, dtype=np.float32).reshape(3, 4)
    strided(y[::-1, ::2])
    assert y.tolist() == [[0, 1, 4, 3], [8, 5, 12, 7], [16, 9, 20, 11]]
    strided(y.T)
    fails("W0117", lambda: strided(np.broadcast_to(x[:1], (3, 4)).view(Writable)))
    crooked = np.zeros(41, np.uint8)[1:].view(np.float32)
    fails("W0117", lambda: add(1)(crooked))

    vectors = add(1, "f32x2x2")
    z = np.ones((3, 2, 2), np.float32)
    vectors(z)
    assert (z == 2).all()
    assert vectors(np.ones((3, 2), np.float32)) is NotImplemented
    assert vectors(np.ones((3, 4), np.float32)) is NotImplemented
    held = n.Ndarray("f32x2x2", [2])
    held.fill((1, 2, 3, 4))
    vectors(held)
    assert held.get((1,)) == (2, 4, 6, 8)
    assert one(held) is NotImplemented


class Writable(np.ndarray):
    """Says that it can be written to, whatever it is."""

    def __new__(cls, *args: Any) -> Any:
        return super().__new__(cls, *args)

    def __array_finalize__(self, other: Any) -> None:
        try:
            self.setflags(write=True)
        except ValueError:
            pass


def test_arrays_that_overlap(w: n.World) -> None:
    def body(unaliased: bool) -> Callable[[n.Builder], None]:
        def build(b: n.Builder) -> None:
            a = [b.array("ab"[k], "i32", 1, unaliased=unaliased) for k in range(2)]
            i = b.const("i32", 0)
            b.store(("a", a[0]), b.const("i32", 7), [i])
            b.store(("a", a[1]), b.load(("a", a[1]), [i]), [b.const("i32", 1)])

        return build

    apart = kernel(w, body(True), ("a", 0), ("a", 1))
    near = kernel(w, body(False), ("a", 0), ("a", 1))
    x = np.zeros(4, np.int32)
    assert apart(x, x) is NotImplemented and x.tolist() == [0] * 4
    assert apart(x[:2], x[1:]) is NotImplemented
    assert apart(x[:2], x[2:]) is None
    near(x, x)
    assert x.tolist()[:2] == [7, 7]


def test_tensors_of_torch_like_libraries(w: n.World) -> None:
    torch = pytest.importorskip("torch")
    t = torch.arange(4, dtype=torch.float32)
    assert n.describe_array(t) == ("f32", (4,), True, True)
    taken = torch.from_dlpack(n.Ndarray("f32", [3]))
    assert taken.tolist() == [0, 0, 0]


# Launches


def params(w: n.World, *types: str) -> n.Program:
    """A kernel that gives its last parameter back."""

    def body(b: n.Builder) -> None:
        values = [b.param(f"p{k}", t) for k, t in enumerate(types)]
        b.result(types[-1])
        b.jump_return(values[-1])

    return kernel(w, body, *(("p", k) for k in range(len(types))))


@pytest.mark.parametrize("type", SCALARS)
def test_parameters_of_every_scalar_type(w: n.World, type: str) -> None:
    dtype, values = SCALARS[type]
    give = params(w, "i32", type)
    for value in values:
        assert give(1, value) == value
        assert give(np.int64(1), dtype(value)) == value
        assert isinstance(give(1, value), kind_of(type))
    for bad in ("x", None, 1j, [1]):
        with pytest.raises(TypeError):
            give(1, bad)
    with pytest.raises(TypeError):
        give(1)
    with pytest.raises(TypeError):
        give(1, values[0], 3)
    with pytest.raises(TypeError):
        give(a=1)
    with pytest.raises(OverflowError):
        give(2**31, values[0])


def kind_of(type: str) -> Any:
    return bool if type == "bool" else float if type[0] == "f" else int


def test_parameters_of_several_numbers(w: n.World) -> None:
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
    with pytest.raises(TypeError):
        params(w, "f32x3")((1, 2))
    with pytest.raises(OverflowError):
        params(w, "i8x2")((1, 200))


def test_many_arguments(w: n.World) -> None:
    assert params(w, *["i32"] * 64)(*range(64)) == 63


def test_reports_come_with_positions_and_results(w: n.World) -> None:
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


def endless(w: n.World) -> n.Program:
    def body(b: n.Builder) -> None:
        i = b.local("i", "i32")
        label = b.begin_loop()
        b.store(("l", i), b.binary("rem", b.load(("l", i)), b.const("i32", 7)))
        b.begin_if(b.compare("eq", b.load(("l", i)), b.const("i32", 8)))
        b.jump_break(label)
        b.end_if()
        b.end_loop()

    return kernel(w, body)


def test_worlds_that_interpret() -> None:
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


def test_a_time_limit() -> None:
    fails("W0409", endless(world(time_limit=0.05)))


def test_other_threads_run_while_a_kernel_does(w: n.World) -> None:
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


def test_ctrl_c_ends_a_kernel() -> None:
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
            # Calls of the system end, too.
            threading.Thread(target=later).start()
            try:
                os.read(os.pipe()[0], 1)
            except KeyboardInterrupt:
                print("read")
        # Whoever sets a handler later is asked, too.
        signal.signal(signal.SIGINT, lambda *_: print("mine"))
        threading.Thread(target=later).start()
        try:
            endless()
        except n.NativeError as error:
            print(error.code)
    """)
    assert done.stdout.split() == ["kernel", "sleep", "read"] * 2 + ["mine", "W0405"], done.stderr


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


# The builder


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


def test_places(w: n.World) -> None:
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
        shared = b.shared("i32")
        b.store(("t", shared), b.load(("l", stack), [i]))
        _, at = b.begin_foreach([(b.const("i32", 0), b.const("i32", 100))], block_size=8, simd=False)
        b.atomic("add", ("t", shared), at[0])
        b.end_foreach()
        _, at = b.begin_foreach(f, serial=True)
        b.cache(f)
        b.store(("f", f), b.load(("f", f), at, [1]), at, [2], activate=False)
        b.end_foreach()
        b.result("i32")
        b.jump_return(b.load(("t", shared)))

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
        # Whatever follows is checked and dropped.
        b.store(("l", total), b.const("i32", 5))
        b.begin_loop()
        b.end_loop()

    sums = kernel(w, body, ("p", 0))
    assert [sums(k) for k in (100, 5, -1)] == [20, -1, -9]


def test_loops_without_an_end_close_their_region(w: n.World) -> None:
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


def test_the_text_of_a_kernel_under_construction() -> None:
    b = n.Builder("sketch")
    b.begin_if(b.const("bool", True))
    assert 'kernel fn0 "sketch"' in b.text() and "const true" in b.text()


def test_what_does_not_fit(w: n.World) -> None:
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
        lambda b: b.load(("t", 0), []),
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
        lambda b: (b.begin_loop(), b.begin_foreach(b.tree(x.tree))),
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


def test_what_only_the_verifier_sees(w: n.World) -> None:
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


def test_the_version_is_that_of_the_package() -> None:
    assert n.__version__.count(".") == 2
