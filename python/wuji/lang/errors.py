"""Render errors: code, source line with a caret, notes, help. The Rust core uses the same format."""

from __future__ import annotations

import linecache
import re
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


def render(
    code: str,
    message: str,
    location: tuple[str, int, int] | None,
    notes: list[str] | None = None,
    help: str | None = None,
    end: tuple[int, int] | None = None,
) -> str:
    """Format an error message.

    ``location`` is file, line and column, ``end`` the line and column behind the expression to underline. All count from 1, columns in bytes.
    """
    first, *rest = message.split("\n")
    text = f"error[{code}]: {first}" if code else first
    margin = "  "
    if location is not None and location[1]:
        file, line, column = location
        source = linecache.getline(file, line).rstrip("\n").replace("\t", " ")
        first_column = _characters(source, column - 1)
        text += f"\n  --> {file}:{line}:{first_column + 1}"
        if source:
            margin = " " * (len(str(line)) + 1)
            last_column = first_column + 1 if end is None else _characters(source, end[1] - 1) if end[0] == line else len(source.rstrip())
            carets = "^" * max(last_column - first_column, 1)
            text += f"\n{margin}|\n{line} | {source}\n{margin}| {' ' * first_column}{carets}"
    for extra in rest:
        text += f"\n{margin}{extra.strip()}"
    for note in notes or []:
        text += f"\n{margin}= note: {note}"
    if help:
        text += f"\n{margin}= help: {help}"
    return text


def _underlined(text: str, error: _native.NativeError) -> str:
    """Underline the whole expression that an error of a kernel is about; the core knows where it starts."""
    from .compiler.source import node_at

    node = node_at(error.file, error.line, error.column, error.code) if error.file and error.line else None
    if node is None or node.end_lineno != error.line or not node.end_col_offset:
        return text
    source = linecache.getline(error.file or "", error.line)
    first, last = _characters(source, node.col_offset), _characters(source, node.end_col_offset)
    lines = text.split("\n")
    for k, line in enumerate(lines):
        if re.fullmatch(r" *\| +\^", line):
            lines[k] = line[: line.index("|") + 2] + " " * first + "^" * (last - first)
            break
    return "\n".join(lines)


def _characters(line: str, bytes_: int) -> int:
    """Return the number of characters in the first bytes of a line."""
    return len(line.encode()[:bytes_].decode(errors="ignore"))


def code_of(error: WujiError) -> str:
    if error.code:
        return error.code
    return next((code for cls, code in _CODES.items() if isinstance(error, cls)), "W0600")


# Code prefixes of core errors that belong to compilation rather than execution.
_COMPILE = ("W00", "W02", "W03")
# Accesses to elements that do not exist: of the host, of a field or array in a kernel, of a vector in a kernel.
_ACCESSES = ("W0111", "W0401", "W0402")


def forked() -> WujiError:
    """Return the error of a process that was forked from one with a world."""
    return exceptions.WujiRuntimeError(
        "this process was forked from a process that uses Wuji; a forked child does not have its threads\n"
        "  = help: start processes with `multiprocessing.get_context('spawn')`, or call `ti.init` in the child",
        "W0606",
    )


def from_native(error: _native.NativeError) -> WujiError:
    """Convert a core error to one of the public exception classes."""
    from .text import format_marked

    code = error.code
    if code == "W0509":
        return forked()
    text = _underlined(format_marked(str(error)), error)
    if code == "W0403":
        return exceptions.WujiAssertionError(text, code)
    if code in _ACCESSES:
        return exceptions.WujiOutOfRangeError(text, code)
    if code.startswith(_COMPILE):
        return exceptions.WujiCompilationError(text, code)
    return exceptions.WujiRuntimeError(text, code)
