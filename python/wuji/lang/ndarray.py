"""Arrays: dense memory on the device of its world, passed to kernels as arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import _native
from ..exceptions import WujiArgumentError, WujiComponentsError, WujiIndexError, WujiOutOfRangeError, WujiRuntimeError, WujiRuntimeTypeError
from . import dtypes, host_values, inspection, recording, runtime, torch_gpu
from .compound import MatrixType
from .context import python_only
from .dtypes import DataType
from .element_sources import RecordedArrayElement
from .enums import Layout
from .errors import from_native
from .matrix import Matrix, Vector
from .extents import shape_of

# Device type in DLPack.
_CUDA = 2


class NdarrayTypeInfo:
    """Result of `Ndarray.get_type`."""

    def __init__(self, element_type: Any, shape: tuple[int, ...], needs_grad: bool) -> None:
        self.element_type = element_type
        self.shape = shape
        self.needs_grad = needs_grad

    def __repr__(self) -> str:
        return f"ndarray({self.element_type}, shape={self.shape})"


class Ndarray:
    """An array of scalars, vectors or matrices."""

    def __init__(self, element: Any, shape: tuple[int, ...]) -> None:
        self.element_type: DataType | MatrixType = element
        self.shape = shape
        self.grad: Ndarray | None = None
        self.dual: Ndarray | None = None
        try:
            self._native = _native.Ndarray(element.ir, shape, runtime.current().native)
        except _native.NativeError as e:
            raise from_native(e) from None

    @property
    def dtype(self) -> DataType:
        return self.element_type.dtype if isinstance(self.element_type, MatrixType) else self.element_type

    @property
    def element_shape(self) -> tuple[int, ...]:
        return self.element_type.shape if isinstance(self.element_type, MatrixType) else ()

    @property
    def layout(self) -> Layout:
        """Elements are stored one after the other."""
        return Layout.AOS

    def _get_nelement(self) -> int:
        return math.prod(self.shape)

    def _get_element_size(self) -> int:
        return inspection.element_size(self.element_type.ir)[0]

    @property
    def num_dims(self) -> int:
        return len(self.shape)

    def get_type(self) -> NdarrayTypeInfo:
        return NdarrayTypeInfo(self.element_type, self.shape, self.grad is not None)

    def _key(self, key: Any) -> tuple[int, ...]:
        if key is None:
            key = ()
        elif not isinstance(key, tuple):
            key = tuple(key) if isinstance(key, (list, Matrix)) else (key,)
        if len(key) != len(self.shape):
            raise WujiIndexError(f"{len(self.shape)}d ndarray indexed with {len(key)}d indices: {key}")
        for k, extent in zip(key, self.shape, strict=True):
            if not hasattr(k, "__index__"):
                raise WujiRuntimeTypeError(f"the indices of an array must be integers, not {k!r} of type {type(k)}")
            if not -extent <= k < extent:
                raise WujiOutOfRangeError(f"index {k} is out of range for an axis with {extent} elements", "W0111")
        return tuple(int(k) % extent for k, extent in zip(key, self.shape, strict=True))

    def __getitem__(self, key: Any) -> Any:
        at = self._key(key)
        value = self._native.get(at)
        if isinstance(self.element_type, MatrixType):
            return Element(RecordedArrayElement(self) if recording.active else self._native, at, self.element_type, list(value))
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        at, flat = self._key(key), flat_value(self.element_type, value)
        if recording.active:
            self._written(lambda grad: grad.__setitem__(key, 0.0), lambda: self.__setitem__(key, value))
        try:
            self._native.set(at, flat)
        except _native.ArgumentError:
            self._native.set(at, host_values.fitted_parts(flat, self.element_type, "array"))

    def _written(self, clear: Callable[[Ndarray], None], redo: Callable[[], None]) -> None:
        """Report a write of the host while something is recorded."""

        def clear_gradient(kind: str) -> None:
            derivative = self.grad if kind == "grad" else self.dual
            if derivative is not None:
                clear(derivative)

        recording.write(self, clear_gradient, redo)

    @python_only
    def fill(self, val: Any) -> None:
        """Set every element to one value."""
        flat = flat_value(self.element_type, val)
        if recording.active:
            self._written(lambda grad: grad.fill(0.0), lambda: self.fill(val))
        try:
            self._native.fill(flat)
        except _native.ArgumentError:
            self._native.fill(host_values.filling(flat, self.element_type, "array"))

    @python_only
    def to_numpy(self) -> Any:
        """Copy to a NumPy array. The axes of elements come last."""
        import numpy

        out = numpy.empty(self.shape + self.element_shape, dtype=self.dtype.numpy_name)
        self._native.read_into(out)
        return out

    @python_only
    def from_numpy(self, arr: Any) -> None:
        """Copy all elements from a NumPy array of the same shape."""
        wanted = self.shape + self.element_shape
        if not hasattr(arr, "shape"):
            raise TypeError(f"<class 'numpy.ndarray'> expected, but {type(arr)} provided")
        if tuple(arr.shape) != wanted:
            raise ValueError(f"Mismatch shape: {wanted} expected, but {tuple(arr.shape)} provided")
        if recording.active:
            kept = arr.copy()
            self._written(lambda grad: grad.fill(0.0), lambda: self.from_numpy(kept))
        self._native.write_from(host_values.fitted_array(arr, wanted, self.dtype, "array"))

    @python_only
    def to_torch(self, device: Any = None) -> Any:
        """Copy to a torch tensor. A copy to the GPU of the array stays on the device."""
        import torch

        if torch_gpu.is_same_gpu(torch, device, self._gpu):
            out = torch_gpu.empty(torch, self.shape + self.element_shape, self.dtype, device)
            if out is not None:
                self._native.read_into(out)
                return out
        return torch.from_numpy(self.to_numpy()).to(device)

    @python_only
    def from_torch(self, arr: Any) -> None:
        """Copy all elements from a torch tensor. A copy from the same GPU stays on the device."""
        import torch

        source = torch_gpu.as_source(torch, arr, self.shape + self.element_shape, self.dtype, self._gpu)
        if source is not None and not recording.active:
            self._native.write_from(source)
        else:
            self.from_numpy(arr.detach().cpu().numpy())

    @property
    def _gpu(self) -> int | None:
        """The GPU that holds the elements, or None."""
        kind, number = self.__dlpack_device__()
        return number if kind == _CUDA else None

    @python_only
    def copy_from(self, other: Ndarray) -> None:
        """Copy all elements from another array of the same type and shape."""
        if not isinstance(other, Ndarray) or other.shape != self.shape or other.element_type != self.element_type:
            raise WujiArgumentError("`copy_from` needs an array of the same type and shape")
        if recording.active:
            recording.copied(self, other)
        self._native.copy_from(other._native)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        array = self.to_numpy()
        return array if dtype is None else array.astype(dtype)

    def __dlpack__(self, **options: Any) -> Any:
        return self._native.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._native.__dlpack_device__()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a 0-D array has no length")
        return self.shape[0]

    def __bool__(self) -> bool:
        return True  # whatever its length

    def __copy__(self) -> Ndarray:
        """Return another object for the same memory."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __deepcopy__(self, memo: Any = None) -> Ndarray:
        other = _with_derivatives(type(self), self.element_type, self.shape, self.grad is not None, self.dual is not None)
        other.copy_from(self)
        return other

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.element_type}, shape {self.shape}>"

    def __reduce__(self) -> Any:
        raise TypeError("arrays cannot be pickled: their memory belongs to a world; pickle `to_numpy()` instead")


