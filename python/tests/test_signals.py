"""Signals, forks and lost output while kernels run."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from typing import Any

import pytest

import wuji as ti

PRELUDE = """
import os, signal, sys, threading, time
import wuji as ti
# A test in the background inherits that SIGINT is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
# While a kernel runs, the host cannot write to memory of a GPU: a time limit ends the kernels that wait for `done` there.
ON_GPU = os.environ.get("TI_ARCH") == "cuda"
LIMIT = {"time_limit": 4.0} if ON_GPU else {}
ti.init(arch=ti.cpu, offline_cache=False, verbose=False, log_level=ti.ERROR, cpu_max_num_threads=2, **LIMIT)
x = ti.field(ti.i32, shape=1 << 16)
done = ti.ndarray(ti.i32, 1)

@ti.kernel
def serial():
    n = 0
    while n >= 0:
        n = (n + 1) % 7

@ti.kernel
def wait_for(stop: ti.types.ndarray()):
    for i in x:
        while stop[0] == 0:
            x[i] = (x[i] + 1) % 7

def parallel(stop):
    try:
        wait_for(stop)
    except RuntimeError as e:
        if not (ON_GPU and "W0409" in str(e)):
            raise

def finish():
    if not ON_GPU:
        done[0] = 1

# Compiled in advance, so that a thread runs it at once.
done[0] = 1
parallel(done)
done[0] = 0

class Alarm(ValueError):
    pass

def alarm(*_):
    raise Alarm("over")
"""


def program(source: str, *, stdout: Any = subprocess.PIPE, stderr: Any = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """Run a program after the prelude."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "program.py"
        path.write_text(PRELUDE + textwrap.dedent(source))
        env = {**os.environ, "WUJI_CACHE": "off"}
        return subprocess.run([sys.executable, str(path)], stdout=stdout, stderr=stderr, text=True, timeout=60, env=env)


@pytest.mark.parametrize("kernel", ["serial()", "parallel(done)"])
def test_the_exception_of_a_handler_ends_a_kernel_and_keeps_its_class(kernel):
    done = program(f"""
        for number, ring in [(signal.SIGALRM, lambda: signal.setitimer(signal.ITIMER_REAL, 0.2)),
                             (signal.SIGTERM, lambda: threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start())]:
            signal.signal(number, alarm)
            ring()
            begin = time.time()
            try:
                {kernel}
            except Alarm as e:
                print(type(e).__name__, e, e.__cause__, time.time() - begin < 10)
        x[0] = 3
        print(x[0])
    """)
    assert done.stdout.splitlines() == ["Alarm over None True"] * 2 + ["3"], done.stderr


def test_a_kernel_goes_on_after_a_handler_that_returns():
    done = program("""
        rings = []
        def ring(*_):
            rings.append(threading.current_thread() is threading.main_thread())
            if len(rings) == 3:
                signal.setitimer(signal.ITIMER_REAL, 0)
                finish()
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
        parallel(done)
        print(rings)
    """)
    assert done.stdout == "[True, True, True]\n", done.stderr


@pytest.mark.parametrize(
    "wait", ["x.to_numpy()", "x[0]", "x.fill(1)", "x.from_numpy(x_before)", "ti.sync()", "ti.reset()", "ti.init(arch=ti.cpu)", "serial()", "first()"]
)
def test_waiting_for_the_kernel_of_another_thread_is_interrupted(wait):
    done = program(f"""
        x_before = x.to_numpy()
        y = ti.field(ti.i32, shape=8)
        def first():
            y[0] = 1
        thread = threading.Thread(target=parallel, args=(done,))
        thread.start()
        time.sleep(0.3)
        signal.signal(signal.SIGALRM, alarm)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        begin = time.time()
        try:
            {wait}
        except Alarm:
            print("interrupted", time.time() - begin < 10)
        finish()
        thread.join()
        print(x[0] < 7)
    """)
    assert done.stdout.splitlines() == ["interrupted True", "True"], done.stderr


