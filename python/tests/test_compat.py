"""Unmodified Taichi programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

import wuji as ti


def run(folder: Path, code: str) -> str:
    file = folder / "program.py"
    file.write_text(dedent(code))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_taichi(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        """
        import wuji.compat.taichi
        import wuji
        import taichi as ti
        import taichi
        import taichi.math as tm
        from taichi.lang.matrix import Matrix
        from taichi.types.primitive_types import f32
        from taichi._lib import core as _ti_core
        import taichi.lang.exception
        assert ti is taichi
        assert tm is wuji.math and tm.__name__ == "wuji.math" and tm.__spec__.name == "wuji.math"
        assert Matrix is wuji.Matrix and f32 is wuji.f32
        assert ti.__version__ >= (1, 7, 0)
        ti.init(arch=ti.cpu, verbose=False, offline_cache=False)
        x = ti.Vector.field(3, ti.f32, shape=8)

        @ti.kernel
        def fill():
            for i in x:
                x[i] = tm.normalize(tm.vec3(0.0, 0, i + 1))

        fill()
        print(x.to_numpy().sum())
        try:
            import taichi.nothing
        except ModuleNotFoundError as error:
            print(error)
        """,
    )
    assert out.splitlines() == ["8.0", "No module named 'taichi.nothing'"]


def test_compat_fails_if_taichi_is_already_imported(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        """
        import sys, types
        sys.modules["taichi"] = types.ModuleType("taichi")
        try:
            import wuji.compat.taichi
        except ImportError as error:
            print(error)
        """,
    )
    assert "already imported" in out


def test_compat_can_be_uninstalled(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        """
        import sys
        from wuji.compat import taichi
        import taichi.math
        taichi.uninstall()
        print([name for name in sys.modules if name.startswith("taichi")], len(sys.meta_path))
        """,
    )
    assert out.startswith("[]")


def test_semi_private_names() -> None:
    # TI_ARCH may select the backend.
    arch = getattr(ti, os.environ.get("TI_ARCH", "cpu"))
    assert ti.lang.impl.current_cfg().arch is arch
    assert ti.cfg.arch is arch
    assert ti.lang.impl.get_runtime().prog is not None
    assert ti.lang.impl.get_runtime().default_fp is ti.f32
    assert ti.lang.impl.default_cfg().default_ip is ti.i32
    assert ti.lang.impl.get_runtime().prog.config().arch is arch
    assert ti._lib.core.CompileConfig().default_fp is ti.f32 and ti._lib.core.CompileConfig().arch is ti.cpu
    assert os.path.samefile(ti._lib.core.get_python_package_dir(), os.path.dirname(ti.__file__)) and isinstance(ti._lib.core.get_repo_dir(), str)
    assert ti.types.primitive_types.type_ids[0] == id(ti.f16)
    assert ti.lang.impl.pytaichi.inside_kernel is False
    assert ti.lang.misc.is_arch_supported(ti.cpu) and not ti.lang.misc.is_arch_supported(ti.vulkan)
    assert ti.lang.misc.is_extension_supported(ti.cpu, ti.extension.sparse)
    assert ti.lang.misc.is_extension_supported(ti.cpu, ti.extension.mesh)
    assert not ti.lang.misc.is_extension_supported(ti.cpu, ti.extension.extfunc)
    there = ti.lang.misc.is_arch_supported(ti.cuda)
    assert ti.lang.misc.is_extension_supported(ti.cuda, ti.extension.sparse) is there
    assert ti.lang.misc.is_extension_supported(ti.cuda, ti.extension.bls) is ti.lang.misc.is_arch_supported(ti.cuda)
    assert (ti.lang.impl.get_cuda_compute_capability() >= 70) is there
    assert ti.lang.matrix.Matrix is ti.Matrix
    assert ti.lang.Matrix is ti.Matrix and ti.lang.kernel_impl.kernel is ti.kernel
    assert ti.lang.snode.SNode is ti.SNode
    assert ti.lang.exception.TaichiCompilationError is ti.TaichiCompilationError
    assert ti.lang.enums.Layout is ti.Layout
    with pytest.raises(AttributeError):
        ti.lang.nothing  # noqa: B018


def test_kernels_and_fields_have_half_public_names() -> None:
    s = ti.Struct.field({"a": ti.i32}, shape=4)

    @ti.kernel
    def run(n: ti.template()):
        for i in range(n):
            s.a[i] = i

    before = ti.lang.impl.get_runtime().get_num_compiled_functions()
    run(2)
    run(3)
    assert ti.lang.impl.get_runtime().get_num_compiled_functions() == before + 2 == before + len(run._primal.compiled_kernels)
    assert ti.lang.impl.get_runtime().materialized and not run._is_classkernel
    assert repr(run._adjoint) == repr(run.grad)
    assert list(s.field_dict) == ["a"] and s.struct_methods == {} and s.a._loop_range() is s.a.parent()


def test_core_stand_in() -> None:
    core = ti._lib.core
    assert core.with_cuda() is ti.lang.misc.is_arch_supported(ti.cuda)
    assert not (core.with_vulkan() or core.with_metal() or core.with_opengl() or core.with_amdgpu())
    assert core.host_arch() is ti.cpu and core.arch_from_name(core.arch_name(ti.cpu)) is ti.cpu
    assert core.Arch is ti.Arch and core.is_extension_supported(ti.cpu, ti.extension.data64)
    assert core.get_version_string() == ti.__version__
    assert core.get_version_major() == int(ti.__version__.split(".")[0])
    assert core.DataType_f32 is ti.f32 and core.data_type_size(ti.f64) == 8 and core.data_type_name(ti.i8) == "i8"
    assert not hasattr(core, "make_arg_load_expr")
    with pytest.raises(NotImplementedError, match="internal to Taichi"):
        core.Program  # noqa: B018


def test_types() -> None:
    util = ti.lang.util
    for ours, theirs in ((ti.f32, np.float32), (ti.f64, np.float64), (ti.i8, np.int8), (ti.u16, np.uint16), (ti.u1, np.bool_)):
        assert util.to_numpy_type(ours) is theirs
        assert util.to_taichi_type(theirs) is ours
    assert util.to_taichi_type(np.dtype("int64")) is ti.i64 and util.to_taichi_type(ti.f16) is ti.f16
    with pytest.raises(TypeError, match="no scalar type"):
        util.to_taichi_type(np.complex64)
    assert util.has_paddle() in (False, True) and util.has_pytorch() in (False, True)
    assert util.cook_dtype(float) is ti.f32
    assert util.in_python_scope() and not util.in_taichi_scope()
    assert util.is_taichi_class(ti.Vector([1, 2])) and not util.is_taichi_class(3)


def test_an_unmodified_taichi_program_runs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        dedent("""
            import taichi as ti

            ti.init(arch=ti.gpu)
            n = 32
            pixels = ti.field(dtype=float, shape=(n * 2, n))

            @ti.func
            def complex_sqr(z):
                return ti.Vector([z[0] ** 2 - z[1] ** 2, z[1] * z[0] * 2])

            @ti.kernel
            def paint(t: float):
                for i, j in pixels:
                    c = ti.Vector([-0.8, ti.cos(t) * 0.2])
                    z = ti.Vector([i / n - 1, j / n - 0.5]) * 2
                    iterations = 0
                    while z.norm() < 20 and iterations < 50:
                        z = complex_sqr(z) + c
                        iterations += 1
                    pixels[i, j] = 1 - iterations * 0.02

            gui = ti.GUI("Julia Set", res=(n * 2, n), show_gui=False)
            for i in range(3):
                paint(i * 0.03)
                gui.set_image(pixels)
                gui.show()
            print(gui.frame, ti.lang.impl.current_cfg().arch == ti.cpu)
        """)
    )
    without = {**os.environ, "WUJI_CUDA_DRIVER": "/nowhere/libcuda.so"}
    done = subprocess.run([sys.executable, "-m", "wuji", "run", str(program)], capture_output=True, text=True, timeout=120, env=without)
    assert done.stdout == "3 True\n", done.stderr
    assert "falling back to" in done.stderr


def test_access_to_loaded_modules_lists_no_names(tmp_path: Path) -> None:
    """`ti.math` is looked up for every `ti.math.vec3`: it must not go through all modules each time."""
    out = run(
        tmp_path,
        """
        import wuji.compat.taichi as layer
        import taichi as ti

        class Lookups(dict):
            def get(self, name, default=None):
                print("looked up")

        ti.math, ti.types
        layer._NAMES = Lookups()
        print(ti.math.__name__, ti.types.__name__)
        """,
    )
    assert out.splitlines() == ["wuji.math wuji.types"]


def test_modules_list_the_names_of_taichi(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        """
        import wuji.compat.taichi
        import taichi as ti

        def public(module):
            return [name for name in sorted(dir(module)) if not name.startswith("_")]

        print(*public(ti.algorithms))
        print(*public(ti.ad))
        print(*public(ti.sparse))
        print("World" in dir(ti), "kernel" in dir(ti), "__name__" in dir(ti.math))
        wuji.compat.taichi.uninstall()
        print("gradients" in dir(wuji.ad))
        """,
    )
    assert out.splitlines() == [
        "PrefixSumExecutor parallel_sort",
        "FwdMode Tape clear_all_gradients grad_for grad_replaced no_grad",
        "grid usage",
        "False True True",
        "True",
    ]


def test_arguments_of_type_bool(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        """
        import wuji.compat.taichi
        import taichi as ti

        ti.init(arch=ti.cpu)

        @ti.kernel
        def both(a: ti.u1, b: bool) -> ti.i32:
            return a + 2 * b

        print(both(2, 0), both(0, -1))
        """,
    )
    assert out.split()[-2:] == ["1", "2"]


def test_functions_have_half_public_names() -> None:
    @ti.func
    def inlined(a: ti.i32) -> ti.i32:
        return a

    @ti.real_func
    def called(a: ti.i32) -> ti.i32:
        return a

    assert inlined._is_taichi_function and called._is_taichi_function
    assert not inlined._is_real_function and called._is_real_function


def test_nodes_have_a_view_of_the_core() -> None:
    x = ti.field(ti.f32, needs_grad=True)
    ti.root.pointer(ti.i, 4).dense(ti.i, 2).place(x)
    x[0] = 1
    ptr = x.snode.ptr
    assert ptr == x.snode.ptr and ptr.parent == x.parent().ptr and ptr.parent.parent.parent.parent is None
    assert (ptr.name(), ptr.data_type(), ptr.num_active_indices(), ptr.get_shape_along_axis(0), ptr.has_adjoint()) == ("x", ti.f32, 1, 8, True)
    assert not hasattr(ptr, "get_snode_grad_type")
    with pytest.raises(NotImplementedError, match="internal to Taichi's core"):
        ptr.get_snode_grad_type()


def test_functions_of_the_compiler_work_in_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    from wuji.compat.names import find

    fill_field, fill_ndarray = find("_kernels", "fill_field"), find("_kernels", "fill_ndarray")
    fill_everywhere = find("lang.decompositions", "field_fill_taichi_scope")
    x, a = ti.field(ti.i32, 3), ti.ndarray(ti.f32, 3)
    fill_field(x, 2.7)
    fill_ndarray(a, 3)
    assert x.to_numpy().tolist() == [2, 2, 2] and a.to_numpy().tolist() == [3, 3, 3]

    @ti.kernel
    def run(n: ti.i32) -> ti.i32:
        fill_everywhere(x, 5)
        copy = ti.lang.impl.expr_init(n)
        copy += 1
        ti.lang.impl.ti_print("n", n, copy, sep="-")
        ti.lang.impl.ti_print(ti.lang.impl.ti_format("{} and {}", n, copy))
        return copy

    assert run(3) == 4 and x.to_numpy().tolist() == [5, 5, 5]
    ti.sync()
    assert capsys.readouterr().out == "n-3-4\n3 and 4\n"
    with pytest.raises(AssertionError, match="ti_print cannot be called in Python-scope"):
        ti.lang.impl.ti_print(1)


def test_modules_without_code_can_be_imported(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        """
        import wuji.compat.taichi
        import taichi.assets, taichi.shaders, taichi._ti_module.cppgen
        import taichi.aot.conventions
        from taichi.aot.conventions import gfxruntime140
        from taichi.aot.conventions.gfxruntime140 import GfxRuntime140, dr
        try:
            GfxRuntime140({}, [])
        except NotImplementedError as error:
            print(error)
        """,
    )
    assert "W0607" in out


NEGATIVE = """
    import taichi as ti

    ti.init(arch=ti.cpu, verbose=False, offline_cache=False)
    known, field, array = ti.Vector([7, 8, 9]), ti.field(ti.i32, 4, offset=-2), ti.ndarray(ti.i32, 3)
    field[-1] = 5

    @ti.kernel
    def component() -> ti.i32:
        v = ti.Vector([1, 2, 3])
        return v[-1]

    @ti.kernel
    def assigned() -> ti.i32:
        v = ti.Vector([1, 2, 3])
        v[-1] = 5
        return v[2]

    @ti.kernel
    def entry() -> ti.i32:
        m = ti.Matrix([[1, 2], [3, 4]])
        return m[0, -1]

    @ti.kernel
    def part() -> ti.i32:
        return ti.Vector([1, 2, 3])[:-1].sum()

    @ti.kernel
    def outer() -> ti.i32:
        return known[-1]

    @ti.kernel
    def others() -> ti.i32:
        return field[-1] + field.shape[-1] + ti.static([1, 2, 3])[-1]

    for f in (component, assigned, entry, part, outer, others):
        try:
            print(f())
        except SyntaxError as error:
            print("Negative indices are not supported in Taichi kernels" in str(error))
    array[-1] = 3
    print(array.to_numpy().tolist())
