"""Kernels that a program marks to be saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..exceptions import WujiArgumentError
from ..lang.kernel import BoundKernel, Kernel
from .module import Module


class AotExportKernel:
    """A kernel that is to be saved."""

    def __init__(self, f: Any, name: str, template_types: dict[str, Any]) -> None:
        self.kernel = f
        self.name = name
        self.template_types = template_types


_aot_kernels: list[AotExportKernel] = []


def export_as(name: str, *, template_types: dict[str, Any] | None = None) -> Callable[[Any], Any]:
    """Mark a kernel to be saved under a name.

    Args:
        name: The name in the module.
        template_types: Values of its template parameters, and types of its arrays, as in `Module.add_kernel`.

    ```python
    @ti.aot.export_as("step")
    @ti.kernel
    def advance(x: ti.types.ndarray(dtype=ti.f32, ndim=1), dt: ti.f32): ...
    ```
    """

    def mark(f: Any) -> Any:
        if not isinstance(f, (Kernel, BoundKernel)):
            raise WujiArgumentError("Only Taichi kernels can be exported")
        _aot_kernels.append(AotExportKernel(f, name, template_types or {}))
        return f

    return mark


def export(f: Any) -> Any:
    """Mark a kernel to be saved under its own name."""
    return export_as(getattr(f, "__name__", ""))(f)


def exported() -> Module:
    """Return a module with all kernels that were marked so far."""
    module = Module()
    for marked in _aot_kernels:
        module.add_kernel(marked.kernel, marked.template_types, marked.name)
    return module
