"""Where Taichi has the arrays of kernels."""

from .access import ArrayVal as AnyArray

__all__ = ["AnyArray"]
