"""Automatic differentiation: gradients of kernels, and of programs that launch kernels."""

from __future__ import annotations

from ..lang.access import stop_grad
from .check import GradChecker
from .custom import grad_for, grad_replaced, no_grad
from .forward import FwdMode
from .gradients import clear_all_gradients
from .tape import Tape

__all__ = ["FwdMode", "GradChecker", "Tape", "clear_all_gradients", "grad_for", "grad_replaced", "no_grad", "stop_grad"]
