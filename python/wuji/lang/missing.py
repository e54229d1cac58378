"""Placeholders for parts of Taichi's API that are not implemented: the names exist and raise `NotYet` when used."""

from __future__ import annotations

from typing import Any, NoReturn

from ..exceptions import NotYet


def refuse(name: str, feature: str) -> NoReturn:
    """Raise `NotYet` for a name. ``feature`` is the feature it belongs to."""
    raise NotYet(f"`{name}`: not implemented yet ({feature})", "W0607")


def function(name: str, feature: str) -> Any:
    """Return a function that raises `NotYet` when called."""

    def missing(*_: Any, **__: Any) -> NoReturn:
        refuse(name, feature)

    missing.__name__ = missing.__qualname__ = name.rpartition(".")[2]
    missing.__doc__ = f"Not implemented yet ({feature})."
    return missing
