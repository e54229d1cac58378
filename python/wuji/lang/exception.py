"""Stand-in for Taichi's `lang.exception`."""

from ..exceptions import (
    TaichiAssertionError,
    TaichiCompilationError,
    TaichiIndexError,
    TaichiNameError,
    TaichiRuntimeError,
    TaichiRuntimeTypeError,
    TaichiSyntaxError,
    TaichiTypeError,
)

__all__ = [
    "TaichiAssertionError",
    "TaichiCompilationError",
    "TaichiIndexError",
    "TaichiNameError",
    "TaichiRuntimeError",
    "TaichiRuntimeTypeError",
    "TaichiSyntaxError",
    "TaichiTypeError",
]
