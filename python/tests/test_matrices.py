"""Vectors and matrices, in kernels and in Python."""

import math

import numpy as np
import pytest

import wuji as ti
from wuji.math import mat2, vec3  # noqa: F401


def test_values_outside_kernels():
    a = ti.Vector([1, 2, 3])
    b = ti.Vector([4.0, 5.0, 6.0])
    assert (a + b).to_list() == [5, 7, 9]
    assert (2 * a - 1).to_list() == [1, 3, 5]
    assert a.dot(b) == 32
    assert a.cross(b).to_list() == [-3, 6, -3]
    assert ti.Vector([3, 4]).norm() == 5
    assert ti.Vector([3.0, 4.0]).normalized().to_list() == [0.6, 0.8]
    assert (a == a).all()
    m = ti.Matrix([[1, 2], [3, 4]])
    assert (m @ ti.Vector([1, 1])).to_list() == [3, 7]
    assert m.transpose().to_list() == [[1, 3], [2, 4]]
    assert m.determinant() == -2
    assert np.allclose(m.inverse().to_numpy(), np.linalg.inv([[1, 2], [3, 4]]))
    assert m.trace() == 5 and m.sum() == 10 and m.max() == 4 and m.min() == 1
    assert m[1, 0] == 3 and m[0, :].to_list() == [1, 2]
    assert a.xy.to_list() == [1, 2] and a.zyx.to_list() == [3, 2, 1] and a.x == 1
    a.x = 10
    assert a[0] == 10
    a.yz = [7, 8]
    assert a.to_list() == [10, 7, 8]
    assert ti.Matrix.identity(ti.f32, 2).to_list() == [[1, 0], [0, 1]]
    assert ti.Matrix.diag(2, 5).to_list() == [[5, 0], [0, 5]]
    assert ti.Vector.unit(3, 1).to_list() == [0, 1, 0]
    assert ti.Matrix.cols([ti.Vector([1, 2]), ti.Vector([3, 4])]).to_list() == [[1, 3], [2, 4]]
    assert a.n == 3 and m.n == 2 and m.m == 2
    assert repr(m) == "[[1 2]\n [3 4]]"


@pytest.mark.parametrize("dt", [ti.f32, ti.f64])
def test_linear_algebra_in_kernels(dt):
    rng = np.random.default_rng(3)
    for n in (2, 3, 4):
        a, b = rng.normal(size=(2, n, n))
        v = rng.normal(size=n)
        A = ti.Matrix.field(n, n, dt, shape=4)
        V = ti.Vector.field(n, dt, shape=3)
        s = ti.field(dt, shape=8)
        A[0], A[1], V[0] = a, b, v

        @ti.kernel
        def f():
            A[2] = A[0] @ A[1]
            A[3] = A[0].inverse()
            V[1] = A[0] @ V[0]
            V[2] = A[0].transpose() @ V[0]
            s[0] = A[0].determinant()
            s[1] = A[0].trace()
            s[2] = V[0].norm()
            s[3] = V[0].dot(V[1])
            s[4] = A[0].sum()
            s[5] = A[0].norm()
            s[6] = V[0].max()
            s[7] = V[0].norm_sqr()

        f()
        tol = 1e-4 if dt is ti.f32 else 1e-10
        x = A.to_numpy()
        assert np.allclose(x[2], a @ b, atol=tol)
        assert np.allclose(x[3], np.linalg.inv(a), rtol=1e-3 if dt is ti.f32 else 1e-9)
        y = V.to_numpy()
        assert np.allclose(y[1], a @ v, atol=tol) and np.allclose(y[2], a.T @ v, atol=tol)
        expected = [
            np.linalg.det(a), np.trace(a), np.linalg.norm(v), v @ (a @ v), a.sum(), np.linalg.norm(a), v.max(), v @ v,
        ]  # fmt: skip
        assert np.allclose(s.to_numpy(), expected, atol=10 * tol)


