"""Python-scope functions are rejected in kernels; functions with a kernel meaning are compiled."""

from __future__ import annotations

import numpy as np
import pytest

import wuji as ti


def test_fill_in_a_kernel_is_a_loop() -> None:
    x = ti.field(ti.i32, shape=(3, 4))
    v = ti.Vector.field(2, ti.f32, shape=5)
    s = ti.Struct.field({"a": ti.i32, "b": ti.math.vec3}, shape=2)

    @ti.kernel
    def again(n: ti.i32):
        x.fill(n)
        for i, j in x:
            x[i, j] += 1
        v.fill([n, 2.5])
        s.fill(n)
        x.fill(val=x[0, 0] * 10)

    for n in (1, 2):
        again(n)
        assert (x.to_numpy() == 10 * (n + 1)).all()
        assert (v.to_numpy() == [n, 2.5]).all()
        assert (s.a.to_numpy() == n).all() and (s.b.to_numpy() == n).all()


def test_fill_of_active_cells() -> None:
    x = ti.field(ti.i32)
    ti.root.pointer(ti.i, 4).dense(ti.i, 4).place(x)
    x[5] = 1

    @ti.kernel
    def seven():
        x.fill(7)

    seven()
    assert x.to_numpy().tolist() == [0] * 4 + [7] * 4 + [0] * 8


def test_fill_in_a_function_and_of_an_argument() -> None:
    x = ti.field(ti.f32, shape=6)

    @ti.func
    def clear(y: ti.template()):
        y.fill(0)

    @ti.kernel
    def run(y: ti.template()):
        clear(y)
        for i in y:
            y[i] += i

    run(x)
    run(x)
    assert x.to_numpy().tolist() == [0, 1, 2, 3, 4, 5]


def test_python_only_functions_are_rejected_in_kernels() -> None:
    x = ti.field(ti.i32, shape=3)
    y = ti.field(ti.i32, shape=3)
    values = np.arange(3, dtype=np.int32)

    def rejected(body, named: str) -> None:
        with pytest.raises(ti.TaichiSyntaxError, match=f"`{named}` can only be called from Python"):
            ti.kernel(body)()

    def copies():
        x.copy_from(y)

    def takes():
        x.from_numpy(values)

    def gives():
        z = x.to_numpy()

    def makes():
        z = ti.field(ti.i32, shape=3)

    def makes_vectors():
        z = ti.Vector.field(2, ti.i32, shape=3)

    def waits():
        ti.sync()

    def clears():
        ti.root.deactivate_all()

    rejected(copies, "x.copy_from")
    rejected(takes, "x.from_numpy")
    rejected(gives, "x.to_numpy")
    rejected(makes, "ti.field")
    rejected(makes_vectors, "ti.Vector.field")
    rejected(waits, "ti.sync")
    rejected(clears, "ti.root.deactivate_all")


def test_fields_convert_to_numpy() -> None:
    x = ti.field(ti.f32, shape=(2, 3))
    x.fill(2)
    assert np.asarray(x).shape == (2, 3) and np.sum(x) == 12
    assert np.asarray(x, dtype=np.int64).dtype == np.int64
    assert (np.ones(3) + x == 3).all()
    assert np.asarray(ti.Vector.field(2, ti.f32, shape=4)).shape == (4, 2)
    with pytest.raises(TypeError, match="dict of arrays"):
        np.asarray(ti.Struct.field({"a": ti.i32}, shape=4))
