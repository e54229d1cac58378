"""Ahead-of-time compilation: kernels, graphs and fields that are saved, and run without their source."""

from __future__ import annotations

import enum
from typing import Any

from ..lang.missing import refuse
from .exports import export, export_as, exported
from .loaded import LoadedKernel, LoadedModule, load
from .module import KernelTemplate, Module


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


class GfxRuntime140:
    """Metadata of an AOT module of Taichi's SPIR-V backends."""

    def __init__(self, *_: Any, **__: Any) -> None:
        refuse("ti.aot.GfxRuntime140", "modules of SPIR-V code; `ti.aot.load` reads modules of Wuji")


__all__ = ["DeviceCapability", "GfxRuntime140", "KernelTemplate", "LoadedKernel", "LoadedModule", "Module", "export", "export_as", "exported", "load"]
