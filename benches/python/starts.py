"""Start-up time of a Python program and launch overhead from Python, compared with the goals.

Run by `cargo xtask bench --python starts`. Every number is a median over processes or over many launches.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

PROCESSES = 21


def program() -> str:
    """The example `mpm88` up to the end of its first substep, without rendering."""
    from wuji.examples import path

    with open(path("mpm88"), encoding="utf-8") as file:
        source = file.read()
    return source[: source.index("gui = ti.GUI")].replace("from wuji.examples import frames\n", "") + "step()\nprint(x[0].y, flush=True)\n"


def seconds(command: list[str], **settings: str) -> float:
    """The time until a process writes its first line."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, **settings}) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        took = time.perf_counter() - start
    if not line:
        raise SystemExit(f"error: `{' '.join(command)}` failed")
    return took


def interleaved(commands: dict[str, tuple[list[str], dict[str, str]]]) -> dict[str, float]:
    """Median times in milliseconds of processes that are started alternately."""
    found: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(PROCESSES):
        for name, (command, settings) in commands.items():
            found[name].append(seconds(command, **settings) * 1e3)
    return {name: statistics.median(times) for name, times in found.items()}


def launches() -> dict[str, float]:
    """The overhead of a launch in microseconds."""
    import numpy as np

    import wuji as ti

    ti.init(arch=ti.cpu, offline_cache=False, log_level=ti.ERROR)
    count = ti.field(ti.i32, ())

    @ti.kernel
    def nothing():
        count[None] += 1

    @ti.kernel
    def five(a: ti.i32, b: ti.f32, c: ti.f32, x: ti.types.ndarray(dtype=ti.f32, ndim=1), y: ti.types.ndarray(dtype=ti.f32, ndim=1)):
        y[0] = x[0] * b + c + a

    x, y = np.ones(16, np.float32), np.ones(16, np.float32)
    u, v = ti.ndarray(ti.f32, 16), ti.ndarray(ti.f32, 16)
    found = {}
    for name, call in {
        "launch without arguments": nothing,
        "launch with 3 scalars, 2 NumPy arrays": lambda: five(1, 2.0, 3.0, x, y),
        "launch with 3 scalars, 2 `ti.ndarray`s": lambda: five(1, 2.0, 3.0, u, v),
    }.items():
        call()
        ti.finish_compiling()
        samples = []
        for _ in range(31):
            start = time.perf_counter()
            for _ in range(2000):
                call()
            samples.append((time.perf_counter() - start) / 2000 * 1e6)
        found[name] = statistics.median(samples)
    return found


def main() -> None:
    python = sys.executable
    init = "import time, wuji as ti\ns = time.perf_counter()\nti.init(arch=ti.cpu, log_level=ti.ERROR)\nprint((time.perf_counter() - s) * 1e3)"
    rows: list[tuple[str, float, str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        # Like an installed package: the bytecode is cached already.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = os.path.join(folder, "bytecode")
        file = os.path.join(folder, "first.py")
        with open(file, "w", encoding="utf-8") as out:
            out.write(program())
        warm = {"WUJI_CACHE": os.path.join(folder, "cache")}
        seconds([python, file], **warm)
        times = interleaved(
            {
                "python": ([python, "-c", "print(1, flush=True)"], {}),
                "import": ([python, "-c", "import wuji; print(1, flush=True)"], {}),
                "cold": ([python, file], {"WUJI_CACHE": "off"}),
                "warm": ([python, file], warm),
            }
        )
        inits = [float(subprocess.run([python, "-c", init], check=True, capture_output=True, text=True).stdout) for _ in range(PROCESSES)]
    rows.append(("`import wuji`, more than Python alone", times["import"] - times["python"], "ms", 60))
    rows.append(("`ti.init(arch=ti.cpu)`", statistics.median(inits), "ms", 20))
    rows.append(("mpm88, process to first substep, no cache", times["cold"], "ms", 400))
    rows.append(("mpm88, process to first substep, cache", times["warm"], "ms", 150))
    for name, value in launches().items():
        rows.append((name, value, "us", 3 if "without" in name else 6))
    print(f"{'':<44}{'median':>10}{'goal':>12}")
    for name, value, unit, goal in rows:
        print(f"{name:<44}{value:>7.2f} {unit}{goal:>9g} {unit}")


if __name__ == "__main__":
    main()
