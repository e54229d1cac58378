"""Automatic differentiation. Placeholders: not implemented yet."""

from __future__ import annotations

from typing import Any

from ..lang.missing import function, refuse

_FEATURE = "automatic differentiation"


class Tape:
    """Record kernel launches and replay them in reverse to compute gradients."""

    def __init__(self, loss: Any = None, clear_gradients: bool = True, validation: bool = False, grad_check: Any = None) -> None:
        refuse("ti.ad.Tape", _FEATURE)

    def __enter__(self) -> Tape:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def grad(self) -> None:
        """Run the reverse pass over the recorded launches."""


class FwdMode:
    """Forward-mode differentiation: propagate tangents together with primal values."""

    def __init__(self, loss: Any, param: Any, seed: Any = None, clear_gradients: bool = True) -> None:
        refuse("ti.ad.FwdMode", _FEATURE)

    def __enter__(self) -> FwdMode:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def no_grad(func: Any) -> Any:
    """Mark a function as not differentiable. Has no effect without automatic differentiation."""
    return func


grad_replaced = function("ti.ad.grad_replaced", _FEATURE)
grad_for = function("ti.ad.grad_for", _FEATURE)
clear_all_gradients = function("ti.ad.clear_all_gradients", _FEATURE)
stop_grad = function("ti.stop_grad", _FEATURE)

__all__ = ["FwdMode", "Tape", "clear_all_gradients", "grad_for", "grad_replaced", "no_grad", "stop_grad"]
