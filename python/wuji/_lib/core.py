"""Stand-in for Taichi's core module: available backends, versions and type names."""

from __future__ import annotations

import os
from typing import Any

from .. import _native
from ..exceptions import NotYet
from ..extension import Extension, is_supported
from ..lang import arch as _arch
from ..lang import dtypes as _dtypes
from ..lang.arch import Arch
from ..lang.dtypes import DataType, is_integral, is_real, is_signed
from ..lang.enums import Layout
from ..lang.options import Config
from ..lang.snode import SNode

GGUI_AVAILABLE = True


def with_cuda() -> bool:
    return bool(_arch.cuda_devices())


def with_metal() -> bool:
    return False


def with_opengl(use_gles: bool = False) -> bool:
    return False


def with_vulkan() -> bool:
    return False


def with_dx11() -> bool:
    return False


def with_dx12() -> bool:
    return False


def with_amdgpu() -> bool:
    return False


def host_arch() -> Arch:
    return _arch.cpu


def arch_name(arch: Arch) -> str:
    return arch.name


def arch_from_name(name: str) -> Arch:
    return _arch.by_name(name)


def arch_uses_llvm(arch: Arch) -> bool:
    return arch.name in ("x64", "arm64", "cuda", "amdgpu", "dx12")


def is_extension_supported(arch: Arch, extension: Extension) -> bool:
    return is_supported(arch, extension)


def get_version_string() -> str:
    return _native.__version__


def _version(part: int) -> int:
    return int(_native.__version__.split(".")[part].split("-")[0])


def get_version_major() -> int:
    return _version(0)


def get_version_minor() -> int:
    return _version(1)


def get_version_patch() -> int:
    return _version(2)


def get_max_num_indices() -> int:
    return 8


def get_max_num_args() -> int:
    return 64


def data_type_name(dtype: Any) -> str:
    return _dtypes.need_scalar(dtype).name


def data_type_size(dtype: Any) -> int:
    return max(_dtypes.need_scalar(dtype).bits // 8, 1)


def is_quant(dtype: Any) -> bool:
    from ..lang.quantized import QuantizedType

    return isinstance(dtype, QuantizedType)


def is_tensor(dtype: Any) -> bool:
    from ..lang.compound import MatrixType

    return isinstance(dtype, MatrixType)


def set_logging_level(level: str) -> None:
    from .. import _logging

    _logging.set_logging_level(level)


def logging_effective(level: str) -> bool:
    from .. import _logging

    return _logging.is_logging_effective(level)


def clean_offline_cache_files(path: str = "") -> int:
    from .._cache import clean

    return clean(path or None).files


def get_repo_dir() -> str:
    """Return the folder of cached files. Taichi calls it that, too."""
    from .._cache import folder

    return os.path.join(folder() or "", "")


def get_python_package_dir() -> str:
    """Return the folder of the package."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class CompileConfig(Config):
    """The default options, as attributes. `ti.cfg` holds those of the current world."""

    def __init__(self) -> None:
        super().__init__(_arch.cpu)


class _NotAvailable(NotYet, AttributeError):
    """Also an `AttributeError`, so that `hasattr` returns False."""


def __getattr__(name: str) -> Any:
    if name.startswith("DataType_"):
        return _dtypes.by_name(name.removeprefix("DataType_"))
    if name.startswith("__"):
        raise AttributeError(name)
    raise _NotAvailable(f"`_lib.core.{name}` is internal to Taichi's runtime; Wuji has no equivalent", "W0607")


__all__ = ["Arch", "CompileConfig", "DataType", "Extension", "Layout", "SNode", "is_integral", "is_real", "is_signed"]
