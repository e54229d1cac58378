"""Each operation on each pair of types, compared with Taichi 1.7. Compiled and interpreted."""

from __future__ import annotations

import math
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wuji as ti

TABLE = Path(__file__).parent / "programs" / "operations.tsv"
# Operands `a` and `b`, in order, by kind of type.
VALUES = {
    "i": [(7, 3), (-7, 3), (7, -3), (100, 2), (-1, 1)],
    "u": [(7, 3), (200, 3), (1, 2)],
    "f": [(7.5, 3.0), (-7.5, 2.0), (0.5, -1.5)],
}
Row = tuple[str, str, list[float]]


def rows() -> list[Any]:
    lines = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines()]
    table = sorted((types, expression, [float(x) for x in values.split()]) for expression, types, values in lines)
    return [pytest.param(types, list(same), id=types.replace(" ", "-")) for types, same in groupby(table, key=lambda row: row[0])]


@pytest.mark.parametrize("interpreter", [False, True], ids=["compiled", "interpreted"])
@pytest.mark.parametrize(("types", "table"), rows())
@pytest.mark.filterwarnings("ignore")
def test_operations(types: str, table: list[Row], interpreter: bool, tmp_path: Path) -> None:
    ti.init(arch=ti.cpu, interpreter=interpreter, fast_math=False, offline_cache=False, verbose=False)
    left, right = types.split()
    file = tmp_path / "main.py"
    lines = [f"    out[{number}] = ti.cast({expression}, ti.f64)" for number, (_, expression, _) in enumerate(table)]
    head = f"import wuji as ti\n\n@ti.kernel\ndef run(a: ti.{left}, b: ti.{right}, out: ti.types.ndarray(dtype=ti.f64, ndim=1)):"
    file.write_text("\n".join([head, *lines, ""]), encoding="utf-8")
    names: dict[str, Any] = {"__name__": "main"}
    exec(compile(file.read_text(), str(file), "exec"), names)
    pairs = zip((a for a, _ in VALUES[left[0]]), (b for _, b in VALUES[right[0]]), strict=False)
    for number, (a, b) in enumerate(pairs):
        out = np.zeros(len(table))
        names["run"](a, b, out)
        for (_, expression, expected), value in zip(table, out, strict=True):
            wanted = expected[number]
            same = math.isnan(wanted) and math.isnan(value) or math.isclose(wanted, value, rel_tol=1e-5, abs_tol=1e-12)
            assert same, f"{expression} of {a}: {left} and {b}: {right} is {value}, not {wanted}"


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "asin", "acos", "tanh", "floor", "ceil", "round"])
def test_functions_of_real_numbers_reject_integers(name: str) -> None:
    function = getattr(ti, name)

    @ti.kernel
    def of_variable(x: ti.i32) -> ti.f32:
        return function(x)

    @ti.kernel
    def of_vector(x: ti.i32) -> ti.f32:
        return function(ti.Vector([x, x])).sum()

    @ti.kernel
    def of_float(x: ti.i32) -> ti.f32:
        return function(float(x)) - function(1)

    for kernel in (of_variable, of_vector):
        with pytest.raises(ti.TaichiTypeError, match=f"'{name}' takes real inputs only, however 'i32' is provided"):
            kernel(1)
    assert of_float(1) == pytest.approx(0, abs=1e-6)


def test_exponentials_and_roots_convert_integers() -> None:
    @ti.kernel
    def compute(x: ti.i32) -> ti.f32:
        return ti.exp(x) + ti.log(x) + ti.sqrt(x) + ti.rsqrt(x)

    assert compute(4) == pytest.approx(math.exp(4) + math.log(4) + 2.5)


def test_types_are_called_in_kernels_with_one_value() -> None:
    with pytest.raises(ti.TaichiSyntaxError, match="Taichi data types cannot be called outside Taichi kernels"):
        ti.f32(3)

    @ti.kernel
    def two() -> ti.i32:
        return ti.i32(1, 2)

    with pytest.raises(ti.TaichiSyntaxError, match="A primitive type can only decorate a single expression"):
        two()


def test_extremes_of_several_numbers_combine_from_the_right():
    @ti.kernel
    def f() -> ti.i64:
        # From the left, -1 would first become the largest unsigned number.
        return ti.max(ti.i32(-1), ti.u32(1), ti.i64(0))

    assert f() == 1
