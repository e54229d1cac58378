"""Names of the contract that this version does not have: they exist, and say so when they are used."""

from __future__ import annotations

from typing import Any, NoReturn

from ..exceptions import NotYet


def refuse(name: str, feature: str) -> NoReturn:
    """Says that something is not there yet: ``feature`` is what it is part of."""
    raise NotYet(f"`{name}`: {feature} not yet in this version", "W0607")


def function(name: str, feature: str) -> Any:
    """A function that refuses to be called."""

    def missing(*_: Any, **__: Any) -> NoReturn:
        refuse(name, feature)

    missing.__name__ = missing.__qualname__ = name.rpartition(".")[2]
    missing.__doc__ = f"Not yet in this version: {feature.removesuffix(' are').removesuffix(' is')}."
    return missing
