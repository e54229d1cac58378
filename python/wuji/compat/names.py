"""Where Taichi's public and half-public names are here, and what to use instead of those that do not exist."""

from __future__ import annotations

import dis
import functools
import importlib
import sys
from types import FrameType, ModuleType
from typing import Any

from ..exceptions import NotYet
from ..lang.missing import lookup
from .taichi_names import NAMES

# Modules of Taichi that have another name here.
MOVED = {
    "_funcs": "lang.decompositions",
    "_lib.core.taichi_python": "_lib.core",
    "_main": "__main__",
    "_snode": "lang.fields_builder",
    "_snode.fields_builder": "lang.fields_builder",
    "_snode.snode_tree": "lang.fields_builder",
    "ad._ad": "ad",
    "algorithms._algorithms": "algorithms",
    "aot._export": "aot",
    "aot.module": "aot",
    "aot.utils": "aot",
    "graph._graph": "graph",
    "lang._ndarray": "lang.ndarray",
    "lang._ndrange": "lang.ndrange",
    "lang._texture": "lang.texture",
    "lang.common_ops": "lang.operators",
    "lang.kernel_arguments": "lang.compound",
    "lang.runtime_ops": "lang.runtime",
    "lang.simt.block": "simt.block",
    "lang.simt.grid": "simt.grid",
    "lang.simt.subgroup": "simt.subgroup",
    "lang.simt.warp": "simt.warp",
    "linalg.matrixfree_cg": "linalg.matrix_free",
    "linalg.sparse_cg": "linalg.conjugate",
    "math._complex": "math.complex",
    "math.mathimpl": "math",
    "profiler.kernel_metrics": "profiler.metrics",
    "profiler.kernel_profiler": "profiler",
    "profiler.memory_profiler": "profiler",
    "profiler.scoped_profiler": "profiler",
    "sparse._sparse_grid": "sparse",
    "tools.np2ply": "tools.ply",
    "types.annotations": "lang.compound",
    "types.compound_types": "lang.compound",
    "types.ndarray_type": "lang.compound",
    "types.primitive_types": "lang.dtypes",
    "types.quant": "lang.quant",
    "types.texture_type": "lang.compound",
    "types.utils": "lang.dtypes",
    "ui.camera": "ui",
    "ui.constants": "ui",
    "ui.imgui": "ui",
    "ui.scene": "ui",
    "ui.ui": "ui",
    "ui.utils": "ui",
    "ui.window": "ui",
}

# Modules of Taichi without a counterpart. They can be imported; their names say what to use instead.
INTERNAL = (
    "_kernels",
    "_ti_module",
    "_ti_module.cppgen",
    "_ti_module.module",
    "_version_check",
    "aot.conventions",
    "aot.conventions.gfxruntime140",
    "aot.conventions.gfxruntime140.dr",
    "aot.conventions.gfxruntime140.sr",
    "assets",
    "lang._wrap_inspect",
    "lang.ast",
    "lang.ast.ast_transformer",
    "lang.ast.ast_transformer_utils",
    "lang.ast.checkers",
    "lang.ast.symbol_resolver",
    "lang.ast.transform",
    "lang.matrix_ops_utils",
    "lang.shell",
    "lang.source_builder",
    "shaders",
    "ui.staging_buffer",
)

