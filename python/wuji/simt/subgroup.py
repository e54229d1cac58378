"""Subgroups: threads of a GPU that go in step. On NVIDIA's they are warps of 32; see `warp`."""

from __future__ import annotations

from typing import Any

from ..lang import emit, threads
from ..lang.dtypes import i32, u32
from ..lang.ops import kernel_only


@kernel_only
def barrier() -> None:
    """Waits until all threads of the subgroup are here."""
    threads.thread("warp_barrier", None)


@kernel_only
def memory_barrier() -> None:
    """Other threads see what this one has written before what it writes next; nobody waits."""
    threads.thread("block_fence", None)


@kernel_only
def elect() -> Any:
    """1 for one thread of the subgroup, 0 for the others."""
    return emit.convert(emit.compare("eq", threads.lane(), threads.first_living(), "=="), i32)


@kernel_only
def all_true(cond: Any) -> Any:
    """1 if the condition holds for all threads, else 0."""
    return emit.convert(emit.compare("eq", threads.asked("ballot", cond, u32), threads.living(), "=="), i32)


@kernel_only
def any_true(cond: Any) -> Any:
    """1 if the condition holds for any thread, else 0."""
    return emit.convert(emit.compare("ne", threads.asked("ballot", cond, u32), emit.constant(0, u32), "!="), i32)


@kernel_only
def all_equal(value: Any) -> Any:
    """1 if all threads have the same value, else 0."""
    same = threads.thread("match_any", u32, emit.expr(value))
    return emit.convert(emit.compare("eq", same, threads.living(), "=="), i32)


@kernel_only
def broadcast(value: Any, index: Any) -> Any:
    """What the thread with this number has."""
    return threads.shuffled("shuffle_from", value, index)


@kernel_only
def broadcast_first(value: Any) -> Any:
    """What the first thread that has not ended has."""
    return threads.shuffled("shuffle_from", value, threads.first_living())


@kernel_only
def group_size() -> Any:
    """Threads of a subgroup."""
    return threads.WARP


@kernel_only
def invocation_id() -> Any:
    """The number of the thread in its subgroup."""
    return threads.lane()


@kernel_only
def shuffle(value: Any, index: Any) -> Any:
    """What the thread with this number has."""
    return threads.shuffled("shuffle_from", value, index)


@kernel_only
def shuffle_up(value: Any, offset: Any) -> Any:
    """What the thread so many below has; the own value where there is none."""
    return threads.shuffled("shuffle_up", value, offset)


@kernel_only
def shuffle_down(value: Any, offset: Any) -> Any:
    """What the thread so many above has; the own value where there is none."""
    return threads.shuffled("shuffle_down", value, offset)


@kernel_only
def shuffle_xor(value: Any, mask: Any) -> Any:
    """What the thread has whose number differs in these bits."""
    return threads.shuffled("shuffle_xor", value, mask)


_WORDS = {"add": "sum", "mul": "product", "min": "least", "max": "greatest", "and": "bits of all", "or": "bits of any", "xor": "bits of an odd number"}
_WHOSE = {"reduce": "all threads", "inclusive": "the threads up to this one", "exclusive": "the threads below this one"}


def _over(kind: str, op: str) -> Any:
    def over(value: Any) -> Any:
        return threads.over_lanes(op, value, kind)

    over.__name__ = over.__qualname__ = f"{kind}_{op}"
    over.__doc__ = f"The {_WORDS[op]} of {_WHOSE[kind]} of the subgroup."
    return kernel_only(over)


reduce_add = _over("reduce", "add")
reduce_mul = _over("reduce", "mul")
reduce_min = _over("reduce", "min")
reduce_max = _over("reduce", "max")
reduce_and = _over("reduce", "and")
reduce_or = _over("reduce", "or")
reduce_xor = _over("reduce", "xor")
inclusive_add = _over("inclusive", "add")
inclusive_mul = _over("inclusive", "mul")
inclusive_min = _over("inclusive", "min")
inclusive_max = _over("inclusive", "max")
inclusive_and = _over("inclusive", "and")
inclusive_or = _over("inclusive", "or")
inclusive_xor = _over("inclusive", "xor")
exclusive_add = _over("exclusive", "add")
exclusive_mul = _over("exclusive", "mul")
exclusive_min = _over("exclusive", "min")
exclusive_max = _over("exclusive", "max")
exclusive_and = _over("exclusive", "and")
exclusive_or = _over("exclusive", "or")
exclusive_xor = _over("exclusive", "xor")

__all__ = [
    "all_equal", "all_true", "any_true", "barrier", "broadcast", "broadcast_first", "elect", "exclusive_add",
    "exclusive_and", "exclusive_max", "exclusive_min", "exclusive_mul", "exclusive_or", "exclusive_xor",
    "group_size", "inclusive_add", "inclusive_and", "inclusive_max", "inclusive_min", "inclusive_mul",
    "inclusive_or", "inclusive_xor", "invocation_id", "memory_barrier", "reduce_add", "reduce_and", "reduce_max",
    "reduce_min", "reduce_mul", "reduce_or", "reduce_xor", "shuffle", "shuffle_down", "shuffle_up", "shuffle_xor",
]  # fmt: skip
