"""Structs, dataclasses, argument packs."""

import pytest

import wuji as ti

Particle = ti.types.struct(pos=ti.types.vector(3, ti.f32), mass=ti.f32)


def test_values_outside_kernels():
    p = Particle(pos=[1, 2, 3], mass=4)
    assert p.pos.to_list() == [1, 2, 3] and p.mass == 4
    p.mass = 5
    assert p.mass == 5 and p.keys == ["pos", "mass"]
    assert p.to_dict() == {"pos": [1, 2, 3], "mass": 5}
    with pytest.raises(AttributeError):
        p.nothing = 1
    with pytest.raises(ti.TaichiTypeError):
        Particle(speed=1)


def test_struct_fields():
    for layout in (ti.Layout.AOS, ti.Layout.SOA):
        x = Particle.field(shape=10, layout=layout)

        @ti.kernel
        def f():
            for i in x:
                x[i].pos = [i, 2 * i, 3]
                x[i].mass = x[i].pos.sum()
                x[i].pos.y += 1

        f()
        assert x[2].pos.to_list() == [2, 5, 3] and x[2].mass == 9
        x[3].mass = -1
        assert x[3].mass == -1 and x.mass[3] == -1
        x[4] = {"pos": [0, 0, 0], "mass": 7}
        assert x[4].mass == 7
        arrays = x.to_numpy()
        assert arrays["mass"][2] == 9 and arrays["pos"].shape == (10, 3)


def test_structs_in_kernels():
    x = Particle.field(shape=2)

    @ti.kernel
    def f() -> ti.f32:
        p = Particle(pos=ti.Vector([1.0, 2.0, 3.0]), mass=2.0)
        q = p
        q.mass += 1
        q.pos[0] = 10
        x[0] = q
        r = ti.Struct(a=1, b=p.pos)
        r.a += 5
        return p.mass * 100 + q.mass + p.pos[0] + r.a + r.b.y

    assert f() == 200 + 3 + 1 + 6 + 2
    assert x[0].pos.to_list() == [10, 2, 3]


def test_nested_structs_and_methods():
    @ti.dataclass
    class Ball:
        center: ti.math.vec2
        radius: ti.f32

        @ti.func
        def area(self):
            return self.radius**2 * 3

        @ti.func
        def move(self, by):
            self.center += by

    Pair = ti.types.struct(a=Ball, n=ti.i32)
    x = Pair.field(shape=3)

    @ti.kernel
    def f() -> ti.f32:
        b = Ball(center=[1.0, 2.0], radius=2.0)
        b.move(ti.Vector([1.0, 1.0]))
        x[1].a = b
        x[1].n = 7
        x[1].a.move(ti.Vector([10.0, 0.0]))
        return b.area()

    assert f() == 12
    assert x[1].a.center.to_list() == [12, 3] and x[1].n == 7


def test_structs_as_arguments_and_results():
    @ti.kernel
    def f(p: Particle, k: ti.f32) -> Particle:
        q = p
        q.mass *= k
        q.pos += 1
        return q

    p = f(Particle(pos=[1, 2, 3], mass=2), 10.0)
    assert p.mass == 20 and p.pos.to_list() == [2, 3, 4]


def test_argpacks_take_other_attributes():
    pack = ti.types.argpack(a=ti.i32)

    @ti.kernel
    def read(p: pack) -> ti.i32:
        return p.a

    value = pack(a=1)
    value.extra = 5
    value.a = 2
    assert value.extra == 5 and value.keys == ["a"] and value.to_dict() == {"a": 2} and read(value) == 2
    with pytest.raises(AttributeError):
        value.missing  # noqa: B018
    with pytest.raises(AttributeError):
        value["extra"] = 6


def test_argpacks():
    view = ti.types.argpack(offset=ti.types.vector(2, ti.f32), scale=ti.f32, data=ti.types.ndarray(dtype=ti.f32, ndim=1))
    a = ti.ndarray(ti.f32, shape=4)

    @ti.kernel
    def f(v: view, n: ti.i32) -> ti.f32:
        for i in v.data:
            v.data[i] = v.scale * i
        return v.offset.sum() + n

    pack = view(offset=[1, 2], scale=3.0, data=a)
    assert f(pack, 4) == 7
    assert a.to_numpy().tolist() == [0, 3, 6, 9]
    pack.scale = 1.0
    f(pack, 4)
    assert a[3] == 3


def test_unknown_members_are_rejected():
    @ti.kernel
    def f() -> ti.f32:
        p = Particle(mass=1.0)
        return p.weight

    with pytest.raises(ti.TaichiCompilationError, match="no member `weight`"):
        f()


def test_arguments_of_a_struct_are_its_members_in_order_and_the_rest_is_zero() -> None:
    inner = ti.types.struct(a=ti.i32, b=ti.f32)
    outer = ti.types.struct(s=inner, c=ti.i32)
    assert inner(1.7).to_dict() == {"a": 1, "b": 0}
    assert outer(1).to_dict() == {"s": {"a": 1, "b": 0}, "c": 0}
    assert outer(5, 3).to_dict() == {"s": {"a": 5, "b": 0}, "c": 3}
    assert outer(s=3).to_dict() == {"s": {"a": 3, "b": 0}, "c": 0}

    @ti.kernel
    def f(x: ti.i32) -> ti.types.vector(6, ti.f32):
        t, u = outer(1), outer(x, x + 1)
        return ti.Vector([t.s.a, t.s.b, t.c, u.s.a, u.s.b, u.c], dt=ti.f32)

    assert f(4).to_list() == [1, 0, 0, 4, 0, 5]
    with pytest.raises(ti.TaichiSyntaxError):
        ti.Struct(1)


def test_argument_packs_as_parameters_of_functions() -> None:
    inner = ti.types.argpack(x=ti.i32, y=ti.f32)
    pack = ti.types.argpack(q=inner, s=ti.types.struct(a=ti.i32, b=ti.types.vector(2, ti.f32)))

    @ti.func
    def annotated(p: pack):
        return p.q.x + p.s.b[1]

    @ti.func
    def template(p: ti.template()):
        return p.x * 100

    @ti.kernel
    def f(p: pack) -> ti.f32:
        return annotated(p) + template(p.q)

    assert f(pack(q=inner(x=1, y=2), s={"a": 1, "b": [2, 3]})) == 104


def test_lists_in_structs_outside_kernels_are_vectors() -> None:
    s = ti.Struct(a=7, b=[1, 2], c={"m": [[1.0, 2.0], [3.0, 4.0]]})
    assert (s.b + 1).to_list() == [2, 3] and s.c.m[1, 0] == 3.0
    x = ti.Struct.field({"a": ti.f32, "b": ti.math.vec2}, shape=2)
    x[1] = ti.Struct(a=7, b=[1, 2])
    assert x[1].a == 7 and x[1].b.to_list() == [1, 2]


def test_data_classes_have_inherited_methods_and_no_constants() -> None:
    class Scaled:
        factor = 3

        @ti.func
        def twice(self):
            return self.x * 2

        @ti.func
        def thrice(self):
            return self.x * 3

    @ti.dataclass
    class Point(Scaled):
        x: ti.f32
        limit = 4

        @property
        def half(self):
            return self.x / 2

        @ti.func
        def thrice(self):
            return self.x * 30

    @ti.kernel
    def f() -> ti.f32:
        p = Point(x=2.0)
        return p.twice() + p.thrice()

    assert f() == 64 and list(Point.members) == ["x"]
    with pytest.raises(ti.TaichiCompilationError, match="default value"):

        @ti.dataclass
        class Bad:
            x: ti.f32 = 1
