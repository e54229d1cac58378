"""Grid-level primitives."""

from __future__ import annotations

from ..lang import threads
from ..lang.ops import kernel_only


@kernel_only
def memfence() -> None:
    """Memory fence: order this thread's writes as seen by all threads. Does not wait."""
    threads.thread("grid_fence", None)


__all__ = [
    "memfence",
]  # fmt: skip
