"""Copies between torch tensors and elements on the same GPU, without a round trip through the host."""

from __future__ import annotations

from typing import Any

from . import host_values
from .dtypes import DataType


def is_same_gpu(torch: Any, device: Any, gpu: int | None) -> bool:
    """Return whether a torch device is the GPU with this number."""
    if device is None or gpu is None:
        return False
    device = torch.device(device)
    if device.type != "cuda":
        return False
    number: int = torch.cuda.current_device() if device.index is None else device.index
    return number == gpu


def empty(torch: Any, shape: tuple[int, ...], dtype: DataType, device: Any) -> Any:
    """Allocate a tensor for elements of a type; None if torch has no such type."""
    known = getattr(torch, dtype.numpy_name, None)
    return None if known is None else torch.empty(shape, dtype=known, device=device)


def as_source(torch: Any, tensor: Any, shape: tuple[int, ...], dtype: DataType, gpu: int | None) -> Any:
    """Return a contiguous tensor of this type on the GPU; None if it is elsewhere. Raise `ValueError` on a shape mismatch."""
    known = getattr(torch, dtype.numpy_name, None)
    if known is None or not getattr(tensor, "is_cuda", False) or not is_same_gpu(torch, tensor.device, gpu):
        return None
    if tuple(tensor.shape) != shape:
        raise ValueError(f"shape mismatch: tensor {tuple(tensor.shape)}, elements {shape}")
    if dtype.is_int and tensor.dtype not in (known, torch.bool) and tensor.numel():
        host_values.check_extremes((tensor.min().item(), tensor.max().item()), dtype, "tensor")
    return tensor.detach().to(known).contiguous()
