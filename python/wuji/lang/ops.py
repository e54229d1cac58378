"""Functions on scalars and vectors. Each works both in kernels and in Python."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from typing import Any

from ..exceptions import WujiRuntimeError, WujiSyntaxError, WujiTypeError
from . import context, dtypes, emit, folding
from .compound import MatrixType
from .dtypes import DataType, defaults, u1
from .values import Expr, Ref, StructVal


def takes_references(f: Any) -> Any:
    """Mark a function that takes references to its arguments instead of their values."""
    f._wuji_takes_references = True
    return f


def kernel_only(f: Any) -> Any:
    """Mark a function that can only be called in a kernel."""

    def outside(*args: Any, **named: Any) -> Any:
        if context.compiling() is None:
            raise WujiRuntimeError(f"`{f.__name__}` can only be called in a kernel")
        return f(*args, **named)

    outside.__name__ = f.__name__
    outside.__doc__ = f.__doc__
    outside._wuji_takes_references = getattr(f, "_wuji_takes_references", False)  # type: ignore[attr-defined]
    return outside


def _host_map(f: Callable[..., Any], *args: Any) -> Any:
    """Apply a scalar function; component-wise if an argument is a vector."""
    from .matrix import Matrix

    like = next((a for a in args if isinstance(a, Matrix)), None)
    if like is None:
        return f(*args)
    return like._map(f, *args)


def _in_kernel(*args: Any) -> bool:
    if any(isinstance(a, Expr) for a in args):
        return True
    return any(isinstance(a, (list, tuple)) and any(isinstance(x, Expr) for x in a) for a in args)


def _function(name: str, in_kernel: Callable[[Any], Expr], host: Callable[[Any], Any], doc: str) -> Any:
    def f(x: Any) -> Any:
        if _in_kernel(x):
            return in_kernel(x)
        return _host_map(host, x)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f


def _of_float(op: str, host: Callable[[float], Any], doc: str, in_kernel: Callable[[str, Any], Expr] = emit.float_unary) -> Any:
    def safe(x: Any) -> Any:
        number = folding.to_float(x) if isinstance(x, int) else x
        try:
            return host(number)
        except (ValueError, OverflowError):
            return _edge_case(op, number)

    return _function(op, lambda x: in_kernel(op, x), safe, doc)


def _edge_case(op: str, x: float) -> float:
    """Return the result where Python's function raises."""
    if op == "log" and x == 0:
        return -math.inf
    if op == "exp":
        return math.inf
    return math.nan


# As in Taichi, these reject integers at run time; `exp`, `log` and `sqrt` convert them.
sin = _of_float("sin", math.sin, "Return the sine.", emit.real_unary)
cos = _of_float("cos", math.cos, "Return the cosine.", emit.real_unary)
tan = _of_float("tan", math.tan, "Return the tangent.", emit.real_unary)
asin = _of_float("asin", math.asin, "Return the arcsine.", emit.real_unary)
acos = _of_float("acos", math.acos, "Return the arccosine.", emit.real_unary)
tanh = _of_float("tanh", math.tanh, "Return the hyperbolic tangent.", emit.real_unary)
exp = _of_float("exp", math.exp, "Return the exponential.")
log = _of_float("log", math.log, "Return the natural logarithm.")
sqrt = _of_float("sqrt", math.sqrt, "Return the square root.")
rsqrt = _function("rsqrt", lambda x: emit.float_unary("rsqrt", x), folding.rsqrt, "Return the reciprocal square root.")


def _rounding(op: str, host: Callable[[Any], Any], doc: str) -> Any:
    def f(x: Any, dtype: Any = None) -> Any:
        if _in_kernel(x):
            result = emit.real_unary(op, x)
            return result if dtype is None else emit.convert(result, dtypes.need_scalar(dtype))
        result = _host_map(host, x)
        return result if dtype is None else cast(result, dtype)

    f.__name__ = f.__qualname__ = op
    f.__doc__ = doc
    return f


