"""What the program calls the things it makes: ``x = ti.field(...)`` is called ``x`` in messages."""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
from itertools import islice
from types import FrameType

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_EXAMPLES = os.path.join(_PACKAGE, "examples") + os.sep
# One target, which may be an attribute, and may have a type.
_ASSIGNED = re.compile(r"\s*(?:\w+\.)*([A-Za-z_]\w*)\s*(?::[^=]+)?=(?!=)")


def assigned() -> str:
    """The variable that the program's current line assigns to; empty where that cannot be told."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _own(frame.f_code.co_filename):
        frame = frame.f_back
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
    if ";" in line:
        # Several statements: the one that is being run.
        line = line[line.rfind(";", 0, _column(frame)) + 1 :]
    found = _ASSIGNED.match(line)
    return found[1] if found else _among_several(line, frame)


def _among_several(line: str, frame: FrameType) -> str:
    """Of ``x, y = ti.field(...), ti.field(...)``: the one whose turn it is."""
    try:
        body = ast.parse(line.strip()).body
    except (SyntaxError, ValueError):
        return ""
    if len(body) != 1 or not isinstance(body[0], ast.Assign) or len(body[0].targets) != 1:
        return ""
    targets, values = body[0].targets[0], body[0].value
    if not isinstance(targets, ast.Tuple) or not isinstance(values, ast.Tuple) or len(targets.elts) != len(values.elts):
        return ""
    # Where it is, without what stands in front of the line.
    column = _column(frame) - (len(line) - len(line.lstrip()))
    for target, value in zip(targets.elts, values.elts, strict=True):
        if value.col_offset <= column < (value.end_col_offset or 0):
            return target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""
    return ""


def _column(frame: FrameType) -> int:
    """Where in its line a frame is."""
    positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    return (positions and positions[2]) or 0


def _own(file: str) -> bool:
    return file.startswith(_PACKAGE) and not file.startswith(_EXAMPLES)
