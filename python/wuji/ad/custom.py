"""Functions with gradients of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..exceptions import WujiRuntimeError
from ..lang import recording
from ..lang.kernel import BoundKernel, Kernel
from .forward import FwdMode
from .tape import Tape


def _record(decorated: Any, args: tuple[Any, ...], named: dict[str, Any], func: Callable[..., Any]) -> Any:
    """Call a function whose launches are not recorded one by one, and record the call."""
    recorder = recording.current()
    if not isinstance(recorder, Tape):
        return func(*args, **named)
    if recording.forward_mode() is not None:
        raise WujiRuntimeError(
            f"function `{decorated.__name__}` has a gradient of its own, which has no tangent: it cannot be on a tape in forward mode\n"
            "  = help: for second derivatives, leave out the decorator",
            "W0734",
        )
    with recorder.overwriting():
        result = func(*args, **named)
    recorder.insert(decorated, args, named)
    return result


def grad_replaced(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function whose gradient is another function, which `grad_for` states.

    A tape records the call instead of the launches in it.

    ```python
    @ti.ad.grad_replaced
    def forward(n):
        step(n)

    @ti.ad.grad_for(forward)
    def backward(n):
        step.grad(n)
    ```
    """

    @functools.wraps(func)
    def decorated(*args: Any, **named: Any) -> Any:
        return _record(decorated, args, named, func)

    decorated.grad = None  # type: ignore[attr-defined]
    decorated._wuji_replaced = True  # type: ignore[attr-defined]
    return decorated


def grad_for(primal: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate the gradient of a function that `grad_replaced` decorates. It takes the same arguments."""

    def decorator(func: Callable[..., Any]) -> Callable[..., Any]:
        if isinstance(primal, (Kernel, BoundKernel)):
            raise WujiRuntimeError(
                "Primal function must be a **python** function instead of a taichi kernel\n"
                "  = help: wrap the kernel in a Python function decorated with `@ti.ad.grad_replaced`"
            )
        name = getattr(primal, "__name__", repr(primal))
        if not getattr(primal, "_wuji_replaced", False):
            raise WujiRuntimeError(f"Primal function `{name}` must be decorated by ti.ad.grad_replaced")
        if primal.grad is not None:
            raise WujiRuntimeError(f"function `{name}` has a gradient already")

        @functools.wraps(func)
        def decorated(*args: Any, **named: Any) -> None:
            func(*args, **named)

        primal.grad = decorated
        return decorated

    return decorator


def no_grad(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function whose launches contribute no gradient. In forward mode, what they store has the tangent zero."""

    @functools.wraps(func)
    def decorated(*args: Any, **named: Any) -> Any:
        recorder = recording.current()
        if isinstance(recorder, FwdMode):
            with recorder.constants():
                return func(*args, **named)
        return _record(decorated, args, named, func)

    def nothing(*_: Any, **__: Any) -> None:
        pass

    decorated.grad = nothing  # type: ignore[attr-defined]
    return decorated
