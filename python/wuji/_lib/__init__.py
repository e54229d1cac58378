"""Stand-in for Taichi's `_lib`: queries that programs make about the core."""

from . import core, utils

__all__ = ["core", "utils"]
