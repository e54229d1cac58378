"""Values of the host: ranges, shapes, options, and what nodes and arrays tell about themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import wuji as ti


def run(folder: Path, code: str, *command: str, status: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    file = folder / "program.py"
    file.write_text(dedent(code))
    done = subprocess.run([sys.executable, *command, str(file)], capture_output=True, text=True, timeout=120, env={**os.environ, **environment})
    assert done.returncode == status, done.stderr
    return done


@pytest.mark.parametrize(("dtype", "value"), [(ti.u8, -128), (ti.u8, 300), (ti.i8, 255), (ti.i32, 2**40), (ti.u64, -1), (ti.i64, 2**70)])
def test_integers_out_of_range_are_refused(dtype: Any, value: int) -> None:
    x, v, a = ti.field(dtype, 3), ti.Vector.field(2, dtype, 3), ti.ndarray(dtype, 3)

    @ti.kernel
    def scalar(n: dtype):
        pass

    @ti.kernel
    def vector(n: ti.types.vector(2, dtype)):
        pass

    def element() -> None:
        v[0][1] = value

    def item(of: Any) -> None:
        of[0] = value

    attempts: list[Any] = [
        lambda: item(x), lambda: item(v), lambda: item(a), element, lambda: item(v.get_scalar_field(1)), lambda: x.fill(value),
        lambda: v.fill(value), lambda: a.fill(value), lambda: v.get_scalar_field(0).fill(value), lambda: scalar(value), lambda: vector([0, value]),
    ]  # fmt: skip
    for attempt in attempts:
        with pytest.raises(OverflowError) as caught:
            attempt()
        assert isinstance(caught.value, ti.TaichiRuntimeTypeError) and caught.value.code == "W0610"
    assert x.to_numpy().sum() == v.to_numpy().sum() == a.to_numpy().sum() == 0


def test_other_kinds_of_values_are_refused() -> None:
    x, v, f = ti.field(ti.i32, 3), ti.Vector.field(2, ti.f32, 3), ti.field(ti.f32, 3)
    for target, value in ((x, "a"), (x, 1.5), (x, None), (v, ["a", "b"]), (f, "a"), (f, None), (f, 10**400)):
        with pytest.raises(ti.TaichiRuntimeTypeError, match="W0610"):
            target[0] = value


@pytest.mark.parametrize("values", [[2**40, 1], [-(2**31) - 1, 0], [np.nan, 1.0], [np.inf, 1.0], [3e9, 0.0]])
def test_arrays_out_of_range_are_refused(values: list[Any]) -> None:
    source = np.array(values)
    for target in (ti.field(ti.i32, 2), ti.ndarray(ti.i32, 2), ti.Vector.field(2, ti.i32, ())):
        target.fill(7)
        with pytest.raises(ti.WujiError, match="out of range for i32") as caught:
            target.from_numpy(source)
        assert isinstance(caught.value, ValueError) and (target.to_numpy() == 7).all()


def test_arrays_in_range_are_converted() -> None:
    x, u, b = ti.field(ti.i32, 3), ti.field(ti.u64, 2), ti.field(ti.u1, 2)
    x.from_numpy(np.array([1.9, -1.9, 2**31 - 1]))
    assert x.to_numpy().tolist() == [1, -1, 2**31 - 1]
    u.from_numpy(np.array([2**64 - 1, 0], np.uint64))
    assert u[0] == 2**64 - 1
    b.from_numpy(np.array([3, 0]))
    assert b.to_numpy().tolist() == [True, False]
    with pytest.raises(TypeError, match="complex"):
        x.from_numpy(np.zeros(3, complex))


def test_tensors_on_a_gpu_are_checked() -> None:
    from wuji.lang import torch_gpu

    class Torch:
        """What the check uses of torch, on top of NumPy."""

        bool, int32, int64 = "bool", "int32", "int64"
        device = staticmethod(lambda name: name)

    class Tensor:
        is_cuda, dtype, shape = True, "int64", (2,)

        def __init__(self, *values: int) -> None:
            self.values = np.array(values)
            self.min, self.max, self.numel = self.values.min, self.values.max, lambda: len(values)

        @property
        def device(self) -> Any:
            return type("Device", (), {"type": "cuda", "index": 0})

        def detach(self) -> Any:
            return self

        to = contiguous = lambda self, *_: self

    small, large = Tensor(1, 2), Tensor(1, 2**40)
    assert torch_gpu.as_source(Torch, small, (2,), ti.i32, 0) is small
    with pytest.raises(ti.WujiError, match="tensor: 1099511627776 is out of range for i32"):
        torch_gpu.as_source(Torch, large, (2,), ti.i32, 0)


def test_integers_wrap_with_a_warning_in_taichi_programs(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import warnings
        import wuji.compat.taichi
        import numpy as np
        import taichi as ti

        ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
        x, v, a = ti.field(ti.u8, 2), ti.Vector.field(2, ti.i8, 2), ti.ndarray(ti.i8, 2)

        @ti.kernel
        def scalar(n: ti.i8) -> ti.i32:
            return n

        @ti.kernel
        def vector(n: ti.types.vector(2, ti.u8)) -> ti.i32:
            return n[0] * 1000 + n[1]

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            x[0] = -128
            v[0] = [255, 1]
            a[1] = 200
            i = ti.field(ti.i32, 2)
            i.from_numpy(np.array([2**40 + 5, 1]))
            print(x[0], v[0][0], a[1], i[0], scalar(255), scalar(255), vector([-1, 7]), len(caught))
            x.fill(300)
            print(x[1], str(caught[0].message))
        """,
    )
    assert done.stdout.splitlines() == ["128 -1 -56 5 -1 -1 255007 7", "44 field x: -128 is out of range for u8 and wraps"]


