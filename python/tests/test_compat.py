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
