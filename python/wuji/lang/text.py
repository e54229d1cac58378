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


_SPEC = re.compile(r"^(?:\.(\d+))?([fdiugexX]?)$")
# Formats that the core does not have: Python finishes them when the line is printed.
_LATER = "egxX"


def _digits(spec: str, dtype: Any) -> int | None:
    if not spec:
        return None
    found = _SPEC.match(spec)
    if found is None:
        raise WujiTypeError(f"the format {spec!r} is not one that kernels can print; `.3f` is one")
    digits, kind = found.groups()
    if dtype.is_float and kind in "diu" and kind:
        raise WujiTypeError(f"the format {spec!r} is for integers, and this is {dtype}")
    if dtype.is_float and kind in "xX" and kind:
        raise WujiTypeError(f"the format {spec!r} is for integers, and this is {dtype}")
    if not dtype.is_float and kind in "fge" and kind:
        raise WujiTypeError(f"the format {spec!r} is for floats, and this is {dtype}")
    return int(digits) if digits is not None else None


class Message:
    """Pieces and values, as the builder takes them."""

    def __init__(self, printed: bool) -> None:
        self.printed = printed
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
            return self._value(emit.convert(value, dtypes.i32), spec)
        if not isinstance(ty, MatrixType):
            digits = _digits(spec, ty)
            later = bool(spec) and spec[-1] in _LATER
            if later and not self.printed:
                raise WujiTypeError(f"the format {spec!r} is one for `print`, not for `assert`; `.3f` is for both")
            if later:
                self.text(f"{_LATER_BEGINS}{spec}{_LATER_NUMBER}")
            elif digits is None and ty.is_float:
                digits = _usual(ty)
            self.pieces.append((ty.ir, None if later else digits))
            self.values.append(value.id)
            if later:
                self.text(_LATER_ENDS)
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


def kernel_print(args: list[Any], sep: Any = " ", end: Any = "\n") -> None:
    """``print(...)`` in a kernel: a line is printed as a whole."""
    for what, value in (("sep", sep), ("end", end)):
        if not isinstance(value, str):
            raise WujiTypeError(f"`{what}` of `print` is a text that is known when the kernel is compiled")
    message = Message(printed=True)
    for k, arg in enumerate(args):
        if k:
            message.text(sep)
        message.add(arg)
    # Lines end by themselves, unless they are marked.
    message.text(end[:-1] if end.endswith("\n") else end + _GOES_ON)
    context.builder().print(message.pieces, message.values)


# Characters that no program prints.
_GOES_ON, _LATER_BEGINS, _LATER_NUMBER, _LATER_ENDS = "\0", "\1", "\2", "\3"
_FINISH = re.compile("\1([^\2]*)\2([^\3]*)\3")


def _usual(dtype: dtypes.DataType) -> int:
    """Digits behind the point where nobody says how many."""
    return 12 if dtype is dtypes.f64 else 6


def _finished(found: re.Match[str]) -> str:
    spec, number = found[1], found[2]
    return format(int(number) if spec[-1] in "xX" else float(number), spec)


def write_line(line: str) -> None:
    """Where lines of kernels go."""
    out = sys.stdout
    if _LATER_BEGINS in line:
        line = _FINISH.sub(_finished, line)
    out.write(line[:-1] if line.endswith(_GOES_ON) else line + "\n")


def kernel_assert(condition: Expr, said: Any, source: str) -> None:
    message = Message(printed=False)
    if said is None:
        message.text(source)
    else:
        message.add(said)
    context.builder().check(condition.id, message.pieces, message.values)
