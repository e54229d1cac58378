"""Stand-in for Taichi's `lang.misc`: backends and what they support."""

from __future__ import annotations

from typing import Any

from ..extension import Extension, is_supported
from . import arch as archs
from .access import assume_in_range, block_local, cache_read_only, loop_unique, no_activate
from .arch import Arch, amdgpu, arm64, cpu, cuda, dx11, dx12, gles, gpu, metal, opengl, vulkan, x64
from .impl import get_runtime
from .loop_config import global_thread_idx, loop_config, mesh_local, mesh_patch_idx
from .runtime import init, reset

extension = Extension
x86_64 = x64


def is_arch_supported(arch: Arch, use_gles: bool = False) -> bool:
    """Return whether this machine can run kernels on a backend."""
    return archs.is_supported(arch)


def is_extension_supported(arch: Arch, ext: Extension) -> bool:
    """Return whether a backend supports an extension, such as ``ti.extension.sparse``."""
    return is_supported(arch, ext)


def get_host_arch_list() -> list[Arch]:
    return [cpu]


def adaptive_arch_select(arch: Any, enable_fallback: bool = True) -> Arch:
    """Return the backend that `init` would choose."""
    from . import options

    return options._choose(arch, enable_fallback)


def timeline_clear() -> None:
    """Clear the kernel profiler."""
    from ..profiler import clear_kernel_profiler_info

    clear_kernel_profiler_info()


def timeline_save(fn: str) -> None:
    """Save the kernel profile as a trace for ``chrome://tracing``."""
    from ..profiler import save_trace

    save_trace(fn)


__all__ = [
    "amdgpu",
    "arm64",
    "assume_in_range",
    "block_local",
    "cache_read_only",
    "cpu",
    "cuda",
    "dx11",
    "dx12",
    "extension",
    "get_host_arch_list",
    "get_runtime",
    "gles",
    "global_thread_idx",
    "gpu",
    "init",
    "is_arch_supported",
    "is_extension_supported",
    "loop_config",
    "loop_unique",
    "mesh_local",
    "mesh_patch_idx",
    "metal",
    "no_activate",
    "opengl",
    "reset",
    "vulkan",
    "x64",
    "x86_64",
]
