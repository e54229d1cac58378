"""What groups of threads of a GPU do together, by order of the program. See the page on GPUs, "Threads together"."""

from . import block, grid, subgroup, warp

__all__ = ["block", "grid", "subgroup", "warp"]