def test_compilation_is_interrupted():
    done = program("""
        n = 60

        @ti.kernel
        def large() -> ti.f64:
            s = ti.cast(0.0, ti.f64)
            for k in ti.static(range(n)):
                m = ti.Matrix([[ti.sin(s + i * j + k) for i in range(8)] for j in range(8)], dt=ti.f64)
                s += (m @ m)[k % 8, 3]
            return s

        from wuji import _native
        finish_native = _native.Builder.finish
        signal.signal(signal.SIGALRM, alarm)

        class Timed:
            def __init__(self, b):
                self.b = b
            def __getattr__(self, name):
                return getattr(self.b, name)
            def finish(self, *args):
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                return self.b.finish(*args)

        builder = _native.Builder
        _native.Builder = lambda name: Timed(builder(name))
        begin = time.time()
        try:
            large()
        except Alarm:
            print("interrupted")
        _native.Builder = builder
        x[0] = 5
        print(x[0])
    """)
    assert done.stdout.split() == ["interrupted", "5"], done.stderr


def test_a_handler_cannot_use_the_world_whose_kernel_it_interrupts():
    done = program("""
        def handler(*_):
            signal.setitimer(signal.ITIMER_REAL, 0)
            for use in (lambda: x[0], ti.reset, ti.sync):
                try:
                    use()
                except Exception as e:
                    print(getattr(e, "code", e))
            with ti.World(arch=ti.cpu):
                y = ti.field(ti.i32, 4)
                y.fill(2)
                print(y[3])
            finish()
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        parallel(done)
        print(x[0] < 7)
    """)
    assert done.stdout.split() == ["W0135", "W0135", "W0135", "2", "True"], done.stdout + done.stderr


@pytest.mark.parametrize("call", ["solver.compute(A)", "ti.linalg.SparseCG(A, b, max_iter=10**9, atol=1e-300).solve()", "A @ A"])
def test_solvers_are_interrupted(call):
    done = program(f"""
        import numpy as np
        # A factorization of the first matrix fills up, conjugate gradients on the second need many steps, the third is dense.
        random, k = np.random.default_rng(1), np.arange(300_000)
        n, rows, columns, values = {{
            "s": (5000, random.integers(0, 5000, 50_000), random.integers(0, 5000, 50_000), random.standard_normal(50_000)),
            "t": (300_000, np.r_[k, k[1:], k[:-1]], np.r_[k, k[:-1], k[1:]], np.repeat([2.0, -1.0], [300_000, 599_998])),
            "A": (2000, *np.divmod(np.arange(4_000_000), 2000), np.ones(4_000_000)),
        }}[{call!r}[0]]
        from wuji import _native
        entries = rows.astype(np.int32), columns.astype(np.int32), values.astype(np.float32)
        A = ti.linalg.SparseMatrix(sm=_native.SparseMatrix("f32", n, n, *entries), dtype=ti.f32)
        b = np.ones(n, np.float32)
        solver = ti.linalg.SparseSolver(solver_type="LU")
        signal.signal(signal.SIGALRM, alarm)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        begin = time.time()
        try:
            {call}
            print("not interrupted", time.time() - begin)
        except Alarm:
            print("interrupted", time.time() - begin < 20)
        print(solver.info(), flush=True)
        os._exit(0)
    """)
    assert done.stdout.splitlines() == ["interrupted True", "False"], done.stdout + done.stderr


def test_default_signals_still_end_the_process():
    begin = time.time()
    done = program("threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start(); serial()")
    assert done.returncode == -signal.SIGTERM
    assert time.time() - begin < 30


def test_bad_arguments_keep_their_cause():
    @ti.kernel
    def f(a: ti.i32) -> ti.i32:
        return a

    class Index:
        def __index__(self) -> int:
            raise ValueError("no")

    assert f(1) == 1
    for _ in range(2):
        with pytest.raises(ti.TaichiRuntimeTypeError) as raised:
            f(Index())
        assert isinstance(raised.value.__cause__, ValueError)


def test_a_fork_during_a_kernel_of_another_thread_gives_an_error():
    done = program("""
        a = ti.ndarray(ti.i32, 1 << 20)
        thread = threading.Thread(target=parallel, args=(done,))
        thread.start()
        time.sleep(0.3)
        child = os.fork()
        if child == 0:
            for use in (lambda: x[0], x.to_numpy, lambda: x.fill(1), lambda: parallel(done), ti.sync, lambda: a[0]):
                try:
                    use()
                    print("no error")
                except Exception as e:
                    print(getattr(e, "code", e), flush=True)
            ti.reset()
            # A new world works, and the process exits normally.
            ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
            y = ti.field(ti.i32, 1000)

            @ti.kernel
            def g():
                for i in y:
                    y[i] += 1

            g()
            print(y[999], flush=True)
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        finish()
        thread.join()
    """)
    assert done.stdout.split() == ["W0606"] * 6 + ["1", "3"], done.stdout + done.stderr


