"""What groups of threads of a GPU do together: its names. GPUs are not yet in this version."""

from . import block, grid, subgroup, warp

__all__ = ["block", "grid", "subgroup", "warp"]
