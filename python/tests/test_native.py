"""The extension module: worlds, layouts, fields and arrays, and their misuse."""

from __future__ import annotations

import array
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from native_parts import SCALARS, dense, double, fails, kernel, unfit, world
from wuji import _native as n


@pytest.fixture()
def w() -> n.World:
    return world()


def test_world_options() -> None:
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


def test_cache_folder(tmp_path: Any) -> None:
    for _ in range(2):
        w = n.World(cache=str(tmp_path))
        assert w.cache_folder() == str(tmp_path)
        x = dense(w, "i32", 4)
        double(w, x)()
    assert any(tmp_path.iterdir())


def test_world_reports(w: n.World) -> None:
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


def test_print_goes_to_the_printer_or_sys_stdout(capsys: Any) -> None:
    def body(b: n.Builder) -> None:
        v = b.compose("f32x2", [b.const("f32", 1.5), b.const("f32", 2)])
        b.print(["v = ", ("f32x2", 2), ", n = ", ("i32", None), "\n"], [v, b.const("i32", -3)])

    lines: list[str] = []
    kernel(world(printer=lines.append), body)()
    assert lines == ["v = [1.50, 2.00], n = -3\n"]
    kernel(world(), body)()
    assert capsys.readouterr().out == "v = [1.50, 2.00], n = -3\n"


def test_closed_world(w: n.World) -> None:
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


def test_destroyed_tree(w: n.World) -> None:
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


def test_memory_is_freed_with_its_handles(w: n.World) -> None:
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
    assert c.type == "cells" and c.active() == [(0, 3)]
    c.activate((2, 0))
    assert c.count_active() == 2
    c.deactivate((0, 3))
    assert c.active() == [(2, 0)] and x.get((-16, 31)) == 0.0
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


def test_unbounded_hash_node(w: n.World) -> None:
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


def test_invalid_layouts(w: n.World) -> None:
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
    fails("W0120", layout(lambda l: l.node(l.node(0, "dense", [0], [3]), "hash", [0], [])))
    fails("W0104", layout(lambda l: l.place(0, "x", "f32", offset=[1])))
    for bad in ("f99", "f32x0", "f32x70000", "f32x2x2x2", "s0", ""):
        fails("W0290", layout(lambda l, bad=bad: l.place(0, "x", bad)))
    fails("W0111", lambda: dense(w, "f32", 4).tree.field(9))
    fails("W0106", layout(lambda l: l.place(l.node(0, "dense", [0], [1 << 62]), "x", "f64")))


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
        with unfit(TypeError):
            holder.set((0,), "one")
        with unfit(TypeError):
            holder.set((0,), None)
        if type[0] != "f":
            with unfit(OverflowError):
                holder.set((0,), values[0] - 1 if type != "bool" else 2)
            with unfit(OverflowError):
                holder.set((0,), 2**64)
            with unfit(OverflowError):
                holder.set((0,), -(2**70))
            with unfit(TypeError):
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
            with unfit(TypeError):
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
    assert out[0, 1] == 7.0 and (out == 0).sum() == 23
    fails("W0112", lambda: a.copy_from(dense(w, "f32", 6, 4)))
    fails("W0112", lambda: a.copy_from(dense(w, "i32", 4, 6)))
    a.copy_from(a)


def test_0d_field(w: n.World) -> None:
    x = dense(w, "i64")
    x.set((), 2**62)
    assert x.get(()) == 2**62 and x.shape == ()
    out = np.empty((), np.int64)
    x.read_into(out)
    assert out == 2**62


# Arrays


def test_ndarrays_and_numpy() -> None:
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


def test_describe_array() -> None:
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
            return (7, 0)  # Vulkan

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


# A stand-in for torch, in a process of its own: its functions are looked up once.
TORCH = """
import sys, types
import numpy as np
from wuji import _native as n

class Tensor:
    requires_grad = negative = conjugate = False
    def __init__(self, value): self.value = value
    def is_neg(self): return self.negative
    def is_conj(self): return self.conjugate
    def detach(self): return Tensor(self.value)
    def __dlpack__(self, **options): raise BufferError("not exported this way")
    def __dlpack_device__(self): return (1, 0)

def to_dlpack(tensor):
    if tensor.requires_grad: raise RuntimeError("detach it first")
    return tensor.value.__dlpack__()

torch = types.ModuleType("torch")
functions = {"_to_dlpack": to_dlpack, "_cuda_getCurrentRawStream": lambda device: 0}
torch.Tensor, torch._C = Tensor, types.SimpleNamespace(**functions)
plain = Tensor(np.zeros((2, 3)).T)
try: n.describe_array(plain)
except BufferError as error: print(error)
sys.modules["torch"] = torch
print(n.describe_array(plain))
plain.requires_grad = True
print(n.describe_array(plain))
for what in ("negative", "conjugate"):
    tensor = Tensor(np.zeros(2))
    setattr(tensor, what, True)
    try: n.describe_array(tensor)
    except BufferError as error: print(error)
"""


def test_tensors_of_torch() -> None:
    done = subprocess.run([sys.executable, "-c", TORCH], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [
        "not exported this way",
        "('f64', (3, 2), False, True)",
        "('f64', (3, 2), False, True)",
        "the tensor is the negative of its memory (`is_neg()`); pass `tensor.resolve_neg()`",
        "not exported this way",
    ]


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
    """Claims to be writable, whatever it is."""

    def __new__(cls, *args: Any) -> Any:
        return super().__new__(cls, *args)

    def __array_finalize__(self, other: Any) -> None:
        try:
            self.setflags(write=True)
        except ValueError:
            pass


def test_overlapping_arguments(w: n.World) -> None:
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


def test_dlpack_tensors_on_the_cpu(w: n.World) -> None:
    torch = pytest.importorskip("torch")
    t = torch.arange(4, dtype=torch.float32)
    assert n.describe_array(t) == ("f32", (4,), True, True)
    taken = torch.from_dlpack(n.Ndarray("f32", [3]))
    assert taken.tolist() == [0, 0, 0]
