"""In debug mode, reports integer arithmetic whose result does not fit its type. The result wraps all the same."""

from __future__ import annotations

import ast
from typing import Any

from . import context, dtypes, emit
from .compound import MatrixType
from .text import kernel_print
from .values import Expr

_OPERATIONS: dict[type, tuple[str, str]] = {
    ast.Add: ("add", "Addition"),
    ast.Sub: ("sub", "Subtraction"),
    ast.Mult: ("mul", "Multiplication"),
    ast.LShift: ("shl", "Shift left"),
}


def report_overflow(node: ast.BinOp | ast.AugAssign, left: Any, right: Any, result: Any, where: str) -> None:
    """Print a line at run time if the operation overflows. ``where`` describes the source location."""
    operation = _OPERATIONS.get(type(node.op))
    if operation is None or not isinstance(result, Expr) or not result.dtype.is_int:
        return
    op, name = operation
    a, b = emit.same(left, right, name, result.dtype)
    wraps = _wraps(op, a, b, result)
    bld = context.builder()
    for k in range(result.ty.count if isinstance(result.ty, MatrixType) else 1):
        part = emit.take(wraps, k) if wraps.shape else wraps
        bld.begin_if(part.id)
        kernel_print([f"{name} overflow detected in {where}"])
        bld.end_if()


def _wraps(op: str, a: Expr, b: Expr, result: Expr) -> Expr:
    if op == "shl":
        return emit.compare("ne", emit.binary("shr", result, b, ">>"), a, "!=")
    if result.dtype.bits < 64:
        x, y, r = (emit.convert(v, dtypes.i64) for v in (a, b, result))
        return emit.compare("ne", emit.binary(op, x, y, op), r, "!=")
    return (_wraps_signed if result.dtype.kind == "i" else _wraps_unsigned)(op, a, b, result)


def _wraps_unsigned(op: str, a: Expr, b: Expr, result: Expr) -> Expr:
    if op == "add":
        return emit.compare("lt", result, a, "<")
    if op == "sub":
        return emit.compare("lt", a, b, "<")
    return _lost_factor(a, b, result)


def _wraps_signed(op: str, a: Expr, b: Expr, result: Expr) -> Expr:
    if op == "mul":
        # The quotient restores the factor even if -1 times the least integer has wrapped.
        least = result.dtype.range()[0]
        least_a = emit.compare("eq", a, emit.constant(least, result.dtype), "==")
        flips = emit.compare("eq", b, emit.constant(-1, result.dtype), "==")
        return _or(_lost_factor(a, b, result), emit.binary("and", least_a, flips, "and", dtypes.u1))
    # The sign of a sum that has wrapped is the sign of neither part.
    other = b if op == "add" else emit.unary("not", b)
    signs = emit.binary("and", emit.binary("xor", a, result, "^"), emit.binary("xor", other, result, "^"), "&")
    return emit.compare("lt", signs, 0, "<")


def _lost_factor(a: Expr, b: Expr, result: Expr) -> Expr:
    """Return whether dividing a product by a factor other than zero does not restore the other factor."""
    lost = emit.compare("ne", emit.binary("div", result, b, "/"), a, "!=")
    return emit.binary("and", lost, emit.compare("ne", b, 0, "!="), "and", dtypes.u1)


def _or(a: Expr, b: Expr) -> Expr:
    return emit.binary("or", a, b, "or", dtypes.u1)