_CORE, _IMPL, _UTIL, _COMPOUND = "_lib.core", "lang.impl", "lang.util", "lang.compound"
# Names that are somewhere else: module, and attribute unless it has the same name. An empty attribute means the module.
_ELSEWHERE: dict[str, tuple[str, str] | str] = {
    **dict.fromkeys(("_ti_core", "_ti_python_core", "core", "ti_python_core"), (_CORE, "")),
    **dict.fromkeys(("ops", "ops_mod", "ti_ops"), ("lang.ops", "")),
    **dict.fromkeys(("taichi", "ti"), ("", "")),
    **dict.fromkeys(("is_taichi_class", "is_matrix_class", "in_python_scope", "python_scope", "taichi_scope", "get_traceback", "warning"), _UTIL),
    **dict.fromkeys(("to_numpy_type", "to_pytorch_type", "to_paddle_type", "to_taichi_type", "has_pytorch", "has_paddle", "get_clangpp"), _UTIL),
    **dict.fromkeys(("cook_dtype", "get_runtime", "current_cfg", "default_cfg"), _IMPL),
    **dict.fromkeys(("MatrixType", "VectorType", "StructType", "ArgPackType", "CompoundType", "RefType", "vector"), _COMPOUND),
    **dict.fromkeys(("NdarrayType", "TextureType", "RWTextureType"), _COMPOUND),
    **dict.fromkeys(("is_integral", "is_signed", "is_real", "real_types", "integer_types", "all_types"), "lang.dtypes"),
    **dict.fromkeys(("vec2", "vec3", "pi", "dot", "clz", "popcnt"), "math"),
    **dict.fromkeys(("block", "grid", "subgroup", "warp"), "simt"),
    "AnyArray": "lang.any_array",
    "Axis": "lang.snode",
    "Canvas": "ui",
    "Expr": "lang.expr",
    "Func": "lang.func",
    "GfxRuntime140": "aot",
    "GGUINotAvailableException": ("exceptions", "NotYet"),
    "GroupedNDRange": ("lang.ndrange", "Grouped"),
    "Gui": "ui",
    "MatrixField": "lang.field",
    "NdarrayTypeMetadata": ("lang.ndarray", "NdarrayTypeInfo"),
    "PyTaichi": (_IMPL, "_Runtime"),
    "SNodeTree": "lang.fields_builder",
    "SceneV2": ("ui", "Scene"),
    "SharedArray": "simt.block",
    "TaichiOperations": ("lang.operators", "Operators"),
    "_Axis": ("lang.snode", "Axis"),
    "_Ndrange": ("lang.ndrange", "NDRange"),
    "_Root": "lang.fields_builder",
    "_ad": ("ad", ""),
    "_algorithms": ("algorithms", ""),
    "_complex": ("math.complex", ""),
    "_funcs": ("lang.decompositions", ""),
    "_graph": ("graph", ""),
    "_logging": ("_logging", ""),
    "_main": ("__main__", ""),
    "_ndarray": ("lang.ndarray", ""),
    "_ndrange": ("lang.ndrange", ""),
    "_real_func": ("lang.func", "real_func"),
    "_snode": ("lang.fields_builder", ""),
    "_sparse_grid": ("sparse", ""),
    "_texture": ("lang.texture", ""),
    "annotations": (_COMPOUND, ""),
    "any_array": ("lang.any_array", ""),
    "camera": ("ui", ""),
    "check_require_version": ("lang.options", "check_version"),
    "common_ops": ("lang.operators", ""),
    "constants": ("ui", ""),
    "cook_image_to_bytes": ("tools.image", "to_bytes"),
    "element_type_name": ("_lib.core", "data_type_name"),
    "enums": ("lang.enums", ""),
    "expr": ("lang.expr", ""),
    **dict.fromkeys(("field_fill_taichi_scope", "fill_field", "fill_ndarray"), "lang.fills"),
    "get_os_name": "_lib.utils",
    "imgui": ("ui", ""),
    "impl": (_IMPL, ""),
    "is_tensor": "types",
    "kernel_arguments": (_COMPOUND, ""),
    "kernel_impl": ("lang.kernel_impl", ""),
    "kernel_metrics": ("profiler.metrics", ""),
    "kernel_profiler": ("profiler", ""),
    "lang": ("lang", ""),
    "main": ("tools.diagnose", "diagnose"),
    "matrix": ("lang.matrix", ""),
    "matrixfree_cg": ("linalg.matrix_free", ""),
    "memory_profiler": ("profiler", ""),
    "mesh": ("lang.mesh", ""),
    "module": ("aot", ""),
    "ndarray_type": (_COMPOUND, ""),
    "np2ply": ("tools.ply", ""),
    "primitive_types": ("lang.dtypes", ""),
    "runtime_ops": ("lang.runtime", ""),
    "scene": ("ui", ""),
    "scoped_profiler": ("profiler", ""),
    "snode": ("lang.snode", ""),
    "snode_tree": ("lang.fields_builder", ""),
    "fields_builder": ("lang.fields_builder", ""),
    "sparse_cg": ("linalg.conjugate", ""),
    "texture_type": (_COMPOUND, ""),
    "ui": ("ui", ""),
    "util": (_UTIL, ""),
    "utils": ("_lib.utils", ""),
    "window": ("ui", ""),
}

