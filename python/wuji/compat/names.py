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

# Modules of Taichi that have another name here.
MOVED = {
    "_funcs": "lang.decompositions",
    "_lib.core.taichi_python": "_lib.core",
    "_main": "__main__",
    "_snode": "lang.snode",
    "_snode.fields_builder": "lang.snode",
    "_snode.snode_tree": "lang.snode",
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
    "types.quant": "quant",
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
    "_version_check",
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
    "Expr": "lang.expr",
    "Func": "lang.func",
    "GGUINotAvailableException": ("exceptions", "NotYet"),
    "GroupedNDRange": ("lang.ndrange", "Grouped"),
    "Gui": "ui",
    "MatrixField": "lang.field",
    "NdarrayTypeMetadata": ("lang.ndarray", "NdarrayTypeInfo"),
    "PyTaichi": (_IMPL, "_Runtime"),
    "SNodeTree": "lang.snode",
    "SharedArray": "simt.block",
    "TaichiOperations": ("lang.operators", "Operators"),
    "_Axis": ("lang.snode", "Axis"),
    "_Ndrange": ("lang.ndrange", "NDRange"),
    "_Root": "lang.snode",
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
    "_snode": ("lang.snode", ""),
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
    "snode_tree": ("lang.snode", ""),
    "fields_builder": ("lang.snode", ""),
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
    "_ti_module": "it belongs to ahead-of-time compilation, which is not implemented yet",
    "_version_check": "Wuji does not look for new versions",
    "ad": "it belongs to automatic differentiation, which is not implemented yet",
    "aot": "it belongs to ahead-of-time compilation, which is not implemented yet",
    "lang.enums": "it belongs to automatic differentiation or to array boundaries: use `ti.types.ndarray(boundary='clamp')`",
    "lang.mesh": "it belongs to meshes, which are not implemented yet",
    "lang.texture": "use `ti.types.texture` and `ti.types.rw_texture`, and the methods of their values in kernels",
    "lang.source_builder": "external functions are not implemented; write them as `ti.func`",
    "profiler.metrics": "hardware counters are not implemented; use `ti.profiler.print_kernel_profiler_info`",
    "profiler": "use the functions of `ti.profiler`, such as `query_kernel_profiler_info`",
    "quant": "it belongs to quantized types, which are not implemented yet",
    "tools.video": "use `ti.tools.VideoManager`, or the commands `wuji gif` and `wuji video`",
    "ui": "it belongs to 3-D windows, which are not implemented yet; `ti.GUI` draws in 2-D",
    "ui.gui": "use the methods of `ti.GUI`",
}


class _NotHere(NotYet, AttributeError):
    """Also an `AttributeError`, so that `hasattr` returns False."""


class _CannotImport(NotYet, ImportError):
    """For ``from taichi.lang.impl import name``: an `AttributeError` would become an `ImportError` without the explanation."""


def find(module: str, name: str, caller: FrameType | None = None) -> Any:
    """Return what a name of Taichi's is here; raise an error that says what to use instead. ``module`` is relative to `wuji`."""
    import wuji

    if name not in NAMES.get(module, "").split():
        raise AttributeError(f"module 'wuji{'.' if module else ''}{module}' has no attribute '{name}'")
    if f"{module}.{name}" in INTERNAL or not module and name in INTERNAL:
        return stand_in(f"{module}.{name}" if module else name)
    place = _ELSEWHERE.get(name)
    if place is not None:
        where, attribute = (place, name) if isinstance(place, str) else place
        found = importlib.import_module(f"wuji.{where}" if where else "wuji")
        return getattr(found, attribute) if attribute else found
    if module and hasattr(wuji, name):
        return getattr(wuji, name)
    advice = next(_INSTEAD[p] for p in sorted(_INSTEAD, key=len, reverse=True) if module == p or module.startswith(p + ".") or not p)
    full = f"{module}.{name}" if module else name
    kind = _CannotImport if caller is not None and _imports(caller) else _NotHere
    raise kind(f"`{full}` does not exist: {advice}", "W0607")


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


