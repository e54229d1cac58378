"""Parameter and return annotations, including postponed ones (`from __future__ import annotations`)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..exceptions import WujiError


def parameters(function: FunctionType, what: str = "functions") -> list[tuple[str, Any, Any]]:
    """Return name, annotation and default of each parameter; `MISSING` where there is none. ``what`` are its like in messages."""
    from ..exceptions import WujiSyntaxError

    code = function.__code__
    if code.co_flags & 0x04:
        raise WujiSyntaxError(f"Taichi {what} do not support variable positional parameters (i.e., *args): `{function.__name__}` needs a fixed number of parameters")
    if code.co_flags & 0x08:
        raise WujiSyntaxError(f"Taichi {what} do not support variable keyword parameters (i.e., **kwargs): `{function.__name__}` needs a fixed number of parameters")
    if code.co_kwonlyargcount:
        raise WujiSyntaxError(f"Taichi {what} do not support keyword parameters: `{function.__name__}` has keyword-only parameters")
    if code.co_posonlyargcount:
        raise WujiSyntaxError(f'Taichi {what} only support "positional or keyword" parameters: `{function.__name__}` has positional-only parameters')
    names = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    hints = function.__annotations__
    return [(n, resolve(function, hints[n]) if n in hints else MISSING, given.get(n, MISSING)) for n in names]


def in_class(function: FunctionType) -> bool:
    """Return whether a function is defined in a class body."""
    outer = function.__qualname__.rpartition(".")[0]
    return bool(outer) and not outer.endswith("<locals>")


def bind(
    what: str,
    parameters: Sequence[tuple[str, Any, Any]],
    args: Sequence[Any],
    named: dict[str, Any],
    error: type[WujiError],
) -> list[Any]:
    """Match the arguments of a call to parameters: one value for each. ``what`` names the callee in errors."""
    if len(args) > len(parameters):
        wanted = ", ".join(_spelled(name, annotation) for name, annotation, _ in parameters)
        raise error(f"Too many arguments. Expected ({wanted}), got {len(args)} arguments for {what}")
    names = [name for name, _, _ in parameters]
    for name in named:
        if name not in names:
            raise error(f"Unexpected argument '{name}'. {what} has no such parameter")
        if names.index(name) < len(args):
            raise error(f"Multiple values for argument '{name}' of {what}")
    values = list(args)
    for name, annotation, default in parameters[len(args) :]:
        value = named.get(name, default)
        if value is MISSING:
            raise error(f"Parameter `{_spelled(name, annotation)}` missing. {what} needs a value for it")
        values.append(value)
    return values


def _spelled(name: str, annotation: Any) -> str:
    return name if annotation is MISSING else f"{name} : {annotation}"


def result(function: FunctionType) -> Any:
    hint = function.__annotations__.get("return", MISSING)
    return hint if hint is MISSING else resolve(function, hint)


def resolve_early(function: Any) -> None:
    """Evaluate string annotations at decoration time, while the locals of an enclosing function are still alive."""
    function = getattr(function, "__func__", function)
    hints = getattr(function, "__annotations__", {})
    if not any(isinstance(h, str) for h in hints.values()):
        return
    enclosing = dict(sys._getframe(2).f_locals)
    for name, hint in hints.items():
        if isinstance(hint, str):
            try:
                hints[name] = resolve(function, hint, enclosing)
            except NameError:
                pass  # may be defined later


def resolve(function: FunctionType, hint: Any, enclosing: dict[str, Any] | None = None) -> Any:
    if not isinstance(hint, str):
        return hint
    names = {**function.__globals__, **(enclosing or {})}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            pass
    try:
        return eval(hint, names)
    except NameError:
        if enclosing is not None:
            raise  # the caller may define it later
        from ..exceptions import WujiSyntaxError

        raise WujiSyntaxError(f"Invalid type annotation of `{function.__name__}`: {hint} is not defined") from None


def resolve_class(cls: type) -> dict[str, Any]:
    names = dict(vars(sys.modules.get(cls.__module__, sys)))
    return {k: eval(h, names) if isinstance(h, str) else h for k, h in cls.__annotations__.items()}


class _Missing:
    def __repr__(self) -> str:
        return "(nothing)"


MISSING: Any = _Missing()
