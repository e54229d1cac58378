"""Quantized types: how a field stores its numbers. Kernels see the compute type."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from typing import Any

from .. import _native
from ..exceptions import WujiError, WujiRuntimeError, WujiRuntimeTypeError
from . import dtypes
from .dtypes import DataType
from .errors import from_native


class QuantizedType:
    """The type of a packed field, such as ``ti.types.quant.int(5)``. It has no values: kernels compute with the type ``compute``."""

    __slots__ = ("compute", "made_with", "native", "text")

    def __init__(self, native: _native.Quantized, compute: DataType, text: str, made_with: tuple[Any, ...]) -> None:
        try:
            native.check(compute.ir)
        except _native.NativeError as e:
            raise wrong_type(e, [(native, text)]) from None
        self.native = native
        self.compute = compute
        self.text = text
        self.made_with = made_with

    def __repr__(self) -> str:
        return self.text

    def to_string(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuantizedType) and self.native == other.native and self.compute is other.compute

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> Any:
        function, *arguments = self.made_with
        return (function, tuple(arguments))

    def __call__(self, *_: Any) -> Any:
        raise WujiRuntimeTypeError(f"{self} has no values\n  = help: kernels see a field of this type as {self.compute}: convert with `ti.{self.compute}(x)`", "W0150")


def quantized_int(bits: Any, signed: bool, compute: Any) -> QuantizedType:
    n = _bits(bits, "bits")
    given = dtypes.need_scalar(compute)
    return QuantizedType(_native.Quantized.int(n, bool(signed)), given, f"quant.int({n}, signed={bool(signed)}, compute={given})", (quantized_int, n, signed, given))


def quantized_fixed(bits: Any, signed: bool, scale: float, compute: Any, stochastic: bool) -> QuantizedType:
    n = _bits(bits, "bits")
    given = dtypes.need_scalar(compute)
    text = f"quant.fixed({n}, signed={bool(signed)}, scale={scale!r}, compute={given}{_rounding(stochastic)})"
    native = _native.Quantized.fixed(n, bool(signed), scale, bool(stochastic))
    return QuantizedType(native, given, text, (quantized_fixed, n, signed, scale, given, stochastic))


def quantized_float(exp: Any, frac: Any, signed: bool, compute: Any, stochastic: bool) -> QuantizedType:
    exponent, fraction = _bits(exp, "exp"), _bits(frac, "frac")
    given = dtypes.need_scalar(compute)
    text = f"quant.float({exponent}, {fraction}, signed={bool(signed)}, compute={given}{_rounding(stochastic)})"
    native = _native.Quantized.float(exponent, fraction, bool(signed), bool(stochastic))
    return QuantizedType(native, given, text, (quantized_float, exponent, fraction, signed, given, stochastic))


def fixed_scale(bits: Any, signed: bool, max_value: Any) -> float:
    """Return the step of a fixed-point type whose numbers are less than ``max_value``."""
    try:
        return float(max_value) / 2.0 ** (_bits(bits, "bits") - bool(signed))
    except (TypeError, ValueError):
        raise WujiRuntimeTypeError(f"the range of a fixed-point type is a number, not {max_value!r}", "W0150") from None


def _rounding(stochastic: bool) -> str:
    return ", stochastic=True" if stochastic else ""


def _bits(value: Any, name: str) -> int:
    try:
        bits = operator.index(value)
    except TypeError:
        raise WujiRuntimeTypeError(f"`{name}` of a quantized type is an integer, not {value!r}", "W0150") from None
    if not 1 <= bits <= 64:
        raise WujiRuntimeError(f"`{name}` of a quantized type is 1 to 64, not {bits}", "W0150")
    return bits


def wrong_type(error: _native.NativeError, types: Iterable[tuple[_native.Quantized, str]]) -> WujiError:
    """Convert an error of the core about quantized types, which it spells as in Rust."""
    raised = from_native(error)
    text = str(raised)
    for native, spelling in types:
        text = text.replace(repr(native), spelling)
    return type(raised)(re.sub(r"\bq(int|fixed|float)\b(?!\()", r"quant.\1", text), error.code)


def storage(dtype: Any) -> tuple[DataType, tuple[QuantizedType, ...]]:
    """Split the element type of a field into what kernels see and how it is stored: nothing, or one type for all scalars, or one for each."""
    if isinstance(dtype, QuantizedType):
        return dtype.compute, (dtype,)
    if not isinstance(dtype, (list, tuple)):
        return dtypes.need_scalar(dtype), ()
    each = flat_types(dtype)
    types = [storage(one) for one in each]
    computes = {compute for compute, _ in types}
    if len(computes) != 1:
        raise WujiRuntimeError(f"Member fields of a matrix field must have the same compute type, not {', '.join(map(str, (t[0] for t in types)))}", "W0150")
    quantized = tuple(q for _, stored in types for q in stored)
    if quantized and len(quantized) != len(each):
        raise WujiRuntimeError("all components of a vector or matrix field are quantized, or none of them", "W0150")
    return types[0][0], quantized


def flat_types(types: Any) -> list[Any]:
    """Return the types of all components, given one for all or a list."""
    return [t for one in types for t in flat_types(one)] if isinstance(types, (list, tuple)) else [types]
