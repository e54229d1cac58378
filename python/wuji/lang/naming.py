"""Infer names for messages: ``x = ti.field(...)`` names the field ``x``."""

from __future__ import annotations

import ast
import keyword
import linecache
import os
import re
import sys
from itertools import islice
from types import FrameType

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_EXAMPLES = os.path.join(_PACKAGE, "examples") + os.sep
# One target, possibly an attribute, possibly annotated.
_ASSIGNED = re.compile(r"\s*(?:\w+\.)*([A-Za-z_]\w*)\s*(?::[^=]+)?=(?!=)")


def label(name: str) -> str:
    """Return a field's name for messages."""
    return name or "(unnamed)"


def assigned() -> str:
    """Return the variable that the caller's current line assigns to, or an empty string."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_own(frame.f_code.co_filename):
        frame = frame.f_back
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
    if ";" in line:
        # Several statements: take the one being executed.
        line = line[line.rfind(";", 0, _column(frame)) + 1 :]
    found = _ASSIGNED.match(line)
    if found and keyword.iskeyword(found[1]):
        # A statement behind a colon, as in `else: x = ...`.
        found = _ASSIGNED.match(line[line.index(":") + 1 :])
    return found[1] if found else _among_several(line, frame)


def _among_several(line: str, frame: FrameType) -> str:
    """For ``x, y = ti.field(...), ti.field(...)``: return the target of the value being evaluated."""
    try:
        body = ast.parse(line.strip()).body
    except (SyntaxError, ValueError):
        return ""
    if len(body) != 1 or not isinstance(body[0], ast.Assign) or len(body[0].targets) != 1:
        return ""
    targets, values = body[0].targets[0], body[0].value
    if not isinstance(targets, ast.Tuple) or not isinstance(values, ast.Tuple) or len(targets.elts) != len(values.elts):
        return ""
    # Column without the line's indentation.
    column = _column(frame) - (len(line) - len(line.lstrip()))
    for target, value in zip(targets.elts, values.elts, strict=True):
        if value.col_offset <= column < (value.end_col_offset or 0):
            return target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""
    return ""


def _column(frame: FrameType) -> int:
    """Return the column that a frame is executing."""
    positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    return (positions and positions[2]) or 0


def is_own(file: str) -> bool:
    """Return whether a file belongs to this package, examples excluded."""
    return file.startswith(_PACKAGE) and not file.startswith(_EXAMPLES)
