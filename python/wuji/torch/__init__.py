"""Kernels as operations of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ad.gradients import clear_all_gradients
from ..ad.tape import Tape
from ..lang import recording


def op(function: Callable[..., Any], outputs: Callable[..., Any], *, clear_gradients: bool = True) -> Callable[..., Any]:
    """Turn a kernel, or a function that launches kernels, into a differentiable operation of torch.

    Kernels work on the memory of the tensors; nothing is copied.

    Args:
        function: Called with the arguments of the operation, followed by its outputs.
        outputs: Called with the arguments of the operation. Returns the tensor, or the tuple of tensors, to be written.
        clear_gradients: Set the gradients of all fields to zero before gradients are computed. Otherwise they accumulate.

    ```python
    @ti.kernel
    def square(x: ti.types.ndarray(), y: ti.types.ndarray()):
        for i in x:
            y[i] = x[i] * x[i]

    squared = ti.torch.op(square, torch.empty_like)
    squared(x).sum().backward()
    ```
    """
    import torch

    class Operation(torch.autograd.Function):  # type: ignore[misc, name-defined, unused-ignore]
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            made = outputs(*args)
            results = made if isinstance(made, tuple) else (made,)
            # Gradients go to tensors of our own that share the memory.
            given = [_shared(arg, ctx.needs_input_grad[k]) for k, arg in enumerate(args)]
            written = [_shared(result, True) for result in results]
            if not any(ctx.needs_input_grad):
                with recording.paused():
                    function(*given, *written)
                return made
            tape = Tape(clear_gradients=False)
            with recording.paused(), tape:
                function(*given, *written)
            ctx.tape, ctx.given, ctx.written = tape, given, written
            return made

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[misc, untyped-decorator, unused-ignore]
        def backward(ctx: Any, *gradients: Any) -> Any:
            if clear_gradients:
                clear_all_gradients()
            for tensor, gradient in zip(ctx.written, gradients, strict=True):
                # A copy: gradient kernels clear what they have propagated.
                tensor.grad = torch.zeros_like(tensor) if gradient is None else gradient.contiguous().clone()
            for tensor in ctx.given:
                if getattr(tensor, "requires_grad", False):
                    tensor.grad = torch.zeros_like(tensor)
            ctx.tape.replay()
            return tuple(tensor.grad if needed else None for tensor, needed in zip(ctx.given, ctx.needs_input_grad, strict=True))

    def _shared(value: Any, needs_grad: bool) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().requires_grad_(needs_grad and value.is_floating_point())

    def operation(*args: Any) -> Any:
        return Operation.apply(*args)

    operation.__name__ = getattr(function, "__name__", "operation")
    operation.__doc__ = getattr(function, "__doc__", None)
    return operation


__all__ = ["op"]
