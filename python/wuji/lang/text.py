"""What kernels print, and what their assertions say."""

from __future__ import annotations

import re
import sys
from typing import Any

from ..exceptions import WujiTypeError
from . import context, dtypes, emit
from .compound import MatrixType
from .matrix import Matrix
from .struct import Struct
from .values import Expr, StructVal


class Hole:
    """A value in a text, and how it is written."""

    __slots__ = ("spec", "value")

    def __init__(self, value: Any, spec: str) -> None:
        self.value = value
        self.spec = spec


class FormattedText:
    """Text with holes, known when the kernel is compiled but for the numbers."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: list[Any]) -> None:
        self.pieces = pieces


def format_text(template: str, args: tuple[Any, ...], named: dict[str, Any]) -> FormattedText:
    """``"...{}...".format(...)`` in a kernel."""
    import string

    pieces: list[Any] = []
    automatic = 0
    for literal, name, spec, _conversion in string.Formatter().parse(template):
        if literal:
            pieces.append(literal)
        if name is None:
            continue
        if name == "":
            value, automatic = args[automatic], automatic + 1
        elif name.isdigit():
            value = args[int(name)]
        else:
            value = named[name]
        if emit.is_number(value) or isinstance(value, str):
            pieces.append(format(value, spec or ""))
        else:
            pieces.append(Hole(value, spec or ""))
    return FormattedText(pieces)


_SPEC = re.compile(r"^(?:\.(\d+))?([fdiu]?)$")


def _digits(spec: str, dtype: Any) -> int | None | bool:
    """Digits behind the point, where the core can write the number by itself; `False` where Python has to."""
    found = _SPEC.match(spec)
    try:
        format(1.0 if dtype.is_float else 1, spec.replace("i", "d").replace("u", "d") if found else spec)
    except ValueError:
        kind = "floats" if dtype.is_float else "integers"
        raise WujiTypeError(f"the format {spec!r} is not one for {kind}, and this is {dtype}") from None
    if found is None:
        return False
    return int(found[1]) if found[1] is not None else None


class Message:
    """Pieces and values, as the builder takes them."""

    def __init__(self) -> None:
        self.pieces: list[str | tuple[str, int | None]] = []
        self.values: list[int] = []

    def text(self, text: str) -> None:
        if text:
            if self.pieces and isinstance(self.pieces[-1], str):
                self.pieces[-1] += text
            else:
                self.pieces.append(text)

    def add(self, thing: Any, spec: str = "") -> None:
        if isinstance(thing, str):
            self.text(thing)
        elif isinstance(thing, FormattedText):
            for piece in thing.pieces:
                if isinstance(piece, Hole):
                    self.add(piece.value, piece.spec)
                else:
                    self.text(str(piece))
        elif isinstance(thing, (StructVal, Struct)):
            value = thing.in_kernel() if isinstance(thing, Struct) else thing
            self.text("{")
            for k, (name, member) in enumerate(value.members.items()):
                self.text((", " if k else "") + f"{name}: ")
                self.add(member, spec)
            self.text("}")
        elif isinstance(thing, (list, tuple)):
            self.text("[")
            for k, item in enumerate(thing):
                self.text(", " if k else "")
                self.add(item, spec)
            self.text("]")
        elif isinstance(thing, Matrix):
            self.add(thing.to_list(), spec)
        elif isinstance(thing, Expr):
            self._value(thing.load(), spec)
        elif isinstance(thing, bool):
            self.text(str(int(thing)))
        elif isinstance(thing, float):
            # As a value of the kernel would be.
            self.text(format(thing, spec or f".{_usual(dtypes.defaults.fp)}f"))
        else:
            self.text(str(thing))

    def _value(self, value: Expr, spec: str) -> None:
        ty = value.ty
        if ty is dtypes.u1:
            # Truth values are numbers here, as they are in Taichi.
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
            # All of it, and how it is to be written.
            value = emit.convert(value, dtypes.f64 if dtype.is_float else dtypes.u64 if dtype is dtypes.u64 else dtypes.i64)
            self.text(f"{_BEGIN}{spec}{_MIDDLE}")
            self.pieces.append((value.dtype.ir, None))
            self.text(_END)
        else:
            # As C prints floats, and so do programs expect it.
            self.pieces.append((dtype.ir, _usual(dtype) if digits is None and dtype.is_float else digits))
        self.values.append(value.id)


def kernel_print(args: list[Any], sep: Any = " ", end: Any = "\n") -> None:
    """``print(...)`` in a kernel: a line is printed as a whole."""
    for what, value in (("sep", sep), ("end", end)):
        if not isinstance(value, str):
            raise WujiTypeError(f"`{what}` of `print` is a text that is known when the kernel is compiled")
    message = Message()
    for k, arg in enumerate(args):
        if k:
            message.text(sep)
        message.add(arg)
    # Lines end by themselves, unless they are marked.
    message.text(end[:-1] if end.endswith("\n") else end + _GOES_ON)
    context.builder().print(message.pieces, message.values)


def _usual(dtype: dtypes.DataType) -> int:
    """Digits behind the point where nobody says how many."""
    return 12 if dtype is dtypes.f64 else 6


# Marks in lines that kernels print: a line that does not end, and numbers that Python writes.
_GOES_ON = "\0"
_BEGIN, _MIDDLE, _END = "\1\2\3"
_MARKED = re.compile(f"{_BEGIN}([^{_MIDDLE}]*){_MIDDLE}([^{_END}]*){_END}")


def _written(found: re.Match[str]) -> str:
    spec, number = found.groups()
    try:
        return format(int(number), spec)
    except ValueError:
        return format(float(number), spec)


def written(text: str) -> str:
    """What a kernel says, with its numbers as they are to be written."""
    return _MARKED.sub(_written, text) if _BEGIN in text else text


def write_line(line: str) -> None:
    """Where lines of kernels go."""
    line = written(line)
    out = sys.stdout
    out.write(line[:-1] if line.endswith(_GOES_ON) else line + "\n")


def kernel_assert(condition: Expr, said: Any, source: str) -> None:
    message = Message()
    if said is None:
        message.text(source)
    else:
        message.add(said)
    context.builder().check(condition.id, message.pieces, message.values)
