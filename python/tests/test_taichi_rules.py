"""What Taichi refuses is an error of the same class here, and what it accepts in the same place works."""

import functools

import numpy as np
import pytest

import wuji as ti


def test_identity_and_membership_need_ti_static():
    names = ("a", "b")

    @ti.kernel
    def same():
        x = names is None  # noqa: F841

    @ti.kernel
    def different():
        x = names is not None  # noqa: F841

    @ti.kernel
    def member():
        x = "a" in names  # noqa: F841

    @ti.kernel
    def no_member():
        x = "a" not in names  # noqa: F841

    @ti.kernel
    def static() -> ti.i32:
        ti.static_assert(names is not None)
        chosen = ti.static([name for name in names if name not in ("b",)])
        return ti.static(names is None) + 2 * ti.static("a" in names) + 4 * len(chosen)

    for kernel, operator in ((same, "is"), (different, "is not"), (member, "in"), (no_member, "not in")):
        with pytest.raises(ti.TaichiSyntaxError, match=f'Operator "{operator}" in Taichi scope is not supported.*only supported inside `ti.static`'):
            kernel()
    assert static() == 6


def test_floats_are_not_conditions():
    @ti.kernel
    def branch(x: ti.f32) -> ti.i32:
        result = 0
        if x:
            result = 1
        return result

    @ti.kernel
    def loop(x: ti.f32):
        while x:
            pass

    @ti.kernel
    def choose(x: ti.f32) -> ti.i32:
        return 1 if x else 2

    for kernel in (branch, loop, choose):
        with pytest.raises(ti.TaichiTypeError, match="conditions must be an integer; found a value of type f32"):
            kernel(1.0)


def test_strings_are_not_variables():
    @ti.kernel
    def variable():
        name = "a"  # noqa: F841

    @ti.kernel
    def static() -> ti.i32:
        name = ti.static("a")
        return ti.static(name == "a")

    with pytest.raises(ti.TaichiTypeError, match="Invalid constant scalar data type: the string 'a'"):
        variable()
    assert static() == 1


def test_elements_of_lists_are_variables_if_they_are_assigned_to():
    @ti.kernel
    def fill(n: ti.i32) -> ti.i32:
        a = [1, 2, 3]
        b = [[0.5, 1.5], [2.5, 3.5]]
        for i in range(n):
            a[1] += i
            b[1][0] = i
        a[2] = a[1] * 2
        return a[0] + a[1] * 10 + a[2] * 1000 + int(b[1][0] + b[0][1])

    assert fill(4) == 1 + 80 + 16000 + 4


def test_several_results_are_a_list():
    @ti.kernel
    def f() -> (ti.i32, ti.math.vec2, ti.f64):
        return 1, ti.math.vec2(2, 3), 4.5

    number, vector, other = f()
    assert f() == [number, vector, other] == [1, ti.Vector([2.0, 3.0]), 4.5]


def test_arrays_are_not_templates():
    @ti.kernel
    def f(a: ti.template()):
        a[0] = 1

    with pytest.raises(ti.TaichiRuntimeTypeError, match="Ndarray shouldn't be passed in via `ti.template.."):
        f(ti.ndarray(ti.f32, 3))


def test_messages_of_signatures():
    @ti.func
    def variable(*args):
        return args[0]

    @ti.kernel
    def calls() -> ti.i32:
        return variable(1, 2)

    @ti.kernel
    def annotated(a: ti.i32, b: list):
        pass

    with pytest.raises(ti.TaichiSyntaxError, match="Taichi functions do not support variable positional parameters"):
        calls()
    with pytest.raises(ti.TaichiSyntaxError, match=r"Invalid type annotation \(argument 1\) of Taichi kernel: <class 'list'>"):
        annotated(1, [2])


def test_messages_of_operands():
    @ti.kernel
    def invert(x: ti.f32) -> ti.i32:
        return ~x

    with pytest.raises(ti.TaichiTypeError, match="'bit_not' takes integral inputs only, however 'f32' is provided"):
        invert(1.0)
    with pytest.raises(ti.TaichiTypeError, match="An Matrix/Vector can only be initialized with an array-like object"):
        ti.Vector(3)
    v = ti.Vector([1, 2, 3])
    with pytest.raises(ti.TaichiRuntimeError, match="value len does not match the swizzle pattern=xy"):
        v.xy = [1, 2, 3]


