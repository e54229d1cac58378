"""What threads of a GPU know of each other, and do together, as instructions of a kernel."""

from __future__ import annotations

import math
from typing import Any

from ..exceptions import WujiRuntimeError, WujiTypeError
from . import context, dtypes, emit, ops
from .compound import MatrixType
from .dtypes import DataType, i32, u1, u32
from .values import Expr, PlaceRef

#: Threads that go in step.
WARP = 32


def thread(op: str, ty: DataType | None, *args: Expr) -> Any:
    """One operation, by its name in the IR, that gives a value of this type, or none."""
    value = context.builder().thread(op, [a.id for a in args])
    return None if value is None or ty is None else Expr(value, ty)


def asked(op: str, predicate: Any, ty: DataType) -> Expr:
    """An operation that asks whether something is not zero."""
    return thread(op, ty, emit.condition(predicate, op))  # type: ignore[no-any-return]


def shuffled(op: str, value: Any, by: Any, dtype: DataType | None = None) -> Expr:
    """What another lane has: a number, or a vector component by component."""
    number = emit.convert(by, i32)
    whole = emit.expr(value)
    if dtype is not None:
        whole = emit.convert(whole, dtype)
    if isinstance(whole.ty, MatrixType):
        parts = [thread(op, whole.dtype, emit.take(whole, k), number) for k in range(whole.ty.count)]
        return Expr(context.builder().compose(whole.ty.ir, [p.id for p in parts]), whole.ty)
    return thread(op, whole.dtype, whole, number)  # type: ignore[no-any-return]


def lane() -> Expr:
    return thread("lane_index", i32)  # type: ignore[no-any-return]


def living() -> Expr:
    """A bit for each lane that has not ended."""
    return asked("ballot", True, u32)


def first_living() -> Expr:
    alive = living()
    return emit.convert(Expr(context.builder().unary("ctz", alive.id), u32), i32)


def identity(op: str, dtype: DataType) -> int | float:
    """What changes nothing."""
    if op in ("add", "or", "xor"):
        return 0
    if op == "mul":
        return 1
    if op == "and":
        return -1 if dtype.kind == "i" else 2**dtype.bits - 1
    if dtype.is_float:
        return math.inf if op == "min" else -math.inf
    low = -(2 ** (dtype.bits - 1)) if dtype.kind == "i" else 0
    high = 2 ** (dtype.bits - (1 if dtype.kind == "i" else 0)) - 1
    return high if op == "min" else low


def combined(op: str, a: Expr, b: Any) -> Expr:
    return emit.binary(op, a, b, op, a.dtype)


def over_lanes(op: str, value: Any, kind: str) -> Expr:
    """A sum, product, ... over the lanes of a warp: of all of them (``reduce``), of those up to the own one (``inclusive``), or of
    those below it (``exclusive``)."""
    own = emit.expr(value)
    if isinstance(own.ty, MatrixType):
        parts = [over_lanes(op, emit.take(own, k), kind) for k in range(own.ty.count)]
        return Expr(context.builder().compose(own.ty.ir, [p.id for p in parts]), own.ty)
    if op in ("and", "or", "xor") and own.dtype.is_float:
        raise WujiTypeError(f"bits of {own.dtype}\n  = help: integers have bits")
    if own.dtype is u1:
        own = emit.convert(own, i32)
    own = own.load()
    alive = living()
    here = lane()
    total = context.current().new_var(kind, own.dtype)
    b = context.builder()
    b.begin_if(emit.compare("eq", alive, emit.constant(2**WARP - 1, u32), "==").id)
    # All lanes are there: five steps are enough.
    if kind == "reduce":
        now = own
        for step in (16, 8, 4, 2, 1):
            now = combined(op, now, shuffled("shuffle_xor", now, step))
        total.store(now)
    else:
        now = own
        for step in (1, 2, 4, 8, 16):
            below = shuffled("shuffle_up", now, step)
            there = emit.compare("ge", here, emit.constant(step, i32), ">=")
            now = emit.select(there, combined(op, below, now), now)
        if kind == "exclusive":
            below = shuffled("shuffle_up", now, 1)
            now = emit.select(emit.compare("eq", here, emit.constant(0, i32), "=="), emit.constant(identity(op, own.dtype), own.dtype), below)
        total.store(now)
    b.begin_else()
    # Some are missing: one after the other.
    total.store(emit.constant(identity(op, own.dtype), own.dtype))
    low, high, step_ = (emit.constant(n, i32).id for n in (0, WARP, 1))
    _, index = b.begin_for(low, high, step_)
    other = Expr(index, i32)
    theirs = shuffled("shuffle_from", own, other)
    bit = emit.binary("and", emit.binary("shr", alive, emit.convert(other, u32), ">>"), emit.constant(1, u32), "&")
    counts = emit.compare("ne", bit, emit.constant(0, u32), "!=")
    if kind != "reduce":
        order = "le" if kind == "inclusive" else "lt"
        counts = Expr(b.binary("and", counts.id, emit.compare(order, other, here, "<").id), u1)
    total.store(emit.select(counts, combined(op, total.load(), theirs), total.load()))
    b.end_for()
    b.end_if()
    return total.load()


