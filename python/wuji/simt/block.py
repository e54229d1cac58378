"""Blocks of threads."""

from __future__ import annotations

from typing import Any

from ..lang.missing import function, refuse

_FEATURE = "blocks of threads that share memory are"


class SharedArray:
    """Memory that the threads of a block share."""

    def __init__(self, shape: Any, dtype: Any) -> None:
        refuse("ti.simt.block.SharedArray", _FEATURE)


sync = function("ti.simt.block.sync", _FEATURE)
sync_all_nonzero = function("ti.simt.block.sync_all_nonzero", _FEATURE)
sync_any_nonzero = function("ti.simt.block.sync_any_nonzero", _FEATURE)
sync_count_nonzero = function("ti.simt.block.sync_count_nonzero", _FEATURE)
mem_sync = function("ti.simt.block.mem_sync", _FEATURE)
thread_idx = function("ti.simt.block.thread_idx", _FEATURE)
global_thread_idx = function("ti.simt.block.global_thread_idx", _FEATURE)

__all__ = [
    "SharedArray", "global_thread_idx", "mem_sync", "sync", "sync_all_nonzero", "sync_any_nonzero", "sync_count_nonzero", "thread_idx",
]  # fmt: skip
