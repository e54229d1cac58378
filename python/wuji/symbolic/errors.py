"""Errors of traced code, at the line of the user's program."""

from __future__ import annotations

import itertools
import os
import sys
from types import FrameType

from .. import _native
from ..exceptions import WujiError, WujiRuntimeError, WujiTypeError
from ..lang.errors import from_native, render

_OWN = os.path.dirname(os.path.dirname(__file__)) + os.sep
_ONE_PATH = "a trace is recorded once and used for all values, so all of them take the same path"


def _is_library(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith(_OWN) or f"{os.sep}numpy{os.sep}" in file or file.startswith("<__array_function__")


def user_location() -> tuple[tuple[str, int, int] | None, tuple[int, int] | None]:
    """Return the position of the expression outside of this package and NumPy that is evaluated, and its end."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_library(frame):
        frame = frame.f_back
    if frame is None:
        return None, None
    at = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None, None, None, None))
    line, end_line, column, end_column = at
    if line is None or column is None or end_line is None or end_column is None:
        return (frame.f_code.co_filename, frame.f_lineno, 1), None
    return (frame.f_code.co_filename, line, column + 1), (end_line, end_column + 1)


def _error(
    kind: type[WujiError], code: str, message: str, notes: list[str] | None = None, help: str | None = None
) -> WujiError:
    location, end = user_location()
    return kind(render(code, message, location, notes, help, end), code)


def depends_on_values(question: str) -> WujiError:
    """Return the error for a question that only numbers can answer."""
    return _error(
        WujiRuntimeError,
        "W0801",
        f"{question} depends on values that are not known while tracing",
        [_ONE_PATH],
        "choose between two values: `np.where(a < b, x, y)`, or `np.minimum`, `np.maximum` and `abs`",
    )


def not_a_number(what: str) -> WujiError:
    """Return the error for a symbol where only a number fits."""
    return _error(
        WujiRuntimeError,
        "W0801",
        f"{what} depends on values that are not known while tracing",
        ["symbols are stored in symbolic arrays only"],
        "start with `symbolic.array(...)`, or with `np.zeros_like` of a symbolic array",
    )


def outside_of_trace() -> WujiError:
    return _error(
        WujiRuntimeError,
        "W0802",
        "a symbolic value is used outside of its trace",
        ["it belongs to a trace that has ended, or to another one"],
        "pass values in as inputs, and out as outputs",
    )


def changed_input(message: str) -> WujiError:
    return _error(
        WujiRuntimeError, "W0803", message, ["code is generated for one pattern"], "trace the program again for the new pattern"
    )


def unusable_file(why: str) -> WujiError:
    return _error(
        WujiRuntimeError,
        "W0804",
        f"the file of a trace cannot be used: {why}",
        None,
        "record the trace again, and save it with this version of Wuji",
    )


def inconsistent(message: str, help: str | None = None) -> WujiError:
    return _error(WujiRuntimeError, "W0806", message, None, help)


def not_traceable(message: str, help: str | None = None) -> WujiError:
    """Return the error for a function or type that has no symbolic counterpart."""
    return _error(WujiTypeError, "W0603", message, None, help)


def raised(error: _native.NativeError) -> WujiError:
    """Return an error of the core, at the line of the user's program."""
    if error.file is not None:
        return from_native(error)
    return _error(WujiRuntimeError, error.code, error.message, error.notes, error.help)
