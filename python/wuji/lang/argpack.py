"""Argument packs."""

from __future__ import annotations

from typing import Any

from ..exceptions import WujiRuntimeTypeError
from . import host_values
from .compound import ArgPackType, MatrixType, NdarrayType, StructType, value_type
from .struct import _value


class ArgPack:
    """A value of a `ti.types.argpack` type."""

    def __init__(self, ty: ArgPackType, values: dict[str, Any]) -> None:
        entries: dict[str, Any] = {}
        unknown = set(values) - set(ty.members)
        if unknown:
            raise WujiRuntimeTypeError(f"{ty} has no member `{unknown.pop()}`")
        for name, spec in ty.members.items():
            if name not in values:
                raise WujiRuntimeTypeError(f"{ty} needs a value for `{name}`")
            entries[name] = _fitted(spec, values[name], name)
        self.__dict__["type"] = ty
        self.__dict__["entries"] = entries

    @property
    def keys(self) -> list[str]:
        return list(self.entries)

    @property
    def items(self) -> Any:
        return self.entries.items()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self.__dict__["entries"][name]
        except KeyError:
            raise AttributeError(f"the argpack has no member `{name}`") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.entries:
            self[name] = value
        else:
            self.__dict__[name] = value  # an attribute of this object, which kernels do not see

    def __getitem__(self, name: str) -> Any:
        return self.entries[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self.entries:
            raise AttributeError(f"the argpack has no member `{name}`")
        self.entries[name] = _fitted(self.type.members[name], value, name)

    def to_dict(self) -> dict[str, Any]:
        return {k: v.to_dict() if hasattr(v, "to_dict") else v for k, v in self.entries.items()}

    def __repr__(self) -> str:
        return f"ArgPack({self.entries})"


def _fitted(spec: Any, value: Any, name: str) -> Any:
    if isinstance(spec, (NdarrayType, ArgPackType)):
        return value
    ty = value_type(spec)
    if isinstance(ty, (MatrixType, StructType)):
        return _value(ty, value)
    return value if ty is None else host_values.fitted(value, ty, f"member `{name}` of an argpack")