def test_indexing_in_kernels():
    @ti.kernel
    def f(i: ti.i32, j: ti.i32) -> ti.i32:
        m = ti.Matrix([[1, 2, 3], [4, 5, 6]])
        v = ti.Vector([10, 20, 30])
        v[i] += 5
        m[j, i] = 100
        return m[j, i] + v[i] + m[0, 0] + v[-1] + m[1, :].sum() + m[:, 0].sum()

    assert f(2, 1) == 100 + 35 + 1 + 35 + (4 + 5 + 100) + 5


def test_swizzles_in_kernels():
    x = ti.Vector.field(3, ti.i32, shape=1)

    @ti.kernel
    def f() -> ti.types.vector(4, ti.i32):
        v = ti.Vector([1, 2, 3])
        v.xz = v.zx
        v.y += 10
        x[0].xy = [7, 8]
        x[0].z += 9
        return ti.Vector([v.x, v.y, v.z, v.rgb.sum()])

    assert f().to_list() == [3, 12, 1, 16]
    assert x[0].to_list() == [7, 8, 9]


def test_element_wise_functions():
    @ti.kernel
    def f() -> ti.types.vector(3, ti.f32):
        v = ti.Vector([1.0, -4.0, 9.0])
        return ti.sqrt(abs(v)) + ti.max(v, 0) * ti.cast(v > 0, ti.f32)

    assert f().to_list() == [2, 2, 12]


def test_shape_mismatches_are_rejected():
    @ti.kernel
    def f():
        a = ti.Vector([1, 2]) + ti.Vector([1, 2, 3])  # noqa: F841

    with pytest.raises(ti.TaichiTypeError, match=r"shape mismatch: \[2\] and \[3\]"):
        f()

    @ti.kernel
    def g():
        a = ti.Matrix([[1, 2], [3, 4]]) @ ti.Vector([1, 2, 3])  # noqa: F841

    with pytest.raises(ti.TaichiTypeError, match="shape mismatch"):
        g()


def test_component_indices_out_of_range_are_rejected():
    @ti.kernel
    def f():
        v = ti.Vector([1, 2])
        v[2] = 1

    with pytest.raises(ti.TaichiIndexError, match="index 2"):
        f()

    @ti.kernel
    def g() -> ti.i32:
        v = ti.Vector([1, 2])
        return v.z

    with pytest.raises(ti.TaichiSyntaxError, match=r"only has attributes=\('x', 'y'\), got=\('z',\)"):
        g()


def test_outer_products_and_rows():
    @ti.kernel
    def f() -> ti.types.matrix(2, 2, ti.f32):
        a = ti.Vector([1.0, 2.0])
        rows = ti.Matrix.rows([a, a * 10])
        return a.outer_product(a) + rows + ti.Matrix.identity(ti.f32, 2)

    assert f().to_list() == [[3, 4], [12, 25]]


def test_vectors_as_arguments_and_results():
    vec2 = ti.types.vector(2, ti.f32)

    @ti.kernel
    def f(a: vec2, m: ti.types.matrix(2, 2, ti.f32)) -> vec2:
        return m @ a

    assert f(vec2(1, 2), ti.Matrix([[1, 2], [3, 4]])).to_list() == [5, 11]
    assert f([1, 2], [[1, 0], [0, 1]]).to_list() == [1, 2]
    assert f(np.array([1.0, 2.0]), np.eye(2)).to_list() == [1, 2]


def test_type_constructors():
    v = ti.math.vec4(ti.math.vec2(1, 2), 3, 4)
    assert v.to_list() == [1, 2, 3, 4]
    assert ti.math.vec3(7).to_list() == [7, 7, 7]

    @ti.kernel
    def f(x: ti.f32) -> ti.math.vec4:
        return ti.math.vec4(ti.math.vec2(x), x + 1, 2)

    assert f(1.0).to_list() == [1, 1, 2, 2]
    with pytest.raises(ti.TaichiTypeError, match="components"):
        ti.math.vec3(1, 2)

