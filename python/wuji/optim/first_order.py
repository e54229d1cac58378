"""Optimizers that use the gradient of the current point only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..exceptions import WujiRuntimeError
from ..lang import recording
from ..lang.compound import template
from ..lang.dtypes import f64
from ..lang.field import Field, MatrixField, ScalarField, StructField, field
from ..lang.kernel import kernel
from ..lang.ndrange import grouped
from ..lang.ops import cast, sqrt


@kernel
def _descend(x: template(), grad: template(), rate: f64, decay: f64):  # type: ignore[no-untyped-def, valid-type]
    for i in grouped(x):
        x[i] -= cast(rate, x.dtype) * (grad[i] + cast(decay, x.dtype) * x[i])


@kernel
def _descend_with_momentum(x: template(), grad: template(), velocity: template(), rate: f64, momentum: f64, decay: f64):  # type: ignore[no-untyped-def, valid-type]
    for i in grouped(x):
        velocity[i] = cast(momentum, x.dtype) * velocity[i] + grad[i] + cast(decay, x.dtype) * x[i]
        x[i] -= cast(rate, x.dtype) * velocity[i]


@kernel
def _adam(  # type: ignore[no-untyped-def]
    x: template(),  # type: ignore[valid-type]
    grad: template(),  # type: ignore[valid-type]
    mean: template(),  # type: ignore[valid-type]
    square: template(),  # type: ignore[valid-type]
    rate: f64,  # type: ignore[valid-type]
    beta1: f64,  # type: ignore[valid-type]
    beta2: f64,  # type: ignore[valid-type]
    bias1: f64,  # type: ignore[valid-type]
    bias2: f64,  # type: ignore[valid-type]
    epsilon: f64,  # type: ignore[valid-type]
    decay: f64,  # type: ignore[valid-type]
):
    for i in grouped(x):
        g = grad[i]
        mean[i] = cast(beta1, x.dtype) * mean[i] + cast(1.0 - beta1, x.dtype) * g
        square[i] = cast(beta2, x.dtype) * square[i] + cast(1.0 - beta2, x.dtype) * g * g
        size = sqrt(square[i] / cast(bias2, x.dtype)) + cast(epsilon, x.dtype)
        x[i] -= cast(rate, x.dtype) * (mean[i] / cast(bias1, x.dtype) / size + cast(decay, x.dtype) * x[i])


def parts(params: Any) -> list[Any]:
    """Return the scalar, vector and matrix fields that parameters consist of."""
    given: Iterable[Any] = params if isinstance(params, (list, tuple)) else [params]
    found: list[Any] = []
    for param in given:
        if isinstance(param, StructField):
            found.extend(parts(param.members))
        elif not isinstance(param, Field):
            raise WujiRuntimeError(f"an optimizer needs fields, not {type(param).__name__}")
        elif not param.needs_grad:
            raise WujiRuntimeError(f"field {param.name!r} has no gradient\n  = help: create it with `needs_grad=True`")
        else:
            found.append(param)
    if not found:
        raise WujiRuntimeError("an optimizer needs at least one field")
    return found


def like(x: Any) -> Any:
    """Return a new field of zeros of the same type and shape."""
    assert isinstance(x, (ScalarField, MatrixField))
    element = x.type if isinstance(x, MatrixField) else x.dtype
    return field(element, shape=x.shape, offset=x.offset if any(x.offset) else None, name=f"{x.name}.state")


class Optimizer:
    """Base class: the fields to change, and their gradients."""

    def __init__(self, params: Any) -> None:
        self.params = parts(params)

    def zero_grad(self) -> None:
        """Set the gradients of the parameters to zero."""
        for x in self.params:
            x.grad.fill(0.0)


class SGD(Optimizer):
    """Gradient descent: ``x -= lr * x.grad``.

    Args:
        params: A field or a list of fields with gradients.
        lr: Learning rate.
        momentum: Part of the last step that is added to the next one.
        weight_decay: Factor of ``x`` that is added to the gradient.
    """

    def __init__(self, params: Any, lr: float = 1e-2, momentum: float = 0.0, weight_decay: float = 0.0) -> None:
        super().__init__(params)
        self.lr = lr
        self.momentum = momentum
        self.weight_decay = weight_decay
        self._velocities = [like(x) for x in self.params] if momentum else []

    def step(self) -> None:
        """Change all parameters by one step."""
        with recording.paused():
            for number, x in enumerate(self.params):
                if self._velocities:
                    _descend_with_momentum(x, x.grad, self._velocities[number], self.lr, self.momentum, self.weight_decay)
                else:
                    _descend(x, x.grad, self.lr, self.weight_decay)


class Adam(Optimizer):
    """Adam, with decoupled weight decay (AdamW).

    Args:
        params: A field or a list of fields with gradients.
        lr: Learning rate.
        betas: Decay of the running means of the gradient and of its square.
        eps: Added to the denominator.
        weight_decay: Factor of ``lr * x`` that is subtracted from ``x``.
    """

    def __init__(self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0) -> None:
        super().__init__(params)
        self.lr = lr
        self.betas = betas
        self.eps = eps
        self.weight_decay = weight_decay
        self.steps = 0
        self._means = [like(x) for x in self.params]
        self._squares = [like(x) for x in self.params]

    def step(self) -> None:
        """Change all parameters by one step."""
        self.steps += 1
        first, second = self.betas
        bias1, bias2 = 1.0 - first**self.steps, 1.0 - second**self.steps
        with recording.paused():
            for x, mean, square in zip(self.params, self._means, self._squares, strict=True):
                _adam(x, x.grad, mean, square, self.lr, first, second, bias1, bias2, self.eps, self.weight_decay)
