"""Elements of struct fields as Python values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .struct import Struct

if TYPE_CHECKING:
    from .field import StructField


class StructElement(Struct):
    """An element of a struct field. Writing to its members writes to the field."""

    def __new__(cls, field: StructField, at: tuple[int, ...]) -> Any:
        created: Any = object.__new__(cls)
        object.__setattr__(created, "_type", field.struct_type)
        object.__setattr__(created, "_field", field)
        object.__setattr__(created, "_at", at)
        return created

    @property
    def _entries(self) -> dict[str, Any]:
        return {k: f[self._at] for k, f in self._field._members.items()}

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self._field._members:
            raise AttributeError(f"the struct has no member `{name}`")
        self._field._members[name][self._at] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        field = object.__getattribute__(self, "_field")
        if name in field._members:
            return field._members[name][object.__getattribute__(self, "_at")]
        ty = object.__getattribute__(self, "_type")
        if name in ty.methods:
            method = ty.methods[name]
            return lambda *args, **named: method(self, *args, **named)
        raise AttributeError(f"the struct has no member `{name}`")

    def __reduce__(self) -> Any:
        return (Struct, (self.entries,))
