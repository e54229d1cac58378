"""Warp- and block-level primitives for GPUs. docs/gpu.md explains them."""

from . import block, grid, subgroup, warp

__all__ = ["block", "grid", "subgroup", "warp"]
