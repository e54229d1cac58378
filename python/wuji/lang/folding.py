"""What operations on constants compute.

Each function is a kernel's operation on unbounded integers and f64 numbers: a constant in place of a variable never changes a result.
Where an integer result does not fit its type, the constant is rejected where it is used.
"""

from __future__ import annotations

import math
import numbers
import operator
import warnings
from collections.abc import Callable
from typing import Any

from ..exceptions import WujiTypeError
from . import context
from .dtypes import DataType, defaults, of_constant, u1

# A larger exponent or shift count cannot give an integer that any type holds.
_MOST_BITS = 4096


def is_int(x: Any) -> bool:
    """Return whether a number is an integer or a bool, of Python or NumPy."""
    return isinstance(x, numbers.Integral) or of_constant(x) is u1


def to_float(x: Any) -> float:
    try:
        return float(x)
    except OverflowError:
        raise WujiTypeError(f"Integer literal {x} exceeded the range of f64") from None


def truediv(a: Any, b: Any) -> float:
    return _divide(to_float(a), to_float(b))


def _divide(x: float, y: float) -> float:
    """Divide as IEEE 754 does."""
    if y != 0:
        return x / y
    if x == 0 or x != x:
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1.0, y)


def floordiv(a: Any, b: Any) -> Any:
    """Round the quotient down. An integer divided by zero is zero."""
    if is_int(a) and is_int(b):
        return int(a) // int(b) if b else 0
    return floor(truediv(a, b))


def mod(a: Any, b: Any) -> Any:
    """Return ``a - b * floor(a / b)``. An integer modulo zero is zero."""
    if is_int(a) and is_int(b):
        return int(a) % int(b) if b else 0
    x, y = to_float(a), to_float(b)
    return x - y * floor(_divide(x, y))


def raw_div(a: Any, b: Any) -> Any:
    """Divide as C does: integers truncate."""
    if not (is_int(a) and is_int(b)):
        return truediv(a, b)
    if not b:
        return 0
    quotient = abs(int(a)) // abs(int(b))
    return quotient if (a < 0) == (b < 0) else -quotient


def raw_mod(a: Any, b: Any) -> Any:
    """Return the remainder of `raw_div`, with the sign of the dividend."""
    if is_int(a) and is_int(b):
        return int(a) - int(b) * raw_div(a, b) if b else 0
    x, y = to_float(a), to_float(b)
    if math.isinf(x) or y == 0:
        return math.nan
    return math.fmod(x, y)


def power(a: Any, b: Any) -> Any:
    """Raise to a power. An integer to a negative power is a float, as in Python."""
    if is_int(a) and is_int(b) and b >= 0:
        if abs(int(a)) > 1 and b > _MOST_BITS:
            raise WujiTypeError(f"the integer {a} ** {b} is out of range for every type")
        return int(a) ** int(b)
    x, y = to_float(a), to_float(b)
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and math.fmod(y, 2) != 0 else math.inf
    except ValueError:
        # A negative base with a fractional exponent, or zero with a negative exponent.
        if x != 0:
            return math.nan
        return math.copysign(math.inf, x) if math.fmod(y, 2) in (1.0, -1.0) else math.inf


def _shifted(a: Any, n: Any, most: int, sign: str) -> tuple[int, int]:
    """Return the operands of a shift as integers."""
    if not hasattr(a, "__index__") or not hasattr(n, "__index__"):
        raise WujiTypeError(f"unsupported operand type(s) for {sign}: '{type(a).__name__}' and '{type(n).__name__}'")
    count = operator.index(n)
    if not 0 <= count < most:
        raise WujiTypeError(f"the shift count {count} is out of range")
    return operator.index(a), count


def shl(a: Any, n: Any) -> int:
    number, count = _shifted(a, n, _MOST_BITS, "<<")
    return number << count


def shr(a: Any, n: Any) -> int:
    number, count = _shifted(a, n, 64, ">>")
    return number >> count


def bit_not(a: Any) -> Any:
    """Flip all bits. The complement of a bool is a bool."""
    if not hasattr(a, "__index__"):
        raise WujiTypeError(f"bad operand type for unary ~: '{type(a).__name__}'")
    return not a if of_constant(a) is u1 else ~operator.index(a)


