"""Where Taichi has `Layout`."""

from .field import Layout

__all__ = ["Layout"]
