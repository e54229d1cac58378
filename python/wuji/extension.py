"""Backend features that programs can query, such as ``ti.extension.sparse``."""

from __future__ import annotations

import enum
from typing import Any


class Extension(enum.Enum):
    sparse = 0
    quant = 1
    mesh = 2
    quant_basic = 3
    data64 = 4
    adstack = 5
    bls = 6
    assertion = 7
    extfunc = 8


sparse = Extension.sparse
quant = Extension.quant
mesh = Extension.mesh
quant_basic = Extension.quant_basic
data64 = Extension.data64
adstack = Extension.adstack
bls = Extension.bls
assertion = Extension.assertion
extfunc = Extension.extfunc

# All but external functions.
_SUPPORTED = set(Extension) - {Extension.extfunc}


def is_supported(arch: Any, extension: Extension) -> bool:
    """Return whether a backend supports an extension."""
    from .lang import arch as archs

    return archs.is_supported(arch) and extension in _SUPPORTED
