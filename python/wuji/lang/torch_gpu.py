"""Tensors of PyTorch that lie on the GPU that kernels run on: elements go there and come from there without the host."""

from __future__ import annotations

from typing import Any

from . import arch as archs
from . import runtime
from .dtypes import DataType

# The device of worlds on a GPU.
_NUMBER = 0


def is_near(torch: Any, device: Any) -> bool:
    """Whether a device of torch's is the GPU of the current world."""
    if device is None or runtime.current().config.arch is not archs.cuda or runtime.current().native.cuda_stream is None:
        return False
    device = torch.device(device)
    if device.type != "cuda":
        return False
    return (torch.cuda.current_device() if device.index is None else device.index) == _NUMBER


def empty(torch: Any, shape: tuple[int, ...], dtype: DataType, device: Any) -> Any:
    """A tensor there for elements of a type; nothing where torch has no such numbers."""
    known = getattr(torch, dtype.numpy_name, None)
    return None if known is None else torch.empty(shape, dtype=known, device=device)


def fitting(torch: Any, tensor: Any, shape: tuple[int, ...], dtype: DataType) -> Any:
    """A tensor of the GPU of the current world that has this shape, row by row, in this type; nothing if it is elsewhere."""
    known = getattr(torch, dtype.numpy_name, None)
    if known is None or not getattr(tensor, "is_cuda", False) or not is_near(torch, tensor.device):
        return None
    if tuple(tensor.shape) != shape:
        raise ValueError(f"a tensor of shape {tuple(tensor.shape)} for elements of shape {shape}")
    return tensor.detach().to(known).contiguous()


def settle(torch: Any) -> None:
    """Waits for what torch does with an array of ours on a stream of its own; with the default one kernels are in order anyway."""
    stream = torch.cuda.current_stream(_NUMBER)
    if stream != torch.cuda.default_stream(_NUMBER):
        stream.synchronize()
