"""Ahead-of-time compilation. Placeholders: not implemented yet."""

from __future__ import annotations

import enum
from typing import Any

from ..lang.missing import function, refuse

_FEATURE = "ahead-of-time compilation"


class DeviceCapability(str, enum.Enum):
    """Optional SPIR-V capabilities of a device."""

    spirv_version_1_3 = "spirv_version_1_3"
    spirv_version_1_4 = "spirv_version_1_4"
    spirv_version_1_5 = "spirv_version_1_5"
    spirv_has_int8 = "spirv_has_int8"
    spirv_has_int16 = "spirv_has_int16"
    spirv_has_int64 = "spirv_has_int64"
    spirv_has_float16 = "spirv_has_float16"
    spirv_has_float64 = "spirv_has_float64"
    spirv_has_atomic_int64 = "spirv_has_atomic_int64"
    spirv_has_atomic_float16 = "spirv_has_atomic_float16"
    spirv_has_atomic_float16_add = "spirv_has_atomic_float16_add"
    spirv_has_atomic_float16_minmax = "spirv_has_atomic_float16_minmax"
    spirv_has_atomic_float = "spirv_has_atomic_float"
    spirv_has_atomic_float_add = "spirv_has_atomic_float_add"
    spirv_has_atomic_float_minmax = "spirv_has_atomic_float_minmax"
    spirv_has_atomic_float64 = "spirv_has_atomic_float64"
    spirv_has_atomic_float64_add = "spirv_has_atomic_float64_add"
    spirv_has_atomic_float64_minmax = "spirv_has_atomic_float64_minmax"
    spirv_has_variable_ptr = "spirv_has_variable_ptr"
    spirv_has_physical_storage_buffer = "spirv_has_physical_storage_buffer"
    spirv_has_subgroup_basic = "spirv_has_subgroup_basic"
    spirv_has_subgroup_vote = "spirv_has_subgroup_vote"
    spirv_has_subgroup_arithmetic = "spirv_has_subgroup_arithmetic"
    spirv_has_subgroup_ballot = "spirv_has_subgroup_ballot"
    spirv_has_non_semantic_info = "spirv_has_non_semantic_info"
    spirv_has_no_integer_wrap_decoration = "spirv_has_no_integer_wrap_decoration"


class Module:
    """An AOT module: kernels, graphs and fields saved for use without Python."""

    def __init__(self, arch: Any = None, caps: Any = None) -> None:
        refuse("ti.aot.Module", _FEATURE)

    add_kernel = function("ti.aot.Module.add_kernel", _FEATURE)
    add_kernel_template = function("ti.aot.Module.add_kernel_template", _FEATURE)
    add_graph = function("ti.aot.Module.add_graph", _FEATURE)
    add_field = function("ti.aot.Module.add_field", _FEATURE)
    save = function("ti.aot.Module.save", _FEATURE)
    archive = function("ti.aot.Module.archive", _FEATURE)


class GfxRuntime140:
    """Metadata of a saved AOT module."""

    def __init__(self, *_: Any, **__: Any) -> None:
        refuse("ti.aot.GfxRuntime140", _FEATURE)


export = function("ti.aot.export", _FEATURE)
export_as = function("ti.aot.export_as", _FEATURE)

__all__ = ["DeviceCapability", "GfxRuntime140", "Module", "export", "export_as"]
