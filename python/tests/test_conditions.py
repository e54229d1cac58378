"""Conditions of kernels: numbers and run-time values. Other objects, which Python finds true, are type errors, as in Taichi."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wuji as ti


class Mode(enum.IntEnum):
    OFF = 0
    ON = 1


class Plain:
    pass


@ti.func
def function() -> ti.i32:
    return 1


def kernels(value: Any) -> dict[str, Callable[[int], Any]]:
    """Return kernels that have an object as a condition."""

    @ti.kernel
    def branch(a: ti.i32) -> ti.i32:
        result = 2
        if value:
            result = 1
        return result

    @ti.kernel
    def follow(a: ti.i32) -> ti.i32:
        result = 2
        if a > 5:
            result = 3
        elif value:
            result = 1
        return result

    @ti.kernel
    def loop(a: ti.i32) -> ti.i32:
        result = 2
        while value:
            result = 1
            break
        return result

    @ti.kernel
    def chosen(a: ti.i32) -> ti.i32:
        return 1 if value else 2

    @ti.kernel
    def negated(a: ti.i32) -> ti.i32:
        return 1 + (not value)

    @ti.kernel
    def first(a: ti.i32) -> ti.i32:
        return 1 if value and a else 2

    @ti.kernel
    def last(a: ti.i32) -> ti.i32:
        return 1 if a and value else 2

    @ti.kernel
    def either(a: ti.i32) -> ti.i32:
        return 1 if a > 5 or value else 2

    @ti.kernel
    def asserted(a: ti.i32) -> ti.i32:
        assert value
        return 1

    return {f.__name__: f for f in (branch, follow, loop, chosen, negated, first, last, either, asserted)}


OBJECTS: dict[str, Callable[[], Any]] = {
    "0-D field": lambda: ti.field(ti.i32, ()),
    "field": lambda: ti.field(ti.i32, 3),
    "vector field": lambda: ti.Vector.field(2, ti.i32, ()),
    "struct field": lambda: ti.Struct.field({"a": ti.i32}, shape=2),
    "array": lambda: ti.ndarray(ti.i32, 3),
    "node": lambda: ti.field(ti.i32, 3).parent(),
    "text": lambda: "off",
    "empty text": lambda: "",
    "list": lambda: [1],
    "empty tuple": lambda: (),
    "dictionary": lambda: {"a": 1},
    "ti.func": lambda: function,
    "function": lambda: kernels,
    "class": lambda: Plain,
    "object": Plain,
    "type": lambda: ti.i32,
    "module": lambda: np,
    "struct": lambda: ti.Struct(a=1),
    "NumPy array": lambda: np.ones(1, np.int32),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_no_conditions(name: str) -> None:
    for form, kernel in kernels(OBJECTS[name]()).items():
        with pytest.raises(ti.TaichiTypeError, match="Invalid constant scalar data type: <class|conditions must be an integer") as caught:
            kernel(1)
        assert caught.value.code == "W0603", form
        if name == "0-D field":
            assert "an element is `value[None]`" in str(caught.value), form


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, 1), (False, 2), (3, 1), (0, 2), (np.int32(2), 1), (np.bool_(False), 2), (np.array(1), 1), (Mode.ON, 1), (Mode.OFF, 2), (None, 2)],
)
def test_numbers_and_none_are_conditions(value: Any, expected: int) -> None:
    made = kernels(value)
    del made["last"], made["either"]  # None is no operand of run-time values
    for form, kernel in made.items():
        assert kernel(1) == (1 if form == "asserted" else expected), form


def test_static_conditions_are_those_of_python() -> None:
    x = ti.field(ti.i32, ())
    empty: list[int] = []

    @ti.kernel
    def run() -> ti.i32:
        result = 0
        if ti.static("text"):
            result += 1
        if ti.static(empty):
            result += 2
        if ti.static(x):
            result += 4
        if not ti.static(empty):
            result += 8
        if ti.static(not empty and bool(function)):
            result += 16
        result += 32 if ti.static((1, 2)) else 0
        return result

    assert run() == 1 + 4 + 8 + 16 + 32


def test_arrays_and_template_arguments_are_no_conditions() -> None:
    x = ti.field(ti.i32, 3)

    @ti.kernel
    def array(a: ti.types.ndarray()) -> ti.i32:
        return 1 if a else 2

    @ti.kernel
    def template(a: ti.template()) -> ti.i32:
        return 1 if a else 2

    with pytest.raises(ti.TaichiTypeError, match=r"(?s)the array `a` cannot be a condition.*`a\[i\]`"):
        array(np.zeros(3, np.int32))
    with pytest.raises(ti.TaichiTypeError, match=r"(?s)cannot be a condition.*`a\[i\]`"):
        template(x)
    assert (template(0), template(3), template(None)) == (2, 1, 2)


def test_fields_are_not_compared_with_numbers() -> None:
    x, y = ti.field(ti.i32, ()), ti.field(ti.i32, (2, 2))

    @ti.kernel
    def equal() -> ti.i32:
        return x == 1

    @ti.kernel
    def different(a: ti.i32) -> ti.i32:
        return a != y

    @ti.kernel
    def converted() -> ti.i32:
        return bool(x)

    @ti.kernel
    def selected() -> ti.i32:
        return ti.select(x, 1, 2)

    @ti.kernel
    def shapes() -> ti.i32:
        return y.shape == (2, 2)

    for call, element in ((equal, r"`x\[None\]`"), (lambda: different(1), r"`y\[i, j\]`"), (converted, r"`x\[None\]`"), (selected, r"`x\[None\]`")):
        with pytest.raises(ti.TaichiTypeError, match=f"(?s)Invalid constant scalar data type.*an element is {element}"):
            call()
    assert shapes() == 1
    assert bool(x) and bool(y)


def test_a_field_as_a_value_names_its_element() -> None:
    x = ti.field(ti.i32, ())

    @ti.kernel
    def run() -> ti.i32:
        return x

    with pytest.raises(ti.TaichiTypeError, match=r"its element is `x\[None\]`"):
        run()
