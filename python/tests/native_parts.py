"""Helpers for tests of the extension module."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from wuji import _native as n

Error = n.NativeError


def world(**options: Any) -> n.World:
    return n.World(cache="off", **options)


def dense(w: n.World, type: str = "f32", *shape: int, **place: Any) -> n.Field:
    layout = n.Layout(w)
    node = layout.node(0, "dense", range(len(shape)), shape) if shape else 0
    number = layout.place(node, "x", type, **place)
    return layout.finish().field(number)


def fails(code: str, work: Callable[[], Any]) -> Error:
    with pytest.raises(Error) as raised:
        work()
    assert raised.value.code == code, str(raised.value)
    return raised.value


def kernel(w: n.World, body: Callable[[n.Builder], None], *arguments: tuple[str, int]) -> n.Program:
    b = n.Builder("k")
    body(b)
    return b.finish(w, arguments)


SCALARS = {
    "bool": (np.bool_, [True, False]),
    "i8": (np.int8, [-128, 127]),
    "i16": (np.int16, [-32768, 32767]),
    "i32": (np.int32, [-(2**31), 2**31 - 1]),
    "i64": (np.int64, [-(2**63), 2**63 - 1]),
    "u8": (np.uint8, [0, 255]),
    "u16": (np.uint16, [0, 65535]),
    "u32": (np.uint32, [0, 2**32 - 1]),
    "u64": (np.uint64, [0, 2**64 - 1]),
    "f16": (np.float16, [0.5, -math.inf]),
    "f32": (np.float32, [1.5, -math.inf]),
    "f64": (np.float64, [0.1, 1e300]),
}


def double(w: n.World, x: n.Field) -> n.Program:
    def body(b: n.Builder) -> None:
        f = b.tree(x.tree)
        _, at = b.begin_foreach(f)
        v = b.load(("f", f), at)
        b.store(("f", f), b.binary("add", v, v), at)
        b.end_foreach()

    return kernel(w, body)


def params(w: n.World, *types: str) -> n.Program:
    """Build a kernel that returns its last parameter."""

    def body(b: n.Builder) -> None:
        values = [b.param(f"p{k}", t) for k, t in enumerate(types)]
        b.result(types[-1])
        b.jump_return(values[-1])

    return kernel(w, body, *(("p", k) for k in range(len(types))))


def endless(w: n.World) -> n.Program:
    def body(b: n.Builder) -> None:
        i = b.local("i", "i32")
        label = b.begin_loop()
        b.store(("l", i), b.binary("rem", b.load(("l", i)), b.const("i32", 7)))
        b.begin_if(b.compare("eq", b.load(("l", i)), b.const("i32", 8)))
        b.jump_break(label)
        b.end_if()
        b.end_loop()

    return kernel(w, body)


@contextmanager
def unfit(cause: type[Exception]) -> Iterator[None]:
    """Expect a value to be refused because of an exception of this class."""
    with pytest.raises(n.ArgumentError) as raised:
        yield
    assert type(raised.value.__cause__) is cause
