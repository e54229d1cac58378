"""Programs with gradients, compared with central differences."""

from __future__ import annotations

import linecache
from textwrap import dedent
from typing import Any

import numpy as np

import wuji as ti


def compiled(source: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run a program that defines kernels. The compiler finds its source in `linecache`."""
    text = dedent(source)
    name = f"<program {hash(text)}>"
    linecache.cache[name] = (len(text), None, [line + "\n" for line in text.split("\n")], name)
    space = {"ti": ti, "np": np, "tm": ti.math, "__name__": "program", **names}
    exec(compile(text, name, "exec", dont_inherit=True), space)
    return space


def differences(evaluate: Any, values: Any, step: float = 1e-6) -> Any:
    """Return the gradient by central differences."""
    values = np.asarray(values, np.float64)
    out = np.zeros_like(values)
    for at in np.ndindex(values.shape):
        moved = values.copy()
        moved[at] += step
        high = evaluate(moved)
        moved[at] -= 2 * step
        out[at] = (high - evaluate(moved)) / (2 * step)
    return out


def check(source: str, values: Any, tolerance: float = 1e-6, element: Any = None) -> Any:
    """Compare the gradient of `loss` by `x` with central differences. The program defines `run`, which may be a kernel or a function."""
    values = np.asarray(values, np.float64)
    element = ti.f64 if element is None else element
    shape = values.shape[: values.ndim - len(getattr(element, "shape", ()))]
    x = ti.field(element, shape, needs_grad=True)
    loss = ti.field(ti.f64, (), needs_grad=True)
    run = compiled(source, {"x": x, "loss": loss})["run"]

    def evaluate(now: Any) -> float:
        x.from_numpy(now)
        loss[None] = 0.0
        run()
        return float(loss[None])

    expected = differences(evaluate, values)
    x.from_numpy(values)
    with ti.ad.Tape(loss):
        run()
    found = x.grad.to_numpy()
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    return found
