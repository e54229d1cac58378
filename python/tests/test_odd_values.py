"""The host API with values of every kind: errors are those of the package or of a wrong argument, never those of its inner workings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wuji as ti

ODD: list[Any] = [
    None, "a", b"a", 1.5, -1, 2**31, 2**63, 2**64, 10**30, -(2**70), float("nan"), float("inf"), True, [], (), {}, [1, 2], (1, 2, 3), {"a": 1},
    np.zeros(2), np.array(5), np.float32(2), np.int64(3), object(), slice(1, 2), ti.f32, print, [[1, 2], [3]], 1j,
]  # fmt: skip


def store(target: Any, key: Any, value: Any) -> None:
    target[key] = value


def of_elements() -> dict[str, Callable[[Any], Any]]:
    struct = ti.Struct.field({"a": ti.i32, "b": ti.math.vec2}, shape=4)
    vectors = ti.Vector.field(3, ti.f32, 4)
    containers: dict[str, Any] = {
        "integers": ti.field(ti.i32, 4),
        "floats": ti.field(ti.f64, (3, 4)),
        "one": ti.field(ti.f64, ()),
        "vectors": vectors,
        "component": vectors.get_scalar_field(1),
        "matrices": ti.Matrix.field(2, 2, ti.i32, (2, 2)),
        "separate": ti.Vector.field(2, ti.i32, 3, layout=ti.Layout.SOA),
        "structs": struct,
        "array": ti.ndarray(ti.i32, 4),
        "array of vectors": ti.Vector.ndarray(2, ti.f32, 3),
    }
    calls: dict[str, Callable[[Any], Any]] = {}
    for name, c in containers.items():
        first = (0,) * len(c.shape)
        calls[f"{name}[?]"] = lambda a, c=c: c[a]
        calls[f"{name}[?] = 1"] = lambda a, c=c: store(c, a, 1)
        calls[f"{name}[0] = ?"] = lambda a, c=c, first=first: store(c, first, a)
        for method in ("fill", "from_numpy", "copy_from", "parent", "get_member_field"):
            if hasattr(c, method):
                calls[f"{name}.{method}"] = lambda a, c=c, method=method: getattr(c, method)(a)
    calls["a member of an element"] = lambda a: setattr(struct[0], "a", a)
    calls["an unknown member"] = lambda a: store(struct, 0, {"q": a})
    calls["arrays of an unknown member"] = lambda a: struct.from_numpy({"q": a})
    calls["a part of the members"] = lambda a: struct.fill({"a": a})
    calls["a component of an element"] = lambda a: store(vectors[0], 0, a)
    return calls


def of_constructors() -> dict[str, Callable[[Any], Any]]:
    pair = ti.types.struct(a=ti.i32, b=ti.math.vec2)

    def small(a: Any) -> Any:
        """Shapes that would only exhaust the memory."""
        return 3 if isinstance(a, int) and 10**6 < a < 2**31 else a

    return {
        "field of a type": lambda a: ti.field(a, 4),
        "field of a shape": lambda a: ti.field(ti.i32, small(a)),
        "field with an offset": lambda a: ti.field(ti.i32, 4, offset=a),
        "field with an order": lambda a: ti.field(ti.i32, (2, 2), order=a),
        "vector field": lambda a: ti.Vector.field(a, ti.f32, 2),
        "struct field": lambda a: ti.Struct.field({"a": a}, shape=2),
        "array of a type": lambda a: ti.ndarray(a, 4),
        "array of a shape": lambda a: ti.ndarray(ti.i32, small(a)),
        "axes": lambda a: ti.FieldsBuilder().dense(a, 3),
        "extents": lambda a: ti.FieldsBuilder().dense(ti.ij, a),
        "a chunk": lambda a: ti.FieldsBuilder().dynamic(ti.i, 8, a),
        "a list": lambda a: ti.FieldsBuilder().dynamic(ti.i, a),
        "a placed value": lambda a: ti.FieldsBuilder().place(a),
        "an offset": lambda a: ti.FieldsBuilder().dense(ti.i, 4).place(ti.field(ti.i32), offset=a),
        "a vector": lambda a: ti.Vector(a),
        "a zero matrix": lambda a: ti.Matrix.zero(ti.f32, a, 2),
        "a component": lambda a: ti.Vector([1, 2])[a],
        "a product": lambda a: ti.Matrix([[1, 2], [3, 4]]) @ a,
        "a struct": lambda a: pair(a),
        "a vector type": lambda a: ti.types.vector(a, ti.f32),
        "a dataclass": lambda a: ti.dataclass(a) if a is not print else None,
        "a sparse matrix": lambda a: ti.linalg.SparseMatrix(a, 2),
        "a builder": lambda a: ti.linalg.SparseMatrixBuilder(a, 2, 4),
        "triplets": lambda a: ti.linalg.SparseMatrixBuilder(2, 2, a) if not isinstance(a, int) or a < 10**6 else None,
        "a prefix sum": lambda a: ti.algorithms.PrefixSumExecutor(a),
        "a backend": lambda a: ti._lib.core.arch_from_name(a) if isinstance(a, str) else None,
        "a window": lambda a: ti.GUI("a", a, show_gui=False) if not isinstance(a, int) or a < 10**4 else None,
        **{f"option {o}": lambda a, o=o: ti.World(arch=ti.cpu, **{o: a}).close() for o in ("random_seed", "memory_limit", "time_limit", "log_level", "debug")},
    }


def of_calls() -> dict[str, Callable[[Any], Any]]:
    pair = ti.types.struct(a=ti.i32, b=ti.math.vec2)

    @ti.kernel
    def values(a: ti.i32, b: ti.f32, c: ti.types.vector(2, ti.i32)):
        pass

    @ti.kernel
    def array(a: ti.types.ndarray()):
        pass

    @ti.kernel
    def struct(a: pair):
        pass

    return {
        "an integer": lambda a: values(a, 1.0, [1, 2]),
        "a float": lambda a: values(1, a, [1, 2]),
        "a vector": lambda a: values(1, 1.0, a),
        "an array": lambda a: array(a),
        "a struct": lambda a: struct(a),
    }


@pytest.mark.parametrize("calls", [of_elements, of_constructors, of_calls])
def test_odd_values_raise_errors_of_the_package(calls: Callable[[], dict[str, Callable[[Any], Any]]]) -> None:
    raw = []
    for name, call in calls().items():
        for value in ODD:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    call(value)
            except ti.WujiError:
                pass
            except (KeyError, OverflowError, RecursionError, MemoryError, SystemError) as e:
                raw.append((name, value, repr(e)[:80]))
            except (TypeError, ValueError, IndexError, AttributeError, AssertionError):
                pass
            except Exception as e:
                raw.append((name, value, repr(e)[:80]))
    assert raw == []


def test_integers_beyond_all_floats_are_errors_of_the_package() -> None:
    huge = 10**400

    @ti.kernel
    def scalar(a: ti.f32) -> ti.f32:
        return a

    @ti.kernel
    def vector(a: ti.types.vector(2, ti.f32)) -> ti.f32:
        return a.sum()

    @ti.kernel
    def constant() -> ti.f32:
        return float(10**400)

    for call in (
        lambda: scalar(huge),
        lambda: vector([huge, 1.0]),
        constant,
        lambda: ti.Vector([huge, 1.0]),
        lambda: ti.sqrt(huge),
        lambda: ti.exp(huge),
        lambda: ti.sin(ti.Vector([huge, 1])),
    ):
        with pytest.raises(ti.WujiError, match="exceeded the range of f64|cannot be converted into required type"):
            call()


def test_messages_name_no_class_of_the_compiler() -> None:
    x = ti.field(ti.i32, 8)

    @ti.kernel
    def call(case: ti.template(), a: ti.i32) -> ti.i32:
        if ti.static(case == 0):
            x[0] = divmod(a, 2)[0]
        if ti.static(case == 1):
            x[0] = a()
        if ti.static(case == 2):
            x[0] = ti.Matrix.identity(ti.i32, a).sum()
        if ti.static(case == 3):
            x[0] = int(a, 10)
        return 0

    for case in range(4):
        with pytest.raises(TypeError) as raised:
            call(case, 5)
        assert "Expr" not in str(raised.value) and "locals" not in str(raised.value)
        assert "a run-time value" in str(raised.value) or "int() takes" in str(raised.value)


def test_errors_of_the_core_are_public() -> None:
    from wuji import _native

    assert issubclass(_native.NativeError, ti.WujiRuntimeError)