# What to use instead, by the beginning of the module's name. The longest one applies.
_INSTEAD = {
    "": "it is internal to Taichi's compiler, and Wuji has no equivalent",
    "_kernels": "use the methods of fields and arrays: `fill`, `copy_from`, `to_numpy`, `from_numpy`",
    "_lib": "it is internal to Taichi's runtime, and Wuji has no equivalent",
    "_ti_module": "it makes C++ headers for Taichi's modules; use `ti.aot.Module` and `ti.aot.load`",
    "_version_check": "Wuji does not look for new versions",
    "ad": "it is internal to Taichi's tapes; use `ti.ad.Tape` and `ti.ad.FwdMode`",
    "aot": "it is internal to Taichi's modules of SPIR-V code; use `ti.aot.Module` and `ti.aot.load`",
    "lang.enums": "it belongs to array boundaries: use `ti.types.ndarray(boundary='clamp')`",
    "lang.mesh": "it is internal to Taichi's meshes; use `ti.Mesh.from_arrays` or `ti.Mesh.load`, and the members of the mesh",
    "lang.quant": "it is internal to Taichi's types; use `ti.types.quant.int`, `fixed` and `float`",
    "lang.texture": "use `ti.types.texture` and `ti.types.rw_texture`, and the methods of their values in kernels",
    "lang.source_builder": "external functions are not implemented; write them as `ti.func`",
    "profiler.metrics": "hardware counters are not implemented; use `ti.profiler.print_kernel_profiler_info`",
    "profiler": "use the functions of `ti.profiler`, such as `query_kernel_profiler_info`",
    "tools.video": "use `ti.tools.VideoManager`, or the commands `wuji gif` and `wuji video`",
    "ui": "it is internal to Taichi's renderer; use `ti.ui.Window`, its canvas and its scene",
    "ui.gui": "use the methods of `ti.GUI`",
}


class _NotHere(NotYet, AttributeError):
    """Also an `AttributeError`, so that `hasattr` returns False."""


class _CannotImport(NotYet, ImportError):
    """For ``from taichi.lang.impl import name``: an `AttributeError` would become an `ImportError` without the explanation."""


def find(module: str, name: str, caller: FrameType | None = None) -> Any:
    """Return what a name of Taichi's is here; raise an error that says what to use instead. ``module`` is relative to `wuji`."""
    import wuji

    if name not in _names(module):
        raise AttributeError(f"module 'wuji{'.' if module else ''}{module}' has no attribute '{name}'")
    if f"{module}.{name}" in INTERNAL or not module and name in INTERNAL:
        return stand_in(f"{module}.{name}" if module else name)
    place = _ELSEWHERE.get(name, module)
    where, attribute = (place, name) if isinstance(place, str) else place
    if not attribute or where != module:
        found = importlib.import_module(f"wuji.{where}" if where else "wuji")
        return getattr(found, attribute) if attribute else found
    if module and hasattr(wuji, name):
        return getattr(wuji, name)
    advice = next(_INSTEAD[p] for p in sorted(_INSTEAD, key=len, reverse=True) if module == p or module.startswith(p + ".") or not p)
    full = f"{module}.{name}" if module else name
    kind = _CannotImport if caller is not None and _imports(caller) else _NotHere
    raise kind(f"`{full}` does not exist: {advice}", "W0607")


@functools.cache
def _names(module: str) -> frozenset[str]:
    """Return the names that Taichi has in the modules that a module stands for."""
    there = [theirs for theirs in NAMES if MOVED.get(theirs, theirs) == module]
    return frozenset(name for theirs in there for name in NAMES[theirs].split())


def _imports(frame: FrameType) -> bool:
    """Return whether a frame executes ``from module import name``."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM"


@functools.cache
def stand_in(relative: str) -> ModuleType:
    """Return a module in place of one that is internal to Taichi."""
    module = ModuleType(f"wuji.{relative}", "Stand-in for a module that is internal to Taichi.")
    module.__path__ = []
    module.__dict__["__getattr__"] = lookup(relative)
    # `from ... import` looks for submodules below this name.
    sys.modules[module.__name__] = module
    return module