class ScalarNdarray(Ndarray):
    pass


class _TensorNdarray(Ndarray):
    """An array of vectors or matrices."""

    @property
    def n(self) -> int:
        """Number of rows, or of the components of a vector."""
        return self.element_shape[0]

    @property
    def m(self) -> int:
        """Number of columns; 1 for vectors."""
        return self.element_shape[1] if len(self.element_shape) > 1 else 1


class MatrixNdarray(_TensorNdarray):
    """An array of matrices."""


class VectorNdarray(_TensorNdarray):
    """An array of vectors."""


class Element(Vector):
    """A vector or matrix element of an array or field. Writing to its components writes to the array."""

    __slots__ = ("_at", "_from")

    def __new__(cls, source: Any, at: tuple[int, ...], ty: MatrixType, entries: list[Any]) -> Any:
        kind = cls if ty.ndim == 1 else MatrixElement
        made: Any = object.__new__(kind)
        object.__setattr__(made, "entries", entries)
        object.__setattr__(made, "shape", ty.shape)
        object.__setattr__(made, "_dtype", ty.dtype)
        object.__setattr__(made, "_from", source)
        object.__setattr__(made, "_at", at)
        return made

    def _host_type(self) -> DataType | None:
        """Elements are read as Python's numbers."""
        return None

    def _set_entry(self, number: int, value: Any) -> None:
        assert self._dtype is not None
        if recording.active:
            value = host_values.fitted(value, self._dtype, "element")  # recorded as it is written
        try:
            self._from.set_part(self._at, number, value)
        except _native.ArgumentError:
            value = host_values.fitted(value, self._dtype, "element")
            self._from.set_part(self._at, number, value)
        self.entries[number] = value

    def _set_entries(self, numbers: Sequence[int], values: Sequence[Any]) -> None:
        assert self._dtype is not None
        # All or none are written.
        fitting = [host_values.fitted(value, self._dtype, "element") for value in values]
        Matrix._set_entries(self, numbers, fitting)

    fill = python_only(Matrix.fill)


