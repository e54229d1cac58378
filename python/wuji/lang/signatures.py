"""What parameters are said to be, also where Python was told to keep that as text."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any


def parameters(function: FunctionType) -> list[tuple[str, Any, Any]]:
    """Name, annotation and default value of every parameter; `MISSING` where there is none."""
    from ..exceptions import WujiSyntaxError

    code = function.__code__
    if code.co_flags & 0x04:
        raise WujiSyntaxError(f"`{function.__name__}` has `*args`; kernels and functions have fixed parameters")
    if code.co_flags & 0x08:
        raise WujiSyntaxError(f"`{function.__name__}` has `**kwargs`; kernels and functions have fixed parameters")
    if code.co_kwonlyargcount or code.co_posonlyargcount:
        raise WujiSyntaxError(f"`{function.__name__}` has keyword-only or positional-only parameters; kernels have plain ones")
    names = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    hints = function.__annotations__
    return [(n, resolve(function, hints[n]) if n in hints else MISSING, given.get(n, MISSING)) for n in names]


def result(function: FunctionType) -> Any:
    hint = function.__annotations__.get("return", MISSING)
    return hint if hint is MISSING else resolve(function, hint)


def settle(function: Any) -> None:
    """Looks at annotations that are text while the names around the function are known: those of a function around it are gone later."""
    function = getattr(function, "__func__", function)
    hints = getattr(function, "__annotations__", {})
    if not any(isinstance(h, str) for h in hints.values()):
        return
    around = dict(sys._getframe(2).f_locals)
    for name, hint in hints.items():
        if isinstance(hint, str):
            try:
                hints[name] = resolve(function, hint, around)
            except NameError:
                pass  # It may be defined later.


def resolve(function: FunctionType, hint: Any, around: dict[str, Any] | None = None) -> Any:
    if not isinstance(hint, str):
        return hint
    names = {**function.__globals__, **(around or {})}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            pass
    return eval(hint, names)


def resolve_class(cls: type) -> dict[str, Any]:
    names = dict(vars(sys.modules.get(cls.__module__, sys)))
    return {k: eval(h, names) if isinstance(h, str) else h for k, h in cls.__annotations__.items()}


class _Missing:
    def __repr__(self) -> str:
        return "(nothing)"


MISSING: Any = _Missing()
