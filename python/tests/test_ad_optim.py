"""Optimizers find minima, and kernels are operations of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wuji as ti


def quadratic(x: Any) -> Callable[[], float]:
    """A function with its minimum where element ``i`` is ``i + 1``."""
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def run() -> None:
        for i in x:
            loss[None] += (i + 1) * (x[i] - (i + 1)) ** 2

    def evaluate() -> float:
        with ti.ad.Tape(loss):
            run()
        return float(loss[None])

    return evaluate


@pytest.mark.parametrize(
    "make",
    [
        lambda x: ti.optim.SGD(x, lr=0.05),
        lambda x: ti.optim.SGD([x], lr=0.02, momentum=0.8),
        lambda x: ti.optim.Adam(x, lr=0.1),
    ],
    ids=["sgd", "momentum", "adam"],
)
def test_optimizers_find_the_minimum_of_a_quadratic(make: Any) -> None:
    x = ti.field(ti.f64, 4, needs_grad=True)
    evaluate, optimizer = quadratic(x), make(x)
    for _ in range(400):
        evaluate()
        optimizer.step()
    np.testing.assert_allclose(x.to_numpy(), [1.0, 2.0, 3.0, 4.0], atol=1e-3)


def test_sgd_takes_the_stated_step() -> None:
    x = ti.Vector.field(2, ti.f32, 3, needs_grad=True)
    x.fill(1.0)
    x.grad.fill(2.0)
    ti.optim.SGD(x, lr=0.25, weight_decay=0.5).step()
    assert x.to_numpy().tolist() == [[0.375, 0.375]] * 3


def test_adam_takes_the_stated_steps() -> None:
    x = ti.field(ti.f64, 2, needs_grad=True)
    optimizer = ti.optim.Adam(x, lr=0.1, betas=(0.5, 0.75), eps=1e-3)
    gradients = np.array([[1.0, -2.0], [0.5, 3.0]])
    value, mean, square = np.zeros(2), np.zeros(2), np.zeros(2)
    for n, g in enumerate(gradients, 1):
        x.grad.from_numpy(g)
        optimizer.step()
        mean = 0.5 * mean + 0.5 * g
        square = 0.75 * square + 0.25 * g * g
        value -= 0.1 * (mean / (1 - 0.5**n)) / (np.sqrt(square / (1 - 0.75**n)) + 1e-3)
    np.testing.assert_allclose(x.to_numpy(), value)
    optimizer.zero_grad()
    assert not x.grad.to_numpy().any()


def test_lbfgs_finds_the_minimum_of_rosenbrocks_function() -> None:
    x = ti.field(ti.f64, 2, needs_grad=True)
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def rosenbrock() -> None:
        loss[None] += (1.0 - x[0]) ** 2 + 100.0 * (x[1] - x[0] ** 2) ** 2

    def evaluate() -> float:
        with ti.ad.Tape(loss):
            rosenbrock()
        return float(loss[None])

    x.from_numpy(np.array([-1.2, 1.0]))
    optimizer = ti.optim.LBFGS(x, max_iter=100)
    assert optimizer.step(evaluate) < 1e-12
    np.testing.assert_allclose(x.to_numpy(), [1.0, 1.0], atol=1e-5)


def test_lbfgs_finds_the_minimum_of_a_quadratic_of_several_fields() -> None:
    x = ti.Vector.field(2, ti.f64, 3, needs_grad=True)
    y = ti.field(ti.f64, (), needs_grad=True)
    loss = ti.field(ti.f64, (), needs_grad=True)

    @ti.kernel
    def run() -> None:
        for i in x:
            loss[None] += (x[i] - ti.Vector([i, 2.0 * y[None]])).norm_sqr() * (i + 1)
        loss[None] += (y[None] - 3.0) ** 2

    def evaluate() -> float:
        with ti.ad.Tape(loss):
            run()
        return float(loss[None])

    assert ti.optim.LBFGS([x, y], max_iter=50).step(evaluate) < 1e-12
    np.testing.assert_allclose(y[None], 3.0, atol=1e-5)
    np.testing.assert_allclose(x.to_numpy(), [[0.0, 6.0], [1.0, 6.0], [2.0, 6.0]], atol=1e-5)


def test_optimizers_refuse_what_has_no_gradient() -> None:
    with pytest.raises(RuntimeError, match="has no gradient"):
        ti.optim.SGD(ti.field(ti.f32, 3))
    with pytest.raises(RuntimeError, match="needs fields"):
        ti.optim.Adam([1.0])
    with pytest.raises(RuntimeError, match="at least one"):
        ti.optim.Adam([])


class Tensor(np.ndarray):  # type: ignore[type-arg]
    """The part of torch's tensors that an operation uses."""

    requires_grad = False
    grad: Any = None

    def detach(self) -> Any:
        return np.asarray(self).view(Tensor)

    def requires_grad_(self, needed: bool) -> Any:
        self.requires_grad = needed
        return self

    def is_floating_point(self) -> bool:
        return self.dtype.kind == "f"

    def contiguous(self) -> Any:
        return self

    def clone(self) -> Any:
        return np.asarray(self).copy().view(Tensor)


class Context:
    needs_input_grad: tuple[bool, ...] = ()


class Function:
    """Calls `forward`, and keeps the context for `backward`."""

    last: Any = None

    @classmethod
    def apply(cls, *args: Any) -> Any:
        context = Context()
        context.needs_input_grad = tuple(isinstance(arg, Tensor) for arg in args)
        Function.last = (cls, context)
        return cls.forward(context, *args)  # type: ignore[attr-defined]


def test_an_operation_runs_forward_and_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import SimpleNamespace

    fake = SimpleNamespace(
        Tensor=Tensor,
        autograd=SimpleNamespace(Function=Function, function=SimpleNamespace(once_differentiable=lambda f: f)),
        zeros_like=lambda x: np.zeros_like(np.asarray(x)).view(Tensor),
    )
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setattr(Function, "last", None)  # frees the tape at the end
    middle = ti.field(ti.f64, 3, needs_grad=True)

    @ti.kernel
    def square(x: ti.types.ndarray()) -> None:  # type: ignore[valid-type]
        for i in x:
            middle[i] = x[i] * x[i]

    @ti.kernel
    def scale(a: ti.f64, y: ti.types.ndarray()) -> None:  # type: ignore[valid-type]
        for i in y:
            y[i] = a * middle[i]

    def both(x: Any, a: float, y: Any) -> None:
        square(x)
        scale(a, y)

    operation = ti.torch.op(both, lambda x, a: fake.zeros_like(x))
    x = np.array([1.0, 2.0, 3.0]).view(Tensor)
    assert np.asarray(operation(x, 2.0)).tolist() == [2.0, 8.0, 18.0]
    cls, context = Function.last
    for _ in range(2):
        gradients = cls.backward(context, np.array([1.0, 0.5, 0.0]).view(Tensor))
        assert np.asarray(gradients[0]).tolist() == [4.0, 4.0, 0.0] and gradients[1] is None