def test_without_a_shape_the_placement_decides_where_components_are():
    whole = ti.Vector.field(3, ti.f32, layout=ti.Layout.SOA)
    apart = ti.Matrix.field(1, 2, ti.i32, layout=ti.Layout.SOA)
    point = ti.types.struct(a=ti.f32, b=ti.i32).field(layout=ti.Layout.SOA)
    ti.root.dense(ti.i, 4).place(whole, point)
    for k in range(2):
        ti.root.dense(ti.i, 4).place(apart.get_scalar_field(0, k))
    whole[1] = [1, 2, 3]
    apart[2] = [[4, 5]]
    point[3].b = 6
    assert whole.to_numpy().tolist()[1] == [1, 2, 3]
    assert apart.to_numpy().tolist()[2] == [[4, 5]]
    assert point[3].b == 6
    for wrong in (ti.types.vector(3, ti.f32), ti.types.struct(a=ti.f32)):
        with pytest.raises(TypeError, match=r"must be ti.Layout.AOS or ti.Layout.SOA, not 3"):
            wrong.field(shape=4, layout=3)



def test_layouts_of_vector_fields():
    for layout in (ti.Layout.AOS, ti.Layout.SOA):
        x = ti.Vector.field(3, ti.f32, shape=(4, 5), layout=layout)
        m = ti.Matrix.field(2, 3, ti.i32, shape=4, layout=layout)
        a = np.arange(60, dtype="f4").reshape(4, 5, 3)
        b = np.arange(24, dtype="i4").reshape(4, 2, 3)
        x.from_numpy(a)
        m.from_numpy(b)
        assert (x.to_numpy() == a).all() and (m.to_numpy() == b).all()

        @ti.kernel
        def f():
            for i, j in x:
                x[i, j] *= 2
                x[i, j][1] += 1
            for i in m:
                m[i] += 1
                m[i][1, 2] = 0

        f()
        a *= 2
        a[..., 1] += 1
        b += 1
        b[:, 1, 2] = 0
        assert (x.to_numpy() == a).all() and (m.to_numpy() == b).all()
        assert x[1, 2].to_list() == a[1, 2].tolist()
        x[1, 2][0] = -1
        assert x[1, 2][0] == -1
        assert x.get_scalar_field(0)[1, 2] == -1


def test_atomics_on_vectors():
    x = ti.Vector.field(2, ti.f32, shape=())

    @ti.kernel
    def f():
        for i in range(100):
            x[None] += ti.Vector([1.0, 0.5])
            x[None][0] += 1.0

    f()
    assert x[None].to_list() == [200, 50]


def test_dynamic_indices_out_of_range_are_reported():
    ti.init(arch=ti.cpu, debug=True, offline_cache=False, verbose=False)

    @ti.kernel
    def f(i: ti.i32) -> ti.i32:
        v = ti.Vector([1, 2, 3])
        return v[i]

    assert f(1) == 2
    with pytest.raises(ti.TaichiRuntimeError, match="3"):
        f(3)


@pytest.mark.parametrize(
    "name,args",
    [
        ("mix", (1.0, 3.0, 0.25)), ("clamp", (5.0, 0.0, 2.0)), ("fract", (2.75,)), ("sign", (-3.0,)), ("step", (1.0, 2.0)),
        ("smoothstep", (0.0, 1.0, 0.5)), ("radians", (180.0,)), ("degrees", (1.0,)), ("log2", (8.0,)), ("mod", (5.5, 2.0)),
        ("isnan", (1.0,)), ("isinf", (1.0,)),
    ],
)  # fmt: skip
def test_math_functions_agree_in_kernels_and_python(name, args):
    f = getattr(ti.math, name)

    @ti.kernel
    def k(a: ti.f32, b: ti.f32, c: ti.f32, n: ti.template()) -> ti.f32:
        r = 0.0
        if ti.static(n == 1):
            r = f(a)
        elif ti.static(n == 2):
            r = f(a, b)
        else:
            r = f(a, b, c)
        return r

    padded = (*args, 0.0, 0.0)[:3]
    assert k(*padded, len(args)) == pytest.approx(float(f(*args)), rel=1e-6)


