"""What groups of threads of a GPU do together: its names. Not yet in this version, which shares loops out among threads by itself."""

from . import block, grid, subgroup, warp

__all__ = ["block", "grid", "subgroup", "warp"]