floor = _rounding("floor", folding.floor, "Round down to an integer.")
ceil = _rounding("ceil", folding.ceil, "Round up to an integer.")
round = _rounding("round", folding.round, "Round to the nearest integer. Ties round away from zero.")


def abs(x: Any) -> Any:
    """Return the absolute value."""
    if _in_kernel(x):
        return emit.expr(x) if emit.element(x).kind in "ub" else emit.unary("abs", x)
    return _host_map(builtins.abs, x)


def neg(x: Any) -> Any:
    if _in_kernel(x):
        dtype = emit.element(x)
        if dtype.kind == "u":
            return emit.binary("sub", 0, x, "-", dtype)  # wraps
        return emit.unary("neg", emit.convert(x, defaults.ip) if dtype is u1 else x)
    return _host_map(lambda v: -v, x)


def bit_not(x: Any) -> Any:
    if _in_kernel(x):
        dtype = emit.element(x)
        if dtype.is_float:
            raise WujiTypeError(f"'bit_not' takes integral inputs only, however '{dtype}' is provided")
        return emit.unary("not", x)
    return _host_map(folding.bit_not, x)


def logical_not(x: Any) -> Any:
    return emit.logical_not(x) if _in_kernel(x) else _host_map(lambda v: not v, x)


def _arith(what: str, in_kernel: Callable[[Any, Any], Expr], host: Callable[[Any, Any], Any]) -> Any:
    def f(a: Any, b: Any) -> Any:
        if _in_kernel(a, b):
            return in_kernel(a, b)
        return _host_map(host, a, b)

    f.__name__ = f.__qualname__ = what
    return f


def _bits(op: str, what: str) -> Callable[[Any, Any], Expr]:
    return lambda a, b: emit.binary(op, a, b, what, emit.integers(a, b, what))


def _shift(op: str, what: str) -> Callable[[Any, Any], Expr]:
    """The result has the type of the shifted operand, whatever the type of the shift count."""

    def f(a: Any, b: Any) -> Expr:
        emit.integers(a, b, what)
        return emit.binary(op, a, b, what, _number(emit.element(a)))

    return f


def _number(dtype: DataType) -> DataType:
    return defaults.ip if dtype is u1 else dtype


add = _arith("add", lambda a, b: emit.binary("add", a, b, "+"), lambda a, b: a + b)
sub = _arith("sub", lambda a, b: emit.binary("sub", a, b, "-"), lambda a, b: a - b)
mul = _arith("mul", lambda a, b: emit.binary("mul", a, b, "*"), lambda a, b: a * b)
truediv = _arith("truediv", emit.divide, folding.truediv)
floordiv = _arith("floordiv", emit.floor_divide, folding.floordiv)
mod = _arith("mod", emit.modulo, folding.mod)
pow = _arith("pow", emit.power, folding.power)
bit_and = _arith("bit_and", _bits("and", "&"), lambda a, b: a & b)
bit_or = _arith("bit_or", _bits("or", "|"), lambda a, b: a | b)
bit_xor = _arith("bit_xor", _bits("xor", "^"), lambda a, b: a ^ b)
bit_shl = _arith("bit_shl", _shift("shl", "<<"), folding.shl)
bit_sar = _arith("bit_sar", _shift("shr", ">>"), folding.shr)
raw_div = _arith("raw_div", lambda a, b: emit.binary("div", a, b, "raw_div"), folding.raw_div)
raw_mod = _arith("raw_mod", lambda a, b: emit.binary("rem", a, b, "raw_mod"), folding.raw_mod)
atan2 = _arith("atan2", emit.atan2, math.atan2)
cmp_lt = _arith("<", lambda a, b: emit.compare("lt", a, b, "<"), folding.compare(operator.lt))
cmp_le = _arith("<=", lambda a, b: emit.compare("le", a, b, "<="), folding.compare(operator.le))
cmp_gt = _arith(">", lambda a, b: emit.compare("gt", a, b, ">"), folding.compare(operator.gt))
cmp_ge = _arith(">=", lambda a, b: emit.compare("ge", a, b, ">="), folding.compare(operator.ge))
cmp_eq = _arith("==", lambda a, b: emit.compare("eq", a, b, "=="), folding.compare(operator.eq))
cmp_ne = _arith("!=", lambda a, b: emit.compare("ne", a, b, "!="), folding.compare(operator.ne))