class MatrixElement(Matrix):
    __slots__ = ("_at", "_from")
    _set_entry = Element._set_entry
    _set_entries = Element._set_entries
    fill = Element.fill
    _host_type = Element._host_type


def flat_value(ty: Any, value: Any) -> Any:
    """Convert a value for the native interface: a scalar, or all scalars in row-major order."""
    if not isinstance(ty, MatrixType):
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)) and not isinstance(value, Matrix):
        value = Matrix(value)
    if isinstance(value, Matrix):
        if value.shape != ty.shape and len(value.entries) != ty.count:
            raise WujiComponentsError(f"shape mismatch: value {list(value.shape)}, element {list(ty.shape)}")
        return tuple(value.entries)
    return (value,) * ty.count


@python_only
def ndarray(dtype: Any, shape: Any, needs_grad: bool = False, needs_dual: bool = False) -> Ndarray:
    """Create an array of zeros: ``ti.ndarray(ti.f32, shape=(16, 8))``.

    Args:
        dtype: Element type: scalar, vector or matrix.
        shape: Extent of each axis.
        needs_grad: Also allocate the gradient, `x.grad`.
        needs_dual: Also allocate the tangent of forward mode, `x.dual`.
    """
    runtime.current()
    extents = shape_of(shape)
    if any(not 1 <= e < 1 << 31 for e in extents):
        raise WujiRuntimeError(f"{extents} is not a valid shape for ndarray: every extent must be 1 to 2^31 - 1", "W0101")
    if isinstance(dtype, MatrixType) and not dtype.quantized:
        return _with_derivatives(VectorNdarray if dtype.ndim == 1 else MatrixNdarray, dtype, extents, needs_grad, needs_dual)
    scalar = dtypes.scalar_type(dtype)
    if scalar is None:
        raise WujiRuntimeTypeError(f"{dtype!r} is not supported as ndarray element type")
    return _with_derivatives(ScalarNdarray, scalar, extents, needs_grad, needs_dual)


def _with_derivatives(kind: type[Ndarray], element: Any, shape: tuple[int, ...], needs_grad: bool, needs_dual: bool) -> Ndarray:
    made = kind(element, shape)
    if (needs_grad or needs_dual) and not made.dtype.is_float:
        raise WujiRuntimeError(f"{made.dtype} is not supported for ndarray with `needs_grad=True` or `needs_dual=True`\n  = help: use an array of floats")
    if needs_grad:
        made.grad = kind(element, shape)
        runtime.current().gradients.add(made.grad)
    if needs_dual:
        made.dual = kind(element, shape)
        runtime.current().tangents.add(made.dual)
        if made.grad is not None:
            # For the tangents of gradients: a tape in forward mode.
            made.grad.dual = kind(element, shape)
            runtime.current().gradients.add(made.grad.dual)
    return made
