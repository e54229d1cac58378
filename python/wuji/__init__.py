"""Wuji: a language and compiler for visual computing.

```python
import wuji as ti

ti.init(arch=ti.cpu)
pixels = ti.field(ti.f32, shape=(640, 320))

@ti.kernel
def paint(t: ti.f32):
    for i, j in pixels:  # parallel
        pixels[i, j] = ti.sin(i * 0.1 + t) * ti.cos(j * 0.1)

paint(0.5)
print(pixels.to_numpy().mean())
```

Programs written for Taichi 1.7 run with ``import wuji as ti``.
"""

import sys as _sys
from typing import Any as _Any

from . import exceptions, types
from ._native import __version__
from .exceptions import (
    TaichiAssertionError,
    TaichiCompilationError,
    TaichiIndexError,
    TaichiNameError,
    TaichiRuntimeError,
    TaichiRuntimeTypeError,
    TaichiSyntaxError,
    TaichiTypeError,
    WujiAssertionError,
    WujiCompilationError,
    WujiError,
    WujiIndexError,
    WujiNameError,
    WujiOutOfRangeError,
    WujiRuntimeError,
    WujiRuntimeTypeError,
    WujiSyntaxError,
    WujiTypeError,
)
from .lang.access import (
    activate,
    append,
    assume_in_range,
    block_local,
    cache_read_only,
    deactivate,
    get_addr,
    is_active,
    length,
    no_activate,
    rescale_index,
)
from .lang.arch import Arch, amdgpu, arm64, cpu, cuda, dx11, dx12, gles, gpu, metal, opengl, vulkan, x64
from .lang.arch import x64 as x86_64
from .lang.argpack import ArgPack
from .lang.compound import argpack, ref, sparse_matrix_builder, template
from .lang.dtypes import (
    f16,
    f32,
    f64,
    float16,
    float32,
    float64,
    i8,
    i16,
    i32,
    i64,
    int8,
    int16,
    int32,
    int64,
    u1,
    u8,
    u16,
    u32,
    u64,
    uint1,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .lang.enums import Layout
from .lang.field import Field, MatrixField, ScalarField, StructField, field
from .lang.func import func, pyfunc, real_func
from .lang.kernel import data_oriented, kernel
from .lang.loop_config import global_thread_idx, loop_config, mesh_local, mesh_patch_idx
from .lang.matrix import Matrix, Vector
from .lang.missing import attach_loaded as _attach_loaded
from .lang.ndarray import MatrixNdarray, Ndarray, ScalarNdarray, VectorNdarray, ndarray
from .lang.ndrange import grouped, ndrange
from .lang.ops import (
    abs,
    acos,
    asin,
    atan2,
    atomic_add,
    atomic_and,
    atomic_max,
    atomic_min,
    atomic_mul,
    atomic_or,
    atomic_sub,
    atomic_xor,
    bit_cast,
    bit_shr,
    cast,
    ceil,
    cos,
    exp,
    floor,
    frexp,
    log,
    max,
    min,
    one,
    pow,
    randn,
    random,
    raw_div,
    raw_mod,
    round,
    rsqrt,
    select,
    sin,
    sqrt,
    tan,
    tanh,
    zero,
)
from .lang.runtime import World, async_flush, cfg, cuda_stream, finish_compiling, flow_graph, init, reset, sync
from .lang.extents import Axis as _Axis
from .lang.extents import axes
from .lang.fields_builder import FieldsBuilder, deactivate_all_snodes, root
from .lang.snode import SNode
from .lang.static import static, static_assert, static_print
from .lang.struct import Struct, dataclass

i, j, k, l, m, n = (_Axis(a) for a in range(6))  # noqa: E741
ij, ik, il, jk, jl, kl = (_Axis(*a) for a in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)))
ijk, ijl, ikl, jkl = (_Axis(*a) for a in ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)))
ijkl = _Axis(0, 1, 2, 3)

TRACE, DEBUG, INFO, WARN, ERROR, CRITICAL = "trace", "debug", "info", "warn", "error", "critical"

