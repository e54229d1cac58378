"""What a vector or matrix element of a field or array writes to, where that is not a single native object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .field import MatrixField, ScalarField
    from .ndarray import Ndarray


class RecordedElement:
    """An element of a field while writes are recorded, with the interface of a native field."""

    def __init__(self, field: MatrixField) -> None:
        self.field = field

    def set_part(self, at: tuple[int, ...], number: int, value: Any) -> None:
        self.field.get_scalar_field(*divmod(number, self.field.m) if self.field.ndim == 2 else (number,))[at] = value

    def set(self, at: tuple[int, ...], values: tuple[Any, ...]) -> None:
        self.field[at] = values


class ComponentFields:
    """The component fields of a split vector field, with the interface of a single native field."""

    def __init__(self, parts: list[ScalarField]) -> None:
        self.parts = parts

    def set_part(self, at: tuple[int, ...], number: int, value: Any) -> None:
        self.parts[number][at] = value

    def set(self, at: tuple[int, ...], values: tuple[Any, ...]) -> None:
        for part, value in zip(self.parts, values, strict=True):
            part[at] = value


class RecordedArrayElement:
    """An element of an array while writes are recorded."""

    def __init__(self, array: Ndarray) -> None:
        self.array = array

    def set_part(self, at: tuple[int, ...], number: int, value: Any) -> None:
        array = self.array
        array._written(lambda grad: grad._native.set_part(at, number, 0.0), lambda: array._native.set_part(at, number, value))
        array._native.set_part(at, number, value)

    def set(self, at: tuple[int, ...], values: tuple[Any, ...]) -> None:
        self.array[at] = values