# Names that Taichi 1.7.4 has in a module, and Wuji has elsewhere or not at all.
NAMES = {
    "": "_funcs _kernels _main _snode _ti_module _version_check",
    "_kernels": (
        "Expr Format ScalarField arr_vulkan_layout_to_arr_normal_layout arr_vulkan_layout_to_field_normal_layout blit_from_field_to_field block "
        "clear_gradients deactivate ext_arr_to_matrix ext_arr_to_ndarray ext_arr_to_ndarray_matrix ext_arr_to_tensor f16 f32 f64 "
        "field_fill_python_scope field_fill_taichi_scope fill_field fill_ndarray fill_ndarray_matrix func get_os_name grouped i32 kernel "
        "load_texture_from_numpy loop_config matrix_to_ext_arr ndarray_matrix_to_ext_arr ndarray_to_ext_arr ndarray_to_ndarray ndarray_type ndrange "
        "ops save_texture_to_numpy scan_add_inclusive snode_deactivate snode_deactivate_dynamic sort_stage static static_assert template "
        "tensor_to_ext_arr tensor_to_image tensor_to_tensor texture_type u8 uniform_add vec3 vector vector_to_fast_image vector_to_image warp "
        "warp_shfl_up_i32"
    ),
    "_lib.utils": (
        "_print_taichi_header at_startup check_exists compare_version get_core_shared_object get_dll_name import_ti_python_core in_docker "
        "locale_encode log_level print_red_bold print_yellow_bold ti_python_core try_get_loaded_libc_version try_get_pip_version try_get_wheel_tag "
        "warn_restricted_version"
    ),
    "_logging": "_get_logging ti_python_core",
    "_ti_module": "_main cppgen module",
    "_version_check": "_ti_core check_version start_version_check_thread try_check_version write_version_info",
    "ad": (
        "AutodiffMode Expr Field GradChecker Ndarray SNode SNodeGradType ScalarField _ad _snode get_all_fields impl kernel ndarray restore_all_fields "
        "save_all_fields template types"
    ),
    "algorithms": (
        "_algorithms blit_from_field_to_field cuda current_cfg data_oriented field i32 scan_add_inclusive sort_stage subgroup sync uniform_add vulkan "
        "warp_shfl_up_i32"
    ),
    "aot": (
        "AotExportKernel Format KernelTemplate Matrix MatrixField MatrixNdarray MatrixType NdarrayType RWTextureType ScalarField ScalarNdarray "
        "TaichiCompilationError Texture TextureType VectorNdarray VectorType _aot_kernels _export check_type_match conventions cook_dtype "
        "dump_json_data_model impl is_json_data_model json_data_model kernel_impl module produce_injected_args produce_injected_args_from_template "
        "taichi template template_types utils"
    ),
    "experimental": "_real_func",
    "graph": (
        "FORMAT2TY_CH TY_CH2FORMAT TaichiRuntimeError _check_args _deprecate_arg_args _graph _kwarg_rewriter _make_arg _make_arg_matrix "
        "_make_arg_ndarray _make_arg_rwtexture _make_arg_scalar _make_arg_texture _ti_core enums flatten_args gen_cpp_kernel impl kernel_impl "
        "produce_injected_args"
    ),
    "lang": (
        "ArgPack BitpackedFields DeviceCapability Field Format Layout Matrix MatrixField MatrixNdarray Mesh MeshInstance Ndarray SNode ScalarField "
        "ScalarNdarray Struct StructField TaichiAssertionError TaichiCompilationError TaichiNameError TaichiRuntimeError TaichiRuntimeTypeError "
        "TaichiSyntaxError TaichiTypeError Texture Vector VectorNdarray _ndarray _ndrange _texture _wrap_inspect abs acos activate amdgpu any_array "
        "append arm64 asin assume_in_range ast atan2 atomic_add atomic_and atomic_max atomic_min atomic_mul atomic_or atomic_sub atomic_xor axes "
        "bit_cast bit_shr block_local cache_read_only cast ceil common_ops cos cpu cuda data_oriented dataclass deactivate deactivate_all_snodes dx11 "
        "dx12 exception exp expr extension floor frexp get_addr gles global_thread_idx gpu grouped i ij ijk ijkl ijl ik ikl il impl init is_active j "
        "jk jkl jl k kernel_arguments kernel_impl kl l length log matrix_ops_utils max mesh mesh_local mesh_patch_idx metal min misc no_activate one "
        "opengl pow pyfunc random raw_div raw_mod real_func rescale_index reset root round rsqrt runtime_ops select shell simt sin source_builder "
        "sqrt static_assert static_print stop_grad sync tan tanh util vulkan x64 x86_64 zero"
    ),
    "lang._wrap_inspect": (
        "_InspectContextManager _Python_IPython_findsource _REPL_findsource _blender_findsource _blender_get_text_name _custom_findsource "
        "_find_source_with_custom_getfile_func getsourcefile getsourcelines"
    ),
    "lang.any_array": "AnyArrayAccess Expr Layout NdarrayTypeMetadata _ti_core impl make_expr_group taichi_scope",
    "lang.argpack": (
        "CompoundType Matrix Struct TaichiRuntimeTypeError TaichiSyntaxError _IntermediateArgPack _ti_core cook_dtype impl in_python_scope is_signed "
        "ndarray_type ops primitive_types python_scope sparse_matrix_builder taichi texture_type"
    ),
    "lang.ast": "ASTTransformerContext KernelSimplicityASTChecker ast_transformer ast_transformer_utils checkers symbol_resolver transform transform_tree",
    "lang.ast.ast_transformer": (
        "ASTResolver ASTTransformer ArgPackType Builder Expr Field LoopStatus Matrix MatrixType ReturnStatus Struct StructType TaichiIndexError "
        "TaichiRuntimeTypeError TaichiSyntaxError TaichiTypeError Vector _Ndrange _ndarray _ti_core annotations any_array append "
        "boundary_type_cast_warning build_stmt build_stmts deactivate expr handle_exception_from_cpp impl is_integral is_taichi_class "
        "kernel_arguments length make_expr_group matrix mesh ndarray_type ndrange primitive_types reshape_list texture_type ti_ops to_taichi_type "
        "version_info"
    ),
    "lang.ast.ast_transformer_utils": (
        "ASTTransformerContext Builder LoopScopeAttribute LoopScopeGuard LoopStatus NonStaticControlFlowGuard NonStaticControlFlowStatus "
        "NonStaticIfGuard ReturnStatus StaticScopeGuard StaticScopeStatus TaichiCompilationError TaichiNameError TaichiSyntaxError VariableScopeGuard "
        "handle_exception_from_cpp impl version_info"
    ),
    "lang.ast.checkers": "KernelSimplicityASTChecker TaichiSyntaxError getsourcefile getsourcelines",
    "lang.ast.symbol_resolver": "ASTResolver",
    "lang.ast.transform": "ASTTransformer ASTTransformerContext transform_tree",
    "lang.compound": (
        "AnyArray Expr FORMAT2TY_CH Format KernelArgument Layout NdarrayTypeMetadata RWTextureAccessor SparseMatrixEntry SparseMatrixProxy "
        "TY_CH2FORMAT TaichiCompilationError TextureSampler _make_matrix_dtype_from_element_shape _ti_core _ti_python_core _type_factory cook_dtype "
        "decl_argpack_arg decl_matrix_arg decl_ndarray_arg decl_ret decl_rw_texture_arg decl_scalar_arg decl_sparse_matrix decl_struct_arg "
        "decl_texture_arg f16 f32 get_type_for_kernel_args i16 i32 i8 impl ops push_argpack_arg taichi to_boundary_enum u16 u32 u64 u8 util"
    ),
    "lang.decompositions": (
        "_combine _eig2x2 _gauss_elimination_2x2 _gauss_elimination_3x3 _polar_decompose2d _polar_decompose3d _randn _svd2d _svd3d _sym_eig2x2 "
        "_sym_eig3x3 dsyevq3 dsytrd3 f32 f64 field_fill_taichi_scope get_runtime grouped impl randn template"
    ),
    "lang.dtypes": "RefType integer_type_ids is_tensor real_type_ids ref ti_python_core type_ids",
    "lang.enums": "AutodiffMode BoundaryMode DeviceCapability Format SNodeGradType _ti_core to_boundary_enum",
    "lang.exception": "core handle_exception_from_cpp",
    "lang.expr": (
        "TaichiCompilationError TaichiOperations TaichiTypeError _check_in_range _clamp_unsigned_to_range _get_flattened_ptrs _ti_core impl "
        "integer_types is_matrix_class is_taichi_class make_constant_expr make_expr_group make_matrix make_var_list primitive_types real_types "
        "to_numpy_type"
    ),
    "lang.field": (
        "BitpackedFields SNodeHostAccess SNodeHostAccessor TaichiSyntaxError _ti_core impl in_python_scope python_scope taichi to_numpy_type "
        "to_paddle_type to_pytorch_type warn"
    ),
    "lang.impl": (
        "AnyArray Axis ConvType Expr GroupedNDRange MatrixType MeshElementFieldProxy MeshInstance MeshRelationAccessProxy "
        "MeshReorderedMatrixFieldProxy MeshReorderedScalarFieldProxy PyTaichi RWTextureAccessor SNodeGradType SharedArray SparseMatrixProxy "
        "SrcInfoGuard TaichiCompilationError TaichiRuntimeError TaichiSyntaxError TaichiTypeError _IntermediateStruct _Ndrange _Root "
        "_UninitializedRootFieldsBuilder _calc_slice _create_snode _field _root_fb _ti_core all_types begin_frontend_if begin_frontend_struct_for "
        "call_internal create_field_member element_type_name expr_init expr_init_func expr_init_shared_array f16 f32 f64 get_traceback i32 i64 "
        "index_nd is_taichi_class make_expr_group make_matrix mesh_relation_access python_scope stop_grad subscript taichi_scope ti_assert ti_bool "
        "ti_float ti_format ti_format_list_to_content_entries ti_int ti_print u32 u64 u8 validate_subscript_index warning"
    ),
    "lang.kernel_impl": (
        "ASTTransformerContext AnyArray ArgPack ArgPackType AutodiffMode CompoundType Expr Func KernelArgument KernelSimplicityASTChecker Layout "
        "MatrixType ReturnStatus StructType TaichiCallableTemplateMapper TaichiCompilationError TaichiRuntimeError TaichiRuntimeTypeError "
        "TaichiSyntaxError TaichiTypeError _BoundedDifferentiableMethod _KERNEL_CLASS_STACKFRAME_STMT_RES _get_global_vars _get_tree_and_ctx "
        "_inside_class _kernel_impl _logging _process_args _shell_pop_print _ti_core cook_dtype getsourcefile getsourcelines "
        "handle_exception_from_cpp has_paddle has_pytorch impl is_signed ndarray_type ops primitive_types runtime_ops sparse_matrix_builder taichi "
        "template texture_type to_taichi_type transform_tree"
    ),
    "lang.matrix": (
        "CompoundType Field Layout MatrixField MatrixNdarray Ndarray NdarrayHostAccess SNodeHostAccess ScalarField TaichiOperations "
        "TaichiRuntimeError TaichiRuntimeTypeError TaichiSyntaxError TaichiTypeError VectorNdarray VectorType _gen_swizzles "
        "_generate_swizzle_patterns _infer_array_dt _infer_entry_dt _read_host_access _ti_python_core _type_factory _write_host_access cook_dtype "
        "expr get_traceback impl in_python_scope is_signed make_matrix make_matrix_with_shape ops_mod primitive_types python_scope runtime_ops "
        "taichi_scope ti_python_core to_numpy_type to_paddle_type to_pytorch_type warning"
    ),
    "lang.matrix_ops": (
        "E Matrix Vector _filled_matrix _filled_vector _identity_matrix _matmul_helper _unit_vector arg_at arg_foreach_check assert_list "
        "assert_tensor assert_vector check_matmul check_transpose cols dim_lt func is_int_const ops_mod preconditions pyfunc rows same_shapes "
        "square_matrix static template"
    ),
    "lang.matrix_ops_utils": (
        "Expr Matrix TaichiCompilationError arg_at arg_foreach_check assert_list assert_tensor assert_vector check_matmul check_transpose dim_lt "
        "do_check get_list_shape is_int_const preconditions same_shapes square_matrix"
    ),
    "lang.mesh": (
        "CompoundType ConvType Field Layout Matrix MatrixField MeshAttrType MeshBuilder MeshElement MeshElementField MeshElementFieldProxy "
        "MeshElementType MeshMetadata MeshRelationAccessProxy MeshRelationType MeshReorderedMatrixFieldProxy MeshReorderedScalarFieldProxy "
        "MeshTopology ScalarField StructField TaichiSyntaxError _ti_core element_order element_type_name from_end_element_order impl inverse_relation "
        "lang python_scope relation_by_orders to_end_element_order u16 u32"
    ),
    "lang.misc": (
        "Expr _EnvironmentConfigurator _SpecialConfig _bit_vectorize _block_dim _block_dim_adaptive _logging _parallelize _serialize _snode _ti_core "
        "_version_check axes check_require_version f32 f64 get_default_kernel_profiler i i32 i64 ij ijk ijkl ijl ik ikl il impl j jk jkl jl k kl l "
        "prepare_sandbox"
    ),
    "lang.ndarray": (
        "NdarrayHostAccess NdarrayHostAccessor NdarrayTypeMetadata TaichiIndexError _ti_core cook_dtype get_traceback impl is_real is_signed "
        "primitive_types python_scope to_numpy_type"
    ),
    "lang.ndrange": "GroupedNDRange Matrix TaichiSyntaxError TaichiTypeError _Ndrange is_integral ops",
    "lang.operators": "TaichiOperations in_python_scope ops primitive_types",
    "lang.ops": (
        "Field TaichiSyntaxError _binary_operation _ceil _floor _read_matrix_or_scalar _round _ternary_operation _ti_core _unary_operation assign clz "
        "cook_dtype expr impl is_matrix_class is_taichi_class is_taichi_expr max_impl min_impl popcnt stack_info taichi_scope wrap_if_not_expr "
        "writeback_binary"
    ),
    "lang.runtime": "impl",
    "lang.shell": "_env_enable_pybuf _shell_pop_print _ti_core info pybuf_enabled",
    "lang.snode": (
        "BitpackedFields Field TaichiRuntimeError _Axis _snode_registry _ti_core activate append deactivate expr fields_builder get_addr "
        "get_traceback impl is_active length matrix rescale_index snode snode_tree warning"
    ),
    "lang.source_builder": "SourceBuilder TaichiSyntaxError _ti_core get_clangpp impl make_expr_group",
    "lang.struct": (
        "CompoundType Field Layout Matrix SNodeHostAccess ScalarField StructField TaichiRuntimeTypeError TaichiSyntaxError TaichiTypeError "
        "_IntermediateStruct _ti_core cook_dtype expr impl in_python_scope is_signed ops primitive_types python_scope taichi_scope"
    ),
    "lang.texture": "Matrix RWTextureAccessor TextureSampler _get_entries _ti_core f32 impl make_expr_group taichi_scope vector",
    "lang.util": "_ti_core f16 f32 f64 i16 i32 i64 i8 impl is_logging_effective u1 u16 u32 u64 u8",
    "linalg": "TaichiRuntimeError TaichiTypeError matrixfree_cg sparse_cg ti",
    "linalg.conjugate": "Ndarray ScalarNdarray TaichiRuntimeError _ti_core f32 f64 get_runtime",
    "linalg.matrix_free": "TaichiRuntimeError TaichiTypeError ti",
    "linalg.sparse_matrix": "ScalarNdarray TaichiRuntimeError _ti_core f32 get_runtime",
    "linalg.sparse_solver": "Field Ndarray ScalarNdarray TaichiRuntimeError _ti_core f32 get_runtime taichi",
    "math": "_complex cfg f64 func impl matrix static template u32 u64 vector zero",
    "math.complex": "dot func vec2",
    "profiler": (
        "KernelProfiler StatisticalResult _ti_core _ti_kernel_profiler default_cupti_metrics get_default_kernel_profiler get_runtime impl "
        "kernel_metrics kernel_profiler memory_profiler scoped_profiler"
    ),
    "profiler.metrics": (
        "_ti_core achieved_occupancy atomic_access cache_hit_rate default_cupti_metrics device_utilization dram_bytes_read dram_bytes_sum "
        "dram_bytes_throughput dram_bytes_write dram_read_throughput dram_throughput dram_utilization dram_write_throughput global_access "
        "global_op_atom global_op_reduction l1_hit_rate l1tex_throughput l2_hit_rate l2_throughput predefined_cupti_metrics shared_access "
        "shared_bank_conflicts_load shared_bank_conflicts_store shared_transactions_load shared_transactions_store shared_utilization sm_throughput"
    ),
    "quant": "_ti_python_core _type_factory i32 impl",
    "simt.block": "_ti_core arch_uses_spv impl make_expr_group taichi_scope",
    "simt.grid": "impl",
    "simt.subgroup": "impl",
    "simt.warp": "impl",
    "sparse": "Struct _sparse_grid f32 grouped ij ijk is_active kernel root static template",
    "tools": "np2ply",
    "tools.diagnose": "main",
    "tools.image": "_ti_core cook_image_to_bytes ti",
    "tools.video": "accelerate_video crop_video ffmpeg_common_args get_ffmpeg_path get_os_name interpolate_frames make_video mp4_to_gif scale_video",
    "types": "ndarray_type texture_type utils",
    "ui": (
        "Field GGUINotAvailableException Ndarray SceneV2 Vector _ti_core arr_vulkan_layout_to_arr_normal_layout "
        "arr_vulkan_layout_to_field_normal_layout atomic_add camera constants copy_all_to_vbo copy_all_to_vbo_particle copy_to_vbo_scalar "
        "copy_to_vbo_vector default_cfg euler_to_vec f32 field gen_normals gen_normals_kernel gen_normals_kernel_indexed get_depth_ndarray "
        "get_field_info get_indices_field get_indices_field_v2 get_normals_field get_runtime get_transforms_field get_transforms_field_v2 "
        "get_vbo_field get_vbo_field_v2 imgui kernel normals_field_cache pi scene staging_buffer taichi template to_taichi_type try_get_wheel_tag ui "
        "utils vec_to_euler window"
    ),
    "ui.canvas": "SceneV2 Texture _ti_core copy_all_to_vbo copy_all_to_vbo_particle get_field_info get_indices_field_v2 get_vbo_field_v2 impl to_rgba8",
    "ui.gui": "Field ScalarField _ti_core core_vec core_veci taichi tensor_to_image ti vector_to_fast_image vector_to_image",
    "ui.staging_buffer": (
        "Texture copy_all_to_vbo copy_all_to_vbo_particle copy_image_f32_to_rgba8 copy_image_f32_to_rgba8_np copy_image_u8_to_rgba8 "
        "copy_image_u8_to_rgba8_np copy_texture_to_rgba8 copy_to_vbo_scalar copy_to_vbo_vector depth_ndarray_cache f32 get_depth_ndarray "
        "get_indices_field get_indices_field_v2 get_transforms_field get_transforms_field_v2 get_vbo_field get_vbo_field_v2 image_field_cache "
        "indices_ndarray_cache kernel ndarray ndarray_type ops template ti to_rgba8 transforms_ndarray_cache u32 u8 vbo_field_cache"
    ),
}