def test_components_and_members_wrap_in_taichi_programs(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import warnings
        import wuji.compat.taichi
        import taichi as ti

        ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
        vector = ti.types.vector(2, ti.u8)
        f, split = ti.Vector.field(2, ti.u8, 2), ti.Vector.field(2, ti.u8, 2, layout=ti.Layout.SOA)
        s = ti.Struct.field({"v": vector}, shape=2)
        n, m = ti.Vector.ndarray(2, ti.u8, 2), ti.Matrix.field(2, 2, ti.u8, 2)
        Pack, Pair = ti.types.argpack(a=ti.u8, v=vector), ti.types.struct(a=ti.u8, b=ti.i32)

        @ti.kernel
        def packed(p: Pack) -> ti.i32:
            return p.a * 1000 + p.v[0]

        @ti.kernel
        def pair(p: Pair) -> ti.i32:
            return p.a + p.b

        warnings.simplefilter("ignore")
        for x in (f, split, s.v, n):
            x[1].x = 300
            one = x[1].to_list()
            x[1].xy = [300, -1]
            two = x[1].to_list()
            x[1].fill(257)
            print(one, two, x[1].to_list())
        f[0][0:2] = [-1, -2]
        m[0][0, 1] = 300
        print(f[0].to_list(), m[0].to_list())
        p = Pack(a=300, v=[1, 2])
        first = packed(p)
        p.a, p.v = -1, [300, 0]
        print(first, packed(p))
        value = Pair(a=1, b=2**31)
        print(value.b, pair(value), pair(ti.Struct(a=300, b=1)), pair(ti.Struct(a=1, b=2**32 + 5)))
        v = vector(1, 2)
        v.x, v[1] = 300, -1
        print(v.to_list(), v)
        """,
    )
    lines = done.stdout.splitlines()
    assert lines[:4] == ["[44, 0] [44, 255] [1, 1]"] * 4
    assert lines[4:] == ["[255, 254] [[0, 44], [0, 0]]", "44001 255044", f"{-2**31} {1 - 2**31} 45 6", "[44, 255] [ 44 255]"], lines


def test_components_and_members_are_checked() -> None:
    vector = ti.types.vector(2, ti.u8)
    f, s, n = ti.Vector.field(2, ti.u8, 2), ti.Struct.field({"v": vector}, shape=2), ti.Vector.ndarray(2, ti.u8, 2)
    pack, pair = ti.types.argpack(a=ti.u8), ti.types.struct(a=ti.u8)
    made = pack(a=1)

    @ti.kernel
    def take(p: pair):
        pass

    attempts: list[Any] = [lambda: pack(a=300), lambda: setattr(made, "a", 300), lambda: setattr(made, "a", "a"), lambda: take(ti.Struct(a=300)), lambda: pair(a="1")]
    for x in (f, s.v, n):
        for value in (300, -1, 2**70, "a", "1", None, 1.5):
            attempts += [lambda x=x, value=value: setattr(x[0], "x", value), lambda x=x, value=value: setattr(x[0], "yx", [0, value])]
        attempts += [lambda x=x: x[0].fill(300), lambda x=x: x[0].__setitem__(slice(0, 2), [1, 300])]
    for attempt in attempts:
        with pytest.raises(ti.WujiError) as caught:
            attempt()
        assert isinstance(caught.value, ti.TaichiRuntimeTypeError) and caught.value.code == "W0610"
    # All components are written, or none.
    assert f.to_numpy().sum() == s.v.to_numpy().sum() == n.to_numpy().sum() == 0
    f[0].yx = [7, 9]
    assert f[0].to_list() == [9, 7]
    e = f[0]
    f[0] = [1, 2]
    e.x = 5  # writes this component only
    assert f[0].to_list() == [5, 2]


def test_values_that_are_no_numbers_are_errors_with_a_code() -> None:
    for call in (lambda: ti.cast("a", ti.i32), lambda: ti.cast("3", ti.f32), lambda: ti.cast(None, ti.i32), lambda: ti.cast([1, {}], ti.f32), lambda: ti.Vector(["1", 2], ti.i32)):
        with pytest.raises(ti.TaichiRuntimeTypeError, match="cannot be converted into required type") as caught:
            call()
        assert caught.value.code == "W0610" and isinstance(caught.value, ValueError)
    for target in (3, None):
        with pytest.raises(ti.TaichiTypeError, match="decorates a class") as refused:
            ti.data_oriented(target)
        assert refused.value.code == "W0603"
    for res in ((1 << 20, 1 << 20), (10**30, 2), (0, 1), "wide"):
        with pytest.raises(ti.WujiError, match="invalid `res`") as window:
            ti.GUI("window", res=res, show_gui=False)
        assert window.value.code == "W0611" and isinstance(window.value, ValueError)


def test_numpy_fractions_are_truncated_as_in_taichi(tmp_path: Path) -> None:
    x = ti.field(ti.i32, 2)
    x.fill(np.float32(2.75))
    assert x[0] == 2
    with pytest.raises(ti.WujiError, match="cannot be converted into required type i32"):
        x[0] = np.float32(2.75)
    done = run(
        tmp_path,
        """
        import wuji.compat.taichi
        import numpy as np
        import taichi as ti

        ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
        x, a = ti.field(ti.i32, 2), ti.ndarray(ti.u8, 2)
        x[0] = np.float32(-3.75)
        a[1] = np.float16(2.5)
        print(x[0], a[1])
        for bad in (2.5, np.float64(2.5), np.float32("nan"), "a"):
            try:
                x[1] = bad
            except TypeError:
                print("refused")
        """,
    )
    assert done.stdout.split() == ["-3", "2", *["refused"] * 4]


def test_shapes_may_be_arrays_and_vectors() -> None:
    for shape in (np.array([2, 3]), [2, 3], (np.int32(2), np.int64(3)), ti.Vector([2, 3])):
        assert ti.field(ti.i32, shape=shape).shape == ti.ndarray(ti.i32, shape).shape == (2, 3)
        assert ti.root.dense(ti.ij, shape).shape == (2, 3)
    x = ti.Vector.field(2, ti.f32, shape=np.array([2, 3]), offset=np.array([-1, 1]))
    assert x.offset == (-1, 1) and x.shape == (2, 3)


def test_a_chunk_may_be_longer_than_its_list() -> None:
    x = ti.field(ti.i32)
    ti.root.dynamic(ti.i, 8, chunk_size=16).place(x)

    @ti.kernel
    def run():
        for i in range(8):
            ti.append(x.parent(), [], i)

    run()
    assert sorted(x.to_numpy().tolist()) == list(range(8))


def test_a_float_range_is_cast_with_a_warning() -> None:
    @ti.kernel
    def count(n: ti.f32) -> ti.i32:
        s = 0
        for _ in range(n):
            s += 1
        for _ in range(1.0, 3.7):
            s += 10
        return s

    with pytest.warns(UserWarning, match="Casting range_for boundary values from f32 to i32"):
        assert count(3.9) == 23


def test_vectors_without_a_type_have_the_precision_of_python() -> None:
    assert ti.Vector([1.0, 2.0]).to_numpy().dtype == np.float64
    assert ti.Vector([1, 2]).to_numpy().dtype == np.int64
    assert ti.Vector([1.0, 2.0], ti.f32).to_numpy().dtype == np.float32
    assert ti.math.vec2(1, 2).to_numpy().dtype == np.float32


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("log_level", "loud"), ("debug", "maybe"), ("debug", 2), ("cpu_max_num_threads", "all"), ("cpu_max_num_threads", -1), ("random_seed", "x"),
        ("random_seed", 1.5), ("memory_limit", 2**64), ("time_limit", "soon"), ("time_limit", -1.0), ("tier", "medium"), ("offline_cache_file_path", 3),
        ("offline_cache_cleaning_policy", "whenever"), ("opt_level", None), ("default_fp", ti.i32), ("default_ip", ti.u8), ("default_fp", "f32"),
        ("default_ip", 3), ("opt_level", 99), ("opt_level", -1), ("ad_stack_size", -5), ("without", "vectorise"), ("without", "vectorize, nothing"),
    ],
)  # fmt: skip
def test_invalid_values_of_options_are_refused(option: str, value: Any) -> None:
    with pytest.raises(ti.WujiError, match=option) as caught:
        ti.init(arch=ti.cpu, **{option: value})
    assert isinstance(caught.value, (KeyError, ValueError, TypeError)) and caught.value.code == "W0609"


def test_a_pass_that_does_not_exist_has_a_suggestion() -> None:
    with pytest.raises(ti.WujiError, match="there is no pass `vectorise`(?s:.*)did you mean `vectorize`"):
        ti.World(without="simplify, vectorise")
    ti.init(arch=ti.cpu, without="simplify, vectorize", verbose=False)


def test_a_layout_that_failed_reports_the_same_error_again() -> None:
    x, y = ti.field(ti.f32), ti.field(ti.f32)
    ti.root.dense(ti.i, 2**30).dense(ti.i, 2**30).dense(ti.i, 2**30).place(x)
    messages = []
    for _ in range(2):
        with pytest.raises(ti.TaichiRuntimeError) as caught:
            x[0] = 1
        messages.append(str(caught.value))
    assert messages[0] == messages[1] and "finalized" not in messages[0]
    ti.root.dense(ti.i, 4).place(y)
    y[3] = 2
    assert y[3] == 2


def test_an_empty_builder_can_be_finalized() -> None:
    with pytest.warns(UserWarning, match="empty FieldsBuilder"):
        tree = ti.FieldsBuilder().finalize()
    assert tree.memory_used() == 0
    tree.destroy()


def test_symmetric_solvers_refuse_unsymmetric_matrices() -> None:
    entries = np.array([[4.0, 1.0], [2.0, 3.0]], np.float32)
    rows, columns = np.nonzero(entries)

    def matrix(of: Any) -> Any:
        builder = ti.linalg.SparseMatrixBuilder(2, 2, max_num_triplets=8)

        @ti.kernel
        def fill(K: ti.types.sparse_matrix_builder(), m: ti.types.ndarray()):
            for i, j in ti.ndrange(2, 2):
                if m[i, j] != 0:
                    K[i, j] += m[i, j]

        fill(builder, of)
        return builder.build()

    assert len(rows) == len(columns) == 4
    for kind in ("LLT", "LDLT"):
        solver = ti.linalg.SparseSolver(solver_type=kind)
        solver.compute(matrix(entries))
        assert not solver.info()
        with pytest.raises(ti.TaichiRuntimeError, match="not symmetric"):
            solver.solve(np.ones(2, np.float32))
        symmetric = (entries + entries.T).astype(np.float32)
        for accepted in (symmetric, np.tril(symmetric)):
            solver.compute(matrix(accepted))
            assert solver.info() and np.allclose(symmetric @ solver.solve(np.ones(2, np.float32)), 1, atol=1e-5)
    solver = ti.linalg.SparseSolver(solver_type="LU")
    solver.compute(matrix(entries))
    assert np.allclose(entries @ solver.solve(np.ones(2, np.float32)), 1, atol=1e-5)


def test_nodes_tell_about_themselves() -> None:
    a, b, c, d = ti.field(ti.i32), ti.field(ti.f32), ti.field(ti.f64), ti.field(ti.i32)
    first, second, third = ti.root.dense(ti.i, 32), ti.root.dense(ti.i, 16), ti.root.pointer(ti.ij, 4)
    first.place(a)
    second.place(b, c)
    blocks = third.dense(ti.ij, (2, 8))
    blocks.place(d, offset=(-4, -8))
    d[0, 0] = 1
    assert [n._cell_size_bytes for n in (first, second, third, blocks, a.snode)] == [4, 16, 64, 4, 0]
    assert [n._offset_bytes_in_parent_cell for n in (first, second, third, blocks)] == [0, 128, 384, 0]
    assert [f.snode._offset_bytes_in_parent_cell for f in (a, b, c)] == [0, 0, 8]
    assert third._num_dynamically_allocated == 1 and first._num_dynamically_allocated == 0
    assert a.snode._name == "a" and first._name == "" and d.snode._offset == (-4, -8) == d._offset
    assert a.snode.parent(0).parent() is first and a.snode.parent(2) is first.parent() and a.snode.parent(3) is None
    assert blocks._path_from_root()[1:] == [third, blocks] and third._get_children() == [blocks]
    assert a.snode._dtype is ti.i32 and blocks._physical_index_position() == {0: 0, 1: 1}


def test_arrays_tell_about_their_elements() -> None:
    vectors, matrices = ti.Vector.ndarray(3, ti.f32, 2), ti.Matrix.ndarray(2, 3, ti.f64, (2, 5))
    assert (vectors.n, vectors.m, vectors._get_element_size(), vectors._get_nelement()) == (3, 1, 12, 2)
    assert (matrices.n, matrices.m, matrices._get_element_size(), matrices._get_nelement()) == (2, 3, 48, 10)
    assert vectors.element_type == ti.math.vec3 and vectors.layout is ti.Layout.AOS


IMAGES = [
    *((dtype, False, channels) for dtype in (ti.f32, ti.f64, ti.u8, ti.u16, ti.u32, ti.u64) for channels in (0, 3, 4)),
    # A fast window only takes vectors of these types.
    *((dtype, True, channels) for dtype in (ti.f32, ti.f64, ti.u8) for channels in (3, 4)),
]


@pytest.mark.parametrize(("dtype", "fast", "channels"), IMAGES)
def test_images_of_fields_with_an_offset(dtype: Any, fast: bool, channels: int) -> None:
    where = {"shape": (8, 4), "offset": (-3, 5)}
    image = ti.Vector.field(channels, dtype, **where) if channels else ti.field(dtype, **where)
    one = 1 if dtype in (ti.f32, ti.f64) else 2 ** int(str(dtype)[1:]) - 1
    image[-3, 5] = one
    gui = ti.GUI("image", (8, 4), show_gui=False, fast_gui=fast)
    gui.set_image(image)
    drawn = gui.get_image()
    assert np.allclose(drawn[0, 0, :3], 1) and drawn[1:, :, :3].max() == 0


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_pictures_of_wide_integers(dtype: Any, tmp_path: Path) -> None:
    image = np.zeros((4, 3, 3), dtype)
    image[1, 2] = np.iinfo(dtype).max
    image[2, 0] = np.iinfo(dtype).max // 2 + 1
    file = str(tmp_path / "a.png")
    ti.tools.imwrite(image, file)
    read = ti.tools.imread(file)
    assert read[1, 2].tolist() == [255] * 3 and read[2, 0].tolist() == [128] * 3 and read[0].max() == 0


def test_imshow_respects_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TI_GUI_SHOW", "0")
    ti.tools.imshow(np.zeros((8, 8), np.float32))


def test_carets_underline_the_whole_expression() -> None:
    @ti.kernel
    def run(ä: ti.f32):
        b = ä + ti.sin(ä & 3)  # noqa: F841

    with pytest.raises(ti.TaichiTypeError) as caught:
        run(1.0)
    line, carets = str(caught.value).splitlines()[3:5]
    start = line.index("ä & 3")
    assert carets[start:] == "^" * 5 and carets.count("^") == 5


def test_carets_of_running_kernels_underline_the_whole_expression() -> None:
    ti.init(arch=ti.cpu, debug=True, offline_cache=False, verbose=False)
    x = ti.field(ti.i32, 4)

    @ti.kernel
    def outside(i: ti.i32):
        x[i + 3] += 1

    @ti.kernel
    def asserts(i: ti.i32):
        assert i == 3, "three"

    for run, underlined in ((outside, "x[i + 3]"), (asserts, 'assert i == 3, "three"')):
        with pytest.raises(ti.TaichiAssertionError) as caught:
            run(2)
        line, carets = str(caught.value).splitlines()[3:5]
        start = line.index(underlined)
        assert carets[start:] == "^" * len(underlined) and carets.count("^") == len(underlined)


def test_functions_of_numpy_name_their_counterpart() -> None:
    for call, name in (("np.sin(x)", "ti.sin"), ("np.arctan2(x, x)", "ti.atan2"), ("np.array([x, x])", "ti.Vector"), ("np.float32(x)", "ti.f32"), ("np.dot(x, x)", "ti.math.dot")):
        program = f"@ti.kernel\ndef run(x: ti.f32):\n    y = {call}\n"
        import linecache

        linecache.cache[f"<{call}>"] = (1, None, program.splitlines(keepends=True), f"<{call}>")
        names: dict[str, Any] = {"ti": ti, "np": np}
        exec(compile(program, f"<{call}>", "exec", dont_inherit=True), names)
        with pytest.raises(ti.TaichiTypeError, match=f"Did you mean to use `{name}"):
            names["run"](1.0)


def test_a_program_that_fails_shows_only_its_own_frames(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import taichi as ti
        ti.init(arch=ti.cpu, offline_cache=False)

        @ti.kernel
        def run():
            x = nope

        def main():
            run()

        main()
        """,
        "-m",
        "wuji",
        "run",
        status=1,
    )
    frames = [line for line in done.stderr.splitlines() if line.startswith("  File ")]
    assert len(frames) == 2 and all("program.py" in frame for frame in frames), done.stderr
    assert 'Name "nope" is not defined' in done.stderr
