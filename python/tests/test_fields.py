"""Fields: shapes, layouts, host access, NumPy."""

import gc

import numpy as np
import pytest

import wuji as ti


@pytest.mark.parametrize("dt", [ti.i8, ti.i16, ti.i32, ti.i64, ti.u8, ti.u16, ti.u32, ti.u64, ti.f16, ti.f32, ti.f64, ti.u1])
def test_every_scalar_type(dt):
    x = ti.field(dt, shape=(3, 4))
    a = (np.arange(12).reshape(3, 4) % 2).astype(dt.numpy_name)
    x.from_numpy(a)
    assert x.to_numpy().dtype == a.dtype and (x.to_numpy() == a).all()
    x[1, 2] = 1
    assert x[1, 2] == 1
    y = ti.field(dt, shape=(3, 4))

    @ti.kernel
    def copy():
        for i, j in x:
            y[i, j] = x[i, j]

    copy()
    assert (y.to_numpy() == x.to_numpy()).all()


@pytest.mark.parametrize("n", [8, 200])
def test_fill_and_copy_in_any_layout(n):
    rows = ti.field(ti.f32, shape=(n, n))
    blocks = ti.field(ti.f32)
    ti.root.dense(ti.ij, n // 8).dense(ti.ij, 8).place(blocks)
    left, right = ti.field(ti.f32), ti.Vector.field(3, ti.f32)
    ti.root.dense(ti.ij, n).place(left, right)
    columns = ti.field(ti.f32)
    ti.root.dense(ti.j, n).dense(ti.i, n).place(columns)
    a = np.random.default_rng(1).random((n, n), dtype=np.float32)
    right.fill(ti.Vector([1.0, 2.0, 3.0]))
    for x in (rows, blocks, left, columns):
        x.from_numpy(a)
        for y in (rows, blocks, left, columns):
            y.fill(7.5)
            assert (y.to_numpy() == 7.5).all()
            if y is not x:
                y.copy_from(x)
                assert (y.to_numpy() == a).all()
            x.from_numpy(a)
    assert (right.to_numpy() == [1, 2, 3]).all()
    other = ti.Vector.field(3, ti.f32, shape=(n, n))
    other.copy_from(right)
    right.fill(0)
    assert (other.to_numpy() == [1, 2, 3]).all() and (left.to_numpy() == a).all()


def test_scalar_fields():
    x = ti.field(ti.f32, shape=())
    x[None] = 3
    assert x[None] == 3 and x.shape == ()

    @ti.kernel
    def f():
        x[None] += 1

    f()
    assert x[None] == 4


def test_axis_order_and_offset():
    x = ti.field(ti.i32, shape=(4, 8), order="ji", offset=(-2, 3))
    assert x.shape == (4, 8)

    @ti.kernel
    def f():
        for i, j in x:
            x[i, j] = i * 100 + j

    f()
    assert x[-2, 3] == -197 and x[1, 10] == 110
    assert x.to_numpy()[0, 0] == -197
    with pytest.raises(IndexError):
        x[2, 3]


def test_place():
    x, y = ti.field(ti.f32), ti.field(ti.i32)
    v = ti.Vector.field(2, ti.f32)
    block = ti.root.dense(ti.ij, 4)
    block.dense(ti.ij, (2, 3)).place(x, v)
    ti.root.dense(ti.i, 10).place(y, offset=-5)
    assert x.shape == (8, 12) and y.shape == (10,) and v.shape == (8, 12)
    assert x.parent().parent() is block and x.snode.shape == (8, 12) and block.shape == (4, 4)
    x[7, 11] = 2.5
    y[-5] = 3
    assert x[7, 11] == 2.5 and y[-5] == 3 and v[0, 0].to_list() == [0, 0]


def test_components_can_be_placed_separately():
    v = ti.Vector.field(2, ti.f32)
    ti.root.dense(ti.i, 4).place(v.get_scalar_field(0))
    ti.root.dense(ti.i, 4).place(v.get_scalar_field(1))

    @ti.kernel
    def f():
        for i in range(4):
            v[i] = [i, -i]

    f()
    assert v.to_numpy().tolist() == [[0, 0], [1, -1], [2, -2], [3, -3]]


def test_fill_and_copy():
    x, y = ti.field(ti.f32, shape=5), ti.field(ti.f64, shape=5)
    v, w = ti.Vector.field(2, ti.f32, shape=5), ti.Vector.field(2, ti.f32, shape=5)
    x.fill(2.5)
    y.copy_from(x)
    v.fill([1, 2])
    w.copy_from(v)
    assert y.to_numpy().tolist() == [2.5] * 5 and w.to_numpy().tolist() == [[1, 2]] * 5
    w.fill(3)
    assert w[4].to_list() == [3, 3]


def test_wrong_shapes_and_indices():
    x = ti.field(ti.f32, shape=(4, 5))
    with pytest.raises(ValueError, match="shape"):
        x.from_numpy(np.zeros((5, 4), "f4"))
    with pytest.raises(IndexError):
        x[4, 0]
    with pytest.raises(IndexError, match="indices"):
        x[1]
    with pytest.raises(IndexError):
        x[1, 2, 3] = 0
    with pytest.raises(ti.TaichiRuntimeError):
        ti.field(ti.f32, shape=(0, 3))
    with pytest.raises(ti.TaichiRuntimeError):
        ti.field(ti.f32, shape=(3, -1))
    with pytest.raises(ti.TaichiSyntaxError, match="offset"):
        ti.field(ti.f32, shape=(3, 3), offset=1)
    with pytest.raises(ti.TaichiRuntimeError, match="not placed"):
        ti.field(ti.f32)[0]
    with pytest.raises(TypeError):
        next(iter(x))
    with pytest.raises(ti.TaichiTypeError):
        ti.field("f33", shape=3)

    @ti.kernel
    def f():
        x[0] = 1

    with pytest.raises(ti.TaichiIndexError, match="dim 2 accessed with indices of dim 1"):
        f()

    @ti.kernel
    def g(a: ti.f32):
        x[a, 0] = 1

    with pytest.raises(ti.TaichiTypeError, match="indices must be integers"):
        g(1.0)


def test_out_of_bounds_writes_warn_once():
    x = ti.field(ti.f32, shape=4)

    @ti.kernel
    def f(n: ti.i32) -> ti.i32:
        for i in range(n):
            x[i] = 1.0
        return 5

    assert f(4) == 5
    with pytest.warns(RuntimeWarning, match="outside"):
        assert f(6) == 5
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(6)


def test_out_of_bounds_writes_raise_in_debug_mode():
    ti.init(arch=ti.cpu, debug=True, offline_cache=False, verbose=False)
    x = ti.field(ti.f32, shape=4, name="x")

    @ti.kernel
    def f(n: ti.i32):
        for i in range(n):
            x[i] = 1.0

    with pytest.raises(ti.TaichiRuntimeError) as caught:
        f(6)
    text = str(caught.value)
    assert "W0401" in text and "x[i] = 1.0" in text and "`x`" in text


def test_memory_is_freed_with_the_field():
    from wuji.lang import runtime

    native = runtime.current().native
    before = native.memory_used()
    x = ti.field(ti.f32, shape=(1024, 1024))
    x.fill(1)
    assert native.memory_used() >= before + 4 * 1024 * 1024
    del x
    assert native.memory_used() == before


def test_trees_are_destroyed():
    builder = ti.FieldsBuilder()
    x = ti.field(ti.f32)
    builder.dense(ti.i, 10).place(x)
    tree = builder.finalize()
    x[3] = 1

    @ti.kernel
    def f():
        x[3] += 1

    f()
    assert x[3] == 2
    with pytest.raises(ti.TaichiRuntimeError, match="finalized"):
        builder.dense(ti.i, 3)
    tree.destroy()
    with pytest.raises(Exception):
        x[3]
    with pytest.raises(Exception):
        f()


def test_fields_of_a_closed_world_raise():
    x = ti.field(ti.f32, shape=3)
    x[0] = 1
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
    with pytest.raises(Exception):
        x[0]


def test_use_before_init_raises():
    ti.reset()
    with pytest.raises(ti.TaichiRuntimeError, match="ti.init"):
        ti.field(ti.f32, shape=3)


def test_two_worlds():
    a = ti.World(offline_cache=False)
    with a:
        x = ti.field(ti.f32, shape=3)

        @ti.kernel
        def f():
            for i in x:
                x[i] += 1

        f()
    y = ti.field(ti.f32, shape=3)
    y[0] = 5
    with a:
        f()
        assert x[0] == 2
    assert y[0] == 5


def test_many_fields():
    xs = [ti.field(ti.i32, shape=3) for _ in range(50)]

    @ti.kernel
    def f():
        for k in ti.static(range(50)):
            xs[k][1] = k

    f()
    assert [x[1] for x in xs] == list(range(50))
    gc.collect()


def test_unplaced_fields_raise():
    for make in (lambda: ti.field(ti.f32), lambda: ti.Vector.field(3, ti.f32), lambda: ti.types.struct(a=ti.i32).field()):
        with pytest.raises(ti.TaichiRuntimeError, match="not placed"):
            make()[0]
