"""Which world is current: in threads, in tasks, in nested blocks."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from conftest import ON_GPU

import wuji as ti


def in_thread(work: Callable[[], Any]) -> Any:
    """Return what a function returns in a new thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_two_threads_with_their_own_worlds_do_not_disturb_each_other():
    barrier = threading.Barrier(2)

    def work(fp: Any, number: float) -> tuple[Any, ...]:
        ti.init(arch=ti.cpu, default_fp=fp, offline_cache=False, verbose=False)
        barrier.wait()
        results = []
        for _ in range(5):
            x = ti.field(float, shape=16)

            @ti.kernel
            def third(x: ti.template()) -> fp:
                for i in x:
                    x[i] += 1.0 / 3.0
                return 1.0 / 3.0

            barrier.wait()
            results.append((x.dtype is fp, third(x) == number, x[3] == number))
            barrier.wait()
        ti.reset()
        return tuple(results)

    import numpy as np

    with ThreadPoolExecutor(2) as pool:
        single = pool.submit(work, ti.f32, float(np.float32(1.0) / np.float32(3.0)))
        double = pool.submit(work, ti.f64, 1.0 / 3.0)
        assert single.result() == double.result() == ((True, True, True),) * 5


def test_a_thread_without_init_uses_the_world_of_the_main_thread():
    x = ti.field(ti.i32, shape=4)

    @ti.kernel
    def add():
        for i in x:
            x[i] += 1

    def work() -> int:
        add()
        return x[3]

    assert in_thread(work) == 1
    ti.init(arch=ti.cpu, default_ip=ti.i64, offline_cache=False, verbose=False)
    assert in_thread(lambda: ti.field(int, shape=2).dtype) is ti.i64


def test_init_in_a_thread_leaves_the_world_of_the_main_thread_alone():
    x = ti.field(ti.i32, shape=4)
    x.fill(3)

    def work() -> Any:
        ti.init(arch=ti.cpu, default_fp=ti.f64, offline_cache=False, verbose=False)
        dtype = ti.field(float, shape=1).dtype
        ti.reset()
        # Without a world of its own, the thread shares that of the main thread.
        return dtype, x[1]

    assert in_thread(work) == (ti.f64, 3)
    assert ti.field(float, shape=1).dtype is ti.f32
    assert x[1] == 3


def test_a_world_made_by_a_thread_is_shared_until_the_main_thread_has_one():
    ti.reset()

    def work() -> Any:
        ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
        return ti.field(ti.i32, shape=2)

    x = in_thread(work)
    x[1] = 5
    assert x[1] == 5
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
    # The thread that made it is gone; the field keeps the memory.
    assert x[1] == 5


def test_blocks_count_for_their_own_thread():
    entered, left = threading.Event(), threading.Event()

    def work() -> None:
        with ti.World(arch=ti.cpu, default_fp=ti.f64):
            entered.set()
            assert left.wait(20)
            assert ti.field(float, shape=1).dtype is ti.f64

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(20)
    assert ti.field(float, shape=1).dtype is ti.f32
    left.set()
    thread.join()


def test_one_world_in_two_threads():
    world = ti.World(arch=ti.cpu, default_fp=ti.f64)
    barrier = threading.Barrier(2)

    def work() -> list[Any]:
        seen = []
        for _ in range(10):
            with world:
                barrier.wait()
                seen.append(ti.field(float, shape=1).dtype)
            barrier.wait()
            seen.append(ti.field(float, shape=1).dtype)
        return seen

    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(work) for _ in range(2)]
        assert [b.result() for b in both] == [[ti.f64, ti.f32] * 10] * 2


def test_blocks_count_for_their_own_task():
    async def task(fp: Any, before: asyncio.Event, after: asyncio.Event) -> Any:
        with ti.World(arch=ti.cpu, default_fp=fp):
            before.set()
            await after.wait()
            return ti.field(float, shape=1).dtype

    async def main() -> Any:
        a, b = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(task(ti.f64, a, b), task(ti.f32, b, a))

    assert asyncio.run(main()) == [ti.f64, ti.f32]


def test_init_in_a_task_counts_after_it():
    async def task() -> None:
        ti.init(arch=ti.cpu, default_fp=ti.f64, offline_cache=False, verbose=False)

    asyncio.run(task())
    assert ti.field(float, shape=1).dtype is ti.f64


def test_blocks_nest():
    def dtypes() -> tuple[Any, Any]:
        return ti.field(float, shape=1).dtype, ti.field(int, shape=1).dtype

    outer, inner = ti.World(arch=ti.cpu, default_fp=ti.f64), ti.World(arch=ti.cpu, default_ip=ti.i64)
    with outer:
        with inner, outer:
            assert dtypes() == (ti.f64, ti.i32)
        with inner:
            assert dtypes() == (ti.f32, ti.i64)
        assert dtypes() == (ti.f64, ti.i32)
    assert dtypes() == (ti.f32, ti.i32)


def test_python_code_of_another_thread_is_no_part_of_a_kernel_that_is_compiled():
    from wuji.lang import impl

    compiling, asked = threading.Event(), threading.Event()

    def hold() -> int:
        compiling.set()
        assert asked.wait(20)
        return 1

    @ti.kernel
    def slow() -> ti.i32:
        return ti.static(hold())

    thread = threading.Thread(target=slow)
    thread.start()
    assert compiling.wait(20)
    inside = impl.inside_kernel()
    asked.set()
    thread.join()
    assert not inside


def test_an_interrupt_at_any_line_leaves_no_kernel_open():
    from wuji.lang import context, impl

    def compiles_elsewhere() -> bool:
        """Whether another thread can compile."""
        compiled = []
        thread = threading.Thread(target=lambda: context.exclusively(lambda: compiled.append(True)), daemon=True)
        thread.start()
        thread.join(10)
        return bool(compiled)

    def interrupt_at(number: int) -> Callable[[Any, str, Any], Any]:
        def trace(frame: Any, event: str, _: Any) -> Any:
            nonlocal number
            if not frame.f_code.co_filename.endswith(("lang/kernel.py", "lang/context.py")):
                return None
            if event == "line":
                number -= 1
                if number < 0:
                    sys.settrace(None)
                    raise KeyboardInterrupt
            return trace

        return trace

    for line in range(1000):

        @ti.kernel
        def one() -> ti.i32:
            return 1

        sys.settrace(interrupt_at(line))
        try:
            done = one() == 1
        except KeyboardInterrupt:
            done = False
        finally:
            sys.settrace(None)
        assert not impl.inside_kernel(), line
        assert compiles_elsewhere(), line
        if done:
            break
    assert done and line > 20


def test_arrays_of_a_world_that_was_reset_are_freed():
    a, small = ti.ndarray(ti.f32, 1 << 20), ti.ndarray(ti.f32, 4)
    a.fill(1.0)
    ti.reset()
    for use in (lambda: a[0], lambda: a.to_numpy(), lambda: a.fill(2.0), lambda: small[0]):
        with pytest.raises(ti.TaichiRuntimeError, match="W0132"):
            use()
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False)

    @ti.kernel
    def read(a: ti.types.ndarray()) -> ti.f32:
        return a[0]

    with pytest.raises(ti.TaichiRuntimeError, match="W0132"):
        read(a)


@pytest.mark.skipif(ON_GPU, reason="NumPy cannot use memory of a GPU")
def test_memory_that_others_use_survives_the_reset():
    import numpy as np

    a = ti.ndarray(ti.f32, 1 << 20)
    a.fill(1.0)
    view = np.from_dlpack(a)
    ti.reset()
    assert view.sum() == 1 << 20
