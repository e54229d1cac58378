"""``ti.types.quant``: quantized types."""

from __future__ import annotations

import builtins
from typing import Any

from .dtypes import defaults, i32, i64, u32, u64
from .quantized import QuantizedType, fixed_scale, quantized_fixed, quantized_float, quantized_int


def int(bits: builtins.int, signed: bool = True, compute: Any = None) -> QuantizedType:
    """Return an integer type of 1 to 64 bits. A store keeps the low bits.

    Args:
        bits: Number of bits, with the sign.
        signed: Whether there are negative numbers.
        compute: Type in kernels. The default is the default integer type, or a 64-bit type if the number needs it.
    """
    if compute is None:
        is_wide = defaults.ip.bits == 64 or isinstance(bits, builtins.int) and 32 < bits <= 64
        compute = (i64 if is_wide else i32) if signed else (u64 if is_wide else u32)
    return quantized_int(bits, signed, compute)


def fixed(
    bits: builtins.int,
    signed: bool = True,
    max_value: builtins.float = 1.0,
    compute: Any = None,
    scale: builtins.float | None = None,
    *,
    stochastic: bool = False,
) -> QuantizedType:
    """Return a fixed-point type: an integer times a scale. A store rounds to the nearest number and saturates.

    Args:
        bits: Number of bits, with the sign.
        signed: Whether there are negative numbers.
        max_value: Numbers are less than this.
        compute: Type in kernels: ``ti.f32`` or ``ti.f64``.
        scale: Distance of two numbers, in place of ``max_value``.
        stochastic: Stores of kernels round up or down at random, with the right expected value. An extension to Taichi's API.
    """
    step = fixed_scale(bits, signed, max_value) if scale is None else fixed_scale(1, True, scale)
    return quantized_fixed(bits, signed, step, defaults.fp if compute is None else compute, stochastic)


def float(exp: builtins.int, frac: builtins.int, signed: bool = True, compute: Any = None, *, stochastic: bool = False) -> QuantizedType:
    """Return a floating-point type. ``float(5, 11)`` has the bits of half precision.

    Args:
        exp: Bits of the exponent.
        frac: Bits of the fraction, with the sign.
        signed: Whether there are negative numbers.
        compute: Type in kernels: ``ti.f32`` or ``ti.f64``.
        stochastic: Stores of kernels round up or down at random, with the right expected value. An extension to Taichi's API.
    """
    return quantized_float(exp, frac, signed, defaults.fp if compute is None else compute, stochastic)


__all__ = ["fixed", "float", "int"]
