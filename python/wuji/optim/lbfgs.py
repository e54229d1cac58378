"""L-BFGS: a quasi-Newton method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..lang import recording
from ..lang.compound import template
from ..lang.dtypes import f64
from ..lang.field import MatrixField
from ..lang.kernel import kernel
from ..lang.ndrange import grouped
from ..lang.ops import cast
from .first_order import Optimizer, like

# Sufficient decrease, and curvature.
_DECREASE, _CURVATURE = 1e-4, 0.9
_TRIALS = 25


@kernel
def _dot(a: template(), b: template()) -> f64:  # type: ignore[valid-type]
    total = cast(0.0, f64)
    for i in grouped(a):
        total += cast(a[i] * b[i], f64)
    return total  # type: ignore[no-any-return]


@kernel
def _dot_of_vectors(a: template(), b: template()) -> f64:  # type: ignore[valid-type]
    total = cast(0.0, f64)
    for i in grouped(a):
        total += cast((a[i] * b[i]).sum(), f64)
    return total  # type: ignore[no-any-return]


@kernel
def _combine(out: template(), a: template(), factor: f64, b: template()):  # type: ignore[no-untyped-def, valid-type]
    for i in grouped(out):
        out[i] = a[i] + cast(factor, out.dtype) * b[i]


Vectors = list[Any]


def dot(a: Vectors, b: Vectors) -> float:
    """Return the inner product of two lists of fields."""
    return float(sum((_dot_of_vectors if isinstance(x, MatrixField) else _dot)(x, y) for x, y in zip(a, b, strict=True)))


def combine(out: Vectors, a: Vectors, factor: float, b: Vectors) -> None:
    """``out = a + factor * b``."""
    for o, x, y in zip(out, a, b, strict=True):
        _combine(o, x, factor, y)


class LBFGS(Optimizer):
    """L-BFGS with a line search for the Wolfe conditions.

    Args:
        params: A field or a list of fields with gradients.
        lr: First step that the line search tries.
        history: Number of earlier steps that the approximation of the Hessian uses.
        max_iter: Iterations in one call of `step`.
        tolerance: Stop when the norm of the gradient is at most this.

    ```python
    optimizer = ti.optim.LBFGS(x)
    def evaluate():
        with ti.ad.Tape(loss):
            compute()
        return loss[None]
    optimizer.step(evaluate)
    ```
    """

    def __init__(self, params: Any, lr: float = 1.0, history: int = 10, max_iter: int = 20, tolerance: float = 1e-10) -> None:
        super().__init__(params)
        self.lr = lr
        self.history = history
        self.max_iter = max_iter
        self.tolerance = tolerance
        self._pairs: list[tuple[Vectors, Vectors, float]] = []  # steps, changes of the gradient, 1 / inner product
        self._start, self._gradient, self._direction = self._vectors(), self._vectors(), self._vectors()

    def _vectors(self) -> Vectors:
        return [like(x) for x in self.params]

    def _gradients(self) -> Vectors:
        return [x.grad for x in self.params]

    def step(self, evaluate: Callable[[], float]) -> float:
        """Run up to `max_iter` iterations. ``evaluate`` computes the loss and the gradients, and returns the loss."""
        loss = float(evaluate())
        with recording.paused():
            for _ in range(self.max_iter):
                combine(self._gradient, self._gradients(), 0.0, self._gradients())
                if dot(self._gradient, self._gradient) ** 0.5 <= self.tolerance:
                    break
                found = self._search(evaluate, loss)
                if found is None:
                    break
                loss = found
        return loss

    def _descent(self) -> float:
        """Compute the direction, and return its inner product with the gradient."""
        d = self._direction
        combine(d, self._gradient, -2.0, self._gradient)
        factors = []
        for steps, changes, inverse in reversed(self._pairs):
            factor = inverse * dot(steps, d)
            factors.append(factor)
            combine(d, d, -factor, changes)
        if self._pairs:
            _, changes, inverse = self._pairs[-1]
            scale = 1.0 / (inverse * dot(changes, changes))
            combine(d, d, scale - 1.0, d)
        for (steps, changes, inverse), factor in zip(self._pairs, reversed(factors), strict=True):
            combine(d, d, factor - inverse * dot(changes, d), steps)
        return dot(self._gradient, d)

    def _search(self, evaluate: Callable[[], float], loss: float) -> float | None:
        """Move along the direction; return the new loss, or None if no point is better."""
        slope = self._descent()
        if slope >= 0.0:
            # The approximation is not positive definite: start again with the gradient.
            self._pairs.clear()
            slope = self._descent()
        combine(self._start, self.params, 0.0, self.params)
        low, high, size = 0.0, float("inf"), self.lr
        if not self._pairs:
            size *= min(1.0, 1.0 / max(-slope, 1e-300) ** 0.5)
        best: tuple[float, float] | None = None
        for _ in range(_TRIALS):
            now = self._evaluate_at(evaluate, size)
            if not now <= loss + _DECREASE * size * slope:
                high = size
            else:
                best = (size, now)
                if dot(self._gradients(), self._direction) >= _CURVATURE * slope:
                    break
                low = size
            size = 2.0 * size if high == float("inf") else 0.5 * (low + high)
        if best is None:
            self._evaluate_at(evaluate, 0.0)
            return None
        if best[0] != size:
            size, now = best[0], self._evaluate_at(evaluate, best[0])
        self._remember(size)
        return now

    def _evaluate_at(self, evaluate: Callable[[], float], size: float) -> float:
        combine(self.params, self._start, size, self._direction)
        return float(evaluate())

    def _remember(self, size: float) -> None:
        steps, changes = self._pairs.pop(0)[:2] if len(self._pairs) >= self.history else (self._vectors(), self._vectors())
        combine(steps, self.params, -1.0, self._start)
        combine(changes, self._gradients(), -1.0, self._gradient)
        curvature = dot(steps, changes)
        if curvature > 1e-300:
            self._pairs.append((steps, changes, 1.0 / curvature))
