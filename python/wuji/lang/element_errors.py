"""Errors of accesses to elements of fields from Python."""

from __future__ import annotations

from typing import Any

from .. import _native
from ..exceptions import WujiOutOfRangeError, WujiRuntimeTypeError
from .errors import from_native
from .naming import label


def check_rank(key: tuple[Any, ...], field: Any) -> None:
    rank = len(field.shape)
    if len(key) != rank:
        raise wrong_rank(key, field)


def element_error(e: _native.NativeError, key: Any, field: Any) -> Exception:
    if len(key) != len(field.shape):
        return wrong_rank(key, field)
    return from_native(e)


def wrong_rank(key: tuple[Any, ...], field: Any) -> WujiOutOfRangeError:
    rank = field.node.num_dims  # raises if the field is not placed yet
    return WujiOutOfRangeError(f"Slicing is not supported on ti.field: field {label(field.name)} has {rank} {'index' if rank == 1 else 'indices'}, not {len(key)}")


def wrong_key(key: tuple[Any, ...], field: Any) -> Exception:
    wrong = next((k for k in key if not hasattr(k, "__index__")), key)
    help = "\n  = help: slicing a ti.field is not supported; use `to_numpy()`" if isinstance(wrong, slice) else ""
    return WujiRuntimeTypeError(f"field {label(field.name)}: indices must be integers, not {wrong!r} of type {type(wrong)}{help}")


def check_key(key: tuple[Any, ...], field: Any) -> None:
    if not all(hasattr(k, "__index__") for k in key):
        raise wrong_key(key, field)