def bit_shr(a: Any, b: Any) -> Any:
    """Shift right logically: fill with zeros, regardless of the sign."""
    if _in_kernel(a, b):
        emit.integers(a, b, "bit_shr")
        dtype = _number(emit.element(a))
        unsigned = {8: dtypes.u8, 16: dtypes.u16, 32: dtypes.u32, 64: dtypes.u64}[dtype.bits]
        bld = context.builder()
        x, y = emit.same(a, b, "bit_shr", dtype)
        shifted = bld.binary("shr", bld.bitcast(x.id, unsigned.ir), bld.bitcast(y.id, unsigned.ir))
        return Expr(bld.bitcast(shifted, dtype.ir), x.ty)
    return _host_map(folding.bit_shr, a, b)


def _extreme(op: str, host: Callable[..., Any], doc: str) -> Any:
    def f(*args: Any) -> Any:
        if not args:
            raise WujiTypeError(f"`{op}` needs at least one argument")
        if len(args) == 1 and isinstance(args[0], (list, tuple)):
            args = tuple(args[0])
        # From the right, as in Taichi: each pair is compared in its own common type.
        result = args[-1]
        for other in reversed(args[:-1]):
            if _in_kernel(other, result):
                a, b = emit.element(other), emit.element(result)
                result = emit.binary(op, other, result, op, dtypes.u8 if a is b is u1 else None)
            else:
                result = _host_map(host, other, result)
        return result

    f.__name__ = f.__qualname__ = op
    f.__doc__ = doc
    return f


max = _extreme("max", folding.maximum, "Return the maximum of the arguments, component-wise.")
min = _extreme("min", folding.minimum, "Return the minimum of the arguments, component-wise.")


def logical_and(a: Any, b: Any) -> Any:
    if _in_kernel(a, b):
        return emit.binary("and", emit.truth(a), emit.truth(b), "and", u1)
    return _host_map(lambda x, y: bool(x) and bool(y), a, b)


def logical_or(a: Any, b: Any) -> Any:
    if _in_kernel(a, b):
        return emit.binary("or", emit.truth(a), emit.truth(b), "or", u1)
    return _host_map(lambda x, y: bool(x) or bool(y), a, b)


def select(cond: Any, x1: Any, x2: Any) -> Any:
    """Return ``x1`` where the condition holds, else ``x2``, component-wise."""
    if context.compiling() is not None and not emit.is_number(cond):
        from .compiler.conditions import refuse_whole

        refuse_whole(cond, "cannot be a condition", "x")
    if _in_kernel(cond, x1, x2):
        return emit.select(cond, x1, x2)
    return _host_map(lambda c, a, b: a if c else b, cond, x1, x2)


ifte = select


def cast(obj: Any, dtype: Any) -> Any:
    """Convert to another scalar type. Floats truncate toward zero."""
    to = dtypes.need_scalar(dtype)
    if _in_kernel(obj):
        return emit.convert(obj, to)
    from .matrix import Matrix

    if isinstance(obj, Matrix):
        return obj.cast(to)
    if isinstance(obj, (list, tuple)):
        return type(obj)(cast(x, to) for x in obj)
    value = emit.cast_constant(obj, to)
    # Keep the type of a constant: `ti.cast(3, ti.u8)` is not an `i32`.
    return value if context.compiling() is None else emit.constant(value, to)


