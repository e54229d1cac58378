"""Launch graphs and sparse grids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wuji as ti

Kind = ti.graph.ArgKind


@ti.kernel
def add(a: ti.types.ndarray(dtype=ti.f32, ndim=1), v: ti.f32):
    for i in a:
        a[i] += v


def test_graph_runs_launches_and_sequences_in_order() -> None:
    a, v = ti.graph.Arg(Kind.NDARRAY, "a", ti.f32, ndim=1), ti.graph.Arg(Kind.SCALAR, "v", ti.f32)

    @ti.kernel
    def double(a: ti.types.ndarray(dtype=ti.f32, ndim=1)):
        for i in a:
            a[i] *= 2

    builder = ti.graph.GraphBuilder()
    builder.dispatch(add, a, v)
    twice = builder.create_sequential()
    twice.dispatch(double, a)
    twice.dispatch(add, a, v)
    for _ in range(2):
        builder.append(twice)
    graph = builder.compile()
    # Later additions are not part of a compiled graph.
    builder.dispatch(double, a)
    array = ti.ndarray(ti.f32, 4)
    graph.run({"a": array, "v": 1, "more": "is ignored"})
    assert (array.to_numpy() == 7).all()
    other = ti.ndarray(ti.f32, 9)
    graph.run({"a": other, "v": 2.0})
    assert (other.to_numpy() == 14).all()


def test_all_argument_kinds() -> None:
    @ti.kernel
    def run(
        tex: ti.types.texture(num_dimensions=2),
        out: ti.types.rw_texture(num_dimensions=2, fmt=ti.Format.rgba32f, lod=0),
        m: ti.math.mat2,
        points: ti.types.ndarray(dtype=ti.math.vec2, ndim=1),
        t: ti.template(),
    ):
        for i in points:
            points[i] = m @ points[i] + t
        for i, j in out:
            out.store([i, j], tex.fetch([i, j], 0) * 2)

    builder = ti.graph.GraphBuilder()
    builder.dispatch(
        run,
        ti.graph.Arg(Kind.TEXTURE, "tex", ndim=2),
        ti.graph.Arg(Kind.RWTEXTURE, "out", fmt=ti.Format.rgba32f, ndim=2),
        ti.graph.Arg(Kind.MATRIX, "m", ti.math.mat2),
        ti.graph.Arg(Kind.NDARRAY, "points", ti.math.vec2, ndim=1),
        1,
    )
    graph = builder.compile()
    tex, out = ti.Texture(ti.Format.r32f, (2, 2)), ti.Texture(ti.Format.rgba32f, (2, 2))
    tex.from_numpy(np.full((2, 2), 1.5))
    points = ti.Vector.ndarray(2, ti.f32, 3)
    points.fill(1)
    graph.run({"tex": tex, "out": out, "m": ti.Matrix([[1.0, 2.0], [3.0, 4.0]]), "points": points})
    assert (points.to_numpy() == [4, 8]).all()
    assert (out.to_numpy()[0, 0] == [3, 0, 0, 2]).all()


def test_kernel_methods_in_graphs() -> None:
    @ti.data_oriented
    class Counter:
        def __init__(self) -> None:
            self.step = 3

        @ti.kernel
        def count(self, a: ti.types.ndarray(dtype=ti.i32, ndim=1)):
            for i in a:
                a[i] += self.step

    builder = ti.graph.GraphBuilder()
    builder.dispatch(Counter().count, ti.graph.Arg(Kind.NDARRAY, "a", ti.i32, ndim=1))
    array = ti.ndarray(ti.i32, 2)
    builder.compile().run({"a": array})
    assert list(array.to_numpy()) == [3, 3]


def test_arguments_that_do_not_match_the_kernel() -> None:
    builder = ti.graph.GraphBuilder()
    a, v = ti.graph.Arg(Kind.NDARRAY, "a", ti.f32, ndim=1), ti.graph.Arg(Kind.SCALAR, "v", ti.f32)
    with pytest.raises(ti.TaichiCompilationError, match="ndim=1"):
        builder.dispatch(add, ti.graph.Arg(Kind.NDARRAY, "a", ti.f32, ndim=2), v)
    with pytest.raises(ti.TaichiCompilationError, match="dtype"):
        builder.dispatch(add, a, ti.graph.Arg(Kind.SCALAR, "v", ti.i32))
    with pytest.raises(ti.TaichiCompilationError, match="dtype"):
        builder.dispatch(add, v, a)
    with pytest.raises(ti.TaichiCompilationError, match="2 arguments"):
        builder.dispatch(add, a)
    with pytest.raises(ti.TaichiRuntimeError, match="needs a kernel"):
        builder.dispatch(print, a)
    builder.dispatch(add, a, v)
    builder.dispatch(add, ti.graph.Arg(Kind.NDARRAY, "v", ti.f32, ndim=1), v)
    with pytest.raises(ti.TaichiCompilationError, match="two different"):
        builder.compile()


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (lambda: {"a": ti.ndarray(ti.f32, 2)}, "`v`"),
        (lambda: {"a": ti.ndarray(ti.i32, 2), "v": 1}, "dtype"),
        (lambda: {"a": ti.ndarray(ti.f32, (2, 2)), "v": 1}, "1 axes"),
        (lambda: {"a": 3, "v": 1}, "NDARRAY"),
        (lambda: {"a": ti.ndarray(ti.f32, 2), "v": "x"}, "SCALAR"),
    ],
)
def test_values_that_do_not_match_the_graph(args: Any, text: str) -> None:
    builder = ti.graph.GraphBuilder()
    builder.dispatch(add, ti.graph.Arg(Kind.NDARRAY, "a", ti.f32, ndim=1), ti.graph.Arg(Kind.SCALAR, "v", ti.f32))
    with pytest.raises(ti.TaichiRuntimeError, match=text):
        builder.compile().run(args())


@pytest.mark.parametrize(
    "make",
    [
        lambda: ti.graph.Arg(Kind.SCALAR, "x", ti.math.vec3),
        lambda: ti.graph.Arg(Kind.MATRIX, "x", ti.f32),
        lambda: ti.graph.Arg(Kind.NDARRAY, "x", ti.f32),
        lambda: ti.graph.Arg(Kind.TEXTURE, "x"),
        lambda: ti.graph.Arg(Kind.SCALAR, "x", "text"),
        lambda: ti.graph.Arg(Kind.TEXTURE, "x", ndim=2, shape=(2, 2)),
        lambda: ti.graph.Arg("SCALAR", "x", ti.f32),
    ],
)
def test_invalid_graph_arguments(make: Any) -> None:
    with pytest.raises(ti.TaichiRuntimeError):
        make()


def test_sparse_grid() -> None:
    grid = ti.sparse.grid({"mass": ti.f32, "velocity": ti.math.vec2, "near": ti.types.vector(4, ti.i32)}, shape=(8, 8))
    assert grid.shape == (8, 8) and ti.sparse.usage(grid) == 0

    @ti.kernel
    def fill():
        for i in range(4):
            grid[i, i].mass = i

    @ti.kernel
    def count() -> ti.i32:
        cells = 0
        for I in ti.grouped(grid):  # noqa: E741
            cells += 1
        return cells

    fill()
    assert ti.sparse.usage(grid) == 4 / 64 and count() == 4
    grid[5, 6].velocity = [1, 2]
    assert ti.sparse.usage(grid) == 5 / 64
    assert grid[3, 3].mass == 3 and list(grid[5, 6].velocity) == [1, 2]
    with pytest.raises(ti.TaichiTypeError, match="grid"):
        ti.sparse.usage(3)


def test_options_of_arguments() -> None:
    kind = ti.graph.ArgKind
    with pytest.raises(ti.TaichiRuntimeError, match="Invalid argument: ndim, you can only create a graph argument with: .'tag', 'name', 'dtype'."):
        ti.graph.Arg(kind.SCALAR, "a", ti.f32, ndim=1)
    with pytest.raises(ti.TaichiRuntimeError, match="Invalid argument: element_shape"):
        ti.graph.Arg(kind.MATRIX, "a", ti.math.mat2, element_shape=(2, 2))
    with pytest.raises(ti.TaichiRuntimeError, match="Invalid argument: fmt"):
        ti.graph.Arg(kind.TEXTURE, "a", ndim=2, fmt=ti.Format.r32f)


def test_a_sequence_cannot_contain_itself():
    first, second = ti.graph.GraphBuilder(), ti.graph.GraphBuilder()
    first.append(second)
    for outer, inner in ((first, first), (second, first)):
        with pytest.raises(RuntimeError, match="cannot contain itself"):
            outer.append(inner)


def test_the_arguments_of_a_graph_are_a_dictionary():
    with pytest.raises(RuntimeError, match="needs a dictionary of arguments, not NoneType"):
        ti.graph.GraphBuilder().compile().run(None)
