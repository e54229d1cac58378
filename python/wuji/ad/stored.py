"""What gradients read again: fields, and arrays that are arguments of kernels."""

from __future__ import annotations

import sys
from typing import Any

from .. import _native
from ..exceptions import WujiRuntimeError
from ..lang.compound import MatrixType, type_by_ir
from ..lang.naming import label
from ..lang.ndarray import Ndarray
from ..lang.snode import Leaf


class StoredField:
    """A field with those that share its exponent, because a store to one rounds them all; and their tangents in forward mode."""

    __slots__ = ("key", "leaf", "own_key", "tangents")

    def __init__(self, leaf: Leaf, with_tangent: bool = False) -> None:
        self.leaf = leaf
        self.own_key: Any = leaf.key
        # The same for all fields that are copied together.
        self.key: Any = leaf.key if leaf.group is None else ("exponent", id(leaf.pack), leaf.group)
        self.tangents: list[Leaf] = []
        if with_tangent:
            tangents = [other.dual for other in rounded_together(leaf)]
            self.tangents = [tangent for tangent in tangents if tangent is not None and tangent.native is not None]

    @property
    def name(self) -> str:
        return f"field {label(self.leaf.name)}"

    def overlaps(self, other: Stored) -> bool:
        return bool(self.key == other.key)

    def copy(self) -> Any:
        return copy_of(self.leaf), [copy_of(tangent) for tangent in self.tangents]

    def restore(self, values: Any) -> None:
        own, tangents = values
        restore(self.leaf, own)
        for leaf, tangent in zip(self.tangents, tangents, strict=True):
            restore(leaf, tangent)


def rounded_together(leaf: Leaf) -> list[Leaf]:
    """Return a field with those that share its exponent."""
    if leaf.pack is None or leaf.group is None:
        return [leaf]
    return [other for other in leaf.pack.leaves if other.group == leaf.group]


class StoredArray:
    """An array: of Wuji, of NumPy, or of another library."""

    __slots__ = ("_name", "_span", "array", "key", "own_key")

    def __init__(self, array: Any, name: str) -> None:
        self.array = array
        self._name = name
        self._span = _span(array)
        # Views of the same elements are the same data.
        self.key: Any = ("array", id(array)) if self._span is None else ("memory", *self._span, tuple(array.shape), _strides(array))
        self.own_key: Any = self.key

    @property
    def name(self) -> str:
        return f"array {label(self._name)}"

    @property
    def is_writable(self) -> bool:
        return not _is_numpy(self.array) or bool(self.array.flags.writeable)

    @property
    def is_watched(self) -> bool:
        """Whether the host may write to it and nothing reports that."""
        return _is_numpy(self.array) and self.is_writable

    @property
    def version(self) -> int:
        """A number that changes when torch writes to the array."""
        return int(getattr(self.array, "_version", 0))

    def overlaps(self, other: Stored) -> bool:
        """Return whether an element may be in both."""
        if self.key == other.key:
            return True
        if not isinstance(other, StoredArray) or self._span is None or other._span is None:
            return False
        return self._span[0] < other._span[1] and other._span[0] < self._span[1]

    def copy(self) -> Any:
        array = self.array
        if isinstance(array, Ndarray):
            made = type(array)(array.element_type, array.shape)
            made._native.copy_from(array._native)
            return made
        if _is_numpy(array):
            return array.copy()
        if _is_torch(array):
            return array.detach().clone()
        raise WujiRuntimeError(
            f"a gradient needs values of {self.name} that a launch overwrites, and a {type(array).__name__} cannot be copied\n"
            "  = help: write to another array",
            "W0735",
        )

    def equals(self, values: Any) -> bool:
        import numpy

        return bool(numpy.array_equal(self.array, values, equal_nan=self.array.dtype.kind == "f"))

    def restore(self, values: Any) -> None:
        array = self.array
        if isinstance(array, Ndarray):
            array._native.copy_from(values._native)
        elif _is_numpy(array):
            array[...] = values
        else:
            # Not a write that autograd of torch should know.
            array.data.copy_(values)


Stored = StoredField | StoredArray


def _is_numpy(array: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(array, numpy.ndarray)


def _is_torch(array: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def _strides(array: Any) -> tuple[int, ...]:
    return tuple(array.strides if _is_numpy(array) else array.stride())


def _span(array: Any) -> tuple[int, int] | None:
    """Return the addresses of an array of another library, if they are known."""
    if _is_numpy(array):
        start, size = array.__array_interface__["data"][0], array.itemsize
        steps = [(extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True)]
    elif _is_torch(array):
        start, size = array.data_ptr(), array.element_size()
        steps = [(extent - 1) * stride * size for extent, stride in zip(array.shape, array.stride(), strict=True)]
    else:
        return None
    return start + sum(min(step, 0) for step in steps), start + sum(max(step, 0) for step in steps) + size


def copy_of(leaf: Leaf, is_sparse: bool = False) -> Any:
    """Copy all elements of a field; of a sparse one, those that are active."""
    import numpy

    native = leaf.ready() if leaf.native is None else leaf.native
    if leaf.quantized:
        # A store of a number that was read may round it, and others.
        return native.packed_bits()
    if is_sparse or (leaf.node is not None and leaf.node.is_sparse):
        return [(at, native.get(at)) for at in native.active()]
    ty = type_by_ir(leaf.type)
    dtype = ty.dtype if isinstance(ty, MatrixType) else ty
    out = numpy.empty(native.shape + (ty.shape if isinstance(ty, MatrixType) else ()), dtype=dtype.numpy_name)
    native.read_into(out)
    return out


def restore(leaf: Leaf, values: Any) -> None:
    """Write a copy back."""
    if isinstance(values, _native.PackedBits):
        values.restore()
        return
    native = leaf.ready() if leaf.native is None else leaf.native
    if isinstance(values, list):
        for at, value in values:
            if native.is_active(at):
                native.set(at, value)
    else:
        native.write_from(values)
