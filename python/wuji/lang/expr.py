"""Where Taichi has `Expr`."""

from .values import Expr

__all__ = ["Expr"]
