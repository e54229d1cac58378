"""Every public and half-public name of Taichi 1.7.4, by module."""

from __future__ import annotations

NAMES = {
    "": (
        "ArgPack BitpackedFields CRITICAL DEBUG DeviceCapability ERROR Field FieldsBuilder Format GUI INFO Layout Matrix MatrixField MatrixNdarray "
        "Mesh MeshInstance Ndarray SNode ScalarField ScalarNdarray Struct StructField TRACE TaichiAssertionError TaichiCompilationError "
        "TaichiNameError TaichiRuntimeError TaichiRuntimeTypeError TaichiSyntaxError TaichiTypeError Texture Vector VectorNdarray WARN _funcs "
        "_kernels _lib _logging _main _snode _ti_module _version_check abs acos activate ad algorithms amdgpu aot append argpack arm64 asin "
        "assume_in_range atan2 atomic_add atomic_and atomic_max atomic_min atomic_mul atomic_or atomic_sub atomic_xor axes bit_cast bit_shr "
        "block_local cache_read_only cast ceil cos cpu cuda data_oriented dataclass deactivate deactivate_all_snodes dx11 dx12 eig exp experimental "
        "extension f16 f32 f64 field float16 float32 float64 floor frexp func get_addr gles global_thread_idx gpu graph grouped hex_to_rgb i i16 i32 "
        "i64 i8 ij ijk ijkl ijl ik ikl il init int16 int32 int64 int8 is_active is_logging_effective j jk jkl jl k kernel kl l lang length linalg log "
        "loop_config math max mesh_local mesh_patch_idx metal min ndarray ndrange no_activate one opengl polar_decompose pow profiler pyfunc randn "
        "random raw_div raw_mod real_func ref rescale_index reset rgb_to_hex root round rsqrt select set_logging_level simt sin solve sparse "
        "sparse_matrix_builder sqrt static static_assert static_print stop_grad svd sym_eig sync tan tanh template tools types u1 u16 u32 u64 u8 ui "
        "uint1 uint16 uint32 uint64 uint8 vulkan x64 x86_64 zero"
    ),
    "_funcs": (
        "Matrix Vector _combine _eig2x2 _gauss_elimination_2x2 _gauss_elimination_3x3 _polar_decompose2d _polar_decompose3d _randn _svd2d _svd3d "
        "_sym_eig2x2 _sym_eig3x3 dsyevq3 dsytrd3 eig f32 f64 field_fill_taichi_scope func get_runtime grouped impl ops polar_decompose randn solve "
        "static svd sym_eig template"
    ),
    "_kernels": (
        "Expr Format ScalarField arr_vulkan_layout_to_arr_normal_layout arr_vulkan_layout_to_field_normal_layout blit_from_field_to_field block "
        "clear_gradients deactivate ext_arr_to_matrix ext_arr_to_ndarray ext_arr_to_ndarray_matrix ext_arr_to_tensor f16 f32 f64 "
        "field_fill_python_scope field_fill_taichi_scope fill_field fill_ndarray fill_ndarray_matrix func get_os_name grouped i32 kernel "
        "load_texture_from_numpy loop_config matrix_to_ext_arr ndarray_matrix_to_ext_arr ndarray_to_ext_arr ndarray_to_ndarray ndarray_type ndrange "
        "ops save_texture_to_numpy scan_add_inclusive snode_deactivate snode_deactivate_dynamic sort_stage static static_assert template "
        "tensor_to_ext_arr tensor_to_image tensor_to_tensor texture_type u8 uniform_add vec3 vector vector_to_fast_image vector_to_image warp "
        "warp_shfl_up_i32"
    ),
    "_lib": "core utils",
    "_lib.utils": (
        "_print_taichi_header at_startup check_exists compare_version get_core_shared_object get_dll_name get_os_name import_ti_python_core in_docker "
        "is_ci locale_encode log_level package_root print_red_bold print_yellow_bold ti_python_core try_get_loaded_libc_version try_get_pip_version "
        "try_get_wheel_tag warn_restricted_version"
    ),
    "_logging": (
        "CRITICAL DEBUG ERROR INFO TRACE WARN _get_logging critical debug error info is_logging_effective set_logging_level supported_log_levels "
        "ti_python_core trace warn"
    ),
    "_snode": "FieldsBuilder fields_builder snode_tree",
    "_snode.fields_builder": "FieldsBuilder SNodeTree TaichiRuntimeError _Axis _snode_registry _ti_core impl snode warning",
    "_snode.snode_tree": "SNodeTree TaichiRuntimeError impl",
    "_ti_module": "_main cppgen module",
    "_version_check": "_ti_core check_version start_version_check_thread try_check_version write_version_info",
    "ad": "FwdMode Tape _ad clear_all_gradients grad_for grad_replaced no_grad",
    "ad._ad": (
        "AutodiffMode Expr Field FwdMode GradChecker Ndarray SNode SNodeGradType ScalarField Tape _snode clear_all_gradients get_all_fields grad_for "
        "grad_replaced impl kernel ndarray no_grad restore_all_fields save_all_fields template types"
    ),
    "algorithms": "PrefixSumExecutor _algorithms parallel_sort",
    "algorithms._algorithms": (
        "PrefixSumExecutor blit_from_field_to_field cuda current_cfg data_oriented field i32 parallel_sort scan_add_inclusive sort_stage subgroup "
        "sync uniform_add vulkan warp_shfl_up_i32"
    ),
    "aot": "GfxRuntime140 Module _export conventions export export_as module taichi utils",
    "aot._export": "AotExportKernel _aot_kernels export export_as",
    "aot.conventions": "gfxruntime140",
    "aot.conventions.gfxruntime140": "GfxRuntime140 dr sr",
    "aot.module": "KernelTemplate MatrixField Module ScalarField impl kernel_impl produce_injected_args produce_injected_args_from_template taichi template",
    "aot.utils": (
        "Format Matrix MatrixNdarray MatrixType NdarrayType RWTextureType ScalarNdarray TaichiCompilationError Texture TextureType VectorNdarray "
        "VectorType check_type_match cook_dtype dump_json_data_model is_json_data_model json_data_model produce_injected_args "
        "produce_injected_args_from_template template template_types"
    ),
    "experimental": "_real_func real_func",
    "graph": "Arg ArgKind Graph GraphBuilder _graph",
    "graph._graph": (
        "Arg ArgKind FORMAT2TY_CH Graph GraphBuilder Matrix MatrixType Ndarray Sequential TY_CH2FORMAT TaichiRuntimeError Texture _check_args "
        "_deprecate_arg_args _kwarg_rewriter _make_arg _make_arg_matrix _make_arg_ndarray _make_arg_rwtexture _make_arg_scalar _make_arg_texture "
        "_ti_core enums flatten_args gen_cpp_kernel impl kernel_impl produce_injected_args"
    ),
    "lang": (
        "ArgPack BitpackedFields DeviceCapability Field Format Layout Matrix MatrixField MatrixNdarray Mesh MeshInstance Ndarray SNode ScalarField "
        "ScalarNdarray Struct StructField TaichiAssertionError TaichiCompilationError TaichiNameError TaichiRuntimeError TaichiRuntimeTypeError "
        "TaichiSyntaxError TaichiTypeError Texture Vector VectorNdarray _ndarray _ndrange _texture _wrap_inspect abs acos activate amdgpu any_array "
        "append argpack arm64 asin assume_in_range ast atan2 atomic_add atomic_and atomic_max atomic_min atomic_mul atomic_or atomic_sub atomic_xor "
        "axes bit_cast bit_shr block_local cache_read_only cast ceil common_ops cos cpu cuda data_oriented dataclass deactivate deactivate_all_snodes "
        "dx11 dx12 enums exception exp expr extension field floor frexp func get_addr gles global_thread_idx gpu grouped i ij ijk ijkl ijl ik ikl il "
        "impl init is_active j jk jkl jl k kernel kernel_arguments kernel_impl kl l length log loop_config matrix matrix_ops matrix_ops_utils max "
        "mesh mesh_local mesh_patch_idx metal min misc ndarray ndrange no_activate one opengl ops pow pyfunc random raw_div raw_mod real_func "
        "rescale_index reset root round rsqrt runtime_ops select shell simt sin snode source_builder sqrt static static_assert static_print stop_grad "
        "struct sync tan tanh util vulkan x64 x86_64 zero"
    ),
    "lang._ndarray": (
        "Layout Ndarray NdarrayHostAccess NdarrayHostAccessor NdarrayTypeMetadata ScalarNdarray TaichiIndexError _ti_core cook_dtype get_traceback "
        "impl is_real is_signed primitive_types python_scope to_numpy_type"
    ),
    "lang._ndrange": "Expr GroupedNDRange Matrix TaichiSyntaxError TaichiTypeError _Ndrange is_integral ndrange ops",
    "lang._texture": "Expr Matrix RWTextureAccessor Texture TextureSampler _get_entries _ti_core f32 impl make_expr_group taichi_scope vector",
    "lang._wrap_inspect": (
        "_InspectContextManager _Python_IPython_findsource _REPL_findsource _blender_findsource _blender_get_text_name _custom_findsource "
        "_find_source_with_custom_getfile_func getsourcefile getsourcelines"
    ),
    "lang.any_array": "AnyArray AnyArrayAccess Expr Layout NdarrayTypeMetadata _ti_core impl make_expr_group taichi_scope",
    "lang.argpack": (
        "ArgPack ArgPackType CompoundType Matrix MatrixType Struct StructType TaichiRuntimeTypeError TaichiSyntaxError _IntermediateArgPack _ti_core "
        "cook_dtype impl in_python_scope is_signed ndarray_type ops primitive_types python_scope sparse_matrix_builder taichi texture_type"
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
    "lang.common_ops": "TYPE_CHECKING TaichiOperations in_python_scope ops primitive_types",
    "lang.enums": "AutodiffMode BoundaryMode DeviceCapability Format Layout SNodeGradType _ti_core to_boundary_enum",
    "lang.exception": (
        "TaichiAssertionError TaichiCompilationError TaichiIndexError TaichiNameError TaichiRuntimeError TaichiRuntimeTypeError TaichiSyntaxError "
        "TaichiTypeError core handle_exception_from_cpp"
    ),
    "lang.expr": (
        "Expr TaichiCompilationError TaichiOperations TaichiTypeError _check_in_range _clamp_unsigned_to_range _get_flattened_ptrs _ti_core impl "
        "integer_types is_matrix_class is_taichi_class make_constant_expr make_expr_group make_matrix make_var_list primitive_types real_types "
        "to_numpy_type"
    ),
    "lang.field": (
        "BitpackedFields Field SNodeHostAccess SNodeHostAccessor ScalarField TaichiSyntaxError _ti_core impl in_python_scope python_scope taichi "
        "to_numpy_type to_paddle_type to_pytorch_type warn"
    ),
    "lang.impl": (
        "AnyArray Axis ConvType Expr Field FieldsBuilder GroupedNDRange Matrix MatrixField MatrixNdarray MatrixType MeshElementFieldProxy "
        "MeshInstance MeshRelationAccessProxy MeshReorderedMatrixFieldProxy MeshReorderedScalarFieldProxy PyTaichi RWTextureAccessor SNode "
        "SNodeGradType ScalarField ScalarNdarray SharedArray SparseMatrixProxy SrcInfoGuard Struct StructField TaichiCompilationError "
        "TaichiRuntimeError TaichiSyntaxError TaichiTypeError Vector VectorNdarray _IntermediateStruct _Ndrange _Root _UninitializedRootFieldsBuilder "
        "_calc_slice _create_snode _field _root_fb _ti_core all_types axes begin_frontend_if begin_frontend_struct_for call_internal cook_dtype "
        "create_field_member current_cfg deactivate_all_snodes default_cfg element_type_name expr_init expr_init_func expr_init_shared_array f16 f32 "
        "f64 field get_cuda_compute_capability get_runtime get_traceback grouped i32 i64 index_nd inside_kernel is_taichi_class make_expr_group "
        "make_matrix mesh_relation_access ndarray one pytaichi python_scope reset root static static_assert static_print stop_grad subscript "
        "taichi_scope ti_assert ti_bool ti_float ti_format ti_format_list_to_content_entries ti_int ti_print u32 u64 u8 validate_subscript_index "
        "warning zero"
    ),
    "lang.kernel_arguments": (
        "AnyArray CompoundType Expr KernelArgument MatrixType RWTextureAccessor RefType SparseMatrixEntry SparseMatrixProxy StructType TextureSampler "
        "_ti_core cook_dtype decl_argpack_arg decl_matrix_arg decl_ndarray_arg decl_ret decl_rw_texture_arg decl_scalar_arg decl_sparse_matrix "
        "decl_struct_arg decl_texture_arg get_type_for_kernel_args impl ops push_argpack_arg taichi u64"
    ),
    "lang.kernel_impl": (
        "ASTTransformerContext AnyArray ArgPack ArgPackType AutodiffMode CompoundType Expr Func Kernel KernelArgument KernelSimplicityASTChecker "
        "Layout MatrixType ReturnStatus StructType TaichiCallableTemplateMapper TaichiCompilationError TaichiRuntimeError TaichiRuntimeTypeError "
        "TaichiSyntaxError TaichiTypeError _BoundedDifferentiableMethod _KERNEL_CLASS_STACKFRAME_STMT_RES _get_global_vars _get_tree_and_ctx "
        "_inside_class _kernel_impl _logging _process_args _shell_pop_print _ti_core cook_dtype data_oriented func getsourcefile getsourcelines "
        "handle_exception_from_cpp has_paddle has_pytorch impl is_signed kernel ndarray_type ops primitive_types pyfunc real_func runtime_ops "
        "sparse_matrix_builder taichi template texture_type to_taichi_type transform_tree"
    ),
    "lang.matrix": (
        "CompoundType Field Layout Matrix MatrixField MatrixNdarray MatrixType Ndarray NdarrayHostAccess SNodeHostAccess ScalarField TaichiOperations "
        "TaichiRuntimeError TaichiRuntimeTypeError TaichiSyntaxError TaichiTypeError Vector VectorNdarray VectorType _gen_swizzles "
        "_generate_swizzle_patterns _infer_array_dt _infer_entry_dt _read_host_access _ti_python_core _type_factory _write_host_access cook_dtype "
        "expr get_traceback impl in_python_scope is_signed make_matrix make_matrix_with_shape ops_mod primitive_types python_scope runtime_ops "
        "taichi_scope ti_python_core to_numpy_type to_paddle_type to_pytorch_type warning"
    ),
    "lang.matrix_ops": (
        "E Matrix Vector _filled_matrix _filled_vector _identity_matrix _matmul_helper _reduce _unit_vector all any arg_at arg_foreach_check "
        "assert_list assert_tensor assert_vector cast check_matmul check_transpose cols cross determinant diag dim_lt dot fill func inverse "
        "is_int_const matmul max min norm norm_inv norm_sqr normalized ops_mod outer_product preconditions pyfunc rows same_shapes square_matrix "
        "static sum template trace transpose"
    ),
    "lang.matrix_ops_utils": (
        "Expr Matrix TaichiCompilationError arg_at arg_foreach_check assert_list assert_tensor assert_vector check_matmul check_transpose dim_lt "
        "do_check get_list_shape is_int_const preconditions same_shapes square_matrix"
    ),
    "lang.mesh": (
        "CompoundType ConvType Field Layout Matrix MatrixField Mesh MeshAttrType MeshBuilder MeshElement MeshElementField MeshElementFieldProxy "
        "MeshElementType MeshInstance MeshMetadata MeshRelationAccessProxy MeshRelationType MeshReorderedMatrixFieldProxy "
        "MeshReorderedScalarFieldProxy MeshTopology ScalarField StructField TaichiSyntaxError _TetMesh _TriMesh _ti_core element_order "
        "element_type_name from_end_element_order impl inverse_relation lang python_scope relation_by_orders to_end_element_order u16 u32"
    ),
    "lang.misc": (
        "Expr _EnvironmentConfigurator _SpecialConfig _bit_vectorize _block_dim _block_dim_adaptive _logging _parallelize _serialize _snode _ti_core "
        "_version_check adaptive_arch_select amdgpu arm64 assume_in_range axes block_local cache_read_only check_require_version cpu cuda dx11 dx12 "
        "extension f32 f64 get_default_kernel_profiler get_host_arch_list get_runtime gles global_thread_idx gpu i i32 i64 ij ijk ijkl ijl ik ikl il "
        "impl init is_arch_supported is_extension_supported j jk jkl jl k kl l loop_config loop_unique mesh_local mesh_patch_idx metal no_activate "
        "opengl prepare_sandbox reset timeline_clear timeline_save vulkan x64 x86_64"
    ),
    "lang.ops": (
        "Field TaichiSyntaxError _binary_operation _ceil _floor _read_matrix_or_scalar _round _ternary_operation _ti_core _unary_operation abs acos "
        "add asin assign atan2 atomic_add atomic_and atomic_max atomic_min atomic_mul atomic_or atomic_sub atomic_xor bit_and bit_cast bit_not bit_or "
        "bit_sar bit_shl bit_shr bit_xor cast ceil clz cmp_eq cmp_ge cmp_gt cmp_le cmp_lt cmp_ne cook_dtype cos exp expr floor floordiv frexp ifte "
        "impl is_matrix_class is_taichi_class is_taichi_expr log logical_and logical_not logical_or max max_impl min min_impl mod mul neg popcnt pow "
        "random raw_div raw_mod round rsqrt select sin sqrt stack_info sub taichi_scope tan tanh truediv wrap_if_not_expr writeback_binary"
    ),
    "lang.runtime_ops": "impl sync",
    "lang.shell": "_env_enable_pybuf _shell_pop_print _ti_core info pybuf_enabled",
    "lang.simt": "block grid subgroup warp",
    "lang.simt.block": (
        "SharedArray _ti_core arch_uses_spv global_thread_idx impl make_expr_group mem_sync sync sync_all_nonzero sync_any_nonzero sync_count_nonzero "
        "taichi_scope thread_idx"
    ),
    "lang.simt.grid": "impl memfence",
    "lang.simt.subgroup": (
        "all_equal all_true any_true barrier broadcast broadcast_first elect exclusive_add exclusive_and exclusive_max exclusive_min exclusive_mul "
        "exclusive_or exclusive_xor group_size impl inclusive_add inclusive_and inclusive_max inclusive_min inclusive_mul inclusive_or inclusive_xor "
        "invocation_id memory_barrier reduce_add reduce_and reduce_max reduce_min reduce_mul reduce_or reduce_xor shuffle shuffle_down shuffle_up "
        "shuffle_xor"
    ),
    "lang.simt.warp": (
        "active_mask all_nonzero any_nonzero ballot impl match_all match_any shfl_down_f32 shfl_down_i32 shfl_sync_f32 shfl_sync_i32 shfl_up_f32 "
        "shfl_up_i32 shfl_xor_i32 sync unique"
    ),
    "lang.snode": (
        "BitpackedFields Field SNode TaichiRuntimeError _ti_core activate append deactivate expr get_addr get_traceback impl is_active length matrix "
        "rescale_index"
    ),
    "lang.source_builder": "SourceBuilder TaichiSyntaxError _ti_core get_clangpp impl make_expr_group",
    "lang.struct": (
        "CompoundType Expr Field Layout Matrix MatrixType SNodeHostAccess ScalarField Struct StructField StructType TaichiRuntimeTypeError "
        "TaichiSyntaxError TaichiTypeError _IntermediateStruct _ti_core cook_dtype dataclass expr impl in_python_scope is_signed ops primitive_types "
        "python_scope taichi_scope"
    ),
    "lang.util": (
        "_ti_core cook_dtype f16 f32 f64 get_clangpp get_traceback has_clangpp has_paddle has_pytorch i16 i32 i64 i8 impl in_python_scope "
        "in_taichi_scope is_logging_effective is_matrix_class is_taichi_class python_scope taichi_scope to_numpy_type to_paddle_type to_pytorch_type "
        "to_taichi_type u1 u16 u32 u64 u8 warning"
    ),
    "linalg": (
        "LinearOperator MatrixFreeBICGSTAB MatrixFreeCG SparseCG SparseMatrix SparseMatrixBuilder SparseSolver TaichiRuntimeError TaichiTypeError "
        "matrixfree_cg sparse_cg sparse_matrix sparse_solver ti"
    ),
    "linalg.matrixfree_cg": "LinearOperator MatrixFreeBICGSTAB MatrixFreeCG TaichiRuntimeError TaichiTypeError ti",
    "linalg.sparse_cg": "Ndarray ScalarNdarray SparseCG TaichiRuntimeError _ti_core f32 f64 get_runtime",
    "linalg.sparse_matrix": "Field Ndarray ScalarNdarray SparseMatrix SparseMatrixBuilder TaichiRuntimeError _ti_core f32 get_runtime",
    "linalg.sparse_solver": "Field Ndarray ScalarNdarray SparseMatrix SparseSolver TaichiRuntimeError _ti_core f32 get_runtime taichi",
    "math": (
        "_complex acos asin atan2 cconj cdiv ceil cexp cinv clamp clog clz cmul cos cpow cross csqrt degrees determinant distance dot e exp eye floor "
        "fract inf inverse isinf isnan ivec2 ivec3 ivec4 length log log2 mat2 mat3 mat4 max min mix mod nan normalize pi popcnt pow radians reflect "
        "refract rot_by_axis rot_yaw_pitch_roll rotation2d rotation3d round scale sign sin smoothstep sqrt step tan tanh translate uvec2 uvec3 uvec4 "
        "vdir vec2 vec3 vec4"
    ),
    "math._complex": "cconj cdiv cexp cinv clog cmul cpow csqrt dot func ops vec2",
    "math.mathimpl": (
        "Matrix acos asin atan2 ceil cfg clamp clz cos cross degrees determinant distance dot e exp eye f64 floor fract func impl inf inverse isinf "
        "isnan ivec2 ivec3 ivec4 length log log2 mat2 mat3 mat4 matrix max min mix mod nan normalize ops pi popcnt pow radians reflect refract "
        "rot_by_axis rot_yaw_pitch_roll rotation2d rotation3d round scale sign sin smoothstep sqrt static step tan tanh template translate u32 u64 "
        "uvec2 uvec3 uvec4 vdir vec2 vec3 vec4 vector zero"
    ),
    "profiler": (
        "CuptiMetric clear_kernel_profiler_info clear_scoped_profiler_info collect_kernel_profiler_metrics get_kernel_profiler_total_time "
        "get_predefined_cupti_metrics kernel_metrics kernel_profiler memory_profiler print_kernel_profiler_info print_memory_profiler_info "
        "print_scoped_profiler_info query_kernel_profiler_info scoped_profiler set_kernel_profiler_metrics set_kernel_profiler_toolkit"
    ),
    "profiler.kernel_metrics": (
        "CuptiMetric _ti_core achieved_occupancy atomic_access cache_hit_rate default_cupti_metrics device_utilization dram_bytes_read dram_bytes_sum "
        "dram_bytes_throughput dram_bytes_write dram_read_throughput dram_throughput dram_utilization dram_write_throughput "
        "get_predefined_cupti_metrics global_access global_op_atom global_op_reduction l1_hit_rate l1tex_throughput l2_hit_rate l2_throughput "
        "predefined_cupti_metrics shared_access shared_bank_conflicts_load shared_bank_conflicts_store shared_transactions_load "
        "shared_transactions_store shared_utilization sm_throughput"
    ),
    "profiler.kernel_profiler": (
        "KernelProfiler StatisticalResult _ti_core _ti_kernel_profiler clear_kernel_profiler_info collect_kernel_profiler_metrics "
        "default_cupti_metrics get_default_kernel_profiler get_kernel_profiler_total_time impl print_kernel_profiler_info query_kernel_profiler_info "
        "set_kernel_profiler_metrics set_kernel_profiler_toolkit"
    ),
    "profiler.memory_profiler": "get_runtime print_memory_profiler_info",
    "profiler.scoped_profiler": "_ti_core clear_scoped_profiler_info print_scoped_profiler_info",
    "sparse": "_sparse_grid grid usage",
    "sparse._sparse_grid": "Struct f32 grid grouped ij ijk is_active kernel root static template usage",
    "tools": "PLYWriter VideoManager diagnose image imread imresize imshow imwrite np2ply video vtk write_vtk",
    "tools.diagnose": "main",
    "tools.image": "_ti_core cook_image_to_bytes imread imresize imshow imwrite ti",
    "tools.np2ply": "PLYWriter",
    "tools.video": (
        "FRAME_DIR FRAME_FN_TEMPLATE VideoManager accelerate_video crop_video ffmpeg_common_args get_ffmpeg_path get_os_name imwrite "
        "interpolate_frames make_video mp4_to_gif scale_video"
    ),
    "tools.vtk": "write_vtk",
    "types": (
        "annotations argpack compound_types f16 f32 f64 float16 float32 float64 i16 i32 i64 i8 int16 int32 int64 int8 is_integral is_real is_signed "
        "is_tensor matrix ndarray ndarray_type primitive_types quant ref rw_texture sparse_matrix_builder struct template texture texture_type u1 u16 "
        "u32 u64 u8 uint1 uint16 uint32 uint64 uint8 utils vector"
    ),
    "types.annotations": "Template sparse_matrix_builder template",
    "types.compound_types": "CompoundType _ti_python_core _type_factory argpack matrix struct taichi vector",
    "types.ndarray_type": "CompoundType Layout NdarrayType NdarrayTypeMetadata _make_matrix_dtype_from_element_shape matrix ndarray to_boundary_enum util vector",
    "types.primitive_types": (
        "RefType all_types f16 f32 f64 float16 float32 float64 i16 i32 i64 i8 int16 int32 int64 int8 integer_type_ids integer_types real_type_ids "
        "real_types ref ti_python_core type_ids u1 u16 u32 u64 u8 uint1 uint16 uint32 uint64 uint8"
    ),
    "types.quant": "_ti_python_core _type_factory fixed float i32 impl int",
    "types.texture_type": "FORMAT2TY_CH Format RWTextureType TY_CH2FORMAT TaichiCompilationError TextureType f16 f32 i16 i32 i8 rw_texture texture u16 u32 u8",
    "types.utils": "is_integral is_real is_signed is_tensor ti_python_core",
    "ui": (
        "ALT BACKSPACE CAPSLOCK CTRL Camera Canvas DOWN ESCAPE GUI Gui LEFT LMB MMB PRESS ProjectionMode RELEASE RETURN RIGHT RMB SHIFT SPACE Scene "
        "TAB UP Window camera canvas check_ggui_availability constants gui hex_to_rgb imgui make_camera rgb_to_hex scene staging_buffer ui utils "
        "window"
    ),
    "ui.camera": "Camera Vector _ti_core check_ggui_availability euler_to_vec pi vec_to_euler",
    "ui.canvas": "Canvas SceneV2 Texture _ti_core copy_all_to_vbo copy_all_to_vbo_particle get_field_info get_indices_field_v2 get_vbo_field_v2 impl to_rgba8",
    "ui.constants": "ALT BACKSPACE CAPSLOCK CTRL DOWN ESCAPE LEFT LMB MMB PRESS RELEASE RETURN RIGHT RMB SHIFT SPACE TAB UP",
    "ui.gui": "Field GUI ScalarField _ti_core core_vec core_veci hex_to_rgb rgb_to_hex taichi tensor_to_image ti vector_to_fast_image vector_to_image",
    "ui.imgui": "Gui",
    "ui.scene": (
        "Scene SceneV2 Vector _ti_core atomic_add check_ggui_availability copy_all_to_vbo copy_all_to_vbo_particle copy_to_vbo_scalar "
        "copy_to_vbo_vector f32 field gen_normals gen_normals_kernel gen_normals_kernel_indexed get_field_info get_indices_field get_indices_field_v2 "
        "get_normals_field get_transforms_field get_transforms_field_v2 get_vbo_field get_vbo_field_v2 kernel normals_field_cache taichi template"
    ),
    "ui.staging_buffer": (
        "Texture copy_all_to_vbo copy_all_to_vbo_particle copy_image_f32_to_rgba8 copy_image_f32_to_rgba8_np copy_image_u8_to_rgba8 "
        "copy_image_u8_to_rgba8_np copy_texture_to_rgba8 copy_to_vbo_scalar copy_to_vbo_vector depth_ndarray_cache f32 get_depth_ndarray "
        "get_indices_field get_indices_field_v2 get_transforms_field get_transforms_field_v2 get_vbo_field get_vbo_field_v2 image_field_cache "
        "indices_ndarray_cache kernel ndarray ndarray_type ops template ti to_rgba8 transforms_ndarray_cache u32 u8 vbo_field_cache"
    ),
    "ui.ui": (
        "ALT BACKSPACE CAPSLOCK CTRL Camera Canvas DOWN ESCAPE Gui LEFT LMB MMB PRESS ProjectionMode RELEASE RETURN RIGHT RMB SHIFT SPACE Scene TAB "
        "UP Window _ti_core check_ggui_availability make_camera"
    ),
    "ui.utils": (
        "GGUINotAvailableException Ndarray Vector _ti_core check_ggui_availability euler_to_vec get_field_info to_taichi_type try_get_wheel_tag "
        "vec_to_euler"
    ),
    "ui.window": (
        "Canvas Field Gui Ndarray PRESS RELEASE SceneV2 Window _ti_core arr_vulkan_layout_to_arr_normal_layout "
        "arr_vulkan_layout_to_field_normal_layout check_ggui_availability default_cfg f32 get_depth_ndarray get_runtime"
    ),
}
