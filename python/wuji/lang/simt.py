"""Where Taichi has `simt`."""

from ..simt import block, grid, subgroup, warp

__all__ = ["block", "grid", "subgroup", "warp"]
