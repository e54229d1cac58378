"""What was once new."""

from __future__ import annotations

import warnings
from typing import Any


def real_func(fn: Any) -> Any:
    """The old name of `ti.real_func`."""
    from ..lang.func import real_func as current

    warnings.warn("`ti.experimental.real_func` is now `ti.real_func`", DeprecationWarning, stacklevel=2)
    return current(fn)


__all__ = ["real_func"]
