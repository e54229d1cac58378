"""Stand-in for Taichi's `lang.simt`."""

from ..simt import block, grid, subgroup, warp

__all__ = ["block", "grid", "subgroup", "warp"]