"""


def test_negative_constants_are_indices_as_in_taichi(tmp_path: Path) -> None:
    out = run(tmp_path, "import wuji.compat.taichi\n" + dedent(NEGATIVE))
    assert out.splitlines() == ["True"] * 5 + ["12", "[0, 0, 3]"]
    out = run(tmp_path, dedent(NEGATIVE).replace("import taichi", "import wuji"))
    assert out.splitlines() == ["3", "5", "2", "3", "9", "12", "[0, 0, 3]"]


def test_checked_gradients_are_reported_as_in_taichi(tmp_path: Path) -> None:
    program = """
        import taichi as ti

        ti.init(arch=ti.cpu, default_fp=ti.f64, verbose=False, offline_cache=False)
        x, z, loss = ti.field(ti.f64, 3, needs_grad=True), ti.field(ti.f64, (), needs_grad=True), ti.field(ti.f64, (), needs_grad=True)
        x.fill(3)

        @ti.kernel
        def run():
            for i in x:
                loss[None] += x[i] ** 2 + z[None]

        with ti.ad.Tape(loss, grad_check=[x, z]):
            run()
    """
    assert run(tmp_path, "import wuji.compat.taichi\n" + dedent(program)) == "variable 0 passes grad check\nvariable 1 passes grad check\n"
    assert run(tmp_path, dedent(program).replace("import taichi", "import wuji")) == ""


SPARSE = """
    import numpy as np
    import taichi as ti

    ti.init(arch=ti.cpu, verbose=False, offline_cache=False)
    x, v, m, s = ti.field(ti.i32), ti.Vector.field(2, ti.i32), ti.Matrix.field(2, 2, ti.f32), ti.Struct.field({"a": ti.i32, "v": ti.math.vec2})
    ti.root.pointer(ti.i, 4).dense(ti.i, 2).place(x, v, m, s, offset=-4)
    split = ti.Vector.field(2, ti.i32)
    cells = ti.root.bitmasked(ti.i, 8)
    cells.place(*[split.get_scalar_field(k) for k in range(2)])

    @ti.kernel
    def count(f: ti.template()) -> ti.i32:
        n = 0
        for i in f:
            n += 1
        return n

    x[-2] = 1
    split[3] = [1, 1]
    numbers = np.arange(1, 9)
    x.from_numpy(numbers)
    v.from_numpy(np.stack([numbers, -numbers], axis=1))
    m.from_numpy(np.arange(32.0).reshape(8, 2, 2))
    s.from_numpy({"a": numbers, "v": np.ones((8, 2))})
    split.from_numpy(np.stack([numbers, -numbers], axis=1))
    print(count(x), x.to_numpy().tolist(), v.to_numpy().sum(0).tolist(), m.to_numpy().sum(), s.to_numpy()["a"].sum())
    print(count(split), split.to_numpy().sum(0).tolist())
    y = ti.field(ti.i64)
    ti.root.bitmasked(ti.i, 8).place(y, offset=-4)
    y[0] = 7
    x.copy_from(y)
    print(x.to_numpy().tolist())
"""


def test_arrays_are_copied_to_active_cells_as_in_taichi(tmp_path: Path) -> None:
    out = run(tmp_path, "import wuji.compat.taichi\n" + dedent(SPARSE))
    assert out.splitlines() == ["2 [0, 0, 3, 4, 0, 0, 0, 0] [7, -7] 92.0 7", "1 [4, -4]", "[0, 0, 0, 0, 7, 0, 0, 0]"]
    out = run(tmp_path, dedent(SPARSE).replace("import taichi", "import wuji"))
    assert out.splitlines() == ["8 [1, 2, 3, 4, 5, 6, 7, 8] [36, -36] 496.0 36", "8 [36, -36]", "[0, 0, 0, 0, 7, 0, 0, 0]"]


def test_a_component_is_filled_in_active_cells() -> None:
    v = ti.Vector.field(2, ti.i32)
    ti.root.bitmasked(ti.i, 8).place(v)
    v[3] = [1, 2]
    v.get_scalar_field(1).fill(9)
    assert v.parent()._cells().count_active() == 1 and v[3].to_list() == [1, 9]
