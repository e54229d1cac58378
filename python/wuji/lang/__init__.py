"""The language of kernels: its types, its values, its compiler, and the data it works on."""

from typing import Any as _Any


def __getattr__(name: str) -> _Any:
    """Modules when they are first asked for, and the names that Taichi has here as well: ``ti.lang.impl``, ``ti.lang.Matrix``."""
    import importlib
    from importlib.util import find_spec

    if name.startswith("_"):
        raise AttributeError(f"module 'wuji.lang' has no attribute '{name}'")
    if find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f".{name}", __name__)
    return getattr(importlib.import_module(__name__.rpartition(".")[0]), name)

