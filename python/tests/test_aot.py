"""Modules that are saved and loaded: kernels, graphs, fields."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meshes import tetrahedra

import wuji as ti


def reloaded(module: Any, tmp_path: Path, archive: bool = False) -> Any:
    """Save a module, and load it in a new world."""
    path = tmp_path / ("m.tcm" if archive else "m")
    module.archive(path) if archive else module.save(path)
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
    return ti.aot.load(path)


@ti.kernel
def scale(x: ti.types.ndarray(dtype=ti.f32, ndim=1), by: ti.f32) -> ti.f32:
    total = 0.0
    for i in x:
        x[i] *= by
        total += x[i]
    return total


@pytest.mark.parametrize("archive", [False, True])
def test_kernels_with_arrays(archive: bool, tmp_path: Path) -> None:
    module = ti.aot.Module(caps=[ti.DeviceCapability.spirv_has_int64])
    module.add_kernel(scale)
    module.add_kernel(scale, name="again")
    loaded = reloaded(module, tmp_path, archive)
    assert list(loaded.kernels) == ["scale", "again"] and loaded.caps == ["spirv_has_int64"]
    x = np.arange(4, dtype=np.float32)
    assert loaded.kernels["scale"](x, 2.0) == 12 and x[3] == 6
    a = ti.ndarray(ti.f32, 4)
    a.fill(1)
    assert loaded.get_kernel("again")(by=3, x=a) == 12 and a[0] == 3
    # A strided array.
    x = np.arange(8, dtype=np.float32)
    assert loaded.kernels["scale"](x[::2], 10.0) == 120 and x[6] == 60 and x[7] == 7
    assert repr(loaded.kernels["scale"]) == "<loaded kernel scale(x, by)>"


@ti.kernel
def add(x: ti.types.ndarray(dtype=ti.i32, ndim=1), y: ti.types.ndarray(dtype=ti.i32, ndim=1)):
    for i in range(1, x.shape[0]):
        x[i] += y[i - 1]


def test_arrays_that_alias(tmp_path: Path) -> None:
    module = ti.aot.Module()
    module.add_kernel(add)
    run = reloaded(module, tmp_path).kernels["add"]
    x, y = np.ones(4, np.int32), np.ones(4, np.int32)
    run(x, y)
    assert x.tolist() == [1, 2, 2, 2]
    run(x, x)
    assert x[0] == 1 and x[1] == 3


Ball = ti.types.struct(at=ti.math.vec3, mass=ti.f64)


@ti.kernel
def values(v: ti.math.vec2, m: ti.types.matrix(2, 2, ti.i32), ball: Ball, on: ti.u1, n: ti.i32 = 7) -> (ti.math.vec2, ti.f64, ti.i32):
    k = n
    if on:
        k += m[1, 0]
    return v * 2 + ball.at.xy, ball.mass, k


@ti.kernel
def a_struct(x: ti.f32) -> Ball:
    return Ball(at=ti.math.vec3(x, 2, 3), mass=4)


def test_values_and_results(tmp_path: Path) -> None:
    module = ti.aot.Module()
    module.add_kernel(values)
    module.add_kernel(a_struct)
    loaded = reloaded(module, tmp_path)
    v, mass, k = loaded.kernels["values"](ti.Vector([1, 2]), ti.Matrix([[1, 2], [3, 4]]), Ball(at=[10, 20, 30], mass=5), True)
    assert list(v) == [12, 24] and mass == 5 and k == 10
    assert loaded.kernels["values"]([0, 0], [[1, 2], [3, 4]], {"at": [1, 1, 1], "mass": 0.5}, False, 3)[2] == 3
    made = loaded.kernels["a_struct"](1.0)
    assert list(made.at) == [1, 2, 3] and made.mass == 4


def test_fields(tmp_path: Path) -> None:
    x = ti.Vector.field(2, ti.f32, shape=(4, 3), offset=(-1, 0))
    soa = ti.Vector.field(2, ti.i32, shape=5, layout=ti.Layout.SOA)
    ball = Ball.field(shape=3)
    total = ti.field(ti.f64, shape=())
    unnamed = ti.field(ti.i32, shape=7)
    sparse = ti.field(ti.f32)
    ti.root.pointer(ti.ij, (4, 2)).bitmasked(ti.ij, (2, 4)).place(sparse)
    lists = ti.field(ti.i32)
    ti.root.dense(ti.i, 3).dynamic(ti.j, 16, chunk_size=4).place(lists)
    curve = ti.field(ti.i32)
    ti.root.dense(ti.ij, 4).morton().place(curve)

    @ti.kernel
    def fill(k: ti.i32):
        for i, j in x:
            x[i, j] = [i, j]
        for i in soa:
            soa[i] = [i, k]
            unnamed[i] += i
        for i in ball:
            ball[i].at = [i, i, i]
            ball[i].mass = unnamed[i]
        sparse[5, 6] = k
        for i in range(3):
            lists[i].append(i * k)
        for i, j in curve:
            curve[i, j] = 10 * i + j

    @ti.kernel
    def count() -> ti.i32:
        n = 0
        for i, j in sparse:
            n += 1
        for i in range(3):
            n += lists[i].length()
        total[None] = n
        return n

    module = ti.aot.Module()
    for name, field in (("x", x), ("soa", soa), ("ball", ball), ("total", total), ("sparse", sparse), ("curve", curve)):
        module.add_field(name, field)
    module.add_kernel(fill)
    module.add_kernel(count)
    fill(1)  # elements are not saved
    loaded = reloaded(module, tmp_path)
    assert loaded.kernels["count"]() == 0
    loaded.kernels["fill"](9)
    assert list(loaded.fields["x"][-1, 2]) == [-1, 2] and loaded.fields["x"].shape == (4, 3)
    assert loaded.fields["soa"].to_numpy().tolist() == [[i, 9] for i in range(5)]
    assert loaded.fields["ball"][2].mass == 2 and loaded.get_field("ball").at.to_numpy()[1].tolist() == [1, 1, 1]
    assert loaded.fields["sparse"][5, 6] == 9 and (loaded.fields["curve"].to_numpy() == 10 * np.arange(4)[:, None] + np.arange(4)).all()
    assert loaded.kernels["count"]() == 1 + 3 and loaded.fields["total"][None] == 4
    assert repr(loaded).endswith(": 2 kernels, 0 graphs, 6 fields>")

    @ti.kernel
    def own(f: ti.template()) -> ti.f32:
        s = 0.0
        for i, j in f:
            s += f[i, j].x
        return s

    # Fields of a module are like all others.
    assert own(loaded.fields["x"]) == sum(range(-1, 3)) * 3


def test_templates(tmp_path: Path) -> None:
    x, y = ti.field(ti.i32, shape=4), ti.field(ti.i32, shape=4)

    @ti.kernel
    def put(f: ti.template(), n: ti.template(), v: ti.i32):
        for i in f:
            f[i] = n * v

    module = ti.aot.Module()
    module.add_field("x", x)
    module.add_field("y", y)
    module.add_kernel(put, template_args={"f": x, "n": 2}, name="put_x")
    with module.add_kernel_template(put) as template:
        template.instantiate(f=x, n=3)
        template.instantiate(f=y, n=4)
        with pytest.raises(RuntimeError, match="Arg type must be of type int/float/boolean"):
            template.instantiate(f=ti.field(ti.i32, 2), n=1)
    with pytest.raises(ti.TaichiTypeError, match="one value of its template parameter `f`"):
        module.add_kernel(put)
    with pytest.raises(AssertionError, match="has no parameter `g`"):
        module.add_kernel(put, template_args={"g": x})
    loaded = reloaded(module, tmp_path)
    assert list(loaded.kernels) == ["put_x", "put(f=x, n=3)", "put(f=y, n=4)"]
    loaded.kernels["put_x"](5)
    assert loaded.fields["x"][1] == 10 and loaded.fields["y"][1] == 0
    loaded.kernels["put(f=y, n=4)"](5)
    assert loaded.fields["x"][1] == 10 and loaded.fields["y"][1] == 20


def test_methods_and_arrays_without_types(tmp_path: Path) -> None:
    @ti.data_oriented
    class Solver:
        def __init__(self) -> None:
            self.gain = 3
            self.x = ti.field(ti.i32, shape=4)

        @ti.kernel
        def step(self, a: ti.types.ndarray()):
            for i in self.x:
                self.x[i] = a[i, 0] * self.gain

    solver = Solver()
    module = ti.aot.Module()
    with pytest.raises(ti.TaichiCompilationError, match="does not have a number of axes"):
        module.add_kernel(solver.step)
    module.add_kernel(solver.step, template_args={"a": ti.types.ndarray(dtype=ti.i32, ndim=2)})
    module.add_field("x", solver.x)
    loaded = reloaded(module, tmp_path)
    loaded.kernels["step"](np.arange(8, dtype=np.int32).reshape(4, 2))
    assert loaded.fields["x"].to_numpy().tolist() == [0, 6, 12, 18]


def test_graphs(tmp_path: Path) -> None:
    @ti.kernel
    def shift(x: ti.types.ndarray(dtype=ti.math.vec2, ndim=1), by: ti.math.vec2, times: ti.i32, n: ti.template()):
        for i in x:
            x[i] += by * times * n

    @ti.kernel
    def sum_up(x: ti.types.ndarray(dtype=ti.math.vec2, ndim=1), out: ti.types.ndarray(dtype=ti.f32, ndim=1)):
        for i in x:
            out[0] += x[i].x + x[i].y

    x = ti.graph.Arg(ti.graph.ArgKind.NDARRAY, "x", ti.math.vec2, ndim=1)
    out = ti.graph.Arg(ti.graph.ArgKind.NDARRAY, "out", ti.f32, ndim=1)
    by = ti.graph.Arg(ti.graph.ArgKind.MATRIX, "by", ti.math.vec2)
    builder = ti.graph.GraphBuilder()
    builder.dispatch(shift, x, by, 2, 10)
    builder.dispatch(shift, x, ti.Vector([1.0, 0.0]), 1, 1)
    builder.dispatch(sum_up, x, out)
    module = ti.aot.Module()
    module.add_graph("main", builder.compile())
    module.add_kernel(scale)
    loaded = reloaded(module, tmp_path)
    assert list(loaded.kernels) == ["scale"] and list(loaded.graphs) == ["main"]
    x, out = ti.Vector.ndarray(2, ti.f32, 3), ti.ndarray(ti.f32, 1)
    loaded.get_graph("main").run({"x": x, "by": ti.Vector([1.0, 2.0]), "out": out})
    assert x.to_numpy().tolist() == [[21, 40]] * 3 and out[0] == 183
    with pytest.raises(ti.TaichiRuntimeError, match="needs a value for argument `by`"):
        loaded.graphs["main"].run({"x": x, "out": out})


def test_meshes(tmp_path: Path) -> None:
    points, cells = tetrahedra()
    mesh = ti.Mesh.from_arrays(points, cells=cells)
    mesh.verts.place({"n": ti.i32})
    mesh.cells.place({"w": ti.i32}, reorder=True)

    @ti.kernel
    def run():
        for v in mesh.verts:
            for c in v.cells:
                v.n += c.verts[0].id
                c.w += 1

    module = ti.aot.Module()
    module.add_field("n", mesh.verts.n)
    module.add_kernel(run)
    with pytest.raises(ti.exceptions.NotYet, match="reorder=True"):
        module.add_field("w", mesh.cells.w)
    # The tables of the mesh are saved.
    loaded = reloaded(module, tmp_path)
    loaded.kernels["run"]()
    wanted = np.zeros(27, int)
    for cell in cells:
        wanted[cell] += cell[0]
    assert (loaded.fields["n"].to_numpy() == wanted).all()


def test_functions_prints_and_checks(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    @ti.real_func
    def fib(n: ti.i32) -> ti.i32:
        if n < 2:
            return n
        return fib(n - 1) + fib(n - 2)

    x = ti.field(ti.i32, shape=4)

    @ti.kernel
    def show(n: ti.i32) -> ti.i32:
        print("fib", n, fib(n))
        return fib(n)

    @ti.kernel
    def outside(n: ti.i32) -> ti.i32:
        for i in range(n):
            x[i] = 1
        return 2  # lazy worlds report now

    module = ti.aot.Module()
    module.add_kernel(show)
    module.add_kernel(outside)
    loaded = reloaded(module, tmp_path)
    assert loaded.kernels["show"](10) == 55
    assert "fib 10 55" in capfd.readouterr().out
    with pytest.warns(RuntimeWarning, match="wrote to field `x` outside of its bounds"):
        assert loaded.kernels["outside"](5) == 2
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False, debug=True)
    with pytest.raises(ti.TaichiAssertionError, match="wrote to field `x` outside of its bounds"):
        ti.aot.load(tmp_path / "m").kernels["outside"](5)


PROGRAM = """
import sys
import numpy as np
import wuji as ti
ti.init(arch=ti.cpu, verbose=False, offline_cache=False)
module = ti.aot.load(sys.argv[1])
print(module.kernels["scale"](np.ones(3, np.float32), 2.0))
"""


def test_another_process_runs_it(tmp_path: Path) -> None:
    module = ti.aot.Module()
    module.add_kernel(scale)
    module.archive(str(tmp_path / "m.tcm"))
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path / "m.tcm")], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.stdout == "6.0\n", done.stderr


def test_exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wuji.aot import exports

    monkeypatch.setattr(exports, "_aot_kernels", [])
    x = ti.field(ti.i32, shape=2)

    @ti.aot.export
    @ti.kernel
    def one(v: ti.i32) -> ti.i32:
        return v + 1

    @ti.aot.export_as("two", template_types={"f": x})
    @ti.kernel
    def other(f: ti.template()) -> ti.i32:
        return f.shape[0]

    with pytest.raises(AssertionError, match="Only Taichi kernels can be exported"):
        ti.aot.export(len)
    loaded = reloaded(ti.aot.exported(), tmp_path)
    assert loaded.kernels["one"](4) == 5 and loaded.kernels["two"]() == 2


def test_archives_are_reproducible(tmp_path: Path) -> None:
    for name in ("a.tcm", "b.tcm"):
        ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
        module = ti.aot.Module()
        module.add_kernel(scale)
        module.archive(tmp_path / name)
    assert (tmp_path / "a.tcm").read_bytes() == (tmp_path / "b.tcm").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.tcm") as archive:
        assert sorted(archive.namelist()) == ["__content__", "__version__", "kernels/scale.wir", "module.json"]
        assert archive.read("__content__") == b"kernel:scale"
        # No paths of the machine that wrote it.
        assert b'file F0 "test_aot.py"' in archive.read("kernels/scale.wir")


def test_wrong_arguments(tmp_path: Path) -> None:
    module = ti.aot.Module()
    module.add_kernel(scale)
    run = reloaded(module, tmp_path).kernels["scale"]
    with pytest.raises(ti.TaichiRuntimeTypeError) as caught:
        run(np.zeros((2, 2), np.float64), 1.0)
    assert str(caught.value) == (
        "kernel `scale` was saved for other arrays\n  = note: it takes `x` of f32 with 1 axis\n  = note: it got `x` of f64 and shape (2, 2)"
    )
    with pytest.raises(ti.TaichiRuntimeTypeError, match="W0610"):
        run(np.zeros(2, np.float32), "a")
    with pytest.raises(ti.TaichiRuntimeTypeError):
        run(np.zeros(2, np.float32))
    with pytest.raises(ti.TaichiRuntimeTypeError):
        run(np.zeros(2, np.float32), 1.0, 2)
    loss = ti.field(ti.f32, (), needs_grad=True)
    with pytest.raises(ti.TaichiRuntimeError, match="has no gradient"), ti.ad.Tape(loss):
        run(np.zeros(2, np.float32), 1.0)


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    module = ti.aot.Module()
    packed = ti.BitpackedFields(max_num_bits=32)
    q = ti.field(ti.types.quant.int(5))
    packed.place(q)
    ti.root.dense(ti.i, 4).place(packed)

    @ti.kernel
    def quantized():
        for i in q:
            q[i] = i

    @ti.kernel
    def textured(t: ti.types.texture(2)):
        pass

    for kernel in (quantized, textured):
        with pytest.raises(ti.exceptions.NotYet) as caught:
            module.add_kernel(kernel)
        assert caught.value.code == "W0607"
    for use in (lambda: module.add_kernel(len), lambda: module.add_field("x", 3), lambda: module.add_graph("g", 3)):
        with pytest.raises(AssertionError):
            use()
    with pytest.raises(AssertionError, match="must ends with .tcm"):
        module.archive(tmp_path / "m.zip")
    with pytest.raises(AssertionError, match="Output directory doesn't exist"):
        module.archive(tmp_path / "no" / "m.tcm")
    (tmp_path / "file").write_text("")
    with pytest.raises(ti.TaichiRuntimeError, match="W0530"):
        module.save(tmp_path / "file")
    with pytest.warns(UserWarning, match="different arch"):
        ti.aot.Module(arch=ti.vulkan)
    with pytest.raises(ti.exceptions.NotYet, match="SPIR-V"):
        ti.aot.GfxRuntime140({}, [])


# A change of the description, or of a file.
DAMAGE: list[tuple[Callable[[Any], Any], str]] = [
    (lambda d: d.pop("format"), "module.json: KeyError: 'format'"),
    (lambda d: d.update(format=99), "it has format 99, and this version reads format 1; wuji 0.1.0 wrote it"),
    (lambda d: d.update(kernels=[]), "module.json: AttributeError: 'list' object has no attribute 'items'"),
    (lambda d: d["kernels"]["fill"].pop("file"), "kernel fill: KeyError: 'file'"),
    (lambda d: d["kernels"]["fill"].update(file="../x"), "it refers to ../x, which is not a part of it"),
    (lambda d: d["kernels"]["fill"].update(file="kernels/none.wir"), "it has no kernels/none.wir"),
    (lambda d: d["kernels"]["fill"].update(trees=[5]), "kernel fill: IndexError: list index out of range"),
    (lambda d: d["kernels"]["fill"]["parameters"].pop(), "the arguments must name each parameter and each array once"),
    (lambda d: d["trees"][0]["children"][0].update(kind="odd"), "module.json: ValueError: there are no nodes of the kind 'odd'"),
    (lambda d: d["trees"][0]["children"][0]["fields"][0].update(number=3), "module.json: ValueError: field 3 of a tree is not at its place"),
    (lambda d: d["fields"].update(x={"leaf": [0, 9]}), "module.json: KeyError: 9"),
]  # fmt: skip


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    x = ti.field(ti.i32, shape=4)

    @ti.kernel
    def fill(v: ti.i32):
        for i in x:
            x[i] = v

    module = ti.aot.Module()
    module.add_field("x", x)
    module.add_kernel(fill)
    module.save(tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize("number", range(len(DAMAGE)))
def test_damaged_descriptions(number: int, saved: Path) -> None:
    change, expected = DAMAGE[number]
    data = json.loads((saved / "module.json").read_text())
    change(data)
    (saved / "module.json").write_text(json.dumps(data))
    with pytest.raises(ti.TaichiRuntimeError) as caught:
        ti.aot.load(saved)
    assert caught.value.code == "W0531" and expected in str(caught.value)


def test_damaged_files(saved: Path, tmp_path: Path) -> None:
    wir = saved / "kernels" / "fill.wir"
    good = wir.read_text()
    ti.aot.load(saved).kernels["fill"](3)
    for text, code in (
        ("", "W0531"),
        ("this is no kernel", "W00"),
        (good.replace("i: 4", "i: 400"), "W0118"),
        (good.replace("store f0[v1], v0", "store f0[v1], v9"), "W00"),
        (good.replace("v0: i32", "v0: f32"), "W0"),
        # Only the compiler may state that an access needs no check.
        (good.replace("store f0", "store.inbounds f0"), "W0531"),
        (good.replace("store f0", "store.known_active f0"), "W0531"),
    ):
        wir.write_text(text)
        with pytest.raises(ti.WujiError) as caught:
            ti.aot.load(saved)
        assert caught.value.code.startswith(code), caught.value
    wir.write_bytes(b"\xff\xfe")
    with pytest.raises(ti.TaichiRuntimeError, match="is not text"):
        ti.aot.load(saved)
    (saved / "module.json").write_text("{")
    with pytest.raises(ti.TaichiRuntimeError, match="W0531"):
        ti.aot.load(saved)
    (saved / "module.json").unlink()
    with pytest.raises(ti.TaichiRuntimeError, match="it is a module of Taichi"):
        ti.aot.load(saved)
    with pytest.raises(ti.TaichiRuntimeError, match="W0530"):
        ti.aot.load(tmp_path / "nowhere")
    (tmp_path / "a.tcm").write_text("no archive")
    with pytest.raises(ti.TaichiRuntimeError, match="W0531.*\n.*not a zip file"):
        ti.aot.load(tmp_path / "a.tcm")


def test_random_damage_is_reported(saved: Path) -> None:
    text = (saved / "kernels" / "fill.wir").read_text()
    description = (saved / "module.json").read_text()
    random = np.random.default_rng(7)
    for number in range(120):
        files = {"kernels/fill.wir": text, "module.json": description}
        name = ("kernels/fill.wir", "module.json")[number % 2]
        at, length = int(random.integers(len(files[name]))), int(random.integers(1, 6))
        files[name] = files[name][:at] + str(random.choice(["", "9", "v7", "{", '"', "f0", "null"])) + files[name][at + length :]
        for file, contents in files.items():
            (saved / file).write_text(contents)
        try:
            ti.aot.load(saved)
        except ti.WujiError as error:
            assert error.code, error
