"""Subgroups. On CUDA a subgroup is a warp of 32 threads; see `warp`."""

from __future__ import annotations

from typing import Any

from ..lang import emit, threads
from ..lang.dtypes import i32, u32
from ..lang.ops import kernel_only


@kernel_only
def barrier() -> None:
    """Wait for all threads of the subgroup."""
    threads.thread("warp_barrier", None)


@kernel_only
def memory_barrier() -> None:
    """Memory fence: order this thread's writes as seen by the block. Does not wait."""
    threads.thread("block_fence", None)


@kernel_only
def elect() -> Any:
    """Return 1 for one thread of the subgroup, 0 for the others."""
    return emit.convert(emit.compare("eq", threads.lane(), threads.first_active(), "=="), i32)


@kernel_only
def all_true(cond: Any) -> Any:
    """Return 1 if the condition holds for all threads, else 0."""
    return emit.convert(emit.compare("eq", threads.vote("ballot", cond, u32), threads.active_mask(), "=="), i32)


@kernel_only
def any_true(cond: Any) -> Any:
    """Return 1 if the condition holds for any thread, else 0."""
    return emit.convert(emit.compare("ne", threads.vote("ballot", cond, u32), emit.constant(0, u32), "!="), i32)


@kernel_only
def all_equal(value: Any) -> Any:
    """Return 1 if all threads have the same value, else 0."""
    same = threads.thread("match_any", u32, emit.expr(value))
    return emit.convert(emit.compare("eq", same, threads.active_mask(), "=="), i32)


@kernel_only
def broadcast(value: Any, index: Any) -> Any:
    """Return the value of the thread with this index."""
    return threads.shuffle("shuffle_from", value, index)


@kernel_only
def broadcast_first(value: Any) -> Any:
    """Return the value of the first active thread."""
    return threads.shuffle("shuffle_from", value, threads.first_active())


@kernel_only
def group_size() -> Any:
    """Return the number of threads in a subgroup."""
    return threads.WARP


@kernel_only
def invocation_id() -> Any:
    """Return the index of the thread in its subgroup."""
    return threads.lane()


@kernel_only
def shuffle(value: Any, index: Any) -> Any:
    """Return the value of the thread with this index."""
    return threads.shuffle("shuffle_from", value, index)


@kernel_only
def shuffle_up(value: Any, offset: Any) -> Any:
    """Return the value of the thread ``offset`` below; the own value if there is none."""
    return threads.shuffle("shuffle_up", value, offset)


@kernel_only
def shuffle_down(value: Any, offset: Any) -> Any:
    """Return the value of the thread ``offset`` above; the own value if there is none."""
    return threads.shuffle("shuffle_down", value, offset)


@kernel_only
def shuffle_xor(value: Any, mask: Any) -> Any:
    """Return the value of the thread whose index differs by XOR with ``mask``."""
    return threads.shuffle("shuffle_xor", value, mask)


_OPERATIONS = {"add": "sum", "mul": "product", "min": "minimum", "max": "maximum", "and": "bitwise and", "or": "bitwise or", "xor": "bitwise xor"}
_LANES = {"reduce": "all threads", "inclusive": "the threads up to this one", "exclusive": "the threads below this one"}


def _collective(kind: str, op: str) -> Any:
    def collective(value: Any) -> Any:
        return threads.scan_lanes(op, value, kind)

    collective.__name__ = collective.__qualname__ = f"{kind}_{op}"
    collective.__doc__ = f"Return the {_OPERATIONS[op]} over {_LANES[kind]} of the subgroup."
    return kernel_only(collective)


reduce_add = _collective("reduce", "add")
reduce_mul = _collective("reduce", "mul")
reduce_min = _collective("reduce", "min")
reduce_max = _collective("reduce", "max")
reduce_and = _collective("reduce", "and")
reduce_or = _collective("reduce", "or")
reduce_xor = _collective("reduce", "xor")
inclusive_add = _collective("inclusive", "add")
inclusive_mul = _collective("inclusive", "mul")
inclusive_min = _collective("inclusive", "min")
inclusive_max = _collective("inclusive", "max")
inclusive_and = _collective("inclusive", "and")
inclusive_or = _collective("inclusive", "or")
inclusive_xor = _collective("inclusive", "xor")
exclusive_add = _collective("exclusive", "add")
exclusive_mul = _collective("exclusive", "mul")
exclusive_min = _collective("exclusive", "min")
exclusive_max = _collective("exclusive", "max")
exclusive_and = _collective("exclusive", "and")
exclusive_or = _collective("exclusive", "or")
exclusive_xor = _collective("exclusive", "xor")

__all__ = [
    "all_equal", "all_true", "any_true", "barrier", "broadcast", "broadcast_first", "elect", "exclusive_add",
    "exclusive_and", "exclusive_max", "exclusive_min", "exclusive_mul", "exclusive_or", "exclusive_xor",
    "group_size", "inclusive_add", "inclusive_and", "inclusive_max", "inclusive_min", "inclusive_mul",
    "inclusive_or", "inclusive_xor", "invocation_id", "memory_barrier", "reduce_add", "reduce_and", "reduce_max",
    "reduce_min", "reduce_mul", "reduce_or", "reduce_xor", "shuffle", "shuffle_down", "shuffle_up", "shuffle_xor",
]  # fmt: skip
