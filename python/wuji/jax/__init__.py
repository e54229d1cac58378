"""Kernels as operations of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ..ad.gradients import clear_all_gradients
from ..ad.tape import Tape
from ..lang import recording


class _Differentiable(numpy.ndarray):
    """A view of an array that has a gradient."""

    requires_grad = True
    grad: Any = None


def op(function: Callable[..., Any], outputs: Callable[..., Any], *, clear_gradients: bool = True) -> Callable[..., Any]:
    """Turn a kernel, or a function that launches kernels, into a differentiable operation of JAX.

    It works in `jax.jit`, `jax.grad` and `jax.vmap`: JAX calls back to the host.
    The gradient runs the function again.

    Args:
        function: Called with the arguments of the operation, followed by its outputs, all as NumPy arrays. It writes to the outputs only.
        outputs: Called with the arguments of the operation. Returns what has the shape and type of the output, such as `jax.ShapeDtypeStruct`,
            or a tuple for several outputs.
        clear_gradients: Set the gradients of all fields to zero before gradients are computed. Otherwise they accumulate.

    Python numbers among the arguments are constants.

    ```python
    @ti.kernel
    def square(x: ti.types.ndarray(), y: ti.types.ndarray()):
        for i in x:
            y[i] = x[i] * x[i]

    squared = ti.jax.op(square, lambda x: x)
    jax.grad(lambda x: squared(x).sum())(x)
    ```
    """
    import jax

    def operation(*args: Any) -> Any:
        arrays = [k for k, arg in enumerate(args) if not isinstance(arg, (bool, int, float, str, type(None)))]
        wanted = outputs(*args)
        several = isinstance(wanted, (tuple, list))
        shapes = tuple(jax.ShapeDtypeStruct(out.shape, out.dtype) for out in (wanted if several else (wanted,)))

        def complete(given: Any) -> list[Any]:
            full = list(args)
            for k, array in zip(arrays, given, strict=True):
                full[k] = array
            return full

        def run(*given: Any) -> Any:
            made = [numpy.empty(out.shape, out.dtype) for out in shapes]
            with recording.paused():
                function(*complete(_host(given)), *made)
            return tuple(made)

        def run_backward(given: Any, adjoints: Any) -> Any:
            inputs = [_with_gradient(array, None) for array in _host(given)]
            made = [_with_gradient(numpy.empty(out.shape, out.dtype), numpy.array(adjoint)) for out, adjoint in zip(shapes, adjoints, strict=True)]
            if clear_gradients:
                clear_all_gradients()
            tape = Tape(clear_gradients=False)
            with recording.paused(), tape:
                function(*complete(inputs), *made)
            tape.replay()
            return tuple(array.grad for array in inputs if _is_float(array))

        @jax.custom_vjp  # type: ignore[misc, untyped-decorator, unused-ignore]
        def call(*given: Any) -> Any:
            return jax.pure_callback(run, shapes, *given, vmap_method="sequential")

        def forward(*given: Any) -> Any:
            return call(*given), given

        def backward(given: Any, adjoints: Any) -> Any:
            floats = tuple(jax.ShapeDtypeStruct(array.shape, array.dtype) for array in given if _is_float(array))
            found = iter(jax.pure_callback(run_backward, floats, given, tuple(adjoints), vmap_method="sequential"))
            # Integers have gradients of a type without values.
            return tuple(next(found) if _is_float(array) else numpy.zeros(array.shape, jax.dtypes.float0) for array in given)

        call.defvjp(forward, backward)
        results = call(*(jax.numpy.asarray(args[k]) for k in arrays))
        return tuple(results) if several else results[0]

    operation.__name__ = getattr(function, "__name__", "operation")
    operation.__doc__ = getattr(function, "__doc__", None)
    return operation


def _host(arrays: Any) -> list[Any]:
    return [numpy.asarray(array) for array in arrays]


def _is_float(array: Any) -> bool:
    return bool(numpy.issubdtype(array.dtype, numpy.floating))


def _with_gradient(array: Any, gradient: Any) -> Any:
    """Return a view of an array of floats with a gradient: zeros, if none is given."""
    if not _is_float(array):
        return array
    view = array.view(_Differentiable)
    view.grad = numpy.zeros(array.shape, array.dtype) if gradient is None else gradient
    return view


__all__ = ["op"]
