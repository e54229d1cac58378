"""Tensors of PyTorch that lie on the GPU that elements lie on: those go there and come from there without the host."""

from __future__ import annotations

from typing import Any

from .dtypes import DataType


def is_near(torch: Any, device: Any, gpu: int | None) -> bool:
    """Whether a device of torch's is a GPU, by its number."""
    if device is None or gpu is None:
        return False
    device = torch.device(device)
    if device.type != "cuda":
        return False
    number: int = torch.cuda.current_device() if device.index is None else device.index
    return number == gpu


def empty(torch: Any, shape: tuple[int, ...], dtype: DataType, device: Any) -> Any:
    """A tensor there for elements of a type; nothing where torch has no such numbers."""
    known = getattr(torch, dtype.numpy_name, None)
    return None if known is None else torch.empty(shape, dtype=known, device=device)


def fitting(torch: Any, tensor: Any, shape: tuple[int, ...], dtype: DataType, gpu: int | None) -> Any:
    """A tensor of the GPU that has this shape, row by row, in this type; nothing if it is elsewhere, and `ValueError` for another shape."""
    known = getattr(torch, dtype.numpy_name, None)
    if known is None or not getattr(tensor, "is_cuda", False) or not is_near(torch, tensor.device, gpu):
        return None
    if tuple(tensor.shape) != shape:
        raise ValueError(f"a tensor of shape {tuple(tensor.shape)} for elements of shape {shape}")
    return tensor.detach().to(known).contiguous()
