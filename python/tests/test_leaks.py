"""Memory, threads and files are back where they were: after worlds, kernels, launches, fields and objects.

`WUJI_LEAKS=full` runs a thousand worlds, a thousand kernels and a million launches, and prints the numbers.
"""

from __future__ import annotations

import gc
import os
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import wuji as ti
from wuji.lang import runtime

FULL = os.environ.get("WUJI_LEAKS") == "full"


def resident() -> int:
    """Return the resident memory of the process in bytes."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def counts() -> tuple[int, int]:
    """Return the number of threads and open files."""
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


def settled(expected: tuple[int, int]) -> tuple[int, int]:
    """Return the counts once they are as expected, or after a while: threads that have ended need a moment to disappear."""
    deadline = time.time() + 10
    while counts() != expected and time.time() < deadline:
        time.sleep(0.01)
    return counts()


def init(**settings: Any) -> None:
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False, cpu_max_num_threads=3, **settings)


def used() -> int:
    """Return the bytes of all fields of the current world."""
    return runtime.current().native.memory_used()


@pytest.fixture()
def no_collection() -> Iterator[None]:
    """Without garbage collection: what is freed is freed at once."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def one_world() -> None:
    init()
    x = ti.field(ti.f32, shape=1 << 12)
    a = ti.ndarray(ti.f32, 1 << 16)

    @ti.kernel
    def add(x: ti.template(), a: ti.types.ndarray()):
        for i in x:
            x[i] += a[i] + 1

    add(x, a)
    assert x[7] == 1
    ti.reset()


def many_kernels(count: int) -> None:
    x = ti.field(ti.f32, shape=1 << 10)
    for k in range(count):

        @ti.kernel
        def add():
            for i in x:
                x[i] += ti.static(k)  # noqa: B023

        add()


def many_launches(count: int) -> None:
    x = ti.field(ti.i32, shape=8)

    @ti.kernel
    def add(k: ti.i32):
        x[k] += 1

    def work(k: int) -> None:
        for _ in range(count // 8):
            add(k)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert x.to_numpy().tolist() == [count // 8] * 8


def in_own_world(work: Callable[[int], None], count: int) -> None:
    init()
    work(count)
    ti.reset()


@pytest.mark.parametrize(
    ("work", "few", "many"),
    [
        (lambda n: [one_world() for _ in range(n)], 12, 1000),
        (lambda n: in_own_world(many_kernels, n), 24, 1000),
        (lambda n: in_own_world(many_launches, n), 8000, 1_000_000),
    ],
    ids=["worlds", "kernels", "launches"],
)
def test_everything_is_back_where_it_was(work, few, many, capsys):
    ti.reset()
    # What is loaded once stays: LLVM, NumPy, caches of Python.
    work(few)
    gc.collect()
    before, memory = counts(), resident()
    work(many if FULL else few)
    gc.collect()
    assert settled(before) == before
    grown = resident() - memory
    if FULL:
        with capsys.disabled():
            print(f"\n{many}: resident {memory >> 10} KiB before, {grown >> 10} KiB more after; threads and files {before} before and after")
    assert grown < 24 << 20


def test_a_world_that_goes_out_of_scope_ends_its_threads(no_collection):
    def use() -> None:
        with ti.World(arch=ti.cpu, cpu_max_num_threads=3):
            x = ti.field(ti.f32, shape=8)
            x.fill(1)

    use()
    before = counts()
    for _ in range(5):
        use()
    assert settled(before) == before


def test_a_kernel_method_does_not_keep_its_object_alive(no_collection):
    @ti.data_oriented
    class Solver:
        def __init__(self) -> None:
            self.x = ti.field(ti.f32, shape=1000)
            self.list = [0] * 1000

        @ti.kernel
        def step(self) -> ti.f32:
            for i in self.x:
                self.x[i] += 1
            return self.x[7]

    solver = Solver()
    assert solver.step() == 1 and solver.step() == 2 and used() == 4000
    alive = weakref.ref(solver)
    del solver
    assert alive() is None and used() == 0


def test_a_template_field_is_freed_with_its_last_reference(no_collection):
    @ti.kernel
    def fill(x: ti.template()):
        for i in x:
            x[i] = 3

    for _ in range(3):
        x = ti.field(ti.f32, shape=1000)
        fill(x)
        assert used() == 4000
        del x
        assert used() == 0


def test_trees_are_freed_with_their_last_field_or_node(no_collection):
    builder = ti.FieldsBuilder()
    x, y = ti.field(ti.f32), ti.field(ti.f32)
    node = builder.dense(ti.i, 1000)
    node.place(x, y)
    tree = builder.finalize()
    x[3] = 1
    del builder, tree, node, y
    assert x[3] == 1 and used() == 8000
    node = x.parent()
    del x
    assert used() == 8000
    del node
    assert used() == 0


def test_nodes_keep_their_tree_and_deactivate_it(no_collection):
    x = ti.field(ti.f32)
    top = ti.root.dense(ti.i, 4)
    top.pointer(ti.i, 4).place(x)
    x[3] = 1

    @ti.kernel
    def count() -> ti.i32:
        n = 0
        for _ in x:
            n += 1
        return n

    assert count() == 1
    top.deactivate_all()
    assert count() == 0
    x[3] = 1
    ti.deactivate_all_snodes()
    assert count() == 0


def test_a_list_as_a_template_is_compiled_for_its_elements():
    @ti.func
    def one() -> ti.i32:
        return 1

    @ti.kernel
    def total(fields: ti.template()) -> ti.i32:
        n = 0
        for k in ti.static(range(len(fields))):
            n += fields[k][0]
        return n

    for k in range(50):
        # New objects may have the `id` of old ones.
        fields = []
        for j in range(2):
            x = ti.field(ti.i32, shape=1)
            x[0] = k * 10 + j
            fields.append(x)
        assert total(fields) == 20 * k + 1


def test_a_list_that_contains_itself_is_no_template():
    init()

    @ti.kernel
    def run(items: ti.template()):
        pass

    endless: list[Any] = []
    endless.append(endless)
    for items in (endless, (1, endless)):
        with pytest.raises(TypeError, match="contains itself"):
            run(items)


def test_objects_without_weak_references_are_kept():
    class Plain:
        __slots__ = ("n",)

        def __init__(self, n: int) -> None:
            self.n = n

    @ti.kernel
    def number(p: ti.template()) -> ti.i32:
        return p.n

    assert [number(Plain(k)) for k in range(20)] == list(range(20))


def test_a_large_array_is_not_touched_when_it_is_made():
    before = resident()
    arrays = [ti.ndarray(ti.f32, 1 << 26) for _ in range(4)]
    assert resident() - before < 64 << 20
    assert arrays[3][(1 << 26) - 1] == 0


def test_packed_fields_are_freed_with_the_last_one(no_collection):
    bit = ti.types.quant.int(1, signed=False)
    for _ in range(2):
        builder = ti.FieldsBuilder()
        x, y, z = (ti.field(bit) for _ in range(3))
        pack = ti.BitpackedFields(max_num_bits=32)
        pack.place(x, y)
        builder.dense(ti.i, 1000).place(pack)
        builder.dense(ti.i, 1000).quant_array(ti.i, 32, max_num_bits=32).place(z)
        builder.finalize()
        x[3] = 1
        del builder, pack, x, z
        assert y[3] == 0 and used() == 8000
        del y
        assert used() == 0
