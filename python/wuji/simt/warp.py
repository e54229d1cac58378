"""Warps: 32 threads of a CUDA GPU.

Collective operations must be reached by all threads of the warp that have not exited. The mask selects the lanes that take part;
lanes that have exited contribute undefined values.
"""

from __future__ import annotations

from typing import Any

from ..lang import emit, ops, threads
from ..lang.dtypes import DataType, f32, i32, u32
from ..lang.ops import kernel_only


def _masked(mask: Any, bits: Any) -> Any:
    return emit.binary("and", emit.convert(mask, u32), bits, "&", u32)


def _to_i32(truth: Any) -> Any:
    return emit.convert(truth, i32)


@kernel_only
def active_mask() -> Any:
    """Return the mask of the lanes that are currently converged."""
    return threads.thread("active_mask", u32)


@kernel_only
def all_nonzero(mask: Any, predicate: Any) -> Any:
    """Return 1 if the predicate is nonzero for all lanes of the mask, else 0."""
    votes = _masked(mask, threads.vote("ballot", predicate, u32))
    return _to_i32(emit.compare("eq", votes, _masked(mask, threads.active_mask()), "=="))


@kernel_only
def any_nonzero(mask: Any, predicate: Any) -> Any:
    """Return 1 if the predicate is nonzero for any lane of the mask, else 0."""
    votes = _masked(mask, threads.vote("ballot", predicate, u32))
    return _to_i32(emit.compare("ne", votes, emit.constant(0, u32), "!="))


@kernel_only
def unique(mask: Any, predicate: Any) -> Any:
    """Return 1 if the predicate is zero for all lanes of the mask, or nonzero for all, else 0."""
    votes = _masked(mask, threads.vote("ballot", predicate, u32))
    all_ = emit.compare("eq", votes, _masked(mask, threads.active_mask()), "==")
    return _to_i32(ops.logical_or(all_, emit.compare("eq", votes, emit.constant(0, u32), "==")))


@kernel_only
def ballot(predicate: Any) -> Any:
    """Return the mask of the lanes for which the predicate is nonzero."""
    return threads.vote("ballot", predicate, u32)


@kernel_only
def match_any(mask: Any, value: Any) -> Any:
    """Return the mask of the lanes that have the same value."""
    return _masked(mask, threads.thread("match_any", u32, emit.expr(value)))


@kernel_only
def match_all(mask: Any, val: Any) -> Any:
    """Return the mask if all its lanes have the same value, else 0."""
    same = _masked(mask, threads.thread("match_any", u32, emit.expr(val)))
    active = _masked(mask, threads.active_mask())
    return emit.select(emit.compare("eq", same, active, "=="), active, emit.constant(0, u32))


def _shuffle(name: str, op: str, dtype: DataType, doc: str) -> Any:
    def shuffle(mask: Any, val: Any, offset: Any) -> Any:
        return threads.shuffle(op, val, offset, dtype)

    shuffle.__name__ = shuffle.__qualname__ = name
    shuffle.__doc__ = doc
    return kernel_only(shuffle)


_FROM = "Return the value of the lane with index ``offset``."
_UP = "Return the value of the lane ``offset`` below; the own value if there is none."
_DOWN = "Return the value of the lane ``offset`` above; the own value if there is none."
_XOR = "Return the value of the lane whose index differs by XOR with ``offset``."

shfl_sync_i32 = _shuffle("shfl_sync_i32", "shuffle_from", i32, _FROM)
shfl_sync_f32 = _shuffle("shfl_sync_f32", "shuffle_from", f32, _FROM)
shfl_up_i32 = _shuffle("shfl_up_i32", "shuffle_up", i32, _UP)
shfl_up_f32 = _shuffle("shfl_up_f32", "shuffle_up", f32, _UP)
shfl_down_i32 = _shuffle("shfl_down_i32", "shuffle_down", i32, _DOWN)
shfl_down_f32 = _shuffle("shfl_down_f32", "shuffle_down", f32, _DOWN)
shfl_xor_i32 = _shuffle("shfl_xor_i32", "shuffle_xor", i32, _XOR)


@kernel_only
def sync(mask: Any) -> None:
    """Wait for all threads of the warp."""
    threads.thread("warp_barrier", None)


__all__ = [
    "active_mask", "all_nonzero", "any_nonzero", "ballot", "match_all", "match_any", "shfl_down_f32",
    "shfl_down_i32", "shfl_sync_f32", "shfl_sync_i32", "shfl_up_f32", "shfl_up_i32", "shfl_xor_i32", "sync",
    "unique",
]  # fmt: skip
