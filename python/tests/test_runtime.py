"""Worlds, options, threads, processes."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import wuji as ti


def python(code, **env):
    """Run a program in a subprocess."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "WUJI_CACHE": "off", **env},
    )


def script(tmp_path, code, **env):
    """Run a program from a file, so that its kernels have source code."""
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(code))
    return subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=120, env={**os.environ, "WUJI_CACHE": "off", **env}
    )


def test_options():
    ti.init(arch=ti.cpu, debug=True, random_seed=3, cpu_max_num_threads=1, default_fp=ti.f64, offline_cache=False, verbose=False, async_mode=True)
    assert ti.cfg.debug and ti.cfg.default_fp is ti.f64 and ti.cfg.random_seed == 3 and ti.cfg.arch is ti.cpu
    from wuji.lang import runtime

    assert runtime.current().native.threads == 1


def test_unknown_options():
    with pytest.raises(KeyError, match="did you mean `debug`"):
        ti.init(arch=ti.cpu, debg=True)
    with pytest.raises(TypeError):
        ti.init(arch="tpu")
    with pytest.raises(ValueError):
        ti.init(arch=ti.cpu, default_fp=ti.i32)


def test_options_from_the_environment(monkeypatch):
    monkeypatch.setenv("TI_DEBUG", "1")
    monkeypatch.setenv("TI_DEFAULT_FP", "f64")
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
    assert ti.cfg.debug and ti.cfg.default_fp is ti.f64
    monkeypatch.setenv("TI_DEBUG", "perhaps")
    with pytest.raises(ValueError, match="TI_DEBUG"):
        ti.init(arch=ti.cpu)


def test_missing_backends_fall_back_or_raise(capsys, monkeypatch):
    monkeypatch.setattr(ti.lang.arch, "cuda_devices", list)
    ti.init(arch=ti.gpu, offline_cache=False, verbose=False)
    assert "falling back to" in capsys.readouterr().err
    assert ti.cfg.arch is ti.cpu
    with pytest.raises(NotImplementedError):
        ti.init(arch=ti.cuda, enable_fallback=False)


@pytest.mark.skipif(not ti.lang.misc.is_arch_supported(ti.cuda), reason="there is no GPU")
@pytest.mark.parametrize("arch", [ti.cuda, ti.gpu], ids=["cuda", "gpu"])
def test_gpu_backend(arch, capsys):
    ti.init(arch=arch, offline_cache=False, verbose=False, enable_fallback=False)
    assert ti.cfg.arch is ti.cuda
    x = ti.field(ti.f32)
    ti.root.pointer(ti.i, 64).dense(ti.i, 16).place(x)
    a = np.arange(1024, dtype=np.float32)

    @ti.kernel
    def gather(a: ti.types.ndarray(dtype=ti.f32, ndim=1)) -> ti.f32:
        total = 0.0
        for i in range(256):
            x[4 * i] = a[4 * i]
        for i in x:
            total += x[i]
            a[i] = -1.0
        return total

    assert gather(a) == sum(range(0, 1024, 4))
    assert (a == -1).all()
    assert x[8] == 8.0 and x.to_numpy().sum() == sum(range(0, 1024, 4))
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(not ti.lang.misc.is_arch_supported(ti.cuda), reason="there is no GPU")
def test_deterministic_mode_on_a_gpu():
    with pytest.raises(ti.WujiError, match="W0525"):
        ti.init(arch=ti.cuda, deterministic=True, offline_cache=False, verbose=False)


def test_required_versions():
    ti.init(arch=ti.cpu, require_version="1.7.0", offline_cache=False, verbose=False)
    with pytest.raises(ti.TaichiRuntimeError):
        ti.init(arch=ti.cpu, require_version="9.0.0")


def test_random_seed_is_reproducible():
    def draw(seed):
        ti.init(arch=ti.cpu, random_seed=seed, offline_cache=False, verbose=False)
        x = ti.field(ti.f32, shape=100)

        @ti.kernel
        def f():
            for i in x:
                x[i] = ti.random()

        f()
        return x.to_numpy().tolist()

    assert draw(1) == draw(1) != draw(2)


def test_concurrent_launches():
    x = ti.field(ti.i32, shape=8)

    @ti.kernel
    def f(k: ti.i32):
        for i in range(100):
            x[k] += 1

    threads = [threading.Thread(target=lambda k=k: [f(k) for _ in range(50)]) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert x.to_numpy().tolist() == [5000] * 8


def test_concurrent_compilation():
    results = []

    def work(k):
        @ti.kernel
        def f(x: ti.i32) -> ti.i32:
            return x * k

        results.append(f(10))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(results) == [10 * k for k in range(8)]


def test_other_threads_run_during_a_launch():
    @ti.kernel
    def long() -> ti.f64:
        s = ti.f64(0.0)
        ti.loop_config(serialize=True)
        for i in range(100_000_000):
            s += ti.sin(ti.f64(i))
        return s

    ticks = []
    done = threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.005)

    t = threading.Thread(target=tick)
    t.start()
    begin = time.perf_counter()
    long()
    end = time.perf_counter()
    done.set()
    t.join()
    inside = [x for x in ticks if begin < x < end]
    assert len(inside) > (end - begin) / 0.005 / 20


def test_ctrl_c_stops_a_kernel(tmp_path):
    path = tmp_path / "forever.py"
    path.write_text(
        textwrap.dedent(
            """
            import signal
            import wuji as ti
            # A test in the background inherits that SIGINT is ignored.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            ti.init(arch=ti.cpu, verbose=False)
            @ti.kernel
            def forever():
                n = 0
                while n >= 0:
                    n = (n + 1) % 7
            print("ready", flush=True)
            try:
                forever()
            except KeyboardInterrupt:
                print("stopped", flush=True)
            """
        )
    )
    p = subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True, env={**os.environ, "WUJI_CACHE": "off"})
    assert p.stdout.readline() == "ready\n"
    time.sleep(0.5)
    p.send_signal(signal.SIGINT)
    assert p.communicate(timeout=30)[0] == "stopped\n"


