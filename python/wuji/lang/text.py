"""Formatting of `print` and `assert` messages in kernels."""

from __future__ import annotations

import re
import sys
from typing import Any

from ..exceptions import WujiFormatError, WujiTypeError
from . import context, dtypes, emit
from .compound import MatrixType
from .matrix import Matrix
from .struct import Struct
from .values import Expr, StructVal


class Placeholder:
    """A run-time value in a formatted string, with its format specification."""

    __slots__ = ("spec", "value")

    def __init__(self, value: Any, spec: str) -> None:
        self.value = value
        self.spec = spec


class FormattedText:
    """A formatted string: constant except for its placeholders."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: list[Any]) -> None:
        self.pieces = pieces


def format_text(template: str, args: tuple[Any, ...], named: dict[str, Any]) -> FormattedText:
    """Format ``"...{}...".format(...)`` in a kernel."""
    import string

    formatter = string.Formatter()
    pieces: list[Any] = []
    automatic = 0
    try:
        parts = list(formatter.parse(template))
    except ValueError as e:
        raise WujiFormatError(f"{e}: {template!r}") from None
    for literal, name, spec, _conversion in parts:
        if literal:
            pieces.append(literal)
        if name is None:
            continue
        if name == "":
            name, automatic = str(automatic), automatic + 1
        try:
            value, _ = formatter.get_field(name, args, named)
        except IndexError:
            numbers = [int(f) + 1 for _, f, _, _ in parts if f and f.isdigit()]
            needed = max([sum(f == "" for _, f, _, _ in parts), *numbers])
            raise WujiFormatError(
                f"Expected {needed} positional argument(s), but received {len(args)} instead: there is no value for replacement {name}: `format` has {len(args)}"
            ) from None
        except (KeyError, AttributeError):
            raise WujiFormatError(f"Keyword '{name}' not found: `format` has no value named '{name}'") from None
        if emit.is_number(value) or isinstance(value, str):
            pieces.append(format(value, spec or ""))
        else:
            pieces.append(Placeholder(value, spec or ""))
    return FormattedText(pieces)


_PRINTF = re.compile(r"%(?:\((\w+)\))?([-+ #0]*)(\d+)?(?:\.(\d+))?[hlL]?(.)", re.DOTALL)


def format_printf(template: str, values: Any) -> FormattedText:
    """Format ``"...%d..." % values`` in a kernel."""
    rest = iter(values if isinstance(values, tuple) else (values,))
    pieces: list[Any] = []
    end = 0
    for found in _PRINTF.finditer(template):
        pieces.append(template[end : found.start()])
        end = found.end()
        name, flags, width, precision, conversion = found.groups()
        if conversion == "%":
            pieces.append("%")
            continue
        if name is not None:
            if not isinstance(values, dict) or name not in values:
                raise WujiTypeError(f"`{found[0]}` needs a dictionary with the key '{name}'")
            value = values[name]
        else:
            value = next(rest, _MISSING)
        if value is _MISSING:
            raise WujiTypeError(f"there is no value for `{found[0]}`: not enough arguments for format string")
        if isinstance(value, Expr):
            pieces.append(_printf_placeholder(value, found[0], flags, width or "", precision, conversion))
        elif isinstance(value, (Matrix, StructVal, Struct)):
            pieces.append(Placeholder(value, ""))
        else:
            pieces.append(f"%{flags}{width or ''}{'' if precision is None else '.' + precision}{conversion}" % (value,))
    pieces.append(template[end:])
    if not isinstance(values, dict) and next(rest, _MISSING) is not _MISSING:
        raise WujiTypeError("not all arguments converted during string formatting")
    return FormattedText([piece for piece in pieces if piece != ""])


_MISSING = object()


def _printf_placeholder(value: Expr, text: str, flags: str, width: str, precision: str | None, conversion: str) -> Placeholder:
    """Return a placeholder with the format specification that a format of C means."""
    dtype = value.dtype
    if conversion in "diu":
        if dtype.is_float:
            value = emit.convert(value, dtypes.i64)
        conversion = "d"
    elif conversion in "eEfFgG":
        if not dtype.is_float:
            value = emit.convert(value, dtypes.defaults.fp)
    elif conversion in "sra":
        conversion = ""
    elif conversion not in "oxX":
        raise WujiTypeError(f"`{text}` is not a format of run-time values")
    if precision is not None and conversion not in "eEfFgG":
        raise WujiTypeError(f"`{text}` has a precision, which only formats of floats have")
    align = "<" if "-" in flags else ">" if width and not conversion else ""
    sign = "+" if "+" in flags else " " if " " in flags else ""
    zeros = "0" if "0" in flags and "-" not in flags and conversion else ""
    spec = f"{align}{sign}{'#' if '#' in flags else ''}{zeros}{width}{'' if precision is None else '.' + precision}{conversion}"
    return Placeholder(value, spec)


_SPEC = re.compile(r"^(?:\.(\d+))?([fdiu]?)$")


def _digits(spec: str, dtype: Any) -> int | None | bool:
    """Return the number of decimals if the core can format the number, None for the default, `False` if Python must format it."""
    found = _SPEC.match(spec)
    try:
        if not dtype.is_float and spec[-1:] in tuple("aAeEfFgG%"):
            raise ValueError(spec)  # Python converts integers
        format(1.0 if dtype.is_float else 1, spec.replace("i", "d").replace("u", "d") if found else spec)
    except ValueError:
        raise WujiTypeError(f"'{spec}' doesn't match '{dtype}': it is not a format of {'floats' if dtype.is_float else 'integers'}") from None
    if found is None:
        return False
    return int(found[1]) if found[1] is not None else None


class Message:
    """Text pieces and values of a message, in the builder's format."""

    def __init__(self) -> None:
        self.pieces: list[str | tuple[str, int | None]] = []
        self.values: list[int] = []

    def text(self, text: str) -> None:
        if text:
            if self.pieces and isinstance(self.pieces[-1], str):
                self.pieces[-1] += text
            else:
                self.pieces.append(text)

    def add(self, part: Any, spec: str = "") -> None:
        if isinstance(part, str):
            self.text(part)
        elif isinstance(part, FormattedText):
            for piece in part.pieces:
                if isinstance(piece, Placeholder):
                    self.add(piece.value, piece.spec)
                else:
                    self.text(str(piece))
        elif isinstance(part, (StructVal, Struct)):
            value = part.in_kernel() if isinstance(part, Struct) else part
            self.text("{")
            for k, (name, member) in enumerate(value.members.items()):
                self.text((", " if k else "") + f"{name}: ")
                self.add(member, spec)
            self.text("}")
        elif isinstance(part, (list, tuple)):
            self.text("[")
            for k, item in enumerate(part):
                self.text(", " if k else "")
                self.add(item, spec)
            self.text("]")
        elif isinstance(part, Matrix):
            self.add(part.to_list(), spec)
        elif isinstance(part, Expr):
            self._value(part.load(), spec)
        elif isinstance(part, bool):
            self.text(str(int(part)))
        elif isinstance(part, float):
            # Same as a run-time value.
            self.text(format(part, spec or f".{_default_decimals(dtypes.defaults.fp)}f"))
        else:
            self.text(str(part))

    def _value(self, value: Expr, spec: str) -> None:
        ty = value.ty
        if ty is dtypes.u1:
            # Bools print as numbers, as in Taichi.
            value, ty = emit.convert(value, dtypes.i32), dtypes.i32
        if not isinstance(ty, MatrixType):
            self._number(value, spec, ty)
            return
        parts = emit.components(value)
        width = ty.m if ty.ndim == 2 else ty.n
        rows = [parts[k : k + width] for k in range(0, len(parts), width)]
        self.text("[[" if ty.ndim == 2 else "[")
        for r, row in enumerate(rows):
            self.text("], [" if r else "")
            for c, part in enumerate(row):
                self.text(", " if c else "")
                self._value(part, spec)
        self.text("]]" if ty.ndim == 2 else "]")

    def _number(self, value: Expr, spec: str, dtype: Any) -> None:
        digits = _digits(spec, dtype)
        if digits is False:
            # Full precision, marked with its format for Python.
            value = emit.convert(value, dtypes.f64 if dtype.is_float else dtypes.u64 if dtype is dtypes.u64 else dtypes.i64)
            self.text(f"{_BEGIN}{spec}{_MIDDLE}")
            self.pieces.append((value.dtype.ir, None))
            self.text(_END)
        else:
            # Floats print as in C, as in Taichi.
            self.pieces.append((dtype.ir, _default_decimals(dtype) if digits is None and dtype.is_float else digits))
        self.values.append(value.id)