def test_reflect_and_refract():
    @ti.kernel
    def f() -> ti.math.vec3:
        return ti.math.reflect(ti.math.vec3(1, -1, 0), ti.math.vec3(0, 1, 0))

    assert f().to_list() == [1, 1, 0]


def test_complex_numbers():
    @ti.kernel
    def f(a: ti.math.vec2, b: ti.math.vec2) -> ti.math.vec2:
        return ti.math.cdiv(ti.math.cmul(a, b), b) + ti.math.cexp(ti.math.clog(a)) - ti.math.cmul(ti.math.csqrt(a), ti.math.csqrt(a))

    assert np.allclose(f([1.0, 2.0], [3.0, -1.0]).to_list(), [1, 2], atol=1e-5)


def test_rotation_matrices():
    m = ti.math.rot_by_axis(ti.math.vec3(0, 0, 1), np.pi / 2).to_numpy()
    assert np.allclose(np.array([1, 0, 0, 1]) @ m, [0, 1, 0, 1], atol=1e-6)

    @ti.kernel
    def f() -> ti.math.mat2:
        return ti.math.rotation2d(ti.math.pi / 2)

    assert np.allclose(f().to_numpy(), [[0, -1], [1, 0]], atol=1e-6)


def test_bit_counts():
    @ti.kernel
    def f(x: ti.i32) -> ti.types.vector(2, ti.i32):
        return ti.Vector([ti.math.popcnt(x), ti.math.clz(x)])

    assert f(255).to_list() == [8, 24]


def test_matrices_print_like_numpy() -> None:
    assert str(ti.Vector([1, 2, 3])) == "[1 2 3]"
    assert f"{ti.Vector([0.5, 2])}" == "[0.5 2. ]"
    assert str(ti.Matrix([[1, 2], [3, 4.5]])) == "[[1.  2. ]\n [3.  4.5]]"
    f = ti.Vector.field(2, ti.f32, shape=1)
    f[0] = [0.1, 1]
    assert str(f[0]) == "[0.1 1. ]"
    assert str(ti.x64) == "Arch.x64"


def test_float_matrices_stay_float() -> None:
    v = ti.Vector([1.0, 2])
    v[0] = 5
    v.y = 7
    assert str(v) == "[5. 7.]" and v.dtype is ti.f32 and str(v + 1) == "[6. 8.]"
    v.fill(3)
    assert str(v) == "[3. 3.]"
    m = ti.Matrix([[1, 2], [3, 4.5]])
    assert isinstance(m[0, 0], float)
    whole = ti.Vector([1, 2])
    assert isinstance(whole[0], int) and str(whole * 2) == "[2 4]"

    @ti.kernel
    def half() -> ti.f32:
        x = v
        x += 0.5
        return x.sum()

    assert half() == 7


def test_vectors_and_matrices_with_more_than_255_components_along_an_axis() -> None:
    long, tall = ti.types.vector(300, ti.f32), ti.types.matrix(616, 3, ti.i32)
    x = ti.Vector.field(300, ti.f32, 2)
    y = ti.Matrix.field(616, 3, ti.i32, ())
    z = ti.Matrix.ndarray(300, 1, ti.f32, 3)

    @ti.kernel
    def write(z: ti.types.ndarray(dtype=ti.types.matrix(300, 1, ti.f32), ndim=1)):
        for i in x:
            for k in range(300):
                x[i][k] = i * 1000 + k
        for i, j in ti.ndrange(616, 3):
            y[None][i, j] = i * 3 + j
        for i in z:
            z[i][299, 0] = i + 1

    @ti.kernel
    def through(v: long, m: tall) -> long:
        w = v
        w[299] += ti.cast(m[615, 2], ti.f32)
        return w

    write(z)
    assert x.to_numpy()[1].tolist() == list(range(1000, 1300))
    assert y.to_numpy().ravel().tolist() == list(range(1848))
    assert z.to_numpy()[:, 299, 0].tolist() == [1, 2, 3]
    result = through(x[1], y[None])
    assert result.n == 300 and result[0] == 1000 and result[299] == 1299 + 1847


