"""Copies between fields and the arrays of other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import recording, torch_gpu
from .companions import Companions
from .context import python_only
from .dtypes import DataType, defaults

if TYPE_CHECKING:
    from .snode import Leaf, SNode


class Exchange(Companions):
    """Base class of fields: copies from and to arrays."""

    @property
    def node(self) -> SNode:
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    @python_only
    def to_numpy(self) -> Any:
        raise NotImplementedError

    @python_only
    def from_numpy(self, arr: Any) -> None:
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """Copy to a NumPy array, for `numpy.asarray(x)` and its callers, such as plotting libraries."""
        found = self.to_numpy()
        if isinstance(found, dict):
            raise TypeError("a struct field is not a single array; `to_numpy` returns a dict of arrays")
        return found if dtype is None else found.astype(dtype)

    @python_only
    def to_torch(self, device: Any = None) -> Any:
        """Copy to a torch tensor. A copy to the GPU that kernels run on stays on the device."""
        import torch

        core = self._core()
        if core is not None and device is not None:
            leaf, shape, dtype = core
            native = leaf.ready()
            if torch_gpu.is_same_gpu(torch, device, native.gpu):
                out = torch_gpu.empty(torch, shape, dtype, device)
                if out is not None:
                    native.read_into(out)
                    return out
        return torch.from_numpy(self.to_numpy()).to(device)

    @python_only
    def from_torch(self, arr: Any) -> None:
        """Copy all elements from a torch tensor. A copy from the GPU that kernels run on stays on the device."""
        import torch

        core = self._core()
        if core is not None and getattr(arr, "is_cuda", False) and not self._keeps_cells():
            leaf, shape, dtype = core
            native = leaf.ready()
            # Accept an n x 1 matrix for a vector.
            flat = arr[..., 0] if tuple(arr.shape) == (*shape, 1) and len(shape) > len(self.shape) else arr
            source = torch_gpu.as_source(torch, flat, shape, dtype, native.gpu)
            if source is not None and not recording.active:
                native.write_from(source)
                return
        self.from_numpy(arr.detach().cpu().numpy())

    def _core(self) -> tuple[Leaf, tuple[int, ...], DataType] | None:
        """Return the leaf that holds all elements, with the shape and type of its scalars; None if there is no single leaf."""
        return None

    @python_only
    def to_paddle(self, place: Any = None) -> Any:
        import paddle

        return paddle.to_tensor(self.to_numpy(), place=place)

    @python_only
    def from_paddle(self, arr: Any) -> None:
        self.from_numpy(arr.numpy())

    def _keeps_cells(self) -> bool:
        """Whether an array is copied to the active cells only: to sparse fields, in programs that import Taichi. Otherwise all cells become active."""
        return defaults.lenient and self.node.is_sparse