def kernel_print(args: list[Any], sep: Any = " ", end: Any = "\n") -> None:
    """Compile ``print(...)`` in a kernel. Each call prints its line as a whole."""
    for what, value in (("sep", sep), ("end", end)):
        if not isinstance(value, str):
            raise WujiTypeError(f"`{what}` of `print` must be a compile-time string")
    message = Message()
    for k, arg in enumerate(args):
        if k:
            message.text(sep)
        message.add(arg)
    message.text(end)
    context.builder().print(message.pieces, message.values)


def _default_decimals(dtype: dtypes.DataType) -> int:
    """Return the default number of decimals."""
    return 12 if dtype is dtypes.f64 else 6


# Marks in printed text: numbers that Python formats.
_BEGIN, _MIDDLE, _END = "\1\2\3"
_MARKED = re.compile(f"{_BEGIN}([^{_MIDDLE}]*){_MIDDLE}([^{_END}]*){_END}")


def _format_match(found: re.Match[str]) -> str:
    spec, number = found.groups()
    try:
        return format(int(number), spec)
    except ValueError:
        return format(float(number), spec)


def format_marked(text: str) -> str:
    """Format the marked numbers in a printed text."""
    return _MARKED.sub(_format_match, text) if _BEGIN in text else text


def write_line(line: str) -> None:
    """Write a printed line to standard output."""
    line = format_marked(line)
    out = sys.stdout
    if out is None:  # as for `print`
        return
    out.write(line)


def kernel_assert(condition: Expr, user_message: Any, source: str) -> None:
    message = Message()
    if user_message is None:
        message.text(source)
    else:
        message.add(user_message)
    context.builder().check(condition.id, message.pieces, message.values)