def test_matrices_as_arguments_and_results_have_any_number_of_components() -> None:
    big = ti.types.matrix(16, 17, ti.f32)

    @ti.kernel
    def f(a: big, b: big) -> big:
        return a + b

    assert f(big(list(range(272))), big(1.0)).to_numpy().ravel().tolist() == list(range(1, 273))


def test_a_matrix_with_too_many_components_is_refused() -> None:
    for shape in ((300, 300), (1, 70000)):
        with pytest.raises(ti.TaichiTypeError, match="65536 components|1 to 65535"):
            ti.types.matrix(*shape, ti.f32)

    @ti.kernel
    def outer(v: ti.template()):
        w = v[None].outer_product(v[None])
        v[None][0] = w[0, 0]

    with pytest.raises(ti.TaichiTypeError, match="65536 components"):
        outer(ti.Vector.field(300, ti.f32, ()))


def test_a_comparison_of_vectors_is_a_condition() -> None:
    v, w, u = ti.Vector([1, 2]), ti.Vector([1, 2]), ti.Vector([1, 3])
    assert v == w and not v == u and v != u and not v != w  # noqa: SIM201, SIM202
    assert v == [1, 2] and v in [u, w]
    assert (v == u).to_list() == [True, False]
    x = ti.Vector.field(2, ti.i32, 2)
    x[0] = v
    assert x[0] == v and x[1] != v
    for ambiguous in (v, v < u):
        with pytest.raises(ti.TaichiTypeError, match="bool"):
            bool(ambiguous)


def test_products_of_vectors_and_matrices() -> None:
    v, m = ti.Vector([1, 2]), ti.Matrix([[4, 5, 6], [7, 8, 9]])
    assert v @ v == 5
    assert (v @ m).to_list() == [18, 21, 24]

    @ti.kernel
    def f(a: ti.i32) -> ti.types.vector(4, ti.i32):
        v, m = ti.Vector([a, 2]), ti.Matrix([[4, 5, 6], [7, 8, 9]])
        w = v @ m
        return ti.Vector([v @ v, w[0], w[1], w[2]])

    @ti.kernel
    def g(a: ti.i32) -> ti.i32:
        v = ti.Vector([a, 2])
        return (v @ v.transpose())[0, 0]

    assert f(1).to_list() == [5, 18, 21, 24]
    for transpose in (v.transpose, lambda: g(1)):
        with pytest.raises(ti.TaichiCompilationError, match=r"`transpose\(\)` cannot apply to a vector"):
            transpose()


def test_integer_vectors_to_run_time_powers() -> None:
    @ti.kernel
    def f(a: ti.i32) -> ti.types.matrix(4, 3, ti.i32):
        v = ti.Vector([a - 2, a - 1, a])
        w = ti.Vector([2, 3, 4], dt=ti.u8) ** a
        return ti.Matrix.rows([v**a, v ** ti.Vector([a, 1, 0]), a ** ti.Vector([a, 1, 0]), w])

    assert f(3).to_list() == [[1, 8, 27], [1, 2, 1], [27, 3, 1], [8, 27, 64]]


def test_entries_of_integer_matrices_stay_integers() -> None:
    m = ti.Matrix([[1, 2], [3, 4]])
    m[0, 0] = 5.75
    assert m.to_list() == [[5, 2], [3, 4]]
    m.fill(1.75)
    assert m.to_list() == [[1, 1], [1, 1]] and type(m[0, 0]) is int
    x, y = ti.Matrix.field(2, 2, ti.i32, 2), ti.field(ti.i32, 3)
    z = ti.Vector.ndarray(2, ti.i32, 2)
    x.fill(1.0)
    y.fill(-1.75)
    z.fill(2.0)
    assert x.to_numpy().tolist() == [[[1, 1], [1, 1]]] * 2
    assert y.to_numpy().tolist() == [-1] * 3 and z.to_numpy().tolist() == [[2, 2]] * 2
    with pytest.raises(ti.TaichiRuntimeTypeError):
        y.fill(float("nan"))


