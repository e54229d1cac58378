"""Find NVIDIA's libdevice in Python packages: the CUDA compiler packages and Triton, which PyTorch installs."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

_NAME = "libdevice.10.bc"
_WITHIN = {
    "nvidia": ("cu13/nvvm/libdevice", "cuda_nvcc/nvvm/libdevice"),
    "triton": ("backends/nvidia/lib",),
}


def find(annotation: str) -> str | None:
    """Return the path of libdevice, ``off``, or None to let the core search for a CUDA installation."""
    if annotation:
        return annotation if annotation == "off" else os.path.expanduser(annotation)
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
