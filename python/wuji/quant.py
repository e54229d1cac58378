"""``ti.quant``: the spellings of quantized types up to Taichi 1.0. New programs use ``ti.types.quant``."""

from __future__ import annotations

import builtins
from typing import Any

from .lang import quant as _quant
from .lang.dtypes import defaults as _defaults
from .lang.dtypes import i64 as _i64
from .lang.quant import float
from .lang.quantized import QuantizedType


def int(bits: builtins.int, signed: bool = False, compute: Any = None) -> QuantizedType:
    """Return an integer type. It is unsigned unless it is said to be signed, and kernels see a signed type."""
    if compute is None:
        default = _defaults.ip
        # Every number of the type is a number of the compute type.
        compute = default if isinstance(bits, builtins.int) and bits <= default.bits else None if not signed else _i64
    return _quant.int(bits, signed, compute)


def fixed(
    frac: builtins.int | None = None,
    signed: bool = True,
    range: builtins.float = 1.0,
    compute: Any = None,
    scale: builtins.float | None = None,
    *,
    num_range: builtins.float | None = None,
    max_value: builtins.float | None = None,
    bits: builtins.int | None = None,
    num_bits: builtins.int | None = None,
    stochastic: bool = False,
) -> QuantizedType:
    """Return a fixed-point type with ``frac`` bits and numbers less than ``range``. Versions of Taichi have other names for both."""
    width = next((n for n in (frac, bits, num_bits) if n is not None), None)
    most = next((r for r in (num_range, max_value) if r is not None), range)
    if width is None:
        raise TypeError("fixed() missing 1 required argument: 'frac'")
    return _quant.fixed(width, signed, most, compute, scale, stochastic=stochastic)


__all__ = ["fixed", "float", "int"]