def typed(value: Any, dtype: DataType) -> Any:
    """Give a literal a type, which has to hold it: `ti.u8(3)`. Other values are converted."""
    if not _in_kernel(value) and folding.is_int(value):
        if dtype.is_int and not folding.in_range(int(value), dtype):
            raise WujiTypeError(f"Integer literal {value} exceeded the range of specified dtype: {dtype}\n  = help: use `ti.cast` to wrap it")
        return emit.constant(emit.convert_constant(value, dtype), dtype)
    return cast(value, dtype)


def bit_cast(obj: Any, dtype: Any) -> Any:
    """Reinterpret the bits as another type of the same size."""
    to = dtypes.need_scalar(dtype)
    if not _in_kernel(obj):
        if context.compiling() is None:
            import struct

            source = dtypes.of_constant(obj)
            if source is None or source.bits != to.bits:
                raise WujiTypeError(f"`bit_cast` of {obj!r} to {to}: the sizes differ")
            return struct.unpack("<" + to.format, struct.pack("<" + source.format, obj))[0]
        obj = emit.expr(obj)
    if emit.element(obj).bits != to.bits:
        raise WujiTypeError(f"`bit_cast` from {emit.element(obj)} to {to}: the sizes differ")
    x = emit.expr(obj)
    ty = x.ty.with_dtype(to) if isinstance(x.ty, MatrixType) else to
    return Expr(context.builder().bitcast(x.id, to.ir), ty)


def zero(x: Any) -> Any:
    """Return zero with the type and shape of ``x``."""
    return mul(x, 0) if not isinstance(x, Expr) else Expr(context.builder().zero(x.ty.ir), x.ty)


def one(x: Any) -> Any:
    """Return one with the type and shape of ``x``."""
    return add(zero(x), 1) if not isinstance(x, Expr) else emit.fit(1, x.ty)


def random(dtype: Any = float) -> Any:
    """Return a uniform random number: floats in [0, 1), integers over their full range."""
    to = dtypes.need_scalar(dtype)
    if context.compiling() is not None:
        return emit.random(to)
    import random as python_random

    if to.is_float:
        return python_random.random()
    return to.wrap(python_random.getrandbits(to.bits))


def randn(dt: Any = None) -> Any:
    """Return a random number from the standard normal distribution."""
    to = dtypes.need_scalar(float if dt is None else dt)
    if context.compiling() is not None:
        # 1 - x is never zero.
        u = sub(emit.constant(1.0, to), emit.random(to))
        return mul(sqrt(mul(log(u), -2.0)), cos(mul(emit.random(to), 2 * math.pi)))
    import random as python_random

    return python_random.gauss(0.0, 1.0)


def frexp(x: Any) -> Any:
    """Return the fraction, in [0.5, 1), and the exponent of a float."""
    if not _in_kernel(x):
        return math.frexp(x)
    from .struct import kernel_tuple

    dtype = emit.element(x)
    bits = {32: (dtypes.u32, 23, 0xFF, 126), 64: (dtypes.u64, 52, 0x7FF, 1022)}.get(dtype.bits)
    if not dtype.is_float or bits is None:
        raise WujiTypeError(f"`frexp` takes an f32 or f64, not {dtype}")
    word, digits, field, bias = bits
    # Scale subnormals to normal numbers first.
    tiny = cmp_lt(abs(x), 2.0 ** (2 - bias - 0))
    scaled = select(tiny, mul(x, 2.0**digits), x)
    raw = bit_cast(scaled, word)
    exponent = bit_and(bit_shr(raw, cast(digits, word)), cast(field, word))
    whole = sub(sub(cast(exponent, dtypes.i32), bias), select(tiny, digits, 0))
    mask = cast(~(field << digits) & ((1 << word.bits) - 1), word)
    fraction = bit_cast(bit_or(bit_and(raw, mask), cast(bias << digits, word)), dtype)
    plain = logical_and(cmp_ne(x, 0), cmp_lt(abs(x), math.inf))
    return kernel_tuple([select(plain, fraction, x), select(plain, whole, 0)])


