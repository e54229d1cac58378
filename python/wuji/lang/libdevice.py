"""NVIDIA's library of mathematical functions, in packages that bring it: that of the compiler, and Triton, which comes with PyTorch."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

_NAME = "libdevice.10.bc"
_WITHIN = {
    "nvidia": ("cu13/nvvm/libdevice", "cuda_nvcc/nvvm/libdevice"),
    "triton": ("backends/nvidia/lib",),
}


def find(said: str) -> str | None:
    """What the extension's world is told: a path, `off`, or nothing, and then it looks for a CUDA installation."""
    if said:
        return said if said == "off" else os.path.expanduser(said)
    if os.environ.get("WUJI_LIBDEVICE"):
        return None
    for package, folders in _WITHIN.items():
        try:
            spec = find_spec(package)
        except (ImportError, ValueError):
            continue
        for root in (spec.submodule_search_locations or ()) if spec else ():
            for folder in folders:
                path = Path(root, folder, _NAME)
                if path.is_file():
                    return str(path)
    return None
