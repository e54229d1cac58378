"""Warps: threads that go in step (CUDA)."""

from __future__ import annotations

from ..lang.missing import function

_FEATURE = "warps of threads of a GPU are"

active_mask = function("ti.simt.warp.active_mask", _FEATURE)
all_nonzero = function("ti.simt.warp.all_nonzero", _FEATURE)
any_nonzero = function("ti.simt.warp.any_nonzero", _FEATURE)
unique = function("ti.simt.warp.unique", _FEATURE)
ballot = function("ti.simt.warp.ballot", _FEATURE)
match_all = function("ti.simt.warp.match_all", _FEATURE)
match_any = function("ti.simt.warp.match_any", _FEATURE)
shfl_sync_i32 = function("ti.simt.warp.shfl_sync_i32", _FEATURE)
shfl_sync_f32 = function("ti.simt.warp.shfl_sync_f32", _FEATURE)
shfl_up_i32 = function("ti.simt.warp.shfl_up_i32", _FEATURE)
shfl_up_f32 = function("ti.simt.warp.shfl_up_f32", _FEATURE)
shfl_down_i32 = function("ti.simt.warp.shfl_down_i32", _FEATURE)
shfl_down_f32 = function("ti.simt.warp.shfl_down_f32", _FEATURE)
shfl_xor_i32 = function("ti.simt.warp.shfl_xor_i32", _FEATURE)
sync = function("ti.simt.warp.sync", _FEATURE)

__all__ = [
    "active_mask", "all_nonzero", "any_nonzero", "ballot", "match_all", "match_any", "shfl_down_f32",
    "shfl_down_i32", "shfl_sync_f32", "shfl_sync_i32", "shfl_up_f32", "shfl_up_i32", "shfl_xor_i32", "sync",
    "unique",
]  # fmt: skip
