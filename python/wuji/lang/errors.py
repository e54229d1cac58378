"""How errors are shown: a code, the user's line with a caret, notes, help. The same in Rust and Python."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING

from .. import exceptions
from ..exceptions import WujiError

if TYPE_CHECKING:
    from .. import _native

_CODES: dict[type[WujiError], str] = {
    exceptions.WujiSyntaxError: "W0601",
    exceptions.WujiNameError: "W0602",
    exceptions.WujiTypeError: "W0603",
    exceptions.WujiIndexError: "W0604",
}


def render(code: str, message: str, place: tuple[str, int, int] | None, notes: list[str] | None = None, help: str | None = None) -> str:
    """``column`` counts from 1."""
    first, *rest = message.split("\n")
    text = f"error[{code}]: {first}" if code else first
    margin = "  "
    if place is not None and place[1]:
        file, line, column = place
        text += f"\n  --> {file}:{line}:{column}"
        source = linecache.getline(file, line).rstrip("\n").replace("\t", " ")
        if source:
            margin = " " * (len(str(line)) + 1)
            text += f"\n{margin}|\n{line} | {source}\n{margin}| {' ' * (column - 1)}^"
    for extra in rest:
        text += f"\n{margin}{extra.strip()}"
    for note in notes or []:
        text += f"\n{margin}= note: {note}"
    if help:
        text += f"\n{margin}= help: {help}"
    return text


def code_of(error: WujiError) -> str:
    if error.code:
        return error.code
    return next((code for cls, code in _CODES.items() if isinstance(error, cls)), "W0600")


# Errors of the core that are about the program, not about its run.
_COMPILE = ("W00", "W02", "W03")


def told(error: _native.NativeError) -> WujiError:
    """An error of the core as one of the classes that programs catch."""
    from .text import written

    code = error.code
    text = written(str(error))
    made: WujiError
    if code == "W0403":
        made = exceptions.WujiAssertionError(text, code)
    elif code.startswith(_COMPILE):
        made = exceptions.WujiCompilationError(text, code)
    else:
        made = exceptions.WujiRuntimeError(text, code)
    return made
