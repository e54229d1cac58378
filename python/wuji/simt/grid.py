"""The whole grid of threads."""

from __future__ import annotations

from ..lang.missing import function

_FEATURE = "grids of threads of a GPU are"

memfence = function("ti.simt.grid.memfence", _FEATURE)

__all__ = [
    "memfence",
]  # fmt: skip
