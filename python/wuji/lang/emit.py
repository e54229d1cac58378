"""Emit instructions for operations on run-time values: conversion, broadcasting, and arithmetic with Python's semantics."""

from __future__ import annotations

from typing import Any

from ..exceptions import WujiConversionError, WujiShapeError, WujiTypeError
from . import context, dtypes, folding
from .compound import MatrixType
from .dtypes import DataType, defaults, f64, promote, u1
from .values import Expr, StructVal, tensor

Number = (int, float)


def constant(value: Any, dtype: DataType | None = None) -> Expr:
    """Emit a constant."""
    if dtype is None:
        dtype = dtypes.of_constant(value)
        if dtype is None:
            raise WujiTypeError(f"{describe(value)} is not a number")
    cx = context.current()
    id = cx.builder.const(dtype.ir, convert_constant(value, dtype))
    cx.constants.add(id)
    return Expr(id, dtype)


def convert_constant(value: Any, dtype: DataType) -> int | float | bool:
    """Convert a constant implicitly. An integer has to fit the type."""
    if type(value) not in (int, float, bool):
        _check_number(value, dtype)
    if dtype.is_float:
        return folding.to_float(value)
    if dtype is u1:
        return bool(value)
    if isinstance(value, float):
        # Same as the run-time conversion: truncate and saturate.
        if value != value:
            return 0
        low, high = dtype.range()
        return max(low, min(high, int(value))) if abs(value) != float("inf") else (high if value > 0 else low)
    return folding.narrowed(int(value), dtype)