# Atomics: update in place, return the old value.


def _atomic(name: str, op: str) -> Any:
    @takes_references
    def f(x: Any, y: Any) -> Any:
        if isinstance(x, StructVal) or not isinstance(x, Ref):
            what = "a computed value" if isinstance(x, Expr) else emit.describe(x)
            raise WujiSyntaxError(
                f"cannot use a non-writable target as the first operand of '{name}': it is {what}\n  = help: use an element, such as `x[i]`, or a variable"
            )
        return update(x, op, y)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = "Update an element atomically and return its old value."
    return kernel_only(f)


# Bools in memory are integers with one bit: sums and differences are taken modulo 2. A variable holds whether the sum is nonzero.
_OF_BOOLS = {"add": "xor", "sub": "xor", "mul": "and", "min": "and", "max": "or"}


def update(ref: Ref, op: str, value: Any) -> Expr:
    """Update a reference and return its old value. The operand is converted to the type of the reference first."""
    dtype = ref.dtype
    if op in ("and", "or", "xor") and dtype.is_float:
        raise WujiTypeError(f"`atomic_{op}` needs integers, not {dtype}")
    operand: Any = emit.fit(value, ref.ty)
    if dtype is u1:
        op = "or" if op == "add" and ref.is_variable else _OF_BOOLS.get(op, op)
    if ref.private:
        # No other iteration interferes.
        old = ref.load()
        ref.store(emit.binary(op, old, operand, op, dtype))
        return old
    if op == "sub":
        return ref.atomic("add", neg(operand))
    return ref.atomic(op, operand)


atomic_add = _atomic("atomic_add", "add")
atomic_sub = _atomic("atomic_sub", "sub")
atomic_mul = _atomic("atomic_mul", "mul")
atomic_min = _atomic("atomic_min", "min")
atomic_max = _atomic("atomic_max", "max")
atomic_and = _atomic("atomic_and", "and")
atomic_or = _atomic("atomic_or", "or")
atomic_xor = _atomic("atomic_xor", "xor")


def _matmul(a: Any, b: Any) -> Any:
    from .matrix_ops import matmul

    return matmul(a, b)


def _index(a: Any, at: Any) -> Any:
    from .matrix import component

    return component(a, at)


def _attribute(a: Any, name: str) -> Any:
    from .matrix import attribute

    return attribute(a, name)


_BINARY = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "truediv": truediv,
    "floordiv": floordiv,
    "mod": mod,
    "pow": pow,
    "and": bit_and,
    "or": bit_or,
    "xor": bit_xor,
    "lshift": bit_shl,
    "rshift": bit_sar,
    "matmul": _matmul,
}
_COMPARE = {"lt": cmp_lt, "le": cmp_le, "gt": cmp_gt, "ge": cmp_ge, "eq": cmp_eq, "ne": cmp_ne}
_UNARY = {"neg": neg, "pos": lambda a: a, "abs": abs, "invert": bit_not}


def define_operators(cls: type, compared: bool) -> None:
    """Define a class's operators by the functions of this module."""
    for name, f in _BINARY.items():
        setattr(cls, f"__{name}__", lambda a, b, f=f: f(a, b))
        setattr(cls, f"__r{name}__", lambda a, b, f=f: f(b, a))
    for name, f in _COMPARE.items():
        if compared or name not in ("eq", "ne"):
            setattr(cls, f"__{name}__", lambda a, b, f=f: f(a, b))
    for name, f in _UNARY.items():
        setattr(cls, f"__{name}__", lambda a, f=f: f(a))


define_operators(Expr, compared=True)
setattr(Expr, "__getitem__", _index)  # noqa: B010
setattr(Expr, "__getattr__", _attribute)  # noqa: B010
setattr(Expr, "__hash__", None)  # noqa: B010
