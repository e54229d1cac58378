"""The kernel language: types, values, compiler, fields and arrays."""

import sys as _sys
from typing import Any as _Any


def __getattr__(name: str) -> _Any:
    """Load submodules on first access, and forward names that Taichi has here: ``ti.lang.impl``, ``ti.lang.Matrix``."""
    import importlib
    from importlib.util import find_spec

    # Not `from . import missing`, which would come back here.
    from .missing import attach_loaded

    if not name.startswith("__") and find_spec(f"{__name__}.{name}") is not None:
        module = importlib.import_module(f".{name}", __name__)
        attach_loaded()
        return module
    from ..compat.names import find

    return find("lang", name, _sys._getframe(1))

