"""Warps: 32 threads of a GPU that go in step. All threads of a warp have to come to what they do together, those that have ended
left aside. A mask says which of them count; a lane that has ended, or never was, gives any value."""

from __future__ import annotations

from typing import Any

from ..lang import emit, ops, threads
from ..lang.dtypes import f32, i32, u32
from ..lang.ops import kernel_only


def _counted(mask: Any, bits: Any) -> Any:
    return emit.binary("and", emit.convert(mask, u32), bits, "&", u32)


def _told(truth: Any) -> Any:
    return emit.convert(truth, i32)


@kernel_only
def active_mask() -> Any:
    """A bit for each lane that is here at the same time, as it happens."""
    return threads.thread("active_mask", u32)


@kernel_only
def all_nonzero(mask: Any, predicate: Any) -> Any:
    """1 if the predicate is not zero for all lanes of the mask, else 0."""
    yes = _counted(mask, threads.asked("ballot", predicate, u32))
    return _told(emit.compare("eq", yes, _counted(mask, threads.living()), "=="))


@kernel_only
def any_nonzero(mask: Any, predicate: Any) -> Any:
    """1 if the predicate is not zero for any lane of the mask, else 0."""
    yes = _counted(mask, threads.asked("ballot", predicate, u32))
    return _told(emit.compare("ne", yes, emit.constant(0, u32), "!="))


@kernel_only
def unique(mask: Any, predicate: Any) -> Any:
    """1 if the predicate is zero for all lanes of the mask, or for none of them, else 0."""
    yes = _counted(mask, threads.asked("ballot", predicate, u32))
    all_ = emit.compare("eq", yes, _counted(mask, threads.living()), "==")
    return _told(ops.logical_or(all_, emit.compare("eq", yes, emit.constant(0, u32), "==")))


@kernel_only
def ballot(predicate: Any) -> Any:
    """A bit for each lane for which the predicate is not zero."""
    return threads.asked("ballot", predicate, u32)


@kernel_only
def match_any(mask: Any, value: Any) -> Any:
    """A bit for each lane of the mask that has the same value."""
    return _counted(mask, threads.thread("match_any", u32, emit.expr(value)))


@kernel_only
def match_all(mask: Any, val: Any) -> Any:
    """The lanes of the mask, if all of them have the same value, else 0."""
    same = _counted(mask, threads.thread("match_any", u32, emit.expr(val)))
    everybody = _counted(mask, threads.living())
    return emit.select(emit.compare("eq", same, everybody, "=="), everybody, emit.constant(0, u32))


@kernel_only
def shfl_sync_i32(mask: Any, val: Any, offset: Any) -> Any:
    """What the lane with this number has."""
    return threads.shuffled("shuffle_from", val, offset, i32)


@kernel_only
def shfl_sync_f32(mask: Any, val: Any, offset: Any) -> Any:
    """What the lane with this number has."""
    return threads.shuffled("shuffle_from", val, offset, f32)


@kernel_only
def shfl_up_i32(mask: Any, val: Any, offset: Any) -> Any:
    """What the lane so many below has; the own value where there is none."""
    return threads.shuffled("shuffle_up", val, offset, i32)


@kernel_only
def shfl_up_f32(mask: Any, val: Any, offset: Any) -> Any:
    """What the lane so many below has; the own value where there is none."""
    return threads.shuffled("shuffle_up", val, offset, f32)


@kernel_only
def shfl_down_i32(mask: Any, val: Any, offset: Any) -> Any:
    """What the lane so many above has; the own value where there is none."""
    return threads.shuffled("shuffle_down", val, offset, i32)


@kernel_only
def shfl_down_f32(mask: Any, val: Any, offset: Any) -> Any:
    """What the lane so many above has; the own value where there is none."""
    return threads.shuffled("shuffle_down", val, offset, f32)


@kernel_only
def shfl_xor_i32(mask: Any, val: Any, offset: Any) -> Any:
    """What the lane has whose number differs in these bits."""
    return threads.shuffled("shuffle_xor", val, offset, i32)


@kernel_only
def sync(mask: Any) -> None:
    """Waits until all threads of the warp are here."""
    threads.thread("warp_barrier", None)


__all__ = [
    "active_mask", "all_nonzero", "any_nonzero", "ballot", "match_all", "match_any", "shfl_down_f32",
    "shfl_down_i32", "shfl_sync_f32", "shfl_sync_i32", "shfl_up_f32", "shfl_up_i32", "shfl_xor_i32", "sync",
    "unique",
]  # fmt: skip
