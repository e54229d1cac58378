"""Thread blocks. Barriers must be reached by all threads of a block."""

from __future__ import annotations

from typing import Any

from ..lang import emit, ops, threads
from ..lang.dtypes import i32, u1
from ..lang.ops import kernel_only
from ..lang.threads import SharedArray


@kernel_only
def sync() -> None:
    """Wait for all threads of the block. Their earlier writes are then visible to each other."""
    threads.thread("barrier", None)


@kernel_only
def sync_all_nonzero(predicate: Any) -> Any:
    """Synchronize; return 1 if the predicate is nonzero for all threads, else 0."""
    return emit.convert(threads.vote("barrier_all", predicate, u1), i32)


@kernel_only
def sync_any_nonzero(predicate: Any) -> Any:
    """Synchronize; return 1 if the predicate is nonzero for any thread, else 0."""
    return emit.convert(threads.vote("barrier_any", predicate, u1), i32)


@kernel_only
def sync_count_nonzero(predicate: Any) -> Any:
    """Synchronize; return the number of threads for which the predicate is nonzero."""
    return threads.vote("barrier_count", predicate, i32)


@kernel_only
def mem_sync() -> None:
    """Memory fence: order this thread's writes as seen by the block. Does not wait."""
    threads.thread("block_fence", None)


@kernel_only
def thread_idx() -> Any:
    """Return the index of the thread in its block."""
    return threads.thread("thread_index", i32)


@kernel_only
def global_thread_idx() -> Any:
    """Return the index of the thread in the grid."""
    before = ops.mul(threads.thread("block_index", i32), threads.thread("block_size", i32))
    return ops.add(before, threads.thread("thread_index", i32))


__all__ = [
    "SharedArray", "global_thread_idx", "mem_sync", "sync", "sync_all_nonzero", "sync_any_nonzero", "sync_count_nonzero", "thread_idx",
]  # fmt: skip