def test_methods_are_functions_of_the_class() -> None:
    x = ti.field(ti.f32, 2)

    @ti.kernel
    def compute():
        v = ti.Vector([3.0, 4.0])
        x[0] = ti.Vector.normalized(v)[1]
        x[1] = ti.Matrix.norm(v)

    compute()
    assert x.to_numpy().tolist() == pytest.approx([0.8, 5.0])
    assert ti.Vector.dot(ti.Vector([1, 2]), ti.Vector([3, 4])) == 11
    with pytest.raises(AttributeError, match="`ti.Vector` has no attribute `normalised`"):
        ti.Vector.normalised  # noqa: B018


def test_slices_are_assigned_in_python() -> None:
    v = ti.Vector([1, 2, 3, 4])
    v[1:3] = [7, 8]
    assert v.to_list() == [1, 7, 8, 4]
    v[::2] = 0
    assert v.to_list() == [0, 7, 0, 4]
    m = ti.Matrix([[1.0, 2.0], [3.0, 4.0]])
    m[:, 0] = ti.Vector([5, 6])
    assert m.to_list() == [[5.0, 2.0], [6.0, 4.0]]
    m[1, :] += 1
    assert m.to_list() == [[5.0, 2.0], [7.0, 5.0]]
    with pytest.raises(ValueError, match="2 components cannot be assigned 3 values"):
        v[1:3] = [1, 2, 3]


def test_arrays_of_fields_of_columns() -> None:
    x = ti.Matrix.field(3, 1, ti.f32, shape=2)
    assert x.to_numpy().shape == (2, 3)
    assert x.to_numpy(keep_dims=True).shape == (2, 3, 1)
    for shape in ((2, 3), (2, 3, 1)):
        x.from_numpy(np.arange(6, dtype=np.float32).reshape(shape))
        assert x[1].to_list() == [[3.0], [4.0], [5.0]]
        x.fill(0)
    with pytest.raises(ValueError, match="does not match the numpy array shape"):
        x.from_numpy(np.zeros((3, 3), np.float32))


def test_typed_vectors_print_with_their_precision() -> None:
    @ti.kernel
    def tenths() -> ti.math.vec2:
        return ti.math.vec2(0.1, 0.7)

    assert str(tenths()) == "[0.1 0.7]"
    assert tenths().to_numpy().dtype == np.float32
    assert str(tenths() * 2 - 0.1) == "[0.1 1.3]"
    assert (ti.math.vec2(1, 2) * ti.Vector([1.0, 2.0])).to_numpy().dtype == np.float64
    assert (ti.math.ivec2(1, 2) * 1.5).to_numpy().tolist() == [1.5, 3.0]
    x = ti.Vector.field(2, ti.f32, 1)
    x[0] = [0.1, 0.7]
    assert str(x[0]) == "[0.1        0.69999999]"
    assert x[0].to_numpy().dtype == np.float64
    x[0][0:2] = [1, 2]
    assert x.to_numpy().tolist() == [[1, 2]]


def test_typed_vectors_compute_in_their_type() -> None:
    vec3, ivec2 = ti.types.vector(3, ti.f32), ti.types.vector(2, ti.i32)
    p, q = [1.1, 2.3, 3.7], [0.1, 7.7, 0.3]
    v, w, x, y = vec3(p), vec3(q), np.float32(p), np.float32(q)
    assert v.to_list() == x.tolist()
    assert (v.sum(), v.dot(w)) == (x[0] + x[1] + x[2], x[0] * y[0] + x[1] * y[1] + x[2] * y[2])
    assert (v.norm_sqr(), v.norm()) == ((x * x).sum(), np.sqrt((x * x).sum()))
    assert v.cross(w).to_numpy().tolist() == np.cross(x, y).tolist()
    assert v.outer_product(w).to_numpy().tolist() == np.outer(x, y).tolist()
    m = ti.types.matrix(2, 2, ti.f32)([[1.1, 2.2], [3.3, 4.7]])
    for result in (v.cross(w), v.outer_product(w), m @ m, m.transpose(), m.inverse(), m[:, 0], v.normalized()):
        assert result.to_numpy().dtype == np.float32
    assert m.trace() == np.float32(1.1) + np.float32(4.7)
    v[0] = 0.1
    assert v[0] == np.float32(0.1).item()
    # Others have the precision of Python's numbers.
    assert ti.Vector(p).dot(ti.Vector(q)) == p[0] * q[0] + p[1] * q[1] + p[2] * q[2]
    assert ti.types.vector(3, ti.f64)(p).sum() == p[0] + p[1] + p[2]
    # Integers wrap.
    large = ivec2(2**30, 2**30)
    assert (large * 2).to_list() == [-(2**31)] * 2
    assert (large.sum(), large.dot(ivec2(4, 1))) == (-(2**31), 2**30)
    assert ivec2(3, 4).norm() == 5.0
    assert vec3(1e300)[0] == math.inf


