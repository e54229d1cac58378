"""Names under which programs ask Taichi's core for facts."""

from . import core, utils

__all__ = ["core", "utils"]
