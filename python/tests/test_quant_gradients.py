"""Gradients of programs with quantized fields: a store to a field rounds those that share its exponent again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wuji as ti

quant = ti.types.quant
LARGE = 1e6
N = 8

NODES: dict[str, Callable[[], Any]] = {
    "dense": lambda: ti.root.dense(ti.i, N),
    "pointer": lambda: ti.root.pointer(ti.i, 2).dense(ti.i, N // 2),
    "bitmasked": lambda: ti.root.bitmasked(ti.i, N),
    "hash": lambda: ti.root.hash(ti.i, 2).dense(ti.i, N // 2),
}


class Cells:
    """Numbers with a shared exponent, and an integer in the same word."""

    def __init__(self, node: str) -> None:
        self.a = a = ti.field(quant.float(6, 10), needs_grad=True)
        self.c = c = ti.field(quant.float(6, 10), needs_grad=True)
        self.k = k = ti.field(quant.int(6))
        self.loss = loss = ti.field(ti.f32, shape=(), needs_grad=True)
        word = ti.BitpackedFields(max_num_bits=32)
        word.place(a, c, shared_exponent=True)
        word.place(k)
        NODES[node]().place(word)

        @ti.kernel
        def total():
            for i in c:
                loss[None] += c[i] ** 2 * (k[i] + 1)

        @ti.kernel
        def store():
            for i in a:
                a[i] = LARGE

        @ti.kernel
        def add():
            for i in a:
                a[i] += LARGE

        @ti.kernel
        def store_after():
            for i in c:
                loss[None] += c[i] ** 2 * (k[i] + 1)
            for i in a:
                a[i] = LARGE

        @ti.kernel
        def store_beside():
            for i in c:
                loss[None] += c[i] ** 2 * (k[i] + 1)
                a[i] = LARGE

        @ti.kernel
        def store_between():
            for i in c:
                loss[None] += c[i] ** 2 * (k[i] + 1)
            for i in a:
                a[i] = LARGE
            for i in c:
                loss[None] += c[i] ** 2

        self.total, self.store, self.add = total, store, add
        self.store_after, self.store_beside, self.store_between = store_after, store_beside, store_between
        self.start()

    def start(self) -> None:
        for i in range(N):
            self.a[i] = 0.0
            self.c[i] = 0.3 * (i + 1)
            self.k[i] = i % 3

    @staticmethod
    def first(i: int) -> float:
        """Return the first number of `c`, with nine digits."""
        exact = float(np.float32(0.3 * (i + 1)))
        unit = 2.0 ** (math.floor(math.log2(exact)) - 8)
        return round(exact / unit) * unit

    def gradients(self) -> list[float]:
        return [2 * self.first(i) * (i % 3 + 1) for i in range(N)]

    def check(self) -> None:
        assert [self.c.grad[i] for i in range(N)] == self.gradients()
        assert [self.a.grad[i] for i in range(N)] == [0.0] * N
        assert [self.c[i] for i in range(N)] == [0.0] * N  # rounded
        assert all(self.a[i] > 0.9 * LARGE for i in range(N))
        assert [self.k[i] for i in range(N)] == [i % 3 for i in range(N)]


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("kernel", ["store", "add", "store_after", "store_beside", "store_between", "no_grad"])
def test_a_number_that_is_rounded_again_keeps_its_gradient(node: str, kernel: str) -> None:
    cells = Cells(node)
    with ti.ad.Tape(cells.loss):
        if kernel in ("store", "add", "no_grad"):
            cells.total()
        if kernel == "no_grad":
            ti.ad.no_grad(cells.store)()
        else:
            getattr(cells, kernel)()
    cells.check()


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("write", ["fill", "set", "from_numpy", "copy_from"])
def test_writes_of_the_host_round_numbers_on_a_tape(node: str, write: str) -> None:
    cells = Cells(node)
    other = ti.field(ti.f32)
    NODES[node]().place(other)
    for i in range(N):
        other[i] = LARGE
    with ti.ad.Tape(cells.loss):
        cells.total()
        if write == "fill":
            cells.a.fill(LARGE)
        elif write == "set":
            for i in range(N):
                cells.a[i] = LARGE
        elif write == "from_numpy":
            cells.a.from_numpy(np.full(N, LARGE, np.float32))
        else:
            cells.a.copy_from(other)
    cells.check()


def test_writes_after_the_tape() -> None:
    cells = Cells("dense")
    tape = ti.ad.Tape()
    with tape:
        cells.total()
    cells.a.fill(LARGE)
    cells.loss.grad[None] = 1.0
    tape.grad()
    cells.check()


def test_validation_reports_a_number_that_is_rounded_again() -> None:
    cells = Cells("dense")
    with pytest.raises(AssertionError, match="Field c is overwritten unexpectedly"), ti.ad.Tape(cells.loss, validation=True):
        cells.total()
        cells.store()


@pytest.mark.parametrize("node", NODES)
def test_the_gradient_of_a_kernel_runs_in_parts(node: str) -> None:
    cells = Cells(node)
    cells.loss.grad[None] = 1.0
    cells.store_between.grad()
    assert [cells.c.grad[i] for i in range(N)] == cells.gradients()
    assert [cells.c[i] for i in range(N)] == [cells.first(i) for i in range(N)]
    assert [cells.a[i] for i in range(N)] == [0.0] * N


def test_a_number_that_is_rounded_again_keeps_its_tangent() -> None:
    a, c = ti.field(quant.float(6, 10), needs_dual=True), ti.field(quant.float(6, 10), needs_dual=True)
    loss = ti.field(ti.f32, shape=(), needs_dual=True)
    word = ti.BitpackedFields(max_num_bits=32)
    word.place(a, c, shared_exponent=True)
    ti.root.dense(ti.i, 4).place(word)

    @ti.kernel
    def store():
        for i in a:
            a[i] = LARGE

    @ti.kernel
    def total():
        for i in c:
            loss[None] += 3.0 * c[i] + a[i]

    c.fill(0.5)
    with ti.ad.FwdMode(loss=loss, param=c, seed=[1.0, 2.0, 3.0, 4.0]):
        store()
        a.fill(2 * LARGE)
        total()
        assert c.dual.to_numpy().tolist() == [1.0, 2.0, 3.0, 4.0]
    assert loss.dual[None] == 30.0 and c[0] == 0.0


def test_second_derivatives_of_a_number_that_is_rounded_again() -> None:
    a, c = (ti.field(quant.float(6, 10), needs_grad=True, needs_dual=True) for _ in range(2))
    loss = ti.field(ti.f32, shape=(), needs_grad=True, needs_dual=True)
    word = ti.BitpackedFields(max_num_bits=32)
    word.place(a, c, shared_exponent=True)
    ti.root.dense(ti.i, 4).place(word)

    @ti.kernel
    def total():
        for i in c:
            loss[None] += c[i] ** 3

    @ti.kernel
    def store():
        for i in a:
            a[i] = LARGE * c[i]

    c.fill(0.5)
    with ti.ad.FwdMode(loss=loss, param=c, seed=[1.0, 0.0, 0.0, 2.0]), ti.ad.Tape(loss):
        total()
        store()
    assert c.grad.to_numpy().tolist() == [0.75] * 4
    assert c.grad.dual.to_numpy().tolist() == [3.0, 0.0, 0.0, 6.0]


@pytest.mark.parametrize("node", ["dense", "pointer"])
def test_tapes_keep_all_digits(node: str) -> None:
    """Numbers with more digits than `f32` change when they are read and stored."""
    unit = 2.0**-30
    x = ti.field(quant.fixed(32, scale=unit), needs_grad=True)
    loss = ti.field(ti.f32, shape=(), needs_grad=True)
    word = ti.BitpackedFields(max_num_bits=32)
    word.place(x)
    NODES[node]().place(word)

    @ti.kernel
    def cubes():
        for i in x:
            loss[None] += x[i] ** 3

    @ti.kernel
    def add(n: ti.f32):
        for i in x:
            x[i] += n

    for i in range(N):
        x[i] = 0.5
    add(5 * unit)
    with ti.ad.Tape(loss):
        cubes()
        add(unit)
    assert x.grad[2] == 0.75
    add(-0.5)
    assert x[2] == 6 * unit


@pytest.mark.parametrize("node", ["dense", "bitmasked"])
def test_grad_check_of_numbers_with_a_shared_exponent(node: str) -> None:
    x, y = (ti.field(quant.float(11, 40, compute=ti.f64) if k else quant.float(11, 12, compute=ti.f64), needs_grad=True) for k in (1, 0))
    loss = ti.field(ti.f64, shape=(), needs_grad=True)
    word = ti.BitpackedFields(max_num_bits=64)
    word.place(x, y, shared_exponent=True)
    NODES[node]().place(word)

    @ti.kernel
    def total():
        for i in x:
            loss[None] += x[i] ** 2

    @ti.kernel
    def store():
        for i in y:
            y[i] = 1.0

    for i in range(N):
        x[i] = 1.0 + i / 16
    with ti.ad.Tape(loss, grad_check=[x]):
        total()
        store()
    assert [x.grad[i] for i in range(N)] == [2.0 + i / 8 for i in range(N)]
