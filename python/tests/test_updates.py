"""Atomic functions, augmented assignments and assertions: conversions, reductions and side effects."""

from __future__ import annotations

import numpy as np
import pytest

import wuji as ti

OUTER_MAX = ti.atomic_max


@pytest.mark.parametrize("debug", [False, True])
def test_operands_of_an_assertion_are_evaluated_whether_it_is_checked_or_not(debug: bool) -> None:
    ti.init(arch=ti.cpu, offline_cache=False, debug=debug)
    calls = ti.field(ti.i32, ())

    @ti.func
    def count(x):  # type: ignore[no-untyped-def]
        calls[None] += 1
        return x

    @ti.kernel
    def f():  # type: ignore[no-untyped-def]
        for i in range(10):
            assert count(i) == i, f"bad {count(i)}"
        assert ti.atomic_add(calls[None], 100) < 1000

    f()
    assert calls[None] == 120


def test_the_condition_of_an_assertion_is_checked_when_assertions_are_off() -> None:
    @ti.kernel
    def vector():  # type: ignore[no-untyped-def]
        v = ti.Vector([1, 2])
        assert v == v

    @ti.kernel
    def unknown():  # type: ignore[no-untyped-def]
        assert nothing_of_that_name  # noqa: F821

    with pytest.raises(ti.TaichiTypeError, match="assert"):
        vector()
    with pytest.raises(ti.TaichiNameError, match="nothing_of_that_name"):
        unknown()


def test_operands_of_updates_are_converted_before_they_are_negated() -> None:
    x, y, f = ti.field(ti.u16, 2), ti.field(ti.u8, ()), ti.field(ti.f32, ())
    v = ti.Vector.field(2, ti.u16, ())
    x.fill(1000)
    y[None] = 255
    f[None] = 1000.0
    v[None] = [1000, 2000]

    @ti.kernel
    def k() -> ti.i32:
        old = ti.atomic_sub(x[0], y[None])
        x[1] -= y[None]
        ti.atomic_sub(f[None], y[None])
        v[None] -= ti.Vector([255, 1], dt=ti.u8)
        local = 70000
        local -= y[None]
        ti.atomic_sub(local, ti.u8(1))
        total = 100000
        for _ in range(10):
            total -= ti.u8(255)
        assert local == 69744
        return old * 1000000 + total

    assert k() == 1000 * 1000000 + 97450
    assert x.to_numpy().tolist() == [745, 745]
    assert f[None] == 745
    assert v[None].to_list() == [745, 1999]


def test_sums_convert_the_operand_and_products_convert_the_result() -> None:
    x = ti.field(ti.i32, 2)
    x.fill(10)

    @ti.kernel
    def f() -> ti.types.vector(4, ti.i32):
        for i in x:
            x[i] *= 0.5
            x[i] += 1.75
        s = ti.Vector([10, 20, 30, 40])
        s.xz -= 1.75
        s[1] += 0.75
        s.w *= 1.25
        s.w &= 48.5
        return s

    assert f().to_list() == [9, 20, 29, 48]
    assert x.to_numpy().tolist() == [6, 6]


def test_bools_are_updated_as_integers_of_one_bit() -> None:
    x, v = ti.field(ti.u1, 4), ti.Vector.field(2, ti.u1, ())
    array = np.zeros(4, bool)

    @ti.kernel
    def toggle(a: ti.types.ndarray(dtype=ti.u1, ndim=1)):  # type: ignore[no-untyped-def]
        for i in x:
            x[i] += 1
            a[i] += 1
            v[None] |= True

    @ti.kernel
    def extremes():  # type: ignore[no-untyped-def]
        for i in x:
            ti.atomic_max(x[i], i > 0)
            ti.atomic_min(x[i], i > 1)
            x[i] *= i > 2

    toggle(array)
    assert x.to_numpy().tolist() == [1] * 4 and array.tolist() == [True] * 4
    toggle(array)
    assert x.to_numpy().tolist() == [0] * 4 and array.tolist() == [False] * 4
    assert v[None].to_list() == [1, 1]
    extremes()
    assert x.to_numpy().tolist() == [0, 0, 0, 1]


def test_a_bool_variable_holds_whether_the_sum_is_nonzero() -> None:
    @ti.kernel
    def f(n: ti.i32) -> ti.i32:
        found = False
        for i in range(n):
            found += i > 1
        shared = found
        shared += 1
        return found * 10 + shared

    assert f(4) == 11 and f(2) == 1


def numbers() -> ti.ScalarField:
    x = ti.field(ti.i32, 16)
    x.from_numpy((np.arange(16, dtype=np.int32) * 7) % 16)
    return x


def test_variables_updated_through_another_name_are_reductions() -> None:
    a = numbers()
    add, ops = ti.atomic_add, [ti.atomic_add, ti.atomic_max]

    @ti.kernel
    def named() -> ti.types.vector(4, ti.i32):
        largest, total, both, most = -1, 0, 0, 0
        op = ti.static(ti.atomic_add)
        for i in a:
            OUTER_MAX(largest, a[i])
            add(total, a[i])
            op(both, 1)
            ops[1](most, a[i])
        return ti.Vector([largest, total, both, most])

    @ti.kernel
    def template(op: ti.template()) -> ti.i32:
        s = 0
        for i in a:
            op(s, a[i])
        return s

    assert named().to_list() == [15, 120, 16, 15]
    assert template(ti.atomic_add) == 120 and template(ti.atomic_max) == 15


def test_variables_updated_by_functions_and_methods_are_reductions() -> None:
    a = numbers()

    @ti.func
    def add(s: ti.template(), v):  # type: ignore[no-untyped-def]
        s += v

    @ti.dataclass
    class Sum:
        x: ti.i32

        @ti.func
        def take(self, v):  # type: ignore[no-untyped-def]
            self.x += v

    @ti.kernel
    def f() -> ti.types.vector(4, ti.i32):
        s = 0
        v = ti.Vector([0, 0])
        t = Sum(x=0)
        last = -1
        for i in a:
            add(s, a[i])
            ti.atomic_add(v[1], a[i])
            t.take(a[i])
            if a[i] == 7:
                last = i
        return ti.Vector([s, v[1], t.x, last])

    assert f().to_list() == [120, 120, 120, 1]


def test_a_variable_is_shared_only_by_the_loops_that_update_it() -> None:
    a = numbers()

    @ti.kernel
    def f() -> ti.types.vector(3, ti.i32):
        s, n = 0, 3
        for i in a:
            s += a[i] * n
        t = s
        for i in a:
            ti.atomic_max(t, a[i] * 100)
            s -= 1
        n += 1
        return ti.Vector([s, t, n])

    assert f().to_list() == [344, 1500, 4]
