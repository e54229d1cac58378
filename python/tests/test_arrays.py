"""Array arguments: Wuji's, NumPy's, torch's, and objects with the buffer protocol."""

import array

import numpy as np
import pytest

import wuji as ti


def test_ndarray_access_and_conversion():
    a = ti.ndarray(ti.f32, shape=(3, 4))
    assert a.shape == (3, 4) and a.dtype is ti.f32 and a.to_numpy().sum() == 0
    a[1, 2] = 5
    assert a[1, 2] == 5 and a[-2, -2] == 5
    with pytest.raises(IndexError):
        a[3, 0]
    v = ti.Vector.ndarray(2, ti.i32, shape=5)
    v[3] = [1, 2]
    v[3][0] = 7
    assert v[3].to_list() == [7, 2] and v.element_shape == (2,)
    m = ti.Matrix.ndarray(2, 2, ti.f64, shape=2)
    m.fill(3)
    assert m.to_numpy().shape == (2, 2, 2) and m[1][1, 1] == 3
    b = ti.ndarray(ti.f32, (3, 4))
    b.copy_from(a)
    assert b[1, 2] == 5
    b.from_numpy(np.ones((3, 4)))
    assert b.to_numpy().sum() == 12


def test_ndarrays_as_arguments():
    @ti.kernel
    def f(a: ti.types.ndarray(dtype=ti.f32, ndim=2), k: ti.f32):
        for i, j in a:
            a[i, j] += k * (i * a.shape[1] + j)

    x = ti.ndarray(ti.f32, (3, 4))
    f(x, 2.0)
    assert (x.to_numpy() == 2 * np.arange(12).reshape(3, 4)).all()
    y = np.zeros((5, 2), "f4")
    f(y, 1.0)
    assert (y == np.arange(10).reshape(5, 2)).all()


def test_arrays_of_vectors():
    vec2 = ti.types.vector(2, ti.f32)

    @ti.kernel
    def f(a: ti.types.ndarray(dtype=vec2, ndim=1)):
        for i in a:
            a[i] = [i, -i]
            a[i][1] *= 2

    x = ti.Vector.ndarray(2, ti.f32, 4)
    f(x)
    y = np.zeros((4, 2), "f4")
    f(y)
    assert (y == [[0, 0], [1, -2], [2, -4], [3, -6]]).all() and (x.to_numpy() == y).all()


def test_arrays_of_any_type_and_rank():
    @ti.kernel
    def double(a: ti.types.ndarray()):
        for I in ti.grouped(a):
            a[I] *= 2

    for dtype in ("i4", "f8", "u1", "i8"):
        for shape in ((4,), (2, 3), (2, 2, 2)):
            a = np.ones(shape, dtype)
            double(a)
            assert (a == 2).all()


def test_strided_arrays_are_not_copied():
    @ti.kernel
    def f(a: ti.types.ndarray(ndim=1)):
        for i in a:
            a[i] = i + 1

    whole = np.zeros((4, 6), "i4")
    f(whole[1, ::2])
    f(whole[:, 5])
    expected = np.zeros((4, 6), "i4")
    expected[1, ::2] = [1, 2, 3]
    expected[:, 5] = [1, 2, 3, 4]
    assert (whole == expected).all()


def test_overlapping_arrays():
    @ti.kernel
    def shift(a: ti.types.ndarray(ndim=1), b: ti.types.ndarray(ndim=1)):
        ti.loop_config(serialize=True)
        for i in range(a.shape[0]):
            b[i] = a[i] + 1

    whole = np.zeros(6, "i4")
    shift(whole[:-1], whole[1:])
    assert whole.tolist() == [0, 1, 2, 3, 4, 5]
    x, y = np.zeros(3, "i4"), np.zeros(3, "i4")
    shift(x, y)
    assert y.tolist() == [1, 1, 1]


def test_arrays_with_the_buffer_protocol():
    @ti.kernel
    def f(a: ti.types.ndarray(dtype=ti.f64, ndim=1)):
        for i in a:
            a[i] = i

    a = array.array("d", [0.0] * 4)
    f(a)
    assert a.tolist() == [0, 1, 2, 3]


def test_read_only_arrays():
    @ti.kernel
    def total(a: ti.types.ndarray(ndim=1)) -> ti.f32:
        s = 0.0
        for i in a:
            s += a[i]
        return s

    @ti.kernel
    def spoil(a: ti.types.ndarray(ndim=1)):
        a[0] = 1

    a = np.ones(10, "f4")
    a.flags.writeable = False
    assert total(a) == 10
    with pytest.raises(ti.TaichiTypeError, match="read-only"):
        spoil(a)


def test_mismatched_arrays_are_rejected():
    @ti.kernel
    def f(a: ti.types.ndarray(dtype=ti.f32, ndim=2)):
        pass

    for bad in (np.zeros(3, "f4"), np.zeros((3, 3), "f8"), [1, 2, 3], 5, None, "text", ti.field(ti.f32, shape=(2, 2))):
        with pytest.raises(ti.TaichiRuntimeTypeError):
            f(bad)
    with pytest.raises(ti.TaichiRuntimeTypeError):
        f()


def test_boundary_clamp():
    @ti.kernel
    def f(a: ti.types.ndarray(dtype=ti.i32, ndim=1, boundary="clamp")) -> ti.i32:
        return a[-5] * 100 + a[99]

    assert f(np.array([1, 2, 3], "i4")) == 103


