"""Memory profiler and compile-time profiler."""

from __future__ import annotations

from ..lang import runtime


def print_memory_profiler_info() -> None:
    """Print the memory of each node of each tree, and how much of it is in use."""
    world = runtime.current()
    world.materialize()
    # A tree is labeled with the names of its fields; unnamed fields leave a leading comma.
    print("\n".join(line.removeprefix(", ") for line in world.native.memory_report().splitlines()))


def print_scoped_profiler_info() -> None:
    """Print run times of kernels and times of compiler passes. Needs ``kernel_profiler=True``."""
    from .kernels import _world

    native = _world()
    if native is not None:
        print(native.profile_report())


def clear_scoped_profiler_info() -> None:
    """Clear these measurements and those of the kernel profiler."""
    from .kernels import _world

    native = _world()
    if native is not None:
        native.profile_clear()