def _check_number(value: Any, dtype: DataType) -> None:
    """Refuse what Python does not convert to a number, and text, which it does."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        (float if dtype.is_float else int)(value)
    except OverflowError:
        pass  # an infinity, or an integer beyond all floats
    except (TypeError, ValueError):
        if context.compiling() is not None:
            raise WujiTypeError(f"Invalid constant scalar data type: {type(value)}: {describe(value)} cannot be converted to {dtype}") from None
        raise WujiConversionError(f"{describe(value)} cannot be converted into required type {dtype}", "W0610") from None


def cast_constant(value: Any, dtype: DataType) -> int | float | bool:
    """Convert a constant explicitly, as a value of the default type: integers wrap, and floats truncate and saturate."""
    if dtype.is_int and folding.is_int(value) and folding.in_range(int(value), defaults.ip):
        return dtype.wrap(int(value))
    return convert_constant(value, dtype)


def describe(value: Any) -> str:
    """Describe a value for error messages."""
    if isinstance(value, Expr):
        return f"a value of type {value.ty}"
    if isinstance(value, StructVal):
        return f"a struct {value.ty}"
    if isinstance(value, str):
        return f"the string {value!r}"
    if value is None:
        return "None"
    if isinstance(value, (int, float)):
        return f"the number {value!r}"
    if getattr(value, "_wuji_element", None):
        return f"{value!r} of a mesh"
    return f"{value!r} of {type(value).__name__}"


def is_number(value: Any) -> bool:
    """Return whether a value is a Python or NumPy scalar."""
    return type(value) in (int, float, bool) or dtypes.of_constant(value) is not None


def _no_value(value: Any) -> WujiTypeError:
    from .field import Field

    help = "\n  = help: its element is `x[None]`, where `x` is the field" if isinstance(value, Field) and not value.shape else ""
    return WujiTypeError(f"Invalid constant scalar data type: {type(value)}: {describe(value)} is not a value that a kernel can compute with{help}")


def type_of(value: Any) -> Any:
    """Return the type a value has in a kernel."""
    if isinstance(value, Expr):
        return value.ty
    found = dtypes.of_constant(value)
    if found is not None:
        return found
    from .matrix import Matrix

    if isinstance(value, Matrix):
        return value.type
    if isinstance(value, (list, tuple)) and value:
        return expr(value).ty if context.compiling() else Matrix(value).type
    raise _no_value(value)


def expr(value: Any) -> Expr:
    """Convert a value to an `Expr`."""
    if isinstance(value, Expr):
        return value.load()
    if is_number(value):
        return constant(value)
    from .matrix import Matrix, in_kernel

    if isinstance(value, (Matrix, list, tuple)):
        return in_kernel(value)
    raise _no_value(value)


def convert(value: Any, dtype: DataType) -> Expr:
    """Convert the scalar type of a value, component-wise."""
    if not isinstance(value, Expr) and is_number(value):
        return constant(value, dtype)
    source = expr(value)
    if source.dtype is dtype:
        return source
    ty = source.ty
    to = ty.with_dtype(dtype) if isinstance(ty, MatrixType) else dtype
    return Expr(context.builder().convert(source.id, dtype.ir), to)


def shaped(value: Expr, like: Any) -> Expr:
    """Broadcast a scalar to a vector or matrix type; return other values unchanged."""
    if isinstance(like, MatrixType) and not isinstance(value.ty, MatrixType):
        ty = like.with_dtype(value.dtype)
        return Expr(context.builder().splat(ty.ir, value.id), ty)
    return value


def fit(value: Any, ty: Any) -> Expr:
    """Convert a value to exactly this type, for a store."""
    if isinstance(ty, MatrixType):
        converted = shaped(convert(value, ty.dtype), ty)
        if converted.shape != ty.shape:
            raise WujiShapeError(f"cannot assign '{converted.ty}' to '{ty}': the shapes are {list(converted.shape)} and {list(ty.shape)}")
        return converted
    if isinstance(value, StructVal):
        raise WujiTypeError(f"{describe(value)} cannot be converted to {ty}")
    converted = convert(value, ty)
    if converted.shape:
        raise WujiTypeError(f"{describe(converted)} cannot be converted to {ty}, a scalar")
    return converted


def join(a: Any, b: Any, what: str) -> Any:
    """Return the broadcast type of two operands. Scalars broadcast to any shape."""
    if isinstance(a, MatrixType):
        if isinstance(b, MatrixType) and a.shape != b.shape:
            raise WujiShapeError(
                f"unsupported operand type(s) for '{what}': '{a}' and '{b}': shape mismatch: {list(a.shape)} and {list(b.shape)}"
                + ("\n  = help: use `a @ b` for a matrix product" if what == "*" else "")
            )
        return a
    return b


def same(a: Any, b: Any, what: str, dtype: DataType | None = None) -> tuple[Expr, Expr]:
    """Convert two operands to a common type."""
    ta, tb = type_of(a), type_of(b)
    if dtype is None:
        dtype = promote(ta.dtype if isinstance(ta, MatrixType) else ta, tb.dtype if isinstance(tb, MatrixType) else tb)
    like = join(ta, tb, what)
    return shaped(convert(a, dtype), like), shaped(convert(b, dtype), like)


def binary(op: str, a: Any, b: Any, what: str, dtype: DataType | None = None) -> Expr:
    x, y = same(a, b, what, dtype)
    return Expr(context.builder().binary(op, x.id, y.id), x.ty)


def element(a: Any) -> DataType:
    ty = type_of(a)
    return ty.dtype if isinstance(ty, MatrixType) else ty


def integers(a: Any, b: Any, what: str) -> DataType:
    """Return the common type of two integer operands; reject floats."""
    ta, tb = element(a), element(b)
    for t in (ta, tb):
        if t.is_float:
            raise WujiTypeError(
                f"unsupported operand type(s) for '{what}': '{ta}' and '{tb}': it needs integers\n  = help: convert it first, as in `ti.cast(x, ti.i32)`"
            )
    return u1 if ta is tb is u1 else promote(ta, tb)


def compare(op: str, a: Any, b: Any, what: str) -> Expr:
    x, y = same(a, b, what, u1 if op in ("eq", "ne") and element(a) is element(b) is u1 else None)
    like = x.ty
    ty = like.with_dtype(u1) if isinstance(like, MatrixType) else u1
    return Expr(context.builder().compare(op, x.id, y.id), ty)


def divide(a: Any, b: Any) -> Expr:
    """Divide as floats. Integers are of the default float type, also beside a narrower float."""
    x, y = (dtype if dtype.is_float else defaults.fp for dtype in (element(a), element(b)))
    return binary("div", a, b, "/", promote(x, y))


def constant_int(value: Any) -> int | None:
    """Return the value of a compile-time integer, or None."""
    return int(value) if not isinstance(value, Expr) and is_number(value) and not isinstance(value, float) else None


def floor_divide(a: Any, b: Any) -> Expr:
    dtype = promote(element(a), element(b))
    bld = context.builder()
    if dtype.is_float:
        x = binary("div", a, b, "//", dtype)
        return Expr(bld.unary("floor", x.id), x.ty)
    if dtype.kind == "u":
        return binary("div", a, b, "//", dtype)
    n = constant_int(b)
    if n is not None and n > 0 and n & (n - 1) == 0:
        return binary("shr", a, n.bit_length() - 1, "//", dtype)
    x, y = same(a, b, "//", dtype)
    quotient = bld.binary("div", x.id, y.id)
    off = _needs_floor_fix(x, y, n)
    less = bld.binary("sub", quotient, fit(1, x.ty).id)
    return Expr(bld.select(off, less, quotient), x.ty)


def _needs_floor_fix(x: Expr, y: Expr, divisor: int | None) -> int:
    """Return whether the remainder is nonzero and its sign differs from that of the divisor, which may be a constant."""
    bld = context.builder()
    zero = bld.zero(x.ty.ir)
    rest = bld.binary("rem", x.id, y.id)
    if divisor is not None and divisor > 0:
        return bld.compare("lt", rest, zero)
    some = bld.compare("ne", rest, zero)
    signs = bld.compare("lt", bld.binary("xor", rest, y.id), zero)
    return bld.binary("and", some, signs)


def modulo(a: Any, b: Any) -> Expr:
    dtype = promote(element(a), element(b))
    bld = context.builder()
    if dtype.is_float:
        x, y = same(a, b, "%", dtype)
        whole = bld.unary("floor", bld.binary("div", x.id, y.id))
        return Expr(bld.binary("sub", x.id, bld.binary("mul", y.id, whole)), x.ty)
    if dtype.kind == "u":
        return binary("rem", a, b, "%", dtype)
    n = constant_int(b)
    if n is not None and n > 0 and n & (n - 1) == 0:
        return binary("and", a, n - 1, "%", dtype)
    x, y = same(a, b, "%", dtype)
    rest = bld.binary("rem", x.id, y.id)
    more = bld.binary("add", rest, y.id)
    return Expr(bld.select(_needs_floor_fix(x, y, n), more, rest), x.ty)


def power(a: Any, b: Any) -> Expr:
    base, exponent = element(a), element(b)
    # An integer base with an integer exponent keeps its type, unless the exponent is known to be negative.
    dtype = promote(base, exponent) if base.is_float or exponent.is_float or base is u1 else base
    n = constant_int(b)
    if n is not None and n < 0 and not dtype.is_float:
        dtype = defaults.fp
    if n is not None and abs(n) <= 64:
        return _constant_power(convert(a, dtype), n, dtype)
    if dtype.is_float:
        return binary("pow", a, b, "**", dtype)
    like = join(type_of(a), type_of(b), "**")
    if isinstance(like, MatrixType):
        parts = zip(*(components(shaped(expr(v), like)) for v in (a, b)), strict=True)
        return compose([_run_time_power(x, y, dtype) for x, y in parts], like.shape, dtype)
    return _run_time_power(a, b, dtype)


def _constant_power(x: Expr, n: int, dtype: DataType) -> Expr:
    """Raise to a constant power by repeated squaring."""
    bld = context.builder()
    result: int | None = None
    square, rest = x.id, abs(n)
    while rest:
        if rest & 1:
            result = square if result is None else bld.binary("mul", result, square)
        rest >>= 1
        if rest:
            square = bld.binary("mul", square, square)
    one = fit(1, x.ty)
    if result is None:
        return one
    return Expr(bld.binary("div", one.id, result) if n < 0 else result, x.ty)


def _run_time_power(a: Any, b: Any, dtype: DataType) -> Expr:
    """Raise to a run-time power: loop over the bits of the exponent. A negative one truncates the fraction, and is an error in debug mode."""
    cx, bld = context.current(), context.builder()
    base, result = (cx.new_var(name, dtype) for name in ("base", "result"))
    rest = cx.new_var("rest", element(b))
    base.store(a)
    rest.store(b)
    result.store(1)
    if rest.dtype.kind == "i":
        _negative_power(base, rest, result)
    label = bld.begin_loop()
    bld.begin_if(compare("le", rest, 0, "<=").id)
    bld.jump_break(label)
    bld.end_if()
    odd = compare("ne", binary("and", rest, 1, "&"), 0, "!=")
    bld.begin_if(odd.id)
    result.store(binary("mul", result, base, "*"))
    bld.end_if()
    base.store(binary("mul", base, base, "*"))
    rest.store(binary("shr", rest, 1, ">>"))
    bld.end_loop()
    return result.load()


def _negative_power(base: Any, exponent: Any, result: Any) -> None:
    """Store the result for a negative exponent: zero, except for the bases 1 and -1."""
    bld = context.builder()
    negative = compare("lt", exponent, 0, "<")
    if context.current().runtime.config.debug:
        from .text import kernel_assert

        kernel_assert(unary("not", negative), "Negative exponent in pow(int, int) is not allowed.", "")
    bld.begin_if(negative.id)
    odd = compare("ne", binary("and", exponent, 1, "&"), 0, "!=")
    unit = compare("eq", base, 1, "==")
    if base.dtype.kind == "i":
        unit = binary("or", unit, compare("eq", base, -1, "=="), "or", u1)
    result.store(select(unit, select(odd, base, constant(1, base.dtype)), constant(0, base.dtype)))
    bld.end_if()


def unary(op: str, a: Any) -> Expr:
    x = expr(a)
    return Expr(context.builder().unary(op, x.id), x.ty)


def float_unary(op: str, a: Any) -> Expr:
    """Apply a floating-point function. Integers convert to the default float type first."""
    dtype = element(a)
    return unary(op, a if dtype.is_float else convert(a, defaults.fp))


def real_unary(op: str, a: Any) -> Expr:
    """Apply an operation that is defined for floats only, as in Taichi."""
    dtype = element(a)
    if not dtype.is_float:
        raise WujiTypeError(f"'{op}' takes real inputs only, however '{dtype}' is provided\n  = help: convert it first, as in `ti.{op}(float(x))`")
    return unary(op, a)


def atan2(a: Any, b: Any) -> Expr:
    """Compute an angle in the promoted type of the operands, and at least in f32."""
    dtype = promote(element(a), element(b))
    return binary("atan2", a, b, "atan2", promote(dtype if dtype.is_float else defaults.fp, dtypes.f32))


def truth(value: Any) -> Expr:
    """Convert a value to bool, component-wise."""
    return convert(value, u1)


def condition(value: Any, what: str) -> Expr:
    """Convert a value to the single bool that control flow needs."""
    result = truth(value)
    help = "use `.all()` or `.any()`" if result.shape else f"consider using `{what} x != 0` instead of `{what} x` for float values"
    if result.shape or element(value).is_float:
        raise WujiTypeError(f"`{what}` conditions must be an integer; found {describe(value)}\n  = help: {help}")
    return result


def logical_not(value: Any) -> Expr:
    return unary("not", truth(value))


def take(value: Expr, component: int) -> Expr:
    """Return a component of a vector or matrix, by row-major number."""
    return Expr(context.builder().extract(value.id, component), tensor(value).dtype)


def compose(parts: list[Any], shape: tuple[int, ...], dtype: DataType | None = None) -> Expr:
    """Build a vector or matrix from scalars in row-major order."""
    if dtype is None:
        types = [element(p) for p in parts]
        dtype = types[0]
        for t in types[1:]:
            dtype = dtype if dtype is t else promote(dtype, t)
    ty = MatrixType(shape[0], shape[1] if len(shape) > 1 else 1, len(shape), dtype)
    ids = [fit(p, dtype).id for p in parts]
    return Expr(context.builder().compose(ty.ir, ids), ty)


def components(value: Any) -> list[Any]:
    """Return the scalars of a vector or matrix in row-major order."""
    loaded = expr(value)
    if not isinstance(loaded.ty, MatrixType):
        return [loaded]
    return [take(loaded, k) for k in range(loaded.ty.count)]


def select(condition_: Any, a: Any, b: Any) -> Expr:
    c = truth(condition_)
    ta, tb = type_of(a), type_of(b)
    ea, eb = element(a), element(b)
    like = join(join(ta, tb, "select"), c.ty, "select") if c.shape else join(ta, tb, "select")
    dtype = ea if ea is eb else promote(ea, eb)
    x, y = shaped(convert(a, dtype), like), shaped(convert(b, dtype), like)
    if c.shape and x.shape and c.shape != x.shape:
        raise WujiTypeError(f"shape mismatch: `select` of {list(c.shape)} and {list(x.shape)}")
    return Expr(context.builder().select(c.id, x.id, y.id), x.ty)


def random(dtype: DataType) -> Expr:
    """Emit a random number: floats in [0, 1), integers over their full range."""
    bld = context.builder()
    bits = bld.random()
    if dtype.is_float:
        # As many bits as the significand has.
        digits = {16: 11, 32: 24, 64: 53}[dtype.bits]
        top = bld.binary("shr", bits, bld.const("u64", 64 - digits))
        wide = "f64" if dtype is f64 else "f32"
        number = bld.convert(top, wide)
        scaled = bld.binary("mul", number, bld.const(wide, 2.0**-digits))
        return convert(Expr(scaled, dtypes.by_ir(wide)), dtype)
    if dtype is u1:
        return Expr(bld.compare("ne", bld.binary("and", bits, bld.const("u64", 1)), bld.const("u64", 0)), u1)
    top = bld.binary("shr", bits, bld.const("u64", 64 - dtype.bits)) if dtype.bits < 64 else bits
    return Expr(bld.convert(top, dtype.ir), dtype)
