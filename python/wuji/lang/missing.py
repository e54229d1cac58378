"""Placeholders for parts of Taichi's API that are not implemented: the names exist and raise `NotYet` when used."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
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


def lookup(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module, which is given relative to `wuji`: it finds what Taichi has there."""

    def find_name(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module 'wuji.{module}' has no attribute '{name}'")
        from ..compat.names import find

        return find(module, name, sys._getframe(1))

    return find_name


# Modules that Taichi does not have.
_OWN = ("wuji._native", "wuji.cli", "wuji.compat", "wuji.examples")


def attach_loaded() -> None:
    """Make every loaded module answer for Taichi's names. Set at run time, so that type checkers still know what a module has."""
    for full, module in list(sys.modules.items()):
        if full.startswith("wuji.") and not full.startswith(_OWN) and isinstance(module, ModuleType):
            module.__dict__.setdefault("__getattr__", lookup(full.removeprefix("wuji.")))
