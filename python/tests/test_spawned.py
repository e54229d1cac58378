"""Processes that a program of `wuji run` starts with `multiprocessing`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

PROGRAM = """
    import multiprocessing
    import os
    import sys

    import taichi as ti
    import taichi.math as tm
    from helper import square

    @ti.kernel
    def cube(a: ti.i32) -> ti.i32:
        return ti.cast(tm.mod(a * a * a, 1000.0), ti.i32)

    def work(a):
        ti.init(arch=ti.cpu, verbose=False, offline_cache=False)
        return cube(a), square(a), ti.__version__

    def exit_with(a):
        sys.exit(work(a)[0])

    if __name__ == "__main__":
        before = dict(os.environ)
        context = multiprocessing.get_context(sys.argv[1])
        process = context.Process(target=exit_with, args=(3,))
        process.start()
        process.join()
        with context.Pool(2) as pool:
            print(process.exitcode, pool.map(work, range(2)), os.environ == before)
"""
# In a module that imports nothing but a part of Taichi.
HELPER = """
    from taichi.lang.kernel_impl import kernel
    from taichi.types.primitive_types import i32

    @kernel
    def square(a: i32) -> i32:
        return a * a
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_find_the_same_taichi(method: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(dedent(PROGRAM))
    (tmp_path / "helper.py").write_text(dedent(HELPER))
    # A pool starts processes that fail again and again.
    done = subprocess.run([sys.executable, "-m", "wuji", "run", "program.py", method], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout == "27 [(0, 0, (1, 7, 4)), (1, 1, (1, 7, 4))] True\n", done.stderr


def test_other_processes_do_not_find_it(tmp_path: Path) -> None:
    program = """
        import subprocess, sys
        import taichi

        done = subprocess.run([sys.executable, "-c", "import taichi; print(taichi.__file__)"], capture_output=True, text=True)
        print("wuji" in done.stdout)
    """
    (tmp_path / "program.py").write_text(dedent(program))
    done = subprocess.run([sys.executable, "-m", "wuji", "run", "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, env=dict(os.environ))
    assert done.stdout == "False\n", done.stderr
