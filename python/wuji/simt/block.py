"""Blocks of threads of a GPU. All threads of a block have to come to its barriers."""

from __future__ import annotations

from typing import Any

from ..lang import emit, ops, threads
from ..lang.dtypes import i32, u1
from ..lang.ops import kernel_only
from ..lang.threads import SharedArray


@kernel_only
def sync() -> None:
    """Waits until all threads of the block are here; they then see what each of them has written."""
    threads.thread("barrier", None)


@kernel_only
def sync_all_nonzero(predicate: Any) -> Any:
    """As `sync`; 1 if the predicate is not zero for all threads, else 0."""
    return emit.convert(threads.asked("barrier_all", predicate, u1), i32)


@kernel_only
def sync_any_nonzero(predicate: Any) -> Any:
    """As `sync`; 1 if the predicate is not zero for any thread, else 0."""
    return emit.convert(threads.asked("barrier_any", predicate, u1), i32)


@kernel_only
def sync_count_nonzero(predicate: Any) -> Any:
    """As `sync`; for how many threads the predicate is not zero."""
    return threads.asked("barrier_count", predicate, i32)


@kernel_only
def mem_sync() -> None:
    """Other threads of the block see what this one has written before what it writes next; nobody waits."""
    threads.thread("block_fence", None)


@kernel_only
def thread_idx() -> Any:
    """The number of the thread in its block."""
    return threads.thread("thread_index", i32)


@kernel_only
def global_thread_idx() -> Any:
    """The number of the thread among all that run the loop."""
    before = ops.mul(threads.thread("block_index", i32), threads.thread("block_size", i32))
    return ops.add(before, threads.thread("thread_index", i32))


__all__ = [
    "SharedArray", "global_thread_idx", "mem_sync", "sync", "sync_all_nonzero", "sync_any_nonzero", "sync_count_nonzero", "thread_idx",
]  # fmt: skip
