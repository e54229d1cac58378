"""Stand-in for Taichi's `lang.util`: type conversions and installed packages."""

from __future__ import annotations

import functools
from importlib.util import find_spec
from typing import Any

from . import context, dtypes
from .dtypes import DataType, need_scalar
from .field import Field
from .matrix import Matrix
from .ndarray import Ndarray
from .snode import SNode
from .struct import Struct


@functools.cache
def has_pytorch() -> bool:
    return find_spec("torch") is not None


@functools.cache
def has_paddle() -> bool:
    return find_spec("paddle") is not None


def has_clangpp() -> bool:
    return False


def get_clangpp() -> None:
    return None


def in_taichi_scope() -> bool:
    """Return whether a kernel is being compiled."""
    return context.compiling() is not None


def in_python_scope() -> bool:
    return context.compiling() is None


def python_scope(func: Any) -> Any:
    """Decorate a function that can only be called from Python."""

    @functools.wraps(func)
    def wrapped(*args: Any, **named: Any) -> Any:
        assert in_python_scope(), f"{func.__name__} cannot be called in Taichi-scope"
        return func(*args, **named)

    return context.python_only(wrapped)


def taichi_scope(func: Any) -> Any:
    """Decorate a function that can only be called while a kernel is compiled."""

    @functools.wraps(func)
    def wrapped(*args: Any, **named: Any) -> Any:
        assert in_taichi_scope(), f"{func.__name__} cannot be called in Python-scope"
        return func(*args, **named)

    return wrapped


def get_traceback(stacklevel: int = 1) -> str:
    """Return the call stack as text, without the innermost frames."""
    import traceback

    return "".join(traceback.format_list(traceback.extract_stack()[: -1 - stacklevel]))


def cook_dtype(dtype: Any) -> DataType:
    """Return the scalar type for ``float``, ``int``, ``bool`` or a scalar type."""
    return need_scalar(dtype)


def is_taichi_class(rhs: Any) -> bool:
    """Return whether an object is a value or container of the language."""
    return isinstance(rhs, (Matrix, Struct, Field, Ndarray, SNode))


def is_matrix_class(rhs: Any) -> bool:
    return isinstance(rhs, Matrix)


def to_numpy_type(dt: Any) -> Any:
    """Return the NumPy type of a scalar type: ``to_numpy_type(ti.f32) is np.float32``."""
    import numpy as np

    name = need_scalar(dt).numpy_name
    return np.bool_ if name == "bool" else getattr(np, name)


def to_pytorch_type(dt: Any) -> Any:
    """Return the PyTorch type of a scalar type."""
    import torch  # type: ignore[import-not-found, unused-ignore]

    return getattr(torch, need_scalar(dt).numpy_name)


def to_paddle_type(dt: Any) -> Any:
    """Return the Paddle type of a scalar type."""
    import paddle  # type: ignore[import-not-found, unused-ignore]

    return getattr(paddle, need_scalar(dt).numpy_name)


def to_taichi_type(dt: Any) -> DataType:
    """Return the scalar type of a NumPy, PyTorch or Paddle type: ``to_taichi_type(np.float32) is ti.f32``."""
    if isinstance(dt, DataType):
        return dt
    name = str(dt).rpartition(".")[2] if type(dt).__module__.startswith(("torch", "paddle")) else None
    if name is None:
        import numpy as np

        name = np.dtype(dt).name
    for ours in dtypes.ALL:
        if ours.numpy_name == name:
            return ours
    raise TypeError(f"no scalar type corresponds to {dt}")


def warning(msg: str, warning_type: type[Warning] = UserWarning, stacklevel: int = 1, print_stack: bool = True) -> None:
    """Issue a warning."""
    import warnings

    warnings.warn(msg, warning_type, stacklevel=stacklevel + 1)
