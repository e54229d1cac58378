"""Sort and prefix sum, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wuji as ti

LENGTHS = [0, 1, 2, 3, 31, 32, 33, 63, 64, 100, 1000, 4096, 5000, 70001]
TYPES = [ti.i8, ti.u8, ti.i16, ti.i32, ti.u32, ti.i64, ti.u64, ti.f32, ti.f64]


def numbers(dtype: Any, count: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        return rng.normal(size=count).astype(dtype.numpy_name)
    low, high = dtype.range()
    return rng.integers(low, high, size=count, dtype=dtype.numpy_name, endpoint=True)


@pytest.mark.parametrize("count", LENGTHS[1:])
def test_sort_of_various_lengths(count: int) -> None:
    keys = ti.field(ti.f32, count)
    given = numbers(ti.f32, count)
    keys.from_numpy(given)
    ti.algorithms.parallel_sort(keys)
    assert (keys.to_numpy() == np.sort(given)).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_sort_of_every_scalar_type(dtype: Any) -> None:
    keys = ti.field(dtype, 777)
    given = numbers(dtype, 777)
    keys.from_numpy(given)
    ti.algorithms.parallel_sort(keys)
    assert (keys.to_numpy() == np.sort(given)).all()


@pytest.mark.parametrize("count", [2, 33, 100, 9001])
def test_sort_with_values_is_stable(count: int) -> None:
    keys, values = ti.field(ti.i32, count), ti.field(ti.f64, count)
    given = np.random.default_rng(2).integers(0, 10, count).astype(np.int32)
    keys.from_numpy(given)
    values.from_numpy(np.arange(count, dtype=np.float64))
    ti.algorithms.parallel_sort(keys, values)
    order = np.argsort(given, kind="stable")
    assert (keys.to_numpy() == given[order]).all()
    assert (values.to_numpy() == order).all()


def test_sort_permutes_vectors_and_structs() -> None:
    n = 500
    keys = ti.field(ti.i32, n)
    vectors = ti.Vector.field(3, ti.f32, n)
    split = ti.Vector.field(2, ti.i32, n, layout=ti.Layout.SOA)
    particles = ti.Struct.field({"m": ti.f32, "v": ti.types.vector(2, ti.f32)}, shape=n)
    rng = np.random.default_rng(5)
    given, v, s = rng.permutation(n).astype(np.int32), rng.normal(size=(n, 3)).astype("f"), rng.integers(0, 99, (n, 2)).astype("i")
    m = rng.normal(size=n).astype("f")
    for values, data in ((vectors, v), (split, s), (particles.m, m)):
        keys.from_numpy(given)
        values.from_numpy(data)
        order = np.argsort(given)
        ti.algorithms.parallel_sort(keys, particles if values is particles.m else values)
        assert (values.to_numpy() == data[order]).all()


def test_sort_of_soa_layouts_and_arrays() -> None:
    keys = ti.field(ti.i32)
    ti.root.dense(ti.i, 10).dense(ti.i, 10).place(keys, offset=-50)
    given = numbers(ti.i32, 100)
    keys.from_numpy(given)
    ti.algorithms.parallel_sort(keys)
    assert (keys.to_numpy() == np.sort(given)).all()
    array = ti.ndarray(ti.i32, 100)
    array.from_numpy(given)
    ti.algorithms.parallel_sort(array)
    assert (array.to_numpy() == np.sort(given)).all()


def test_sort_of_a_vector_component() -> None:
    vectors = ti.Vector.field(2, ti.f32, 50)
    given = numbers(ti.f32, 100).reshape(50, 2)
    vectors.from_numpy(given)
    ti.algorithms.parallel_sort(vectors.get_scalar_field(1))
    assert (vectors.to_numpy() == np.stack([given[:, 0], np.sort(given[:, 1])], axis=1)).all()


def test_sort_of_sorted_reversed_and_equal_keys() -> None:
    keys = ti.field(ti.i32, 1000)
    for given in (np.arange(1000), np.arange(1000)[::-1], np.zeros(1000)):
        keys.from_numpy(given.astype(np.int32))
        ti.algorithms.parallel_sort(keys)
        assert (keys.to_numpy() == np.sort(given)).all()


def test_sort_rejects_invalid_arguments() -> None:
    with pytest.raises(ti.TaichiTypeError, match="field or array of scalars"):
        ti.algorithms.parallel_sort([3, 1, 2])
    with pytest.raises(ti.TaichiRuntimeError, match="one axis"):
        ti.algorithms.parallel_sort(ti.field(ti.i32, (2, 2)))
    with pytest.raises(ti.TaichiRuntimeError, match="4 keys"):
        ti.algorithms.parallel_sort(ti.field(ti.i32, 4), ti.field(ti.i32, 5))


@pytest.mark.parametrize("count", LENGTHS[1:])
def test_prefix_sum_of_various_lengths(count: int) -> None:
    data = ti.field(ti.i32, count)
    given = np.random.default_rng(4).integers(0, 100, count).astype(np.int32)
    data.from_numpy(given)
    executor = ti.algorithms.PrefixSumExecutor(count)
    executor.run(data)
    assert (data.to_numpy() == np.cumsum(given)).all()
    executor.run(data)
    assert (data.to_numpy() == np.cumsum(np.cumsum(given)).astype(np.int32)).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_prefix_sum_of_every_scalar_type(dtype: Any) -> None:
    data = ti.field(dtype, 10000)
    given = numbers(dtype, 10000)
    data.from_numpy(given)
    ti.algorithms.PrefixSumExecutor(10000).run(data)
    if dtype.is_float:
        assert np.allclose(data.to_numpy(), np.cumsum(given.astype(np.float64)), atol=1e-2 if dtype is ti.f32 else 1e-9)
    else:
        assert (data.to_numpy() == np.cumsum(given, dtype=dtype.numpy_name)).all()


def test_prefix_sum_of_a_prefix_and_of_arrays() -> None:
    data = ti.ndarray(ti.i64, 10)
    data.fill(1)
    ti.algorithms.PrefixSumExecutor(5).run(data)
    assert list(data.to_numpy()) == [1, 2, 3, 4, 5, 1, 1, 1, 1, 1]


def test_prefix_sum_rejects_invalid_arguments() -> None:
    executor = ti.algorithms.PrefixSumExecutor(8)
    with pytest.raises(ti.TaichiRuntimeError, match="length 8"):
        executor.run(ti.field(ti.i32, 4))
    with pytest.raises(ti.TaichiTypeError, match="field or array of scalars"):
        executor.run(np.zeros(8))
    with pytest.raises(ti.TaichiTypeError, match="bool"):
        executor.run(ti.field(ti.u1, 8))


@pytest.mark.filterwarnings("error")
def test_results_do_not_depend_on_default_types() -> None:
    ti.init(arch=ti.cpu, default_fp=ti.f64, default_ip=ti.i64, offline_cache=False, verbose=False)
    keys, values = ti.field(ti.f32, 100), ti.field(ti.i32, 100)
    given = numbers(ti.f32, 100)
    keys.from_numpy(given)
    values.fill(1)
    ti.algorithms.PrefixSumExecutor(100).run(values)
    ti.algorithms.parallel_sort(keys, values)
    assert (keys.to_numpy() == np.sort(given)).all()
    assert (values.to_numpy() == np.argsort(given) + 1).all()


def test_keys_that_are_values_too_are_sorted():
    keys = ti.field(ti.i32, 16)
    keys.from_numpy(np.arange(16, dtype=np.int32)[::-1].copy())
    ti.algorithms.parallel_sort(keys, keys)
    assert keys.to_numpy().tolist() == list(range(16))
