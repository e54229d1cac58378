"""Worlds on a simulated GPU: the driver in `fake_cuda.c` looks up kernels by name. Each test is a process."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest

HERE = pathlib.Path(__file__).parent
SOURCE = HERE.parents[1] / "crates/wuji-cli/tests/commands/fake_cuda.c"

pytestmark = pytest.mark.skipif(shutil.which("cc") is None or not SOURCE.exists(), reason="there is no C compiler, or not the repository")

START = """
import numpy as np
import wuji as ti
ti.init(arch=ti.cuda, offline_cache=False, log_level="warn")
from fake_gpu import CUDA, Imported, Tensor

@ti.kernel
def scale(a: ti.types.ndarray(ti.f32, ndim=2)):
    for i, j in a:
        a[i, j] *= 2.0

def fails(code, work):
    try:
        work()
    except Exception as e:
        assert code in str(e) or code == getattr(e, "code", None), repr(e)
        return str(e)
    raise AssertionError("nothing was wrong")
"""


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    library = tmp_path_factory.mktemp("cuda") / "libfake_cuda.so"
    subprocess.run(["cc", "-shared", "-fPIC", str(SOURCE), "-o", str(library)], check=True)
    return library


def run(driver: pathlib.Path, program: str, options: str = "lazy=1,devices=2") -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("TI_") and k != "WUJI_LAUNCH_BLOCKING"}
    env.update(WUJI_CUDA_DRIVER=str(driver), FAKE_CUDA=options, PYTHONPATH=os.pathsep.join([str(HERE.parent), str(HERE)]))
    file = driver.with_name("program.py")
    file.write_text(START + textwrap.dedent(program))
    done = subprocess.run([sys.executable, str(file)], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_arrays_stay_on_the_device(driver: pathlib.Path) -> None:
    run(
        driver,
        """
        a = ti.ndarray(ti.f32, shape=(3, 4))
        assert a.__dlpack_device__() == (CUDA, 0)
        a.from_numpy(np.arange(12, dtype=np.float32).reshape(3, 4))
        scale(a)
        scale(a)
        assert a[1, 2] == 24.0
        b = ti.ndarray(ti.f32, shape=(3, 4))
        b.copy_from(a)
        x = ti.field(ti.f32, shape=(3, 4))
        x._first.ready().write_from(b._native)
        assert b[1, 2] == 24.0 and x[1, 2] == 24.0
        x.fill(5.0)
        x._first.ready().read_into(b._native)
        assert (b.to_numpy() == 5.0).all() and a[1, 2] == 24.0
        a[1, 2] = 5.0
        scale(a)
        assert (a.to_numpy().reshape(-1)[5:8] == [40.0, 10.0, 56.0]).all()
        b = ti.ndarray(ti.f32, shape=(3, 4))
        b.copy_from(a)
        scale(b)
        assert b[1, 2] == 20.0 and a[1, 2] == 10.0
        b.fill(1.5)
        scale(b)
        assert (np.asarray(b) == 3.0).all()
        fails("is on a GPU", lambda: memoryview(b._native))
        v = ti.Vector.ndarray(3, ti.f32, shape=2)
        v[1] = [1.0, 2.0, 3.0]
        v[1][0] = 7.0
        assert list(v[1]) == [7.0, 2.0, 3.0]
        empty = np.zeros((0, 4), np.float32)
        scale(empty)
        assert empty.shape == (0, 4)
        """,
    )


def test_large_arrays(driver: pathlib.Path) -> None:
    run(
        driver,
        """
        n = 3 * 1024 * 1024 + 5
        x = np.random.default_rng(0).random((2, n), dtype=np.float32)
        a = ti.ndarray(ti.f32, shape=(2, n))
        a.from_numpy(x)
        scale(a)
        assert (a.to_numpy() == 2 * x).all()
        y = x.copy()
        scale(y)
        assert (y == 2 * x).all()
        """,
    )


def test_host_arrays_are_copied_to_the_device(driver: pathlib.Path) -> None:
    run(
        driver,
        """
        x = np.ones((4, 6), dtype=np.float32)
        scale(x)
        assert (x == 2).all()
        scale(x[::2, ::3])
        assert x.sum() == 2 * 24 + 2 * 4
        """,
    )


@pytest.mark.parametrize("versioned", [False, True])
def test_dlpack_tensors_are_used_in_place(driver: pathlib.Path, versioned: bool) -> None:
    run(
        driver,
        f"""
        ones = 0x3F800000
        t = Tensor((3, 4), ones, versioned={versioned})
        scale(t)
        # The producer made our stream wait, by its handle; the device query did not pass a stream.
        assert t.streams[0] == -1 and t.streams[-1] > 2, t.streams
        assert t.read() == [2.0] * 12
        scale(t)
        assert t.read() == [4.0] * 12
        # Every other column, starting with the second.
        t.shape, t.strides, t.offset = (3, 2), (4, 2), 1
        scale(t)
        assert t.read() == [4.0, 8.0] * 6
        """,
    )


@pytest.mark.parametrize("quick", [False, True])
def test_torch_tensors_are_used_in_place(driver: pathlib.Path, quick: bool) -> None:
    run(
        driver,
        f"""
        import ctypes, sys, types
        from fake_gpu import call

        class Torch(Tensor):
            requires_grad = False

            def read(self):
                # Like torch, on its current stream.
                out = (ctypes.c_float * self.count)()
                call("cuMemcpyDtoHAsync_v2", out, self.at, ctypes.c_size_t(4 * self.count), self.stream)
                call("cuStreamSynchronize", self.stream)
                return list(out)

        Torch.__module__ = "torch"
        torch = types.ModuleType("torch")
        torch.cuda = types.ModuleType("torch.cuda")
        devices = []

        def raw(device):
            devices.append(device)
            return t.stream.value

        torch.cuda.current_stream = lambda device: types.SimpleNamespace(cuda_stream=raw(device))
        if {quick}:
            torch._C = types.SimpleNamespace(_cuda_getCurrentRawStream=raw)
        sys.modules["torch"], sys.modules["torch.cuda"] = torch, torch.cuda
        t = Torch((3, 4), 0x3F800000, versioned=True)
        for k in range(3):
            scale(t)
            assert t.read() == [2.0 ** (k + 1)] * 12
        # Torch does not synchronize the streams; Wuji does.
        assert set(t.streams) == {{-1}}, t.streams
        assert set(devices) == {{0}}
        """,
    )


def test_read_only_tensors(driver: pathlib.Path) -> None:
    run(
        driver,
        """
        t = Tensor((2, 2), 0, versioned=True, readonly=True)
        fails("read", lambda: scale(t))
        """,
    )


def test_tensors_on_another_device_are_rejected(driver: pathlib.Path) -> None:
    output = run(
        driver,
        """
        t = Tensor((2, 2), 0, device=1)
        print(fails("W0133", lambda: scale(t)))
        with ti.World(arch=ti.cpu):
            print(fails("W0133", lambda: scale(t)))
            a = ti.ndarray(ti.f32, shape=(2, 2))
            assert a.__dlpack_device__()[0] == 1
            scale(a)
        """,
    )
    assert "array `a` lies on CUDA device 1, and the kernel runs on CUDA device 0" in output
    assert "array `a` lies on CUDA device 1, and the kernel runs on the CPU" in output


def test_arrays_are_exported_by_dlpack(driver: pathlib.Path) -> None:
    run(
        driver,
        """
        a = ti.ndarray(ti.f32, shape=(2, 3))
        a.fill(1.0)
        scale(a)
        t = Imported(a)
        assert (t.kind, t.device, t.shape) == (CUDA, 0, (2, 3))
        assert t.read(6) == [2.0] * 6
        # The consumer's work precedes our later work, and vice versa.
        t.fill(0x40400000, 6)
        scale(a)
        assert t.read(6) == [6.0] * 6
        t.fill(0x3F800000, 6)
        assert a[1, 1] == 1.0
        a.fill(9.0)
        assert t.read(6) == [9.0] * 6
        fails("not a CUDA stream", lambda: a.__dlpack__(stream=0))
        fails("cannot export a copy", lambda: a.__dlpack__(copy=True))
        del a
        assert t.read(6) == [9.0] * 6
        """,
    )


def test_copies_between_tensors_and_fields_stay_on_the_device(driver: pathlib.Path) -> None:
    run(
        driver,
        """
        a = ti.ndarray(ti.f32, shape=(3, 4))
        x = ti.field(ti.f32, shape=(3, 4))
        for own, native in ((a, a._native), (x, x._first.ready())):
            t = Tensor((3, 4), 0x40400000)  # 3.0, once its stream has run
            native.write_from(t)
            assert own[2, 3] == 3.0
            own.fill(5.0)
            native.read_into(t)
            assert t.read() == [5.0] * 12
            assert own[0, 0] == 5.0
            small = Tensor((2, 4), 0)
            fails("the array has 32 bytes, the elements 48", lambda: native.read_into(small))
            fails("the array is read-only", lambda: native.read_into(Tensor((3, 4), 0, versioned=True, readonly=True)))
        # The export did not order other streams with this array permanently.
        assert not a._native.is_shared and x._first.ready().gpu == 0
        world = ti.lang.runtime.current().native
        for work in (lambda: a.fill(1.0), lambda: a[0, 0], lambda: x.fill(1.0)):
            fails("W0134", lambda: world.record(work))
        assert a[0, 0] == 5.0 and x[0, 0] == 5.0
        """,
    )


def test_cuda_stream_is_exposed(driver: pathlib.Path) -> None:
    run(
        driver,
        """
        stream = ti.cuda_stream()
        assert isinstance(stream, int) and stream != 0
        a = ti.ndarray(ti.f32, shape=(2, 3))
        scale(a)
        assert ti.cuda_stream() == stream
        ti.init(arch=ti.cpu)
        assert ti.cuda_stream() is None
        """,
    )


def test_libdevice_is_found_or_rejected(driver: pathlib.Path) -> None:
    run(
        driver,
        """
        import os, pathlib, sys, tempfile
        from wuji.lang import libdevice

        # A package that contains libdevice is found, unless an option overrides it.
        with tempfile.TemporaryDirectory() as folder:
            inside = pathlib.Path(folder, "triton", "backends", "nvidia", "lib")
            inside.mkdir(parents=True)
            (inside.parents[2] / "__init__.py").write_text("")
            library = inside / "libdevice.10.bc"
            library.write_text("no bitcode")
            sys.path.insert(0, folder)
            sys.modules.pop("triton", None)
            found = libdevice.find("")
            assert found and found.endswith("libdevice.10.bc")
            assert libdevice.find("off") == "off"
            assert libdevice.find("/else/where.bc") == "/else/where.bc"
            os.environ["WUJI_LIBDEVICE"] = "off"
            assert libdevice.find("") is None
            ti.init(arch=ti.cuda)
            del os.environ["WUJI_LIBDEVICE"]
            output = fails("W0526", lambda: ti.init(arch=ti.cuda, libdevice=str(library)))
            assert "it is not LLVM's bitcode" in output
            ti.init(arch=ti.cuda, libdevice="off")
            ti.init(arch=ti.cpu, libdevice=str(library))
        """,
    )


def test_arrays_of_another_world_on_the_same_device(driver: pathlib.Path) -> None:
    run(
        driver,
        """
        a = ti.ndarray(ti.f32, shape=(2, 2))
        a.fill(1.0)
        scale(a)
        with ti.World(arch=ti.cuda, offline_cache=False):
            scale(a)
        scale(a)
        assert a[0, 0] == 8.0
        """,
    )


def test_pending_launches_are_synchronized_at_exit(driver: pathlib.Path) -> None:
    output = run(
        driver,
        """
        @ti.kernel
        def speak(n: ti.i32):
            print(n)

        speak(5)
        with ti.World(arch=ti.cuda, offline_cache=False) as other:
            speak(6)
        other.close()
        """,
    )
    assert output.splitlines()[-2:] == ["6", "5"]


def test_graphs_are_captured_and_replayed(driver: pathlib.Path) -> None:
    run(
        driver,
        """
        g = ti.graph.GraphBuilder()
        arg = ti.graph.Arg(ti.graph.ArgKind.NDARRAY, "a", ti.f32, ndim=2)
        g.dispatch(scale, arg)
        g.dispatch(scale, arg)
        graph = g.compile()
        a, b = (ti.ndarray(ti.f32, shape=(2, 2)) for _ in range(2))
        a.fill(1.0)
        b.fill(1.0)
        for n in range(4):
            graph.run({"a": a})
            # Captured when the arguments repeat for the first time.
            assert (graph._native is None) == (n == 0)
        assert len(graph._native) == 2
        assert a[0, 0] == 4.0**4
        graph.run({"a": b})
        assert graph._native is None
        graph.run({"a": b})
        graph.run({"a": b})
        assert b[1, 1] == 4.0**3
        # Exported arrays are synchronized at every launch.
        t = Imported(b)
        graph.run({"a": b})
        graph.run({"a": b})
        assert graph._native is None
        assert t.read(4) == [4.0**5] * 4
        # Host arrays are copied at every launch.
        x = np.ones((2, 2), dtype=np.float32)
        for _ in range(3):
            graph.run({"a": x})
        assert (x == 4.0**3).all()
        """,
    )


def test_errors_are_asynchronous(driver: pathlib.Path) -> None:
    program = textwrap.dedent("""
        import sys, warnings
        x = ti.field(ti.f32, shape=8)

        @ti.kernel
        def wander():
            for i in x:
                x[i + 1000] = 1.0

        @ti.kernel
        def speak(n: ti.i32):
            print(n)
        """)
    # Out-of-bounds writes are warnings, as on the CPU, and do not stop the program.
    late = """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            wander()
            wander()
            speak(5)
            assert not caught
            ti.sync()
            wander()
            assert x[0] == 0.0
        assert [w.category for w in caught] == [RuntimeWarning], caught
        print(caught[0].message)
        """
    output = run(driver, program + textwrap.dedent(late)).splitlines()
    assert output.index("5") < output.index("error[W0401]: kernel `wander` wrote to field `x` outside of its bounds")
    assert any("launched earlier" in line for line in output)
    # In strict mode they are errors, raised by the next synchronizing call.
    strict = """
        ti.init(arch=ti.cuda, check_out_of_bound=True)
        """
    late = """
        wander()
        output = fails("W0401", ti.sync)
        assert "launched earlier" in output and "kernel `wander`" in output
        ti.sync()
        wander()
        try:
            x.to_numpy()
        except ti.WujiRuntimeError as e:
            assert "launched earlier" in str(e)
        else:
            raise AssertionError
        """
    run(driver, textwrap.dedent(strict) + program + textwrap.dedent(late))
    for setting in ("debug=True", "check_out_of_bound=True, wait_for_launches=True"):
        # Debug worlds assert at that point.
        early = """
            output = fails("W040", wander)
            assert "launched earlier" not in output, output
            """
        start = f"ti.init(arch=ti.cuda, {setting})\n"
        run(driver, start + program + textwrap.dedent(early))
