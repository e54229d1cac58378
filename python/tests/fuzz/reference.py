"""What programs compute, in NumPy: the definition of the operations, written a second time."""

from __future__ import annotations

from typing import Any

import numpy as np

from .program import Expr, Stmt

_RANK = {"int32": 0, "int64": 1, "float32": 2, "float64": 3}


class Unspecified(Exception):
    """The result of an operation is not specified for its operands."""


class Exactness:
    """Whether operations were exact. Constants are unbounded integers and f64 numbers: they equal variables only then."""

    def __init__(self) -> None:
        self.exact = True

    def note(self, expr: Expr, result: Any, args: list[Any]) -> None:
        """Compare a result with the one of unbounded integers and f64 numbers."""
        wide = [int(a) if a.dtype.kind == "i" else a.astype(np.float64) for a in args]
        if expr.op in ("+", "-", "*", "/", "**", "//", "%", "<<", "neg", "abs", "sqrt", "f32"):
            with np.errstate(all="ignore"):
                other = _wide(expr.op, wide)
            if other is None or not (other == result or (other != other and result != result)):
                self.exact = False
                if _is_constant(expr):
                    raise Unspecified


def _is_constant(expr: Expr) -> bool:
    return expr.op == "num" or (expr.op != "var" and all(map(_is_constant, expr.args)))


def _wide(op: str, args: list[Any]) -> Any:
    """An operation on unbounded integers and f64 numbers; ``None`` where it has no result."""
    if len(args) == 1:
        return {"neg": lambda a: -a, "abs": abs, "sqrt": np.sqrt, "f32": np.float64}[op](args[0])
    a, b = args
    floats = any(isinstance(x, np.floating) for x in args)
    if op in ("/", "//") and (floats or op == "/"):
        quotient = np.float64(a) / np.float64(b)
        return quotient if op == "/" else np.floor(quotient)
    if floats:
        a, b = np.float64(a), np.float64(b)
    if op in ("//", "%") and b == 0:
        return None
    return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "**": lambda: a**b,
            "//": lambda: a // b, "%": lambda: a % b, "<<": lambda: a << b}[op]()  # fmt: skip


def _promote(a: Any, b: Any) -> tuple[Any, Any]:
    kind = max(a.dtype, b.dtype, key=lambda t: _RANK[t.name])
    return a.astype(kind), b.astype(kind)


def evaluate(expr: Expr, env: dict[str, Any], exactness: Exactness) -> Any:
    """The value of an expression, a NumPy scalar."""
    op = expr.op
    if op == "num":
        return np.float32(expr.value) if isinstance(expr.value, float) else np.int32(expr.value)
    if op == "var":
        return env[str(expr.value)]
    if op == "if":
        condition, then, other = (evaluate(a, env, exactness) for a in expr.args)
        then, other = _promote(then, other)
        return then if condition else other
    if op == "and":
        return np.int32(bool(evaluate(expr.args[0], env, exactness)) and bool(evaluate(expr.args[1], env, exactness)))
    if op == "or":
        return np.int32(bool(evaluate(expr.args[0], env, exactness)) or bool(evaluate(expr.args[1], env, exactness)))
    args = [evaluate(a, env, exactness) for a in expr.args]
    with np.errstate(all="ignore"):
        result = _unary(op, args[0]) if len(args) == 1 else _binary(op, args[0], args[1])
    exactness.note(expr, result, args)
    return result


def _unary(op: str, a: Any) -> Any:
    integer = a.dtype.kind == "i"
    if op == "neg":
        return (-a).astype(a.dtype)
    if op == "~":
        return ~a
    if op == "not":
        return np.int32(not a)
    if op == "abs":
        return np.abs(a)
    if op in ("floor", "ceil", "round") and integer:
        return a
    if op == "round":
        raise Unspecified
    if op in ("floor", "ceil"):
        return getattr(np, op)(a)
    if op == "sqrt":
        return np.sqrt(a.astype(np.float32) if integer else a)
    if op == "i32" and not integer and not -2147483648.0 <= a < 2147483648.0:
        raise Unspecified
    return a.astype({"i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64}[op])


def _binary(op: str, a: Any, b: Any) -> Any:
    if op == "**":
        result = a.dtype.type(1)
        for _ in range(int(b)):
            result = result * a
        return result
    if op in ("<<", ">>"):
        return a << b if op == "<<" else a >> b
    a, b = _promote(a, b)
    integer = a.dtype.kind == "i"
    if op == "/" and integer:
        a, b = a.astype(np.float32), b.astype(np.float32)
    if op in ("min", "max"):
        if a != a or b != b or (a == b == 0 and not integer):
            raise Unspecified  # NaN and signed zeros.
        return min(a, b) if op == "min" else max(a, b)
    if op == "//" and not integer:
        return np.floor(a / b)
    result = {
        "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b,
        "//": lambda: a // b, "%": lambda: a % b, "&": lambda: a & b, "|": lambda: a | b, "^": lambda: a ^ b,
        "<": lambda: np.int32(a < b), "<=": lambda: np.int32(a <= b), ">": lambda: np.int32(a > b),
        ">=": lambda: np.int32(a >= b), "==": lambda: np.int32(a == b), "!=": lambda: np.int32(a != b),
    }[op]()  # fmt: skip
    return result


def execute(body: tuple[Stmt, ...], env: dict[str, Any], exactness: Exactness) -> None:
    """Run statements on an environment."""
    for stmt in body:
        if stmt.op == "if":
            execute(stmt.body if evaluate(stmt.expr, env, exactness) else stmt.orelse, env, exactness)
        elif stmt.op == "for":
            for k in range(int(evaluate(stmt.expr, env, exactness))):
                _iteration(stmt, env, k, exactness)
        elif stmt.op == "while":
            k = 0
            while k < int(evaluate(stmt.expr, env, exactness)):
                k += 1
                _iteration(stmt, env, k, exactness)
        else:
            _assign(stmt, env, exactness)


def _iteration(stmt: Stmt, env: dict[str, Any], k: int, exactness: Exactness) -> None:
    env[stmt.name] = np.int32(k)
    execute(stmt.body, env, exactness)


def _assign(stmt: Stmt, env: dict[str, Any], exactness: Exactness) -> None:
    value = evaluate(stmt.expr, env, exactness)
    with np.errstate(all="ignore"):
        if stmt.op != "=":
            args = [env[stmt.name], value]
            value = _binary(stmt.op[0], *args)
            # A variable is no constant, whatever it holds.
            exactness.note(Expr(stmt.op[0], (Expr("var"), stmt.expr)), value, args)
        if stmt.name in env:
            # A variable keeps its first type.
            kind = env[stmt.name].dtype
            if kind.kind == "i" and value.dtype.kind == "f" and not -2147483648.0 <= value < 2147483648.0:
                raise Unspecified
            value = value.astype(kind)
    env[stmt.name] = value
