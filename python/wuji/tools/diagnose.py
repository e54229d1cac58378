"""System information for bug reports."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time

from ..lang.dtypes import i32
from ..lang.kernel import kernel
from ..lang.runtime import World


def report() -> list[tuple[str, str]]:
    """Return names and values of the report."""
    from .. import _native

    facts = [
        ("wuji", _native.__version__),
        ("extension", getattr(_native, "__file__", None) or "built in"),
        ("python", f"{platform.python_version()} ({sys.executable})"),
        ("system", platform.platform()),
        ("cpu", f"{_cpu()}, {os.cpu_count()} cores"),
    ]
    for module in ("numpy", "torch", "PIL"):
        facts.append((module, _version(module)))
    facts.append(("ffmpeg", shutil.which("ffmpeg") or "not installed (MP4 videos need it)"))
    facts.append(("display", os.environ.get("DISPLAY") or "none: windows draw offscreen"))
    settings = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(("TI_", "WUJI_"))]
    facts.append(("settings", " ".join(settings) or "none"))
    world = World(verbose=False)
    try:
        facts.append(("threads", str(world.threads)))
        facts.append(("cache", world.runtime.native.cache_folder() or "off"))
        facts.append(("kernel", _try(world)))
    finally:
        world.close()
    return facts


def diagnose() -> None:
    """Print the report."""
    for name, fact in report():
        print(f"{name:<10} {fact}")


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _version(module: str) -> str:
    from importlib import metadata

    try:
        return metadata.version({"PIL": "pillow"}.get(module, module))
    except metadata.PackageNotFoundError:
        return "not installed"


@kernel
def _add(a: i32, b: i32) -> i32:  # type: ignore
    return a + b  # type: ignore


def _try(world: World) -> str:
    """Compile and run a kernel."""
    started = time.perf_counter()
    with world:
        result = _add(40, 2)
    return f"compiled and run in {1e3 * (time.perf_counter() - started):.0f} ms, with the {'right' if result == 42 else 'WRONG'} result"
