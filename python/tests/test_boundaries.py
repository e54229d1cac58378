"""Neighbours at periodic and clamped boundaries, in the forms in which programs have them: loops are split at them."""

from __future__ import annotations

import numpy as np
import pytest

import wuji.compat.taichi as ti

SIZES = [1, 2, 7, 33, 40, 64, 100]
RADII = [1, 3]


def _expected(x: np.ndarray, radius: int, periodic: bool) -> np.ndarray:
    n = x.shape[-1]
    total = np.zeros_like(x)
    for offset in (-radius, radius):
        at = np.arange(n) + offset
        at = at % n if periodic else np.clip(at, 0, n - 1)
        total += x[..., at] + (x[at, :] if x.ndim == 2 else 0)
    return total


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).integers(-1000, 1000, shape).astype(np.int32)


@pytest.mark.parametrize("r", RADII)
@pytest.mark.parametrize("n", SIZES)
def test_rows(n: int, r: int) -> None:
    if r > n:
        pytest.skip("the offset is longer than the row")
    x, y = ti.field(ti.i32, n), ti.field(ti.i32, (7, n))
    from_array = ti.ndarray(ti.i32, n)

    @ti.kernel
    def run(a: ti.types.ndarray(dtype=ti.i32, ndim=1), last: int):
        for j in x:
            left = j - r if j - r >= 0 else j - r + n
            right = j + r if j + r < n else j + r - n
            y[0, j] = x[left] + x[right]
        for j in x:
            y[1, j] = x[(j - r) % n] + x[(j + r) % n]
        for j in x:
            y[2, j] = x[(j - r + n) % n] + x[(j + r + n) % n]
        for j in x:
            y[3, j] = x[ti.max(j - r, 0)] + x[ti.min(j + r, n - 1)]
        for j in range(n):
            # A loop inside, and a boundary that is a parameter.
            for side in range(2):
                at = j + (2 * side - 1) * r
                if at < 0:
                    at += n
                if at > last:
                    at -= n
                y[4, j] += x[at]
        for j in range(a.shape[0]):
            y[5, j] = a[(j - r + n) % n] + a[(j + r) % n]
        for j in x:
            period = x.shape[0]
            y[6, j] = x[(j - r) % period] + x[(j + r) % period]

    numbers = _numbers(n)
    x.from_numpy(numbers)
    from_array.from_numpy(numbers)
    run(from_array, n - 1)
    periodic, clamped = _expected(numbers, r, True), _expected(numbers, r, False)
    for row, expected in enumerate([periodic, periodic, periodic, clamped, periodic, periodic, periodic]):
        np.testing.assert_array_equal(y.to_numpy()[row], expected, str(row))


@pytest.mark.parametrize("r", RADII)
@pytest.mark.parametrize("n", SIZES)
def test_planes(n: int, r: int) -> None:
    if r > n:
        pytest.skip("the offset is longer than the row")
    x, y = ti.field(ti.i32, (n, n)), ti.field(ti.i32, (3, n, n))

    @ti.func
    def wrap(k: int) -> int:
        return (k % n + n) % n

    @ti.kernel
    def run():
        for i, j in x:
            y[0, i, j] = x[i, wrap(j - r)] + x[i, wrap(j + r)] + x[wrap(i - r), j] + x[wrap(i + r), j]
        for i, j in x:
            jm, jp, im, ip = j - r, j + r, i - r, i + r
            if jm < 0:
                jm += n
            if jp >= n:
                jp -= n
            if im < 0:
                im += n
            if ip >= n:
                ip -= n
            y[1, i, j] = x[i, jm] + x[i, jp] + x[im, j] + x[ip, j]
        for i, j in x:
            high = ti.Vector([n - 1, n - 1])
            for offset in ti.static([(-r, 0), (r, 0), (0, -r), (0, r)]):
                at = ti.math.clamp(ti.Vector([i, j]) + ti.Vector(offset), 0, high)
                y[2, i, j] += x[at]

    numbers = _numbers(n, n)
    x.from_numpy(numbers)
    run()
    for layer, periodic in enumerate([True, True, False]):
        expected = _expected(numbers, r, periodic)
        np.testing.assert_array_equal(y.to_numpy()[layer], expected, str(layer))
