"""The whole grid of threads of a GPU."""

from __future__ import annotations

from ..lang import threads
from ..lang.ops import kernel_only


@kernel_only
def memfence() -> None:
    """Other threads see what this one has written before what it writes next; nobody waits."""
    threads.thread("grid_fence", None)


__all__ = [
    "memfence",
]  # fmt: skip
