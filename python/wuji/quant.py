"""Quantized types: their names. What they stand for is not yet in this version."""

from __future__ import annotations

from typing import Any

from .lang.missing import function, refuse

_FEATURE = "quantized types are"


class BitpackedFields:
    """Fields whose elements share a word."""

    def __init__(self, max_num_bits: Any) -> None:
        refuse("ti.BitpackedFields", _FEATURE)

    def place(self, *args: Any, shared_exponent: bool = False) -> None:
        """Puts fields into the word."""


int = function("ti.types.quant.int", _FEATURE)
fixed = function("ti.types.quant.fixed", _FEATURE)
float = function("ti.types.quant.float", _FEATURE)

__all__ = ["BitpackedFields", "fixed", "float", "int"]