def test_typed_constants_of_kernels_are_promoted() -> None:
    half, double = ti.types.vector(2, ti.f16)(0.1, 2), ti.types.vector(2, ti.f64)(0.1, 2)

    @ti.kernel
    def f() -> ti.f64:
        ti.static_assert((half * half).dtype is ti.f16 and (half * 2.0).dtype is ti.f32)
        ti.static_assert((double * 2).dtype is ti.f64 and (double * half).dtype is ti.f64)
        return (double * 2)[0] + half[0]

    assert f() == 0.2 + np.float32(np.float16(0.1))


def test_large_matrices_live_across_parallel_loops():
    big = ti.types.matrix(17, 16, ti.i32)
    long = ti.types.vector(300, ti.i32)
    x = ti.field(ti.i32, 300)

    @ti.kernel
    def assigned() -> big:
        m = big(0)
        for i in range(17):
            for j in range(16):
                m[i, j] = i * j
        return m

    @ti.kernel
    def kept(m: big, again: ti.i32) -> big:
        n = m * 2
        if again:
            for i in x:
                x[i] = i
            n[1, 2] = 100
            for i in x:
                x[i] += n[1, 2]
            n += m
        return n + m

    @ti.kernel
    def read(v: long) -> ti.i32:
        s = 0
        for i in range(300):
            s += v[i]
        for i in x:
            x[i] = v[i]
        return s

    assert (assigned().to_numpy() == np.outer(np.arange(17), np.arange(16))).all()
    ones = big(1)
    expected = np.full((17, 16), 4)
    expected[1, 2] = 102
    assert (kept(ones, 1).to_numpy() == expected).all()
    assert x[7] == 107
    assert (kept(ones, 0).to_numpy() == 3).all()
    assert read(long(list(range(300)))) == 44850 == x.to_numpy().sum()


def test_determinants_of_integers_are_exact_integers():
    table = ti.field(ti.i32, 4)
    table.from_numpy(np.array([0, 10, 20, 30], dtype=np.int32))

    @ti.kernel
    def exact(a: ti.i64) -> ti.i64:
        return ti.Matrix([[a, 0], [0, 1]], dt=ti.i64).determinant()

    @ti.kernel
    def index() -> ti.i32:
        m = ti.Matrix([[1, 2], [0, 3]])
        return table[m.determinant()] + (m.determinant() | 4)

    @ti.kernel
    def four(a: ti.i32) -> ti.i32:
        return ti.Matrix([[a, 2, 0, 1], [1, 3, 1, 0], [0, 5, 2, 2], [4, 1, 0, 7]]).determinant()

    @ti.kernel
    def three(a: ti.i32) -> ti.i32:
        return ti.Matrix([[a, 2, 3], [4, 5, 6], [7, 8, 10]]).determinant()

    @ti.kernel
    def one(a: ti.i32) -> ti.i32:
        return ti.Matrix([[a]]).determinant()

    assert exact(2**40 + 1) == 2**40 + 1
    assert index() == 30 + 7
    assert three(1) == -3 and one(7) == 7
    wanted = np.linalg.det(np.array([[3, 2, 0, 1], [1, 3, 1, 0], [0, 5, 2, 2], [4, 1, 0, 7]], dtype=float))
    assert four(3) == round(wanted)
