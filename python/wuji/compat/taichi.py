"""Make ``import taichi`` resolve to Wuji.

```python
import wuji.compat.taichi    # before anything imports taichi
import taichi as ti          # Wuji
import taichi.math as tm     # wuji.math
```

``python -m wuji run program.py`` does this for an unmodified program. Taichi itself may be installed, but cannot be used in the same
process.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import wuji as _wuji
from wuji.compat import names as _names
from wuji.compat.taichi_names import NAMES as _NAMES
from wuji.lang.dtypes import defaults as _defaults
from wuji.lang.missing import attach_loaded as _attach_loaded

# Version of the language; `wuji.__version__` is that of Wuji.
__version__ = (1, 7, 4)
# Empty: `_Finder` finds the submodules.
__path__: list[str] = []


class _Loader(importlib.abc.Loader):
    def __init__(self, target: str) -> None:
        self.target = target
        self.spec: Any = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        relative = self.target.removeprefix("wuji.")
        module = _names.stand_in(relative) if relative in _names.INTERNAL else importlib.import_module(self.target)
        self.spec = module.__spec__
        _attach_loaded()
        _list_names()
        return module

    def exec_module(self, module: ModuleType) -> None:
        # Keep the module's own spec.
        module.__spec__ = self.spec
        # A package in Taichi may be a plain module here; let it have submodules.
        if not hasattr(module, "__path__"):
            module.__path__ = []


class _Finder(importlib.abc.MetaPathFinder):
    """Resolves ``taichi.x`` to ``wuji.x``: the same module object, not a copy."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith("taichi."):
            return None
        name = fullname.removeprefix("taichi.")
        target_name = f"wuji.{_names.MOVED.get(name, name)}"
        if name in _names.INTERNAL:
            return importlib.machinery.ModuleSpec(fullname, _Loader(target_name), origin="wuji", is_package=True)
        try:
            importlib.import_module(target_name)
        except ModuleNotFoundError as error:
            if error.name is not None and target_name.startswith(error.name):
                return None
            raise
        is_package = hasattr(sys.modules[target_name], "__path__")
        return importlib.machinery.ModuleSpec(fullname, _Loader(target_name), origin="wuji", is_package=is_package)


_modules_listed = 0  # number of modules when `_list_names` last looked at them


def __getattr__(name: str) -> Any:
    found = getattr(_wuji, name)
    if isinstance(found, ModuleType):
        _list_names()
    return found


def __dir__() -> list[str]:
    return [*_NAMES[""].split(), "__version__"]


def _list_names() -> None:
    """Make `dir` of each loaded module list Taichi's names, if modules were loaded since the last time."""
    global _modules_listed
    if _modules_listed == len(sys.modules):
        return
    _modules_listed = len(sys.modules)
    for module in list(sys.modules.values()):
        own = getattr(module, "__name__", "")
        if own.startswith("wuji.") and "__dir__" not in module.__dict__:
            relative = own.removeprefix("wuji.")
            listed = _NAMES.get(relative) or _NAMES.get(f"lang.{relative}")
            if listed is not None:
                module.__dict__["__dir__"] = functools.partial(_listing, module, listed)


def _listing(module: ModuleType, names: str) -> list[str]:
    return [*names.split(), *(name for name in module.__dict__ if name.startswith("__"))]


__all__ = [name for name in dir(_wuji) if not name.startswith("_")]  # noqa: PLE0604


def install() -> None:
    """Make ``import taichi`` import Wuji in this process. Importing this module calls it."""
    module = sys.modules[__name__]
    loaded = sys.modules.get("taichi")
    if loaded is not None and loaded is not module:
        raise ImportError("taichi is already imported; import wuji.compat.taichi before it")
    sys.modules["taichi"] = module
    _defaults.lenient = True
    _list_names()
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def uninstall() -> None:
    """Undo `install`."""
    global _modules_listed
    _defaults.lenient = False
    _modules_listed = 0
    for module in list(sys.modules.values()):
        if isinstance(getattr(module, "__dict__", {}).get("__dir__"), functools.partial):
            del module.__dict__["__dir__"]
    for name in [n for n in sys.modules if n == "taichi" or n.startswith("taichi.")]:
        del sys.modules[name]
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]


install()