def test_warnings_are_syntax_warnings():
    def plain(x):
        return x + 1

    @ti.kernel
    def unrolls():
        for _ in ti.static(range(40)):
            pass

    @ti.kernel
    def calls() -> ti.i32:
        x = 1
        return plain(x)

    with pytest.warns(SyntaxWarning, match="You are unrolling more than 32 iterations, so the compile time may be extremely long"):
        unrolls()
    with pytest.warns(SyntaxWarning, match='Calling non-taichi function "plain"'):
        assert calls() == 2


def test_classes_of_arrays():
    scalars, vectors, matrices = ti.ndarray(ti.f32, 2), ti.Vector.ndarray(2, ti.f32, 2), ti.Matrix.ndarray(2, 2, ti.f32, 2)
    classes = (ti.ScalarNdarray, ti.VectorNdarray, ti.MatrixNdarray)
    for k, array in enumerate((scalars, vectors, matrices)):
        assert [isinstance(array, c) for c in classes] == [c == k for c in range(3)]
        assert isinstance(array, ti.Ndarray)
    assert (vectors.n, vectors.m, matrices.n, matrices.m) == (2, 1, 2, 2)
    with pytest.raises(ValueError, match="Invalid boundary argument: wrap"):
        ti.types.ndarray(boundary="wrap")


@pytest.mark.parametrize("text", ["64", "f64"])
def test_default_types_of_the_environment(text, monkeypatch):
    monkeypatch.setenv("TI_DEFAULT_FP", text)
    monkeypatch.setenv("TI_DEFAULT_IP", text.replace("f", "i"))
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
    assert ti.field(float, 2).dtype is ti.f64
    assert ti.field(int, 2).dtype is ti.i64


def test_positional_arguments_of_constructors():
    x = ti.Matrix.field(2, 2, ti.f32, (3, 2), "ji", "x", (1, -1), True)
    assert x.shape == (3, 2) and x.grad is not None
    x[1, -1] = [[1, 2], [3, 4]]
    assert x.to_numpy()[0, 0].tolist() == [[1, 2], [3, 4]]
    y = ti.Vector.field(2, ti.i32, 3, None, "y", 5)
    y[5] = [1, 2]
    assert y.to_numpy().tolist() == [[1, 2], [0, 0], [0, 0]]


def test_positional_members_of_argument_packs():
    pack = ti.types.argpack(a=ti.i32, v=ti.math.vec2)

    @ti.kernel
    def f(p: pack) -> ti.f32:
        return p.a + p.v.sum()

    assert f(pack(1, ti.math.vec2(2, 3))) == f(pack(1, v=ti.math.vec2(2, 3))) == 6
    with pytest.raises(TypeError, match="has 2 members, not 3"):
        pack(1, ti.math.vec2(2, 3), 4)
    with pytest.raises(TypeError, match="two values for `a`"):
        pack(1, a=1, v=ti.math.vec2(2, 3))


@pytest.mark.parametrize("kind", [TypeError, ValueError, IndexError, AssertionError, ti.TaichiTypeError])
def test_too_few_components_are_an_error_of_every_class_in_taichi(kind):
    x = ti.Vector.field(3, ti.f32, 2)
    a = ti.Vector.ndarray(3, ti.f32, 2)
    vec3 = ti.types.vector(3, ti.f32)
    for assign in (lambda: x.fill([1, 2]), lambda: x.__setitem__(0, [1, 2]), lambda: a.__setitem__(0, [1, 2])):
        with pytest.raises(kind, match=r"shape mismatch: value \[2\], element \[3\]"):
            assign()
    with pytest.raises(kind, match=r"vector\(3, f32\) has 3 components, not 2"):
        vec3(1, 2)


@pytest.mark.parametrize("kind", [TypeError, IndexError])
def test_float_indices_of_vectors_are_type_and_index_errors(kind):
    @ti.kernel
    def f() -> ti.i32:
        v = ti.Vector([1, 2])
        return v[0.5]

    with pytest.raises(kind, match="cannot be an index"):
        f()
    with pytest.raises(kind, match="indices must be integers"):
        ti.Vector([1, 2])[0.5]


@pytest.mark.parametrize("kind", [ValueError, AssertionError])
def test_shapes_of_arrays_are_value_and_assertion_errors(kind):
    for x in (ti.field(ti.f32, (2, 2)), ti.Matrix.field(2, 2, ti.f32, ())):
        with pytest.raises(kind, match=r"ti.field shape \(2, 2\) does not match the numpy array shape \(4,\)"):
            x.from_numpy(np.zeros(4, np.float32))


