"""Backends that programs may ask for."""

from __future__ import annotations

import os
from typing import Any

from .. import _native
from ..exceptions import WujiOptionError


class Arch:
    """A backend."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<Arch.{self.name}>"

    def __str__(self) -> str:
        return f"Arch.{self.name}"

    def __reduce__(self) -> Any:
        return (by_name, (self.name,))


x64 = Arch("x64")
arm64 = Arch("arm64")
cuda = Arch("cuda")
metal = Arch("metal")
opengl = Arch("opengl")
gles = Arch("gles")
vulkan = Arch("vulkan")
dx11 = Arch("dx11")
dx12 = Arch("dx12")
amdgpu = Arch("amdgpu")

cpu = arm64 if os.uname().machine.lower() in ("arm64", "aarch64") else x64
gpu = [cuda, metal, vulkan, opengl, dx11, dx12, gles, amdgpu]

_ALL = {a.name: a for a in (x64, arm64, cuda, metal, opengl, gles, vulkan, dx11, dx12, amdgpu)}


def by_name(name: str) -> Arch:
    if name == "cpu":
        return cpu
    if name not in _ALL:
        raise WujiOptionError(f"there is no backend {name!r}; there are cpu, {', '.join(_ALL)}", "W0609")
    return _ALL[name]


def is_supported(arch: Arch, use_gles: bool = False) -> bool:
    """Return whether this machine can run kernels on a backend."""
    return arch is cpu or (arch is cuda and bool(cuda_devices()))


def cuda_devices() -> list[tuple[str, tuple[int, int]]]:
    """Return name and compute capability of each usable NVIDIA GPU."""
    try:
        return _native.cuda_devices()
    except _native.NativeError:
        return []