class SharedArray:
    """Memory that the threads of a block share: an array of numbers, vectors or matrices, zero at the start."""

    def __init__(self, shape: Any, dtype: Any) -> None:
        if context.compiling() is None:
            raise WujiRuntimeError("`SharedArray` works only in a kernel")
        extents = (shape,) if isinstance(shape, int) else tuple(shape)
        if not extents or not all(isinstance(n, int) and n > 0 for n in extents):
            raise WujiTypeError(
                f"a shared array of shape {shape!r}\n  = help: its extents are numbers above 0, known when the kernel is compiled"
            )
        self.shape: tuple[int, ...] = extents
        self.element_type: Any = dtype if isinstance(dtype, MatrixType) else dtypes.need_scalar(dtype)
        cx = context.current()
        if cx.loop is None:
            raise WujiTypeError(
                "a shared array belongs to the body of a parallel loop\n  = help: blocks of threads run its iterations; make the array there"
            )
        self._loop = cx.loop
        count = math.prod(extents)
        if count >= 2**31:
            raise WujiTypeError(f"a shared array of {count} elements")
        self._number = cx.builder.local("", self.element_type.ir, count, True)

    @property
    def dtype(self) -> DataType:
        return self.element_type.dtype if isinstance(self.element_type, MatrixType) else self.element_type

    def _wuji_subscript(self, cx: Any, indices: list[Any]) -> SharedRef:
        if len(indices) != len(self.shape):
            raise WujiTypeError(f"{len(indices)} indices for a shared array with {len(self.shape)} axes")
        at: Any = None
        for index, extent in zip(indices, self.shape, strict=True):
            number = emit.convert(index, i32)
            if len(self.shape) > 1 and cx.runtime.config.debug:
                cx.builder.check_index(number.id, extent)
            at = number if at is None else ops.add(ops.mul(at, emit.constant(extent, i32)), number)
        return SharedRef(("l", self._number), self.element_type, (at.id,), loop=self._loop)

    def __repr__(self) -> str:
        return f"<shared array of {self.element_type}, shape {self.shape}>"


class SharedRef(PlaceRef):
    """An element of a shared array: other threads reach it, too."""

    __slots__ = ()

    @property
    def private(self) -> bool:
        return False

    def part(self, step: Any) -> Any:
        if not isinstance(step, int):
            raise WujiTypeError(
                "a component of a vector in a shared array, known only when the kernel runs\n  = help: make the components one more axis of the array"
            )
        from .values import tensor

        return SharedRef(self.place, tensor(self).dtype, self.indices, (*self.path, step), self.activate, self.loop)
