"""Stand-in for Taichi's `lang.impl`: current options, current world."""

from __future__ import annotations

from typing import Any

from . import context, runtime
from .dtypes import need_scalar
from .field import Field, MatrixField, ScalarField, StructField, field
from .kernel import Kernel
from .matrix import Matrix, Vector
from .ndarray import MatrixNdarray, ScalarNdarray, VectorNdarray, ndarray
from .ndrange import grouped
from .ops import one, zero
from .options import DEFAULTS, Config
from .runtime import reset
from .extents import axes
from .fields_builder import FieldsBuilder, deactivate_all_snodes, root
from .snode import SNode
from .static import static, static_assert, static_print
from .struct import Struct
from .text import FormattedText, format_text, kernel_print
from .util import taichi_scope


class _Runtime:
    """View of the current world with Taichi's attribute names."""

    @property
    def prog(self) -> Any:
        """The current world, or None."""
        return runtime.current() if runtime.initialized() else None

    @property
    def default_fp(self) -> Any:
        return runtime.current().config.default_fp

    @property
    def default_ip(self) -> Any:
        return runtime.current().config.default_ip

    @property
    def default_up(self) -> Any:
        return runtime.current().config.default_up

    @property
    def inside_kernel(self) -> bool:
        return context.compiling() is not None

    @property
    def print_full_traceback(self) -> bool:
        return bool(runtime.current().config.__dict__["print_full_traceback"])

    @property
    def short_circuit_operators(self) -> bool:
        return bool(runtime.current().config.__dict__["short_circuit_operators"])

    @property
    def unrolling_limit(self) -> int:
        return int(runtime.current().config.__dict__["unrolling_limit"])

    def set_default_fp(self, fp: Any) -> None:
        runtime.set_default_fp(fp)

    def set_default_ip(self, ip: Any) -> None:
        runtime.set_default_ip(ip)

    def materialize(self) -> None:
        runtime.current().materialize()

    def sync(self) -> None:
        runtime.sync()

    @property
    def materialized(self) -> bool:
        """Whether every field placed in the root is allocated."""
        return runtime.initialized() and runtime.current().root.empty

    def get_num_compiled_functions(self) -> int:
        """Return the number of kernels compiled in the current world, each specialization counted."""
        return sum(len(compiled.codes) for compiled in runtime.current().codes.values())

    def finalize_and_destroy(self) -> None:
        runtime.reset()


pytaichi = _Runtime()


def get_runtime() -> _Runtime:
    """Return the view of the current world."""
    return pytaichi


def current_cfg() -> Config:
    """Return the options of the current world: ``current_cfg().arch``."""
    return runtime.current().config


def default_cfg() -> Config:
    """Return the default options."""
    from . import arch

    return Config(arch.cpu)


def inside_kernel() -> bool:
    """Return whether a kernel is being compiled."""
    return context.compiling() is not None


def get_cuda_compute_capability() -> int:
    """Return the compute capability of the first NVIDIA GPU: 90 means 9.0; 0 without a GPU."""
    from .arch import cuda_devices

    devices = cuda_devices()
    return devices[0][1][0] * 10 + devices[0][1][1] if devices else 0


@taichi_scope
def ti_print(*values: Any, sep: str = " ", end: str = "\n") -> None:
    """Print in a kernel, as `print` does there."""
    kernel_print(list(values), sep, end)


@taichi_scope
def ti_format(content: str, *values: Any) -> FormattedText:
    """Format text in a kernel, as `content.format(*values)` does there."""
    return format_text(content, values, {})


@taichi_scope
def expr_init(rhs: Any) -> Any:
    """Return a new variable of a kernel that holds a value."""
    from .compiler.statements import storage, store_into

    variable = storage(context.current(), rhs, "value")
    store_into(variable, rhs)
    return variable


def cook_dtype(dtype: Any) -> Any:
    """Return the scalar type for ``float``, ``int``, ``bool`` or a scalar type."""
    return need_scalar(dtype)


__all__ = [
    "DEFAULTS",
    "Field",
    "FieldsBuilder",
    "Kernel",
    "Matrix",
    "MatrixField",
    "MatrixNdarray",
    "SNode",
    "ScalarField",
    "ScalarNdarray",
    "Struct",
    "StructField",
    "Vector",
    "VectorNdarray",
    "axes",
    "cook_dtype",
    "current_cfg",
    "deactivate_all_snodes",
    "default_cfg",
    "expr_init",
    "field",
    "get_cuda_compute_capability",
    "get_runtime",
    "grouped",
    "inside_kernel",
    "ndarray",
    "one",
    "pytaichi",
    "reset",
    "root",
    "static",
    "static_assert",
    "static_print",
    "ti_format",
    "ti_print",
    "zero",
]
