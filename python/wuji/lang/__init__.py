"""The kernel language: types, values, compiler, fields and arrays."""

from typing import Any as _Any


def __getattr__(name: str) -> _Any:
    """Load submodules on first access, and forward names that Taichi has here: ``ti.lang.impl``, ``ti.lang.Matrix``."""
    import importlib
    from importlib.util import find_spec

    if name.startswith("_"):
        raise AttributeError(f"module 'wuji.lang' has no attribute '{name}'")
    if find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f".{name}", __name__)
    return getattr(importlib.import_module(__name__.rpartition(".")[0]), name)

