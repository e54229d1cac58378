"""Deprecated names from Taichi's `experimental` module."""

from __future__ import annotations

import warnings
from typing import Any


def real_func(fn: Any) -> Any:
    """Deprecated alias of `ti.real_func`."""
    from ..lang.func import real_func as current

    warnings.warn("`ti.experimental.real_func` is deprecated; use `ti.real_func` instead", DeprecationWarning, stacklevel=2)
    return current(fn)


__all__ = ["real_func"]