def test_a_fork_during_a_compilation_of_another_thread_does_not_block_the_child():
    done = program("""
        @ti.kernel
        def large() -> ti.f64:
            s = ti.cast(0.0, ti.f64)
            for k in ti.static(range(30)):
                m = ti.Matrix([[ti.sin(s + i * j + k) for i in range(8)] for j in range(8)], dt=ti.f64)
                s += (m @ m)[k % 8, 3]
            return s

        thread = threading.Thread(target=large, daemon=True)
        thread.start()
        for _ in range(8):
            time.sleep(0.15)
            child = os.fork()
            if child == 0:
                ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
                y = ti.field(ti.i32, 1000)

                @ti.kernel
                def g():
                    for i in y:
                        y[i] += 1

                g()
                os._exit(int(y[999]))
            deadline = time.time() + 20
            while True:
                pid, status = os.waitpid(child, os.WNOHANG)
                if pid:
                    print(os.waitstatus_to_exitcode(status))
                    break
                if time.time() > deadline:
                    os.kill(child, 9)
                    os.waitpid(child, 0)
                    print("blocked")
                    break
                time.sleep(0.01)
    """)
    assert done.stdout.split() == ["1"] * 8, done.stdout + done.stderr


@pytest.mark.parametrize("use", ["say(3)", "x.to_numpy(); x.fill(3)", "ti.init(arch=ti.cpu, offline_cache=False, verbose=False)"])
def test_daemon_threads_that_use_a_world_do_not_disturb_the_exit(use):
    done = program(f"""
        @ti.kernel
        def say(n: ti.i32):
            for i in range(n):
                print(i)

        x = ti.field(ti.i32, 8)

        def work():
            while True:
                {use}

        for _ in range(6):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.5)
    """)
    assert done.returncode == 0, done.stderr
    assert "Fatal" not in done.stderr and "panicked" not in done.stderr


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the module for subinterpreters has another name")
def test_kernels_are_compiled_after_the_exit_of_a_subinterpreter():
    done = program("""
        import _xxsubinterpreters as interpreters

        other = interpreters.create()
        interpreters.run_string(other, "import wuji")
        interpreters.destroy(other)

        @ti.kernel
        def answer() -> ti.i32:
            return 42

        print(answer())
    """)
    assert done.stdout.split() == ["42"], done.stderr


PRINTING = """
@ti.kernel
def say():
    for i in range(100):
        print("line", i, "of a kernel")
"""


def test_a_full_device_is_an_error():
    with open("/dev/full", "w") as full:
        done = program(PRINTING + "sys.stdout.reconfigure(line_buffering=True)\nsay()", stdout=full)
    assert done.returncode != 0
    assert done.stderr.count("Traceback") <= 2  # one for the kernel, one of Python when it flushes at exit
    assert "OSError: [Errno 28]" in done.stderr


def test_warnings_on_a_full_device_are_lost_and_nothing_else(tmp_path):
    # No file can grow, so the kernel cannot be cached, which is a warning.
    source = f"""
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
del os.environ["WUJI_CACHE"]
ti.init(arch=ti.cpu, verbose=False, offline_cache=True, offline_cache_file_path={str(tmp_path / "cache")!r})

@ti.kernel
def answer() -> ti.i32:
    return 42

print(answer())
"""
    with open("/dev/full", "w") as full:
        done = program(source, stderr=full)
    assert (done.returncode, done.stdout.strip()) == (0, "42")


def test_a_closed_pipe_is_an_error():
    read, write = os.pipe()
    os.close(read)
    try:
        done = program(PRINTING + "sys.stdout.reconfigure(line_buffering=True)\ntry:\n    say()\nexcept BrokenPipeError:\n    sys.stdout = None\n    say()\n    os._exit(7)", stdout=write)
    finally:
        os.close(write)
    assert done.returncode == 7, done.stderr
    assert done.stderr == ""


def test_an_error_of_the_output_is_raised_by_the_kernel(monkeypatch):
    class Broken:
        lines = 0

        def write(self, text: str) -> None:
            Broken.lines += 1
            raise OSError("broken")

        def flush(self) -> None:
            pass

    @ti.kernel
    def say() -> ti.i32:
        for i in range(3):
            print(i)
        return 5

    monkeypatch.setattr(sys, "stdout", Broken())
    with pytest.raises(OSError, match="broken"):
        say()
    assert Broken.lines == 1
    monkeypatch.undo()
    assert say() == 5