def test_invalid_scalar_arguments_are_rejected():
    @ti.kernel
    def f(n: ti.i32, x: ti.f32) -> ti.f32:
        return n + x

    assert f(1, 2) == 3
    for bad in ((1.5, 1.0), ("1", 1.0), (1, "x"), (None, 1.0), (2**31, 1.0), (1, [1.0])):
        with pytest.raises(ti.TaichiRuntimeTypeError):
            f(*bad)


def test_at_most_64_arguments():
    many = ti.types.struct(**{f"m{k}": ti.i32 for k in range(65)})

    @ti.kernel
    def f(m: many):
        pass

    with pytest.raises(ti.TaichiRuntimeError, match="too big"):
        f(many())


def test_torch_tensors():
    torch = pytest.importorskip("torch")

    @ti.kernel
    def f(a: ti.types.ndarray(ndim=2)):
        for i, j in a:
            a[i, j] += i * 10 + j

    t = torch.zeros((3, 4))
    f(t)
    assert t[2, 3] == 23
    x = ti.field(ti.f32, shape=(3, 4))
    x.from_torch(t)
    assert x[2, 3] == 23 and (x.to_torch() == t).all()
    v = ti.Vector.field(2, ti.f32, shape=3)
    v.from_torch(torch.arange(6.0).reshape(3, 2, 1))
    assert v.get_scalar_field(1).to_torch(device="cpu").tolist() == [1, 3, 5]
    v.get_scalar_field(0).from_torch(torch.ones(3))
    assert v.to_torch()[:, 0].tolist() == [1, 1, 1]
    n = ti.ndarray(ti.f32, (2, 2))
    tracked = torch.zeros((3, 4), requires_grad=True)
    f(tracked)
    assert tracked[2, 3] == 23 and tracked.requires_grad
    shared = torch.from_dlpack(n)
    shared[0, 1] = 5
    assert n[0, 1] == 5


def test_torch_tensors_on_the_gpu():
    torch = pytest.importorskip("torch")
    if ti.cuda_stream() is None or not torch.cuda.is_available():
        pytest.skip("needs kernels and torch on a GPU")
    n = 160  # large enough that kernels copy non-contiguous elements
    rows = ti.field(ti.f32, shape=(n, n))
    blocks = ti.field(ti.f32)
    ti.root.dense(ti.ij, n // 8).dense(ti.ij, 8).place(blocks)
    vectors = ti.Vector.field(3, ti.f32)
    beside = ti.field(ti.i32)
    ti.root.dense(ti.ij, n).place(vectors, beside)
    sparse = ti.field(ti.f32)
    ti.root.pointer(ti.ij, n // 8).dense(ti.ij, 8).place(sparse)
    array = ti.ndarray(ti.f32, (n, n))
    beside.fill(9)
    for x in (rows, blocks, vectors, sparse, array):
        shape = (n, n, 3) if x is vectors else (n, n)
        # Integers: their sums are exact.
        t = torch.randint(1000, shape, device="cuda").float()
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            t *= 2.0
            x.from_torch(t)
            t += 1.0
            back = x.to_torch(device="cuda")
            assert back.is_cuda and torch.equal(back, t - 1.0), x
            torch.cuda.synchronize()
        assert np.array_equal(x.to_numpy(), back.cpu().numpy())
        # Other types and strides are converted first.
        x.from_torch(t.transpose(0, 1).double())
        assert torch.allclose(x.to_torch(device="cuda"), t.transpose(0, 1))
        assert not x.to_torch().is_cuda
        with pytest.raises(ValueError, match="shape"):
            x.from_torch(torch.zeros(3, device="cuda"))
    assert (beside.to_numpy() == 9).all()
    assert not array._native.is_shared
    vectors.from_torch(torch.ones((n, n, 3, 1), device="cuda"))
    part = vectors.get_scalar_field(1)
    assert (part.to_torch(device="cuda") == 1).all()
    part.from_torch(torch.zeros((n, n), device="cuda"))
    assert vectors[3, 4].y == 0 and vectors[3, 4].x == 1
    with ti.World(arch=ti.cpu):
        host = ti.field(ti.f32, shape=4)
        host.from_torch(torch.arange(4.0, device="cuda"))
        assert host.to_torch(device="cuda").is_cuda and host[3] == 3
    assert host.to_torch(device="cuda").tolist() == [0, 1, 2, 3]


def test_postponed_annotations(tmp_path):
    path = tmp_path / "later.py"
    path.write_text(
        "from __future__ import annotations\nimport wuji as ti\n\n"
        "@ti.kernel\ndef f(a: ti.types.ndarray(dtype=ti.f32, ndim=1), n: ti.i32) -> ti.f32:\n    return a[n]\n"
    )
    scope = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    assert scope["f"](np.array([1, 2, 3], "f4"), 2) == 3


def test_copies():
    import copy

    a = ti.ndarray(ti.f32, 3)
    shallow, deep = copy.copy(a), copy.deepcopy(a)
    a.fill(2.0)
    assert shallow.to_numpy().tolist() == [2.0] * 3
    assert deep.to_numpy().tolist() == [0.0] * 3


def test_arrays_of_dates_are_rejected_like_those_of_other_types():
    @ti.kernel
    def f(a: ti.types.ndarray()):
        pass

    for values in (np.zeros(4, "M8[s]"), np.zeros(4, "m8[s]"), np.zeros(4, "S3")):
        with pytest.raises(ti.TaichiRuntimeTypeError, match="Invalid type for argument a, got ndarray of"):
            f(values)


@pytest.mark.parametrize("ndim", [-1, 9, 1.5, "2"])
def test_the_number_of_axes_is_checked(ndim):
    with pytest.raises(ValueError, match="`ndim` must be 0 to 8"):
        ti.types.ndarray(ndim=ndim)
