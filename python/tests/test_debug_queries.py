"""Debug mode reports queries and deactivations outside, and reads whose value is unused."""

from __future__ import annotations

import pytest

import wuji as ti


@pytest.fixture
def tree() -> tuple:
    ti.init(arch=ti.cpu, debug=True)
    x = ti.field(ti.i32, 8)
    y = ti.field(ti.i32)
    pointer = ti.root.pointer(ti.i, 4)
    pointer.dense(ti.i, 4).place(y)
    z = ti.field(ti.i32)
    lists = ti.root.dense(ti.i, 4).dynamic(ti.j, 8)
    lists.place(z)
    return x, pointer, lists


@pytest.mark.parametrize("what", ["read", "is_active", "length", "deactivate"])
def test_outside(tree: tuple, what: str) -> None:
    x, pointer, lists = tree

    @ti.kernel
    def read(i: ti.i32):
        _ = x[i]

    @ti.kernel
    def is_active(i: ti.i32) -> ti.i32:
        return ti.is_active(pointer, [i])

    @ti.kernel
    def length(i: ti.i32) -> ti.i32:
        return ti.length(lists, [i])

    @ti.kernel
    def deactivate(i: ti.i32):
        ti.deactivate(pointer, [i])

    kernel = {"read": read, "is_active": is_active, "length": length, "deactivate": deactivate}[what]
    kernel(3)
    ti.sync()
    with pytest.raises(ti.WujiAssertionError, match="9"):
        kernel(9)
        ti.sync()