def test_extents_are_any_integers():
    two = np.int64(2)
    assert ti.Vector.field(two, ti.f32, np.int32(3)).n == 2
    assert ti.types.matrix(two, np.uint8(3), ti.f32) == ti.types.matrix(2, 3, ti.f32)
    assert type(ti.types.vector(two, ti.f32).n) is int
    for bad in (2.0, True, np.array([2]), 0, np.int64(-1)):
        with pytest.raises(ti.TaichiTypeError, match="the extents of a vector or matrix must be"):
            ti.types.vector(bad, ti.f32)


def test_dictionaries_in_structs_are_structs():
    for s in (ti.Struct({"a": 1, "b": {"c": 2, "d": {"e": ti.Vector([3, 4])}}}), ti.Struct(a=1, b=dict(c=2, d=dict(e=ti.Vector([3, 4]))))):
        assert s.b.c == 2 and list(s.b.d.e) == [3, 4]
        assert s.to_dict() == {"a": 1, "b": {"c": 2, "d": {"e": [3, 4]}}}
        s.b.c = 7
        assert s.b.c == 7


@pytest.mark.parametrize("kind", [TypeError, ti.TaichiSyntaxError])
def test_missing_arguments_of_real_functions_are_syntax_errors(kind):
    @ti.real_func
    def f(a: ti.i32) -> ti.i32:
        return a

    @ti.kernel
    def few() -> ti.i32:
        return f()

    @ti.kernel
    def many() -> ti.i32:
        return f(1, 2)

    with pytest.raises(kind, match="missing"):
        few()
    with pytest.raises(kind, match="Too many arguments"):
        many()


@pytest.mark.parametrize("kind", [TypeError, ValueError])
def test_argument_packs_are_no_members_of_structs(kind):
    with pytest.raises(kind, match="not a scalar, vector, matrix or struct type"):
        ti.types.struct(p=ti.types.argpack(a=ti.i32))


def test_ancestors_equal_nodes():
    x = ti.field(ti.i32)
    block = ti.root.pointer(ti.i, 4)
    block.dense(ti.i, 2).place(x)
    y = ti.field(ti.i32, 3)
    assert x.snode.parent(0) == x.snode and x.snode == x.snode and hash(x.snode) == hash(x.snode)
    assert x.snode != y.snode and x.snode != x.parent()
    assert x.parent(2) == block and block != ti.root
    assert x.parent(3) == ti.root == ti.root and y.parent(2) == ti.root
    assert x.snode._path_from_root()[0] == ti.root


def test_gray_float_fields_have_no_alpha_in_windows():
    def alpha(image):
        gui = ti.GUI(res=(4, 4), show_gui=False)
        gui.set_image(image)
        assert gui.get_image()[..., :3].min() > 0
        return gui.get_image()[0, 0, 3]

    x, y = ti.field(ti.f32, (4, 4)), ti.field(ti.u8, (4, 4))
    x.fill(0.5)
    y.fill(255)
    assert (alpha(x), alpha(y), alpha(x.to_numpy())) == (0, 1, 0.5)


def test_grouped_loops_have_one_variable():
    x = ti.field(ti.f32, (2, 2))

    @ti.kernel
    def f():
        for i, j in ti.grouped(x):
            x[i, j] = 1

    with pytest.raises(ti.TaichiSyntaxError, match="Group for should have 1 loop target, found 2"):
        f()


def test_functions_below_other_decorators_are_compiled():
    def logged(function):
        @functools.wraps(function)
        def wrapper(*args, **named):
            return function(*args, **named)

        return wrapper

    @ti.func
    @logged
    def double(x):
        return 2 * x

    @ti.kernel
    @logged
    def f(x: ti.i32) -> ti.i32:
        return double(x) + 1

    assert f(3) == 7


def test_annotated_elements_and_members():
    x, v = ti.field(ti.i32, 2), ti.Vector.field(2, ti.f32, 2)

    @ti.kernel
    def f():
        x[0]: ti.i32 = 3
        v[1]: ti.math.vec2 = ti.Vector([1.0, 2.0])
        v[1].x: ti.f32 = 5

    @ti.kernel
    def other():
        x[0]: ti.f32 = 3

    f()
    assert x[0] == 3 and v[1].to_list() == [5, 2]
    with pytest.raises(ti.TaichiSyntaxError, match="has type i32, not f32"):
        other()
