"""The kernel language: types, values, compiler, fields and arrays."""

import sys as _sys
from typing import Any as _Any


def __getattr__(name: str) -> _Any:
    """Load submodules on first access, and forward names that Taichi has here: ``ti.lang.impl``, ``ti.lang.Matrix``."""
    import importlib
    from importlib.util import find_spec

    from . import missing

    if not name.startswith("__") and find_spec(f"{__name__}.{name}") is not None:
        module = importlib.import_module(f".{name}", __name__)
        missing.attach_loaded()
        return module
    from ..compat.names import find

    return find("lang", name, _sys._getframe(1))