# Submodules load on first access, to keep `import wuji` fast.
_LAZY = {
    "math": "math", "algorithms": "algorithms", "linalg": "linalg", "tools": "tools", "profiler": "profiler", "ui": "ui",
    "graph": "graph", "sparse": "sparse", "simt": "simt", "ad": "ad", "aot": "aot", "experimental": "experimental",
    "extension": "extension", "lang": "lang", "_lib": "_lib", "_logging": "_logging", "compat": "compat",
    "quant": "quant", "tune": "tune", "optim": "optim", "symbolic": "symbolic", "torch": "torch", "jax": "jax",
}  # fmt: skip
_LAZY_NAMES = {
    "GUI": ("ui.gui", "GUI"),
    "rgb_to_hex": ("ui.gui", "rgb_to_hex"),
    "hex_to_rgb": ("ui.gui", "hex_to_rgb"),
    "svd": ("lang.decompositions", "svd"),
    "polar_decompose": ("lang.decompositions", "polar_decompose"),
    "eig": ("lang.decompositions", "eig"),
    "sym_eig": ("lang.decompositions", "sym_eig"),
    "solve": ("lang.decompositions", "solve"),
    "Texture": ("lang.texture", "Texture"),
    "Format": ("lang.texture", "Format"),
    "BitpackedFields": ("lang.packed", "BitpackedFields"),
    "Mesh": ("lang.mesh", "Mesh"),
    "MeshInstance": ("lang.mesh", "MeshInstance"),
    "set_logging_level": ("_logging", "set_logging_level"),
    "is_logging_effective": ("_logging", "is_logging_effective"),
    "stop_grad": ("lang.access", "stop_grad"),
    "DeviceCapability": ("aot", "DeviceCapability"),
}


def __getattr__(name: str) -> _Any:
    import importlib

    if name in _LAZY:
        module = importlib.import_module(f".{_LAZY[name]}", __name__)
        _attach_loaded()
        return module
    if name in _LAZY_NAMES:
        source, attribute = _LAZY_NAMES[name]
        value = getattr(importlib.import_module(f".{source}", __name__), attribute)
        globals()[name] = value
        return value
    from .compat.names import find

    return find("", name, _sys._getframe(1))


def __dir__() -> list[str]:
    return sorted({*(n for n in globals() if not n.startswith("_")), *_LAZY, *_LAZY_NAMES})


_attach_loaded()

# Lazily loaded names are public, too, but not listed here.
__all__ = [
    "Arch", "ArgPack", "CRITICAL", "DEBUG", "ERROR", "Field", "FieldsBuilder", "INFO", "Layout", "Matrix",
    "MatrixField", "MatrixNdarray", "Ndarray", "SNode", "ScalarField", "ScalarNdarray", "Struct", "StructField",
    "TRACE", "TaichiAssertionError", "TaichiCompilationError", "TaichiIndexError", "TaichiNameError",
    "TaichiRuntimeError", "TaichiRuntimeTypeError", "TaichiSyntaxError", "TaichiTypeError", "Vector", "VectorNdarray",
    "WARN", "World", "WujiAssertionError", "WujiCompilationError", "WujiError", "WujiIndexError", "WujiNameError", "WujiOutOfRangeError",
    "WujiRuntimeError", "WujiRuntimeTypeError", "WujiSyntaxError", "WujiTypeError", "__version__", "abs", "acos",
    "activate", "amdgpu", "append", "argpack", "arm64", "asin", "assume_in_range", "async_flush", "atan2", "atomic_add", "atomic_and",
    "atomic_max", "atomic_min", "atomic_mul", "atomic_or", "atomic_sub", "atomic_xor", "axes", "bit_cast", "bit_shr",
    "block_local", "cache_read_only", "cast", "ceil", "cfg", "cos", "cpu", "cuda", "cuda_stream", "data_oriented", "dataclass",
    "deactivate", "deactivate_all_snodes", "dx11", "dx12", "exceptions", "exp", "f16", "f32", "f64", "field", "finish_compiling", "float16",
    "float32", "float64", "floor", "flow_graph", "frexp", "func", "get_addr", "gles", "global_thread_idx", "gpu", "grouped", "i",
    "i16", "i32", "i64", "i8", "ij", "ijk", "ijkl", "ijl", "ik", "ikl", "il", "init", "int16", "int32", "int64", "int8",
    "is_active", "j", "jk", "jkl", "jl", "k", "kernel", "kl", "l", "length", "log", "loop_config", "m", "max",
    "mesh_local", "mesh_patch_idx", "metal", "min", "n", "ndarray", "ndrange", "no_activate", "one", "opengl", "pow",
    "pyfunc", "randn", "random", "raw_div", "raw_mod", "real_func", "ref", "rescale_index", "reset", "root", "round",
    "rsqrt", "select", "sin", "sparse_matrix_builder", "sqrt", "static", "static_assert", "static_print", "sync", "tan", "tanh", "template",
    "types", "u1", "u16", "u32", "u64", "u8", "uint1", "uint16", "uint32", "uint64", "uint8", "vulkan", "x64", "x86_64",
    "zero",
]  # fmt: skip