def test_time_limits():
    ti.init(arch=ti.cpu, time_limit=0.2, offline_cache=False, verbose=False)

    @ti.kernel
    def forever():
        n = 0
        while n >= 0:
            n = (n + 1) % 7

    with pytest.raises(ti.TaichiRuntimeError, match="W0409"):
        forever()


def test_forked_processes_get_an_error(tmp_path):
    done = script(
        tmp_path,
        """
        import os
        import wuji as ti
        ti.init(arch=ti.cpu, verbose=False)
        x = ti.field(ti.f32, shape=3)

        @ti.kernel
        def f():
            x[0] += 1

        f()
        pid = os.fork()
        if pid == 0:
            try:
                f()
                os._exit(1)
            except ti.TaichiRuntimeError as e:
                os._exit(7 if "fork" in str(e) else 2)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        pid = os.fork()
        if pid == 0:
            # A new world works, and the process exits normally.
            ti.init(arch=ti.cpu, verbose=False)
            y = ti.field(ti.f32, shape=1000)

            @ti.kernel
            def g():
                for i in y:
                    y[i] += 1

            g()
            raise SystemExit(int(y[999]))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        f()
        print(x[0])
        """,
    )
    assert done.stdout.split() == ["7", "1", "2.0"], done.stderr


def test_spawned_processes_work(tmp_path):
    done = script(
        tmp_path,
        """
        import multiprocessing
        import wuji as ti

        @ti.kernel
        def f(n: ti.i32) -> ti.i32:
            return n * 2

        def work(n):
            ti.init(arch=ti.cpu, verbose=False)
            return f(n)

        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                print(pool.map(work, [1, 2, 3]))
        """,
    )
    assert done.stdout == "[2, 4, 6]\n", done.stderr


def test_code_is_freed_with_its_kernel():
    import gc

    from wuji.lang import runtime

    def work(k):
        @ti.kernel
        def f(x: ti.template()) -> ti.i32:
            return x * k

        return f(3)

    assert [work(k) for k in range(20)] == [3 * k for k in range(20)]
    gc.collect()
    assert len(runtime.current().codes) == 0


def test_pickling_fields_raises():
    x = ti.field(ti.f32, shape=3)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(x)
    assert pickle.loads(pickle.dumps(ti.f32)) is ti.f32
    assert pickle.loads(pickle.dumps(ti.Vector([1, 2]))).to_list() == [1, 2]


def test_kernels_without_source_raise():
    scope = {"ti": ti}
    exec("@ti.kernel\ndef f():\n    pass\n", scope)
    with pytest.raises(ti.TaichiRuntimeError, match="no source code found for `f`"):
        scope["f"]()


def test_import_prints_nothing(tmp_path):
    done = script(tmp_path, "import wuji as ti\nti.init(arch=ti.cpu, verbose=False)\n")
    assert done.stdout == done.stderr == ""


def test_numpy_is_imported_lazily():
    done = python("import sys, wuji; print('numpy' in sys.modules)")
    assert done.stdout == "False\n"


def test_kernels_are_cached_on_disk(tmp_path):
    program = """
    import time
    import wuji as ti
    ti.init(arch=ti.cpu, verbose=False, offline_cache_file_path={path!r})

    @ti.kernel
    def f(n: ti.i32) -> ti.i32:
        return n + 1

    print(f(1))
    """.format(path=str(tmp_path / "kernels"))
    for _ in range(2):
        done = script(tmp_path, program)
        assert done.stdout == "2\n", done.stderr
    assert list((tmp_path / "kernels").rglob("*"))


def test_exit_with_an_open_world(tmp_path):
    done = script(
        tmp_path,
        """
        import wuji as ti
        ti.init(arch=ti.cpu, verbose=False)
        x = ti.field(ti.f32, shape=1000)

        @ti.kernel
        def f():
            for i in x:
                x[i] += 1

        for _ in range(10):
            f()
        """,
    )
    assert done.returncode == 0 and done.stderr == ""


def test_exit_during_background_compilation(tmp_path):
    program = """
    import wuji as ti
    ti.init(arch=ti.cpu, verbose=False)
    x = ti.Vector.field(3, ti.f32, shape=4096)

    @ti.kernel
    def f():
        for i in x:
            v = x[i]
            for k in ti.static(range({n})):
                v += ti.Vector([ti.sin(v[1] + k), ti.cos(v[2]), ti.exp(-v[0] * v[0])])
            x[i] = v

    # Long enough for the kernel to become hot, and a little more.
    for _ in range({n}):
        f()
    """
    for n in (20, 25, 30):
        done = script(tmp_path, program.format(n=n))
        assert done.returncode == 0 and done.stderr == ""


def test_exception_classes_of_invalid_calls():
    import numpy as np

    @ti.kernel
    def f(a: ti.i32, b: ti.types.ndarray(dtype=ti.f32, ndim=1)):
        b[0] = a

    right = np.zeros(4, np.float32)
    for wrong in ((), (1,), (1, right, 3)):
        with pytest.raises(ti.TaichiSyntaxError):
            f(*wrong)
        with pytest.raises(TypeError):
            f(*wrong)
    for wrong in (np.zeros(4), np.zeros((2, 2), np.float32)):
        with pytest.raises(ValueError):
            f(1, wrong)
        with pytest.raises(ti.TaichiRuntimeTypeError):
            f(1, wrong)
