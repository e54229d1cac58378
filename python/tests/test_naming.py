"""Fields are named after variables in messages."""

import pytest

import wuji as ti


def test_fields_are_named_after_variables():
    x = ti.field(ti.f32, 4)
    v: object = ti.Vector.field(2, ti.f32, shape=4)
    s = ti.Struct.field({"a": ti.i32}, shape=4)
    wide = ti.field(
        ti.f32,
        shape=4,
    )
    assert (x.name, v.name, s.name, wide.name) == ("x", "v", "s", "wide")
    assert ti.field(ti.f32, 4, name="given").name == "given"
    assert ti.field(ti.f32, 4).name == ""
    first = ti.field(ti.f32, 4); second = ti.field(ti.f32, 4); third = [ti.field(ti.f32, 4)]  # fmt: skip
    assert (first.name, second.name, third[0].name) == ("first", "second", "third")
    p, q = ti.field(ti.f32, 4), ti.Vector.field(2, ti.f32, 4)
    assert (p.name, q.name) == ("p", "q")
    try: behind = ti.field(ti.f32, 4)  # noqa: E701  # fmt: skip
    finally: pass  # noqa: E701  # fmt: skip
    assert behind.name == "behind"
    u, w = (ti.field(ti.f32, 4) for _ in range(2))
    assert (u.name, w.name) == ("", "")

    class Sim:
        def __init__(self):
            self.mass = ti.field(ti.f32, 4)

    assert Sim().mass.name == "mass"


def test_messages_name_fields():
    ti.init(arch=ti.cpu, debug=True, verbose=False, offline_cache=False)
    height = ti.field(ti.f32, 4)

    @ti.kernel
    def up():
        for i in range(5):
            height[i] = 1

    with pytest.raises(ti.TaichiRuntimeError, match="`height`"):
        up()
