"""Kernel profiler: launch counts and run times."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ..lang import runtime


@dataclass
class KernelProfilerQueryResult:
    """Launch count of a kernel, and its minimum, maximum and mean time in milliseconds over all its tasks."""

    counter: int = 0
    min: float = 0.0
    max: float = 0.0
    avg: float = 0.0


def _world() -> Any:
    """Return the native world, or None with a warning, once, if the profiler is off."""
    world = runtime.current()
    if world.config.kernel_profiler:
        return world.native
    if "profiler" not in world.warned:
        world.warned.add("profiler")
        runtime.warn("the kernel profiler is off; enable it with `ti.init(kernel_profiler=True)`", level=4)
    return None


def print_kernel_profiler_info(mode: str = "count") -> None:
    """Print a table of tasks (``"count"``), or every launch in order (``"trace"``). Times are in milliseconds."""
    if mode not in ("count", "trace"):
        raise ValueError("Arg `mode` must be of type 'str', and has the value 'count' or 'trace'.")
    native = _world()
    if native is None:
        return
    arch = runtime.current().config.arch.name
    if mode == "count":
        _print_count(native.profile_tasks(), arch)
    else:
        _print_trace(_launches(native), arch)


def _print_count(tasks: list[tuple[str, str, int, float, float, float, float]], arch: str) -> None:
    total = sum(task[3] for task in tasks)
    rule = "-" * 74
    print(f"{rule}\nKernel profiler (count) @ {arch}\n{rule}")
    print("[      %     total   count |      min       avg       max   ] Kernel name")
    for _, name, count, spent, least, mean, most in sorted(tasks, key=lambda t: -t[3]):
        part = 100 * spent / total if total else 0.0
        print(f"[{part:6.2f}% {spent:7.3f} s {count:6d}x |{1e3 * least:9.3f} {1e3 * mean:9.3f} {1e3 * most:9.3f} ms] {name}")
    print(f"{rule}\n[100.00%] Total execution time: {total:7.3f} s   number of results: {len(tasks)}\n{rule}")


def _launches(native: Any) -> list[tuple[float, float, str]]:
    """Return start and duration in microseconds, and the name, of each task that ran."""
    events = json.loads(native.profile_trace())["traceEvents"]
    return [(e["ts"], e["dur"], e["name"]) for e in events if e.get("cat") == "launch"]


def _print_trace(launches: list[tuple[float, float, str]], arch: str) -> None:
    rule = "-" * 50
    print(f"{rule}\nKernel profiler (trace) @ {arch}\n{rule}")
    print("[  start.time | kernel.time ] Kernel name")
    begin = launches[0][0] if launches else 0.0
    for start, spent, name in launches:
        print(f"[{(start - begin) / 1e3:9.3f} ms |{spent / 1e3:9.3f} ms ] {name}")
    print(f"{rule}\nNumber of records: {len(launches)}\n{rule}")


def query_kernel_profiler_info(name: str) -> KernelProfilerQueryResult:
    """Return the measurements of a kernel: ``query_kernel_profiler_info(step.__name__).avg``. All zero if it never ran."""
    native = _world()
    tasks = [t for t in native.profile_tasks() if name in (t[0], t[1])] if native is not None else []
    if not tasks:
        return KernelProfilerQueryResult()
    counter = max(t[2] for t in tasks)
    spent, least, most = (1e3 * sum(t[i] for t in tasks) for i in (3, 4, 6))
    return KernelProfilerQueryResult(counter, least, most, spent / counter)


def clear_kernel_profiler_info() -> None:
    """Clear all measurements."""
    native = _world()
    if native is not None:
        native.profile_clear()


def get_kernel_profiler_total_time() -> float:
    """Return the total time spent in kernels, in seconds."""
    native = _world()
    return sum(task[3] for task in native.profile_tasks()) if native is not None else 0.0


def set_kernel_profiler_toolkit(toolkit_name: str = "default") -> bool:
    """Select the profiling toolkit. Only ``"default"`` exists; ``"cupti"`` returns ``False``."""
    if toolkit_name not in ("default", "cupti"):
        raise ValueError(f"Arg `toolkit_name` must be 'default' or 'cupti', not {toolkit_name!r}.")
    return toolkit_name == "default" and runtime.current().config.kernel_profiler


def save_trace(filename: str) -> None:
    """Save all launches and compilations as a JSON trace for ``chrome://tracing`` or Perfetto."""
    native = _world()
    if native is not None:
        with open(filename, "w", encoding="utf-8") as file:
            file.write(native.profile_trace())
