"""Random programs as trees: how they are made, made smaller, and written as Python.

A program of this file's ``Generator`` reads the inputs ``a``, ``b`` (i32), ``x`` and ``y`` (f32), and computes variables
``t0``, ``t1``, ...
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

INPUTS = {"a": "i32", "b": "i32", "x": "f32", "y": "f32"}

_BINARY = ["+", "-", "*", "min", "max"]
_INTEGER = ["&", "|", "^", "//", "%", "<<", ">>"]
_FLOAT = ["/", "//"]
_COMPARE = ["<", "<=", ">", ">=", "==", "!="]


@dataclasses.dataclass(frozen=True)
class Expr:
    """An expression. ``op`` is an operator, or ``num``, ``var`` or ``[]``, for which ``value`` holds the number or name."""

    op: str
    args: tuple[Expr, ...] = ()
    value: int | float | str = 0

    def __str__(self) -> str:
        args = [str(a) for a in self.args]
        if self.op == "num":
            return f"({self.value!r})" if isinstance(self.value, (int, float)) and self.value < 0 else repr(self.value)
        if self.op == "var":
            return str(self.value)
        if self.op == "[]":
            return f"{self.value}[{', '.join(args)}]"
        if self.op in ("neg", "~", "not"):
            return f"({'-' if self.op == 'neg' else self.op} {args[0]})"
        if self.op == "if":
            return f"({args[1]} if {args[0]} else {args[2]})"
        if self.op in ("i32", "i64", "f32", "f64"):
            return f"ti.cast({args[0]}, ti.{self.op})"
        if self.op[0].isalpha() and self.op not in ("and", "or"):
            return f"ti.{self.op}({', '.join(args)})"
        # Chained, if there are more than two.
        return f"({f' {self.op} '.join(args)})"

    def smaller(self) -> Iterator[Expr]:
        """Expressions to try instead, the smallest first."""
        if self.op == "num":
            if self.value not in (0, 1):
                yield Expr("num", value=type(self.value)(1))
            return
        if self.op == "var":
            return
        yield Expr("num", value=1)
        yield from self.args
        for k, arg in enumerate(self.args):
            for new in arg.smaller():
                yield dataclasses.replace(self, args=(*self.args[:k], new, *self.args[k + 1 :]))


@dataclasses.dataclass(frozen=True)
class Stmt:
    """A statement: ``=``, an augmented assignment such as ``+=``, ``if``, ``for`` or ``while``."""

    op: str
    name: str = ""
    expr: Expr = Expr("num")
    body: tuple[Stmt, ...] = ()
    orelse: tuple[Stmt, ...] = ()

    def lines(self, indent: str) -> Iterator[str]:
        deeper = indent + "    "
        if self.op == "if":
            yield f"{indent}if {self.expr}:"
            yield from _block(self.body, deeper)
            if self.orelse:
                yield f"{indent}else:"
                yield from _block(self.orelse, deeper)
        elif self.op == "for":
            yield f"{indent}for {self.name} in range({self.expr}):"
            yield from _block(self.body, deeper)
        elif self.op == "while":
            yield f"{indent}{self.name} = 0"
            yield f"{indent}while {self.name} < {self.expr}:"
            yield f"{deeper}{self.name} += 1"
            yield from _block(self.body, deeper)
        elif self.op in ("break", "continue"):
            yield f"{indent}{self.op}"
        else:
            yield f"{indent}{self.name} {self.op} {self.expr}"

    def smaller(self) -> Iterator[tuple[Stmt, ...]]:
        """Statements to try instead."""
        yield ()
        if self.op == "if":
            yield self.body
            yield self.orelse
        for new in self.expr.smaller():
            yield (dataclasses.replace(self, expr=new),)
        for body in smaller(self.body):
            yield (dataclasses.replace(self, body=body),)
        for orelse in smaller(self.orelse):
            yield (dataclasses.replace(self, orelse=orelse),)


def _block(body: tuple[Stmt, ...], indent: str) -> Iterator[str]:
    if not body:
        yield f"{indent}pass"
    for stmt in body:
        yield from stmt.lines(indent)


def smaller(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    """Bodies to try instead."""
    for k in reversed(range(len(body))):
        for new in body[k].smaller():
            yield (*body[:k], *new, *body[k + 1 :])


def source(body: tuple[Stmt, ...], indent: str) -> str:
    """The body as Python."""
    return "\n".join(_block(body, indent))


class Generator:
    """Makes random bodies. Every variable is assigned before it is used, on every path."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        # Names and whether they are integers.
        self.known: dict[str, bool] = {name: type == "i32" for name, type in INPUTS.items()}
        self.count = 0
        self.loops = 0

    def body(self) -> tuple[Stmt, ...]:
        return tuple(self._stmt(2) for _ in range(self.random.randint(2, 6)))

    def _stmt(self, depth: int) -> Stmt:
        pick = self.random.random()
        locals_ = [name for name in self.known if name[0] == "t"]
        if pick < 0.4 or not locals_ or depth == 0:
            if locals_ and (depth < 2 or pick < 0.1):
                return Stmt("=", self.random.choice(locals_), self.expr(3))
            return self._declare()
        if pick < 0.6:
            name = self.random.choice(locals_)
            op = self.random.choice(["+=", "-=", "*="])
            return Stmt(op, name, self.expr(2, self.known[name]))
        if pick < 0.8:
            return Stmt("if", expr=self.condition(2), body=self._inner(depth), orelse=self._inner(depth))
        self.loops += 1
        name = f"k{self.loops}"
        trips = Expr("num", value=self.random.randint(0, 5))
        if self.random.random() < 0.3:
            trips = Expr("&", (self.expr(1, True), Expr("num", value=3)))
        return Stmt(self.random.choice(["for", "while"]), name, trips, self._inner(depth))

    def _declare(self) -> Stmt:
        integer = self.random.random() < 0.5
        stmt = Stmt("=", f"t{self.count}", self.expr(3, integer))
        self.known[stmt.name] = integer
        self.count += 1
        return stmt

    def _inner(self, depth: int) -> tuple[Stmt, ...]:
        # Inner blocks assign to outer variables only.
        body = []
        for _ in range(self.random.randint(1, 2)):
            names = [name for name in self.known if name[0] == "t"]
            name = self.random.choice(names)
            if depth > 1 and self.random.random() < 0.25:
                body.append(self._stmt_inside(depth - 1))
            else:
                body.append(Stmt(self.random.choice(["=", "+=", "-="]), name, self.expr(2, self.known[name])))
        return tuple(body)

    def _stmt_inside(self, depth: int) -> Stmt:
        if self.random.random() < 0.6:
            return Stmt("if", expr=self.condition(1), body=self._inner(depth), orelse=self._inner(depth))
        self.loops += 1
        return Stmt("for", f"k{self.loops}", Expr("num", value=self.random.randint(0, 4)), self._inner(depth))

    def condition(self, depth: int) -> Expr:
        if depth > 0 and self.random.random() < 0.3:
            op = self.random.choice(["and", "or", "not"])
            args = (self.condition(depth - 1),) if op == "not" else (self.condition(depth - 1), self.condition(depth - 1))
            return Expr(op, args)
        integer = self.random.random() < 0.5
        return Expr(self.random.choice(_COMPARE), (self.expr(1, integer), self.expr(1, integer)))

    def expr(self, depth: int, integer: bool | None = None) -> Expr:
        if integer is None:
            integer = self.random.random() < 0.5
        if depth == 0 or self.random.random() < 0.2:
            return self._leaf(integer)
        return self._integer(depth) if integer else self._float(depth)

    def _leaf(self, integer: bool) -> Expr:
        names = [name for name, is_integer in self.known.items() if is_integer == integer]
        if names and self.random.random() < 0.7:
            return Expr("var", value=self.random.choice(names))
        if integer:
            return Expr("num", value=self.random.choice([0, 1, 2, 3, 7, -1, -5, 100, 65535, -70000]))
        return Expr("num", value=self.random.choice([0.0, 0.5, 1.0, -1.5, 2.5, 3.0, -0.25, 1024.0, 1e-3, 1e10]))

    def _integer(self, depth: int) -> Expr:
        pick = self.random.random()
        one = lambda: self.expr(depth - 1, True)  # noqa: E731
        if pick < 0.4:
            return Expr(self.random.choice(_BINARY), (one(), one()))
        if pick < 0.65:
            op = self.random.choice(_INTEGER)
            right = one()
            if op in ("//", "%"):
                # Division by zero and of the smallest number by -1 are errors.
                right = Expr("+", (Expr("&", (right, Expr("num", value=15))), Expr("num", value=1)))
            elif op in ("<<", ">>"):
                right = Expr("&", (right, Expr("num", value=31)))
            return Expr(op, (one(), right))
        if pick < 0.75:
            return Expr(self.random.choice(["neg", "~", "abs"]), (one(),))
        if pick < 0.85:
            return Expr("**", (one(), Expr("num", value=self.random.randint(0, 4))))
        if pick < 0.93:
            return Expr("if", (self.condition(1), one(), one()))
        inside = Expr("max", (Expr("min", (self.expr(depth - 1, False), Expr("num", value=1e6))), Expr("num", value=-1e6)))
        return Expr("i32", (inside,))

    def _float(self, depth: int) -> Expr:
        pick = self.random.random()
        one = lambda: self.expr(depth - 1, False)  # noqa: E731
        if pick < 0.4:
            left, right = one(), one()
            if self.random.random() < 0.2:
                right = self.expr(depth - 1, True)
            return Expr(self.random.choice(_BINARY), (left, right))
        if pick < 0.6:
            op = self.random.choice(_FLOAT)
            integer = op == "/" and self.random.random() < 0.3
            return Expr(op, (self.expr(depth - 1, integer), self.expr(depth - 1, integer)))
        if pick < 0.8:
            op = self.random.choice(["neg", "abs", "floor", "ceil", "round", "sqrt"])
            return Expr(op, (one(),))
        if pick < 0.9:
            return Expr("if", (self.condition(1), one(), one()))
        return Expr("f32", (self.expr(depth - 1, True),))
