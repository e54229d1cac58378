"""Quantized types. Placeholders: not implemented yet."""

from __future__ import annotations

from typing import Any

from .lang.missing import function, refuse

_FEATURE = "quantized types"


class BitpackedFields:
    """A bit-packed struct: several quantized fields in one word."""

    def __init__(self, max_num_bits: Any) -> None:
        refuse("ti.BitpackedFields", _FEATURE)

    def place(self, *args: Any, shared_exponent: bool = False) -> None:
        """Place fields in the bit-packed struct."""


int = function("ti.types.quant.int", _FEATURE)
fixed = function("ti.types.quant.fixed", _FEATURE)
float = function("ti.types.quant.float", _FEATURE)

__all__ = ["BitpackedFields", "fixed", "float", "int"]