def word(v: Any) -> int:
    """Return the bits of an integer of the default type."""
    value, ty = operator.index(v), defaults.ip
    if not ty.range()[0] <= value < 1 << ty.bits:
        raise WujiTypeError(out_of_default_range(value))
    return value & ((1 << ty.bits) - 1)


def bit_shr(a: Any, n: Any) -> int:
    _, count = _shifted(a, n, defaults.ip.bits, ">>")
    return defaults.ip.wrap(word(a) >> count)


def popcnt(a: Any) -> int:
    return word(a).bit_count()


def clz(a: Any) -> int:
    return defaults.ip.bits - word(a).bit_length()


def compare(op: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return a comparison that converts integers to floats first if one operand is a float."""

    def f(a: Any, b: Any) -> bool:
        if is_int(a) and is_int(b):
            return bool(op(a, b))
        return op(to_float(a), to_float(b))

    return f


def _alike(a: Any, b: Any) -> tuple[Any, Any]:
    if is_int(a) and is_int(b):
        return a, b
    return to_float(a), to_float(b)


def minimum(a: Any, b: Any) -> Any:
    """Return the other operand if one is NaN."""
    x, y = _alike(a, b)
    return x if y != y or x < y else y


def maximum(a: Any, b: Any) -> Any:
    """Return the other operand if one is NaN."""
    x, y = _alike(a, b)
    return x if y != y or x > y else y


def _rounding(to_integer: Callable[[float], int]) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        if is_int(x):
            return x
        x = float(x)
        # A zero keeps the sign of the argument.
        return math.copysign(float(to_integer(x)), x) if math.isfinite(x) else x

    return f


def _away_from_zero(x: float) -> int:
    whole = math.trunc(x)
    return whole + (1 if x > 0 else -1) if abs(x - whole) >= 0.5 else whole


floor = _rounding(math.floor)
ceil = _rounding(math.ceil)
round = _rounding(_away_from_zero)


def rsqrt(x: Any) -> float:
    return _divide(1.0, math.sqrt(x)) if x >= 0 else math.nan


def log2(x: Any) -> float:
    if x > 0:
        return math.log2(x)
    return -math.inf if x == 0 else math.nan


def to_int(x: Any) -> int:
    """Convert to an integer: truncate."""
    if isinstance(x, float) and not math.isfinite(x):
        raise WujiTypeError(f"{x} cannot be converted to an integer")
    return int(x)


def out_of_default_range(value: int) -> str:
    return (
        f"Integer literal {value} exceeded the range of default_ip: {defaults.ip}\n"
        f"  = help: please specify the dtype via e.g. `ti.i64({value})` or set a different `default_ip` in `ti.init()`"
    )


def in_range(value: int, dtype: DataType) -> bool:
    low, high = dtype.range()
    return low <= value <= high


def narrowed(value: int, dtype: DataType) -> int:
    """Return an integer constant as a value of a type that it is implicitly converted to.

    As in Taichi, a constant that fits the default type wraps as a variable does, but never silently. Any other one is rejected.
    """
    if in_range(value, dtype):
        return value
    if defaults.lenient and context.compiling() is None:
        wrapped = dtype.wrap(value)
        warnings.warn(f"the integer {value} is out of range for {dtype} and wraps to {wrapped}", RuntimeWarning, stacklevel=3)
        return wrapped
    code = "" if context.compiling() is not None else "W0610"
    if dtype is defaults.ip:
        raise WujiTypeError(out_of_default_range(value), code)
    if not in_range(value, defaults.ip):
        raise WujiTypeError(f"Integer literal {value} exceeded the range of {dtype}", code)
    wrapped = dtype.wrap(value)
    text = f"the integer {value} is out of range for {dtype} and wraps to {wrapped}; write `ti.cast({value}, ti.{dtype})` if that is intended"
    compilation = context.compiling()
    if compilation is None:
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    else:
        warnings.warn_explicit(text, RuntimeWarning, *compilation.location)
    return wrapped
