"""Mistakes with quantized types: what the messages say. `test_mistakes` compares the classes with Taichi's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import wuji as ti
from wuji.exceptions import WujiError
from wuji.lang.errors import code_of

quant = ti.types.quant
FIVE = quant.int(5)


def message(use: Callable[[], Any]) -> str:
    with pytest.raises(WujiError) as caught:
        use()
    assert code_of(caught.value) in ("W0150", "W0151", "W0601", "W0603")
    return str(caught.value)


def fields(*types: Any) -> list[Any]:
    return [ti.field(t, name=name) for t, name in zip(types, "xyzw", strict=False)]


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (lambda: quant.int(0), "error[W0150]: `bits` of a quantized type is 1 to 64, not 0"),
        (lambda: quant.int(65), "error[W0150]: `bits` of a quantized type is 1 to 64, not 65"),
        (lambda: quant.int("5"), "error[W0150]: `bits` of a quantized type is an integer, not '5'"),
        (
            lambda: quant.int(9, compute=ti.i8),
            "error[W0150]: `quant.int(9, signed=True, compute=i8)` is not a quantized type: quant.int with 9 bits needs a compute type with as many; `i8` has 8",
        ),
        (
            lambda: quant.fixed(10, compute=ti.i32),
            "error[W0150]: `quant.fixed(10, signed=True, scale=0.001953125, compute=i32)` is not a quantized type: quant.fixed needs the compute type `f32` or `f64`, not `i32`",
        ),
        (
            lambda: quant.fixed(10, scale=-1.0),
            "error[W0150]: `quant.fixed(10, signed=True, scale=-1.0, compute=f32)` is not a quantized type: the scale -1.0 is not positive and finite",
        ),
        (lambda: quant.fixed(10, max_value="a"), "error[W0150]: the range of a fixed-point type is a number, not 'a'"),
        (
            lambda: quant.float(9, 8),
            "error[W0150]: `quant.float(9, 8, signed=True, compute=f32)` is not a quantized type: quant.float with 9 exponent bits needs the compute type `f64`",
        ),
    ],
)
def test_types(use: Callable[[], Any], expected: str) -> None:
    assert message(use) == expected


def test_bits_that_do_not_fit() -> None:
    x, y, z = fields(quant.int(5), quant.int(5), quant.int(3))
    pack = ti.BitpackedFields(max_num_bits=8)
    assert message(lambda: pack.place(x, y)) == (
        "error[W0151]: field `y` does not fit what is left of 8 bits: 2 bits over\n"
        "  = help: give its type fewer bits, use a wider word, or pack it in another `ti.BitpackedFields`"
    )
    # Nothing was packed: what fits can be packed.
    pack.place(x, z)
    ti.root.dense(ti.i, 4).place(pack)
    z[1] = -4
    assert z[1] == -4
    wide = ti.BitpackedFields(max_num_bits=64)
    v = ti.Vector.field(3, quant.fixed(22), name="v")
    assert "v` does not fit what is left of 64 bits: 2 bits over\n  = help: give its type fewer bits, or pack it in another `ti.BitpackedFields`" in message(lambda: wide.place(v))


def test_shared_exponents() -> None:
    x, y, z, w = fields(quant.int(5), quant.int(5), quant.float(5, 8), quant.float(6, 8))
    pack = ti.BitpackedFields(max_num_bits=32)
    assert "`quant.int(5, signed=True, compute=i32)` of field `x` has no exponent to share" in message(lambda: pack.place(x, y, shared_exponent=True))
    assert "`quant.float(6, 8, signed=True, compute=f32)` of field `w` shares an exponent of 5 bits" in message(lambda: pack.place(z, w, shared_exponent=True))


def test_arrays() -> None:
    x, y = fields(quant.int(5), quant.int(5))
    array = ti.root.dense(ti.i, 4).quant_array(ti.i, 8, max_num_bits=32)
    assert message(lambda: array.place(x)) == (
        "error[W0151]: a bit array of 8 elements of 5 bits does not fit 32 bits: 8 bits over\n"
        "  = help: put at most 6 elements of field `x` into a word, and the rest into the node above it"
    )
    small = ti.root.dense(ti.j, 4).quant_array(ti.j, 4, max_num_bits=32)
    small.place(x)
    assert "a bit array holds one field; `y` is another" in message(lambda: small.place(y))
    assert "quant_array(j, [4], max_num_bits=32) holds one field, and no nodes" in message(lambda: small.dense(ti.i, 2))


def test_an_array_without_a_field() -> None:
    x = ti.field(ti.i32)
    node = ti.root.dense(ti.i, 4)
    node.place(x)
    node.quant_array(ti.i, 4, max_num_bits=32)
    assert "ti.root.dense(i, [4]).quant_array(i, [4], max_num_bits=32) has no field" in message(lambda: x[0])


def test_fields_that_are_not_packed() -> None:
    x, y = fields(quant.int(5), quant.int(5))
    text = message(lambda: ti.root.dense(ti.i, 4).place(x))
    assert "field x of type quant.int(5, signed=True, compute=i32) cannot be placed in ti.root.dense(i, [4])" in text.replace("`", "")
    assert "ti.BitpackedFields" in text and "quant_array" in text
    assert "cannot have a shape" in message(lambda: ti.field(quant.int(5), shape=4))
    assert "place it by way of" in message(lambda: x[0])
    pack = ti.BitpackedFields(max_num_bits=32)
    pack.place(y)
    assert "place the bit-packed fields in a node" in message(lambda: y[0])


def test_types_of_values_in_kernels() -> None:
    @ti.kernel
    def convert() -> ti.i32:
        return ti.cast(3, FIVE)

    @ti.kernel
    def declare() -> ti.i32:
        x: FIVE = 3
        return x

    @ti.kernel
    def call() -> ti.i32:
        return FIVE(3)

    @ti.kernel
    def result() -> FIVE:
        return 3

    for kernel in (convert, call, result):
        assert "quant.int(5, signed=True, compute=i32)" in message(kernel)
    assert "`FIVE` is not a value type" in message(declare)


def test_types_for_components() -> None:
    assert "2 types for the 3 components" in message_of_type_error(lambda: ti.Vector.field(3, dtype=[quant.int(3), quant.int(3)]))
    assert "all components of a vector or matrix field are quantized, or none" in message(lambda: ti.Vector.field(2, dtype=[quant.int(3), ti.i32]))


def message_of_type_error(use: Callable[[], Any]) -> str:
    with pytest.raises(TypeError) as caught:
        use()
    return str(caught.value)
