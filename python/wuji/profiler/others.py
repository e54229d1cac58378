"""Memory, and where the compiler's time goes."""

from __future__ import annotations

from ..lang import runtime


def print_memory_profiler_info() -> None:
    """Prints what each node of each tree takes, and how much of it is in use."""
    world = runtime.current()
    world.materialize()
    # Trees are told by the names of their fields, which may have none.
    print("\n".join(line.removeprefix(", ") for line in world.native.memory_report().splitlines()))


def print_scoped_profiler_info() -> None:
    """Prints how long kernels ran and how long each step of compilation took. Needs ``kernel_profiler=True``."""
    from .kernels import _world

    native = _world()
    if native is not None:
        print(native.profile_report())


def clear_scoped_profiler_info() -> None:
    """Forgets it, and what was measured of kernels."""
    from .kernels import _world

    native = _world()
    if native is not None:
        native.profile_clear()
