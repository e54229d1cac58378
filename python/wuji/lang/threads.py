"""Warp and block operations on a GPU: ballots, shuffles, reductions, scans, shared memory."""

from __future__ import annotations

import math
from typing import Any

from ..exceptions import WujiRuntimeError, WujiTypeError
from . import context, dtypes, emit, ops
from .compound import MatrixType
from .dtypes import DataType, i32, u1, u32
from .values import Expr, MemoryRef

#: Threads per warp.
WARP = 32


def thread(op: str, ty: DataType | None, *args: Expr) -> Any:
    """Emit a thread operation by its IR name. The result has type ``ty``, or is None."""
    value = context.builder().thread(op, [a.id for a in args])
    return None if value is None or ty is None else Expr(value, ty)


def vote(op: str, predicate: Any, ty: DataType) -> Expr:
    """Emit a vote: an operation on a predicate."""
    return thread(op, ty, emit.condition(predicate, op))  # type: ignore[no-any-return]


def shuffle(op: str, value: Any, by: Any, dtype: DataType | None = None) -> Expr:
    """Read a value from another lane; vectors component-wise."""
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


def active_mask() -> Expr:
    """Return the mask of active lanes."""
    return vote("ballot", True, u32)


def first_active() -> Expr:
    active = active_mask()
    return emit.convert(Expr(context.builder().unary("ctz", active.id), u32), i32)


def identity(op: str, dtype: DataType) -> int | float:
    """Return the identity element of a reduction."""
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


def combine(op: str, a: Expr, b: Any) -> Expr:
    return emit.binary(op, a, b, op, a.dtype)


def scan_lanes(op: str, value: Any, kind: str) -> Expr:
    """Reduce or scan over the lanes of a warp.

    Args:
        op: The binary operation.
        value: This lane's operand.
        kind: ``reduce`` (all lanes), ``inclusive`` (lanes up to this one) or ``exclusive`` (lanes below this one).
    """
    own = emit.expr(value)
    if isinstance(own.ty, MatrixType):
        parts = [scan_lanes(op, emit.take(own, k), kind) for k in range(own.ty.count)]
        return Expr(context.builder().compose(own.ty.ir, [p.id for p in parts]), own.ty)
    if op in ("and", "or", "xor") and own.dtype.is_float:
        raise WujiTypeError(f"bitwise operations need integers, not {own.dtype}")
    if own.dtype is u1:
        own = emit.convert(own, i32)
    own = own.load()
    active = active_mask()
    own_lane = lane()
    total = context.current().new_var(kind, own.dtype)
    b = context.builder()
    b.begin_if(emit.compare("eq", active, emit.constant(2**WARP - 1, u32), "==").id)
    # All lanes are active: five butterfly steps.
    if kind == "reduce":
        now = own
        for step in (16, 8, 4, 2, 1):
            now = combine(op, now, shuffle("shuffle_xor", now, step))
        total.store(now)
    else:
        now = own
        for step in (1, 2, 4, 8, 16):
            below = shuffle("shuffle_up", now, step)
            there = emit.compare("ge", own_lane, emit.constant(step, i32), ">=")
            now = emit.select(there, combine(op, below, now), now)
        if kind == "exclusive":
            below = shuffle("shuffle_up", now, 1)
            now = emit.select(emit.compare("eq", own_lane, emit.constant(0, i32), "=="), emit.constant(identity(op, own.dtype), own.dtype), below)
        total.store(now)
    b.begin_else()
    # Some lanes are inactive: loop over the active ones.
    total.store(emit.constant(identity(op, own.dtype), own.dtype))
    low, high, step_ = (emit.constant(n, i32).id for n in (0, WARP, 1))
    _, index = b.begin_for(low, high, step_)
    other = Expr(index, i32)
    other_value = shuffle("shuffle_from", own, other)
    bit = emit.binary("and", emit.binary("shr", active, emit.convert(other, u32), ">>"), emit.constant(1, u32), "&")
    counts = emit.compare("ne", bit, emit.constant(0, u32), "!=")
    if kind != "reduce":
        order = "le" if kind == "inclusive" else "lt"
        counts = Expr(b.binary("and", counts.id, emit.compare(order, other, own_lane, "<").id), u1)
    total.store(emit.select(counts, combine(op, total.load(), other_value), total.load()))
    b.end_for()
    b.end_if()
    return total.load()


class SharedArray:
    """An array of scalars, vectors or matrices in the shared memory of a thread block, zero-initialized."""

    def __init__(self, shape: Any, dtype: Any) -> None:
        if context.compiling() is None:
            raise WujiRuntimeError("`SharedArray` can only be used in a kernel")
        extents = (shape,) if isinstance(shape, int) else tuple(shape)
        if not extents or not all(isinstance(n, int) and n > 0 for n in extents):
            raise WujiTypeError(
                f"invalid shape {shape!r} of a shared array\n  = help: its extents must be positive compile-time constants"
            )
        self.shape: tuple[int, ...] = extents
        self.element_type: Any = dtype if isinstance(dtype, MatrixType) else dtypes.need_scalar(dtype)
        cx = context.current()
        if cx.loop is None:
            raise WujiTypeError(
                "a shared array can only be created inside a parallel loop\n  = help: thread blocks run the loop's iterations; create the array in its body"
            )
        self._loop = cx.loop
        count = math.prod(extents)
        if count >= 2**31:
            raise WujiTypeError(f"a shared array cannot have {count} elements")
        self._number = cx.builder.local("", self.element_type.ir, count, True)

    @property
    def dtype(self) -> DataType:
        return self.element_type.dtype if isinstance(self.element_type, MatrixType) else self.element_type

    def _wuji_subscript(self, cx: Any, indices: list[Any]) -> SharedRef:
        if len(indices) != len(self.shape):
            raise WujiTypeError(f"a shared array with {len(self.shape)} axes cannot be indexed with {len(indices)} indices")
        at: Any = None
        for index, extent in zip(indices, self.shape, strict=True):
            number = emit.convert(index, i32)
            if len(self.shape) > 1 and cx.runtime.config.debug:
                cx.builder.check_index(number.id, extent)
            at = number if at is None else ops.add(ops.mul(at, emit.constant(extent, i32)), number)
        return SharedRef(("l", self._number), self.element_type, (at.id,), loop=self._loop)

    def __repr__(self) -> str:
        return f"<shared array of {self.element_type}, shape {self.shape}>"


class SharedRef(MemoryRef):
    """An element of a shared array. Other threads of the block can access it."""

    __slots__ = ()

    @property
    def private(self) -> bool:
        return False

    def part(self, step: Any) -> Any:
        if not isinstance(step, int):
            raise WujiTypeError(
                "vectors in a shared array cannot be indexed with a run-time value\n  = help: make the components an axis of the array"
            )
        from .values import tensor

        return SharedRef(self.base, tensor(self).dtype, self.indices, (*self.path, step), self.activate, self.loop)
