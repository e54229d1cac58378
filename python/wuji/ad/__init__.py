"""Automatic differentiation: its names. What they stand for is not yet in this version."""

from __future__ import annotations

from typing import Any

from ..lang.missing import function, refuse

_FEATURE = "automatic differentiation is"


class Tape:
    """Records launches, to run them backwards."""

    def __init__(self, loss: Any = None, clear_gradients: bool = True, validation: bool = False, grad_check: Any = None) -> None:
        refuse("ti.ad.Tape", _FEATURE)

    def __enter__(self) -> Tape:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def grad(self) -> None:
        """Runs what was recorded backwards."""


class FwdMode:
    """Derivatives along a direction, together with the values."""

    def __init__(self, loss: Any, param: Any, seed: Any = None, clear_gradients: bool = True) -> None:
        refuse("ti.ad.FwdMode", _FEATURE)

    def __enter__(self) -> FwdMode:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def no_grad(func: Any) -> Any:
    """Marks a function that gradients do not go through. Without gradients, that is every function."""
    return func


grad_replaced = function("ti.ad.grad_replaced", _FEATURE)
grad_for = function("ti.ad.grad_for", _FEATURE)
clear_all_gradients = function("ti.ad.clear_all_gradients", _FEATURE)
stop_grad = function("ti.stop_grad", _FEATURE)

__all__ = ["FwdMode", "Tape", "clear_all_gradients", "grad_for", "grad_replaced", "no_grad", "stop_grad"]
