"""Arrays: memory with a shape that kernels take as arguments, on the device of its world."""

from __future__ import annotations

import operator
from typing import Any

from .. import _native
from ..exceptions import NotYet, WujiRuntimeError, WujiTypeError
from . import dtypes, runtime, torch_gpu
from .compound import MatrixType
from .context import python_only
from .dtypes import DataType
from .matrix import Matrix, Vector

# As DLPack counts devices.
_CUDA = 2


class NdarrayTypeInfo:
    """What `Ndarray.get_type` gives."""

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
        try:
            self._native = _native.Ndarray(element.ir, shape, runtime.current().native)
        except _native.NativeError as e:
            from .errors import told

            raise told(e) from None

    @property
    def dtype(self) -> DataType:
        return self.element_type.dtype if isinstance(self.element_type, MatrixType) else self.element_type

    @property
    def element_shape(self) -> tuple[int, ...]:
        return self.element_type.shape if isinstance(self.element_type, MatrixType) else ()

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
            raise IndexError(f"{len(key)} indices for an array with {len(self.shape)} axes")
        for k, extent in zip(key, self.shape, strict=True):
            if not -extent <= k < extent:
                raise IndexError(f"index {k} of an axis with {extent} elements")
        return tuple(int(k) % extent for k, extent in zip(key, self.shape, strict=True))

    def __getitem__(self, key: Any) -> Any:
        at = self._key(key)
        value = self._native.get(at)
        if isinstance(self.element_type, MatrixType):
            return Element(self._native, at, self.element_type, list(value))
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        self._native.set(self._key(key), flat_value(self.element_type, value))

    @python_only
    def fill(self, val: Any) -> None:
        """Puts one value into every element."""
        self._native.fill(flat_value(self.element_type, val))

    @python_only
    def to_numpy(self) -> Any:
        """A copy as a NumPy array; axes of elements come last."""
        import numpy

        out = numpy.empty(self.shape + self.element_shape, dtype=self.dtype.numpy_name)
        self._native.read_into(out)
        return out

    @python_only
    def from_numpy(self, arr: Any) -> None:
        """Takes all elements from a NumPy array of the same shape."""
        import numpy

        wanted = self.shape + self.element_shape
        if not hasattr(arr, "shape"):
            raise TypeError(f"{type(arr).__name__} is no NumPy array")
        if tuple(arr.shape) != wanted:
            raise ValueError(f"an array of shape {tuple(arr.shape)} for one of shape {wanted}")
        self._native.write_from(numpy.ascontiguousarray(arr, dtype=self.dtype.numpy_name))

    @python_only
    def to_torch(self, device: Any = None) -> Any:
        """A copy as a torch tensor; without the host, if it goes to the GPU that the array lies on."""
        import torch

        if torch_gpu.is_near(torch, device, self._gpu):
            out = torch_gpu.empty(torch, self.shape + self.element_shape, self.dtype, device)
            if out is not None:
                self._native.read_into(out)
                return out
        return torch.from_numpy(self.to_numpy()).to(device)

    @python_only
    def from_torch(self, arr: Any) -> None:
        """Takes all elements from a torch tensor; without the host, if it lies on the same GPU."""
        import torch

        near = torch_gpu.fitting(torch, arr, self.shape + self.element_shape, self.dtype, self._gpu)
        if near is not None:
            self._native.write_from(near)
        else:
            self.from_numpy(arr.detach().cpu().numpy())

    @property
    def _gpu(self) -> int | None:
        """The number of the GPU that the elements lie on."""
        kind, number = self.__dlpack_device__()
        return number if kind == _CUDA else None

    @python_only
    def copy_from(self, other: Ndarray) -> None:
        """Takes all elements from another array of the same type and shape."""
        if not isinstance(other, Ndarray) or other.shape != self.shape or other.element_type != self.element_type:
            raise WujiTypeError("`copy_from` takes an array of the same type and shape")
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
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __deepcopy__(self, memo: Any) -> Ndarray:
        other = type(self)(self.element_type, self.shape)
        other.copy_from(self)
        return other

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.element_type}, shape {self.shape}>"

    def __reduce__(self) -> Any:
        raise TypeError("arrays of Wuji cannot be pickled; take `to_numpy()`")


class ScalarNdarray(Ndarray):
    pass


class MatrixNdarray(Ndarray):
    pass


class VectorNdarray(MatrixNdarray):
    pass


class Element(Vector):
    """An element of an array or field that is a vector or matrix: writing to its components writes to the array."""

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

    def __setitem__(self, at: Any, value: Any) -> None:
        number: Any = self._place(at)
        self._from.set_part(self._at, number, value)
        self.entries[number] = value

    def __setattr__(self, name: str, value: Any) -> None:
        Matrix.__setattr__(self, name, value)
        self._from.set(self._at, tuple(self.entries))

    @python_only
    def fill(self, value: Any) -> None:
        Matrix.fill(self, value)
        self._from.set(self._at, tuple(self.entries))


class MatrixElement(Matrix):
    __slots__ = ("_at", "_from")
    __setitem__ = Element.__setitem__
    __setattr__ = Element.__setattr__
    fill = Element.fill


def flat_value(ty: Any, value: Any) -> Any:
    """A value as the extension takes it: a number, or all numbers row by row."""
    if not isinstance(ty, MatrixType):
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)) and not isinstance(value, Matrix):
        value = Matrix(value)
    if isinstance(value, Matrix):
        if value.shape != ty.shape and len(value.entries) != ty.count:
            raise WujiTypeError(f"a value of shape {list(value.shape)} for elements of shape {list(ty.shape)}")
        return tuple(value.entries)
    return (value,) * ty.count


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape, however it was given."""
    try:
        if hasattr(shape, "__index__"):
            return (operator.index(shape),)
        return tuple(operator.index(s) for s in shape)
    except TypeError:
        raise WujiTypeError(f"a shape is an integer, or several of them, not {shape!r}") from None


@python_only
def ndarray(dtype: Any, shape: Any, needs_grad: bool = False) -> Ndarray:
    """An array of zeros: ``ti.ndarray(ti.f32, shape=(16, 8))``. Elements are scalars, vectors or matrices."""
    runtime.current()
    if needs_grad:
        raise NotYet("`needs_grad`: automatic differentiation is not yet in this version", "W0607")
    extents = shape_of(shape)
    if any(e < 0 for e in extents):
        raise WujiRuntimeError(f"an array of shape {extents}", "W0101")
    if isinstance(dtype, MatrixType):
        return (VectorNdarray if dtype.ndim == 1 else MatrixNdarray)(dtype, extents)
    return ScalarNdarray(dtypes.need_scalar(dtype), extents)
