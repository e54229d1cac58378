"""Subgroups: threads that go in step (SPIR-V)."""

from __future__ import annotations

from ..lang.missing import function

_FEATURE = "subgroups of threads of a GPU are"

barrier = function("ti.simt.subgroup.barrier", _FEATURE)
memory_barrier = function("ti.simt.subgroup.memory_barrier", _FEATURE)
elect = function("ti.simt.subgroup.elect", _FEATURE)
all_true = function("ti.simt.subgroup.all_true", _FEATURE)
any_true = function("ti.simt.subgroup.any_true", _FEATURE)
all_equal = function("ti.simt.subgroup.all_equal", _FEATURE)
broadcast = function("ti.simt.subgroup.broadcast", _FEATURE)
broadcast_first = function("ti.simt.subgroup.broadcast_first", _FEATURE)
group_size = function("ti.simt.subgroup.group_size", _FEATURE)
invocation_id = function("ti.simt.subgroup.invocation_id", _FEATURE)
reduce_add = function("ti.simt.subgroup.reduce_add", _FEATURE)
reduce_mul = function("ti.simt.subgroup.reduce_mul", _FEATURE)
reduce_min = function("ti.simt.subgroup.reduce_min", _FEATURE)
reduce_max = function("ti.simt.subgroup.reduce_max", _FEATURE)
reduce_and = function("ti.simt.subgroup.reduce_and", _FEATURE)
reduce_or = function("ti.simt.subgroup.reduce_or", _FEATURE)
reduce_xor = function("ti.simt.subgroup.reduce_xor", _FEATURE)
inclusive_add = function("ti.simt.subgroup.inclusive_add", _FEATURE)
inclusive_mul = function("ti.simt.subgroup.inclusive_mul", _FEATURE)
inclusive_min = function("ti.simt.subgroup.inclusive_min", _FEATURE)
inclusive_max = function("ti.simt.subgroup.inclusive_max", _FEATURE)
inclusive_and = function("ti.simt.subgroup.inclusive_and", _FEATURE)
inclusive_or = function("ti.simt.subgroup.inclusive_or", _FEATURE)
inclusive_xor = function("ti.simt.subgroup.inclusive_xor", _FEATURE)
exclusive_add = function("ti.simt.subgroup.exclusive_add", _FEATURE)
exclusive_mul = function("ti.simt.subgroup.exclusive_mul", _FEATURE)
exclusive_min = function("ti.simt.subgroup.exclusive_min", _FEATURE)
exclusive_max = function("ti.simt.subgroup.exclusive_max", _FEATURE)
exclusive_and = function("ti.simt.subgroup.exclusive_and", _FEATURE)
exclusive_or = function("ti.simt.subgroup.exclusive_or", _FEATURE)
exclusive_xor = function("ti.simt.subgroup.exclusive_xor", _FEATURE)
shuffle = function("ti.simt.subgroup.shuffle", _FEATURE)
shuffle_up = function("ti.simt.subgroup.shuffle_up", _FEATURE)
shuffle_down = function("ti.simt.subgroup.shuffle_down", _FEATURE)
shuffle_xor = function("ti.simt.subgroup.shuffle_xor", _FEATURE)

__all__ = [
    "all_equal", "all_true", "any_true", "barrier", "broadcast", "broadcast_first", "elect", "exclusive_add",
    "exclusive_and", "exclusive_max", "exclusive_min", "exclusive_mul", "exclusive_or", "exclusive_xor",
    "group_size", "inclusive_add", "inclusive_and", "inclusive_max", "inclusive_min", "inclusive_mul",
    "inclusive_or", "inclusive_xor", "invocation_id", "memory_barrier", "reduce_add", "reduce_and", "reduce_max",
    "reduce_min", "reduce_mul", "reduce_or", "reduce_xor", "shuffle", "shuffle_down", "shuffle_up", "shuffle_xor",
]  # fmt: skip
