"""Optimizers of fields, by their gradients: `SGD`, `Adam` and `LBFGS`."""

from __future__ import annotations

from .first_order import SGD, Adam, Optimizer
from .lbfgs import LBFGS

__all__ = ["LBFGS", "SGD", "Adam", "Optimizer"]
