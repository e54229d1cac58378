"""Random kernels that read and write neighbours through periodic, clamped and masked indices.

``python -m fuzz.programs --kind boundaries --seconds 60 --seed 1``

Each program runs in the interpreter, in both tiers of compiled code, and as plain Python.
Elements are small integers, of type i32 or f32, so results are exact in any order.
No two iterations of a parallel loop access an element that one of them stores; scattered elements are added to atomically.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

import wuji as ti

from . import comparison, plain
from .comparison import execute, same
from .program import Expr, Stmt, smaller, source

Body = tuple[Stmt, ...]

NAMES = ["a", "b", "c", "d", "e"]
# Where arrays are stored, the simplest first: row-major and column-major fields, arrays of the package, and arrays of NumPy.
_STORAGE = ["field", "columns", "ndarray", "numpy"]
# How a kernel knows an extent, the simplest first.
_EXTENTS = ["constant", "argument", "shape"]
# Options of the worlds that a program runs in. Those that compile faster come first.
_WORLDS: dict[str, dict[str, Any]] = {"interpreter": {"interpreter": True}, "fast": {"tier": "fast"}, "best": {"tier": "best"}}


_NUMPY = {"i32": "int32", "f32": "float32"}


@dataclasses.dataclass(frozen=True)
class Loop:
    """An outermost loop: its first line, the lines that define its indices, its body, and the grain size of threads, or 0."""

    head: str
    indices: tuple[str, ...]
    body: Body
    grain: int = 0

    def __str__(self) -> str:
        config = [f"    ti.loop_config(block_dim={self.grain})"] if self.grain else []
        return "\n".join([*config, f"    {self.head}:", *(f"        {line}" for line in self.indices), source(self.body, "        ")])


@dataclasses.dataclass(frozen=True)
class Stencil:
    """A kernel over arrays of one shape."""

    seed: int
    type: str
    shape: tuple[int, ...]
    extents: tuple[str, ...]
    storage: tuple[str, ...]
    loops: tuple[Loop, ...]

    def arrays(self) -> dict[str, str]:
        """The arrays that the kernel uses, and their storage."""
        loops = "\n".join(map(str, self.loops))
        return {name: storage for name, storage in zip(NAMES, self.storage, strict=True) if re.search(rf"\b{name}\b", loops)}

    def __str__(self) -> str:
        """Definitions of arrays, a kernel, and a call of it."""
        arrays = self.arrays()
        shape = "n0" if len(self.shape) == 1 else "(n0, n1)"
        lines = [f"n{axis} = {n}" for axis, n in enumerate(self.shape)]
        random_numbers = f"np.random.default_rng(seed).integers(-9, 10, {shape})"
        lines += ["", "", "def numbers(seed):", f"    return {random_numbers}.astype(np.{_NUMPY[self.type]})", "", ""]
        for k, (name, storage) in enumerate(arrays.items()):
            values = f"numbers({self.seed + k})"
            if storage == "numpy":
                lines.append(f"{name} = {values}")
                continue
            call = "ndarray" if storage == "ndarray" else "field"
            order = ', order="ji"' if storage == "columns" and len(self.shape) == 2 else ""
            lines += [f"{name} = ti.{call}(ti.{self.type}, {shape}{order})", f"{name}.from_numpy({values})"]
        arguments = [name for name, storage in arrays.items() if storage in ("ndarray", "numpy")]
        parameters = [f"{name}: ti.types.ndarray()" for name in arguments]
        known = []
        for axis, extent in enumerate(self.extents):
            if extent == "argument":
                arguments.append(f"n{axis}")
                parameters.append(f"n{axis}: ti.i32")
            elif extent == "shape" and arrays:
                known.append(f"    n{axis} = {next(reversed(arrays))}.shape[{axis}]")
        lines += ["", "", "@ti.kernel", f"def stencil({', '.join(parameters)}):", *known, *map(str, self.loops)]
        lines += ["", "", f"stencil({', '.join(arguments)})"]
        return "\n".join(lines) + "\n"

    def run(self, package: Any) -> dict[str, Any]:
        """The arrays after the call."""
        scope = {"ti": package, "np": np}
        execute(str(self), scope)
        found = {name: scope[name] for name in self.arrays()}
        return {name: array if isinstance(array, np.ndarray) else array.to_numpy() for name, array in found.items()}

    def differences(self, until: str | None = None) -> Iterator[tuple[str, str]]:
        try:
            expected = self.run(plain.ti)
        except plain.Inexact:
            return
        for kind, options in _WORLDS.items():
            world = comparison.world(**options)
            try:
                with world:
                    found = self.run(ti)
            finally:
                world.close()
            for name, array in found.items():
                if not same(array, expected[name]):
                    at = np.argwhere(array != expected[name])
                    first = (f"{name}{k.tolist()} is {array[tuple(k)]}, not {expected[name][tuple(k)]}" for k in at[:4])
                    yield kind, f"{len(at)} elements of `{name}` differ from plain Python: {', '.join(first)}"
                    break
            if kind == until:
                return

    def smaller(self) -> Iterator[Stencil]:
        for k, loop in enumerate(self.loops):
            before, after = self.loops[:k], self.loops[k + 1 :]
            if len(self.loops) > 1:
                yield dataclasses.replace(self, loops=(*before, *after))
            if loop.grain:
                yield dataclasses.replace(self, loops=(*before, dataclasses.replace(loop, grain=0), *after))
            for body in smaller(loop.body):
                yield dataclasses.replace(self, loops=(*before, dataclasses.replace(loop, body=body), *after))
        for axis, n in enumerate(self.shape):
            for less in sorted({n // 2, n - 1} - {0}):
                yield dataclasses.replace(self, shape=(*self.shape[:axis], less, *self.shape[axis + 1 :]))
        for extents in _simpler(self.extents, _EXTENTS):
            yield dataclasses.replace(self, extents=extents)
        for storage in _simpler(self.storage, _STORAGE):
            yield dataclasses.replace(self, storage=storage)

    def reproducer(self, kind: str) -> str:
        options = "".join(f", {name}={value!r}" for name, value in _WORLDS.get(kind, _WORLDS["best"]).items())
        lines = ["import numpy as np", "import wuji as ti", "", f"ti.init(ti.cpu, fast_math=False, offline_cache=False{options})"]
        results = [name if storage == "numpy" else f"{name}.to_numpy()" for name, storage in self.arrays().items()]
        return "\n".join(lines) + "\n" + str(self) + "".join(f"print({result})\n" for result in results)


def _simpler(values: tuple[str, ...], choices: list[str]) -> Iterator[tuple[str, ...]]:
    """One of the values is replaced by an earlier choice."""
    for k, value in enumerate(values):
        for choice in choices[: choices.index(value)]:
            yield (*values[:k], choice, *values[k + 1 :])


def _num(value: int) -> Expr:
    return Expr("num", value=value)


def _var(name: str) -> Expr:
    return Expr("var", value=name)


def _plus(expr: Expr, offset: int) -> Expr:
    return Expr("+" if offset > 0 else "-", (expr, _num(abs(offset)))) if offset else expr


class StencilGenerator:
    """Makes random programs."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.rank = self.random.choice([1, 2])
        self.shape = tuple(self._extent() for _ in range(self.rank))
        self.axes = ["i", "j"][: self.rank]
        # Roles of arrays in a loop: one whose own elements are stored, one that is permuted, one that is scattered to, and the others.
        self.own, self.permuted, self.scattered, *self.read = NAMES
        # Axes along which iterations are serial, so that they may read what others have stored.
        self.serial: set[int] = set()
        # A second permutation would store elements of other iterations.
        self.may_permute = True
        # Indices of the inner loops around.
        self.inner: list[str] = []
        self.count = 0

    def stencil(self) -> Stencil:
        pick = self.random.choice
        extents = tuple(pick(_EXTENTS) for _ in range(self.rank))
        storage = tuple(pick(_STORAGE) for _ in NAMES)
        loops = tuple(self._loop() for _ in range(pick([1, 1, 2])))
        return Stencil(self.seed, pick(["i32", "f32"]), self.shape, extents, storage, loops)

    def _extent(self) -> int:
        pick = self.random.random()
        if pick < 0.6:
            # Loops of 33 iterations and more are split.
            return self.random.randint(33, 40)
        if pick < 0.7 and self.rank == 1:
            return self.random.randint(41, 150)
        return self.random.randint(1, 32) if pick < 0.85 else self.random.randint(1, 8)

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # Loops.

    def _loop(self) -> Loop:
        names = self.random.sample(NAMES, len(NAMES))
        self.own, self.permuted, self.scattered, *self.read = names
        self.serial, self.inner, self.may_permute = set(), [], True
        loop = self._line() if self.rank == 1 else self._plane()
        # Small grains split even small loops between threads.
        return dataclasses.replace(loop, grain=self.random.choice([0, 0, 0, 1, 3, 8]))

    def _line(self) -> Loop:
        interior = f"range({self._interior(0)})"
        kind = self.random.choice(["struct", "range", "interior", "grouped", "serial"])
        if kind == "serial":
            self.serial = {0}
            return Loop("for _ in range(1)", (), (self._nested(0, self._body()),))
        if kind == "grouped":
            return Loop(f"for I in ti.grouped({self.own})", ("i = I[0]",), self._body())
        indices = {"struct": self.own, "range": "range(n0)", "interior": interior}[kind]
        return Loop(f"for i in {indices}", (), self._body())

    def _plane(self) -> Loop:
        interior = f"ti.ndrange(({self._interior(0)}), ({self._interior(1)}))"
        kind = self.random.choice(["struct", "ndrange", "interior", "grouped", "flat", "rows", "rows", "columns", "serial"])
        if kind == "rows":
            self.serial = {1}
            return Loop("for i in range(n0)", (), (self._nested(1, self._body()),))
        if kind == "columns":
            self.serial = {0}
            return Loop("for j in range(n1)", (), (self._nested(0, self._body()),))
        if kind == "serial":
            self.serial = {0, 1}
            return Loop("for _ in range(1)", (), (self._nested(0, (self._nested(1, self._body()),)),))
        if kind == "grouped":
            return Loop(f"for I in ti.grouped({self.own})", ("i, j = I[0], I[1]",), self._body())
        if kind == "flat":
            return Loop("for f in range(n0 * n1)", ("i, j = f // n1, f % n1",), self._body())
        indices = {"struct": self.own, "ndrange": "ti.ndrange(n0, n1)", "interior": interior}[kind]
        return Loop(f"for i, j in {indices}", (), self._body())

    def _nested(self, axis: int, body: Body) -> Stmt:
        """A serial loop over an axis, or over its interior."""
        bounds = self._interior(axis) if self._chance(0.3) else f"n{axis}"
        return Stmt("for", self.axes[axis], _var(bounds), body)

    def _interior(self, axis: int) -> str:
        high = self.random.randint(0, 3)
        return f"{self.random.randint(0, 3)}, n{axis}" + (f" - {high}" if high else "")

    # Statements.

    def _body(self) -> Body:
        """What an iteration does."""
        statements: list[Stmt] = []
        for _ in range(self.random.randint(1, 3)):
            statements += self._statements()
        return tuple(statements)

    def _statements(self) -> list[Stmt]:
        forms = [self._store] * 4 + [self._masked] * 2 + [self._wrapped] * 2 + [self._sum, self._scatter]
        if self.may_permute:
            forms.append(self._permute)
        if self.serial:
            forms += [self._recurrence] * 2
        return self.random.choice(forms)()

    def _element(self, array: str) -> str:
        """The element of this iteration."""
        return f"{array}[{', '.join(self.axes)}]"

    def _store(self) -> list[Stmt]:
        return [Stmt(self.random.choice(["=", "+="]), self._element(self.own), self._value(2))]

    def _masked(self) -> list[Stmt]:
        orelse = self._store() if self._chance(0.4) else []
        then = self._store() if self._chance(0.7) else self._scatter()
        return [Stmt("if", expr=self._mask(1), body=tuple(then), orelse=tuple(orelse))]

    def _wrapped(self) -> list[Stmt]:
        """An index that `if` statements bring into range."""
        axis = self.random.randrange(self.rank)
        name, n = self._new("w"), _var(f"n{axis}")
        out = [Stmt("=", name, self._neighbour(axis))]
        at = _var(name)
        clamped = [Stmt("=", name, _plus(n, -1)), Stmt("=", name, _num(0))]
        low = self.random.choice([Stmt("+=", name, n), Stmt("=", name, Expr("neg", (at,))), *clamped])
        high = self.random.choice([Stmt("-=", name, n), *clamped])
        below, above = self._not_below(axis, at, negated=True), self._not_above(axis, at, negated=True)
        tests = [Stmt("if", expr=below, body=(low,)), Stmt("if", expr=above, body=(high,))]
        if self._chance(0.2):
            tests = [dataclasses.replace(tests[0], orelse=(tests[1],))]
        elif self._chance(0.3):
            tests = [self.random.choice(tests)]
        indices = tuple(at if k == axis else self._index(k) for k in range(self.rank))
        read = Expr("[]", indices, self.random.choice(self.read))
        return [*out, *tests, Stmt("+=", self._element(self.own), read)]

    def _sum(self) -> list[Stmt]:
        """A sum over a serial loop."""
        k, trips = self._new("k"), _num(self.random.randint(0, 5))
        if self.rank == 1 and self._chance(0.3):
            trips = _var("n0")
        total = self._new("t")
        self.inner.append(k)
        body: list[Stmt] = [Stmt("+=", total, self._value(1))]
        if self._chance(0.3):
            body = [Stmt("if", expr=self._mask(0), body=tuple(body))]
        if self._chance(0.3):
            body += self._scatter()
        self.inner.pop()
        first = Stmt("=", total, self._value(1))
        return [first, Stmt("for", k, trips, tuple(body)), Stmt(self.random.choice(["=", "+="]), self._element(self.own), _var(total))]

    def _scatter(self) -> list[Stmt]:
        """An atomic addition to another element."""
        names = [self._new("s") for _ in self.axes]
        at = [Stmt("=", name, self._index(axis)) for axis, name in enumerate(names)]
        return [*at, Stmt("+=", f"{self.scattered}[{', '.join(names)}]", self._value(1))]

    def _permute(self) -> list[Stmt]:
        """A store to an element that is of this iteration alone. The shrinker must leave its index as it is, so it is a name."""
        self.may_permute = False
        indices = []
        for axis, name in enumerate(self.axes):
            r = self.random.randint(0, 8)
            n, right, left = f"n{axis}", f"{name} + {r}", f"{name} - {r}"
            wrapped = [f"({right}) % {n}", f"({left}) % {n}", f"({left} + {n}) % {n}"]
            selected = [f"{right} if {right} < {n} else {right} - {n}", f"{left} if {name} >= {r} else {left} + {n}"]
            indices.append(self.random.choice([name, *wrapped, *selected]))
        return [Stmt("=", f"{self.permuted}[{', '.join(indices)}]", self._value(1))]

    def _recurrence(self) -> list[Stmt]:
        """A store that depends on elements stored before. The shrinker must leave the row as it is, so an element is a name."""
        out, indices = [], []
        for axis, name in enumerate(self.axes):
            if axis in self.serial:
                at = self._new("r")
                out.append(Stmt("=", at, self._index(axis)))
                indices.append(at)
            else:
                indices.append(name)
        before = _var(f"{self.own}[{', '.join(indices)}]")
        sum = Expr(self.random.choice(["+", "-", "max"]), (before, self._value(1)))
        return [*out, Stmt("=", self._element(self.own), Expr("max", (Expr("min", (sum, _num(999))), _num(-999))))]

    def _new(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    # Values.

    def _value(self, depth: int) -> Expr:
        if depth > 0 and self._chance(0.6):
            left, right = self._value(depth - 1), self._value(depth - 1)
            return Expr(self.random.choice(["+", "+", "-", "max", "min"]), (left, right))
        pick = self.random.random()
        read = self._read()
        if pick < 0.15:
            # A neighbour that is zero outside.
            return Expr("if", (self._mask(0), read, _num(0)))
        if pick < 0.25:
            return Expr("*", (read, _num(self.random.randint(2, 5))))
        if pick < 0.3:
            return self._index(self.random.randrange(self.rank))
        return read

    def _read(self) -> Expr:
        """An element near that of this iteration, most often along one axis."""
        along = self.random.randrange(self.rank)
        indices = [self._index(axis) if axis == along or self._chance(0.3) else _var(name) for axis, name in enumerate(self.axes)]
        if self.rank == 2 and self._chance(0.03):
            indices.reverse()
        return Expr("[]", tuple(indices), self.random.choice(self.read))

    def _mask(self, depth: int) -> Expr:
        """Whether an iteration is in the interior, or something like that."""
        if depth > 0 and self._chance(0.4):
            op = self.random.choice(["and", "or", "not"])
            return Expr(op, tuple(self._mask(depth - 1) for _ in range(1 if op == "not" else 2)))
        axis = self.random.randrange(self.rank)
        at, n = _var(self.axes[axis]), _var(f"n{axis}")
        low, high = _num(self.random.randint(-1, 4)), _plus(n, -self.random.randint(-1, 4))
        pick = self.random.random()
        if pick < 0.3:
            return Expr(self.random.choice(["<", "<="]), (low, at, high))
        if pick < 0.4:
            return Expr("and", (self._not_below(axis, self._neighbour(axis)), self._not_above(axis, self._neighbour(axis))))
        if pick < 0.5:
            return Expr("<", (self._read(), _num(self.random.randint(-3, 3))))
        return Expr(self.random.choice(["<", "<=", ">", ">=", "==", "!="]), (at, self.random.choice([low, high])))

    # Indices.

    def _neighbour(self, axis: int) -> Expr:
        """The index of this iteration plus an offset, which may not be in range."""
        at = _var(self.axes[axis])
        if self.inner and self._chance(0.6):
            at = Expr(self.random.choice(["+", "+", "-"]), (at, _var(self.random.choice(self.inner))))
        offset = self.random.choice([-1, 1]) if self._chance(0.4) else self.random.randint(-8, 8)
        return _plus(at, offset)

    def _not_below(self, axis: int, at: Expr, negated: bool = False) -> Expr:
        """A comparison that an index is not negative."""
        forms = [(">=", at, _num(0)), (">", at, _num(-1)), ("<=", _num(0), at)]
        if self._chance(0.15):
            forms = [(">", at, _num(0)), ("!=", at, _num(-1)), ("!=", _var(self.axes[axis]), _num(0)), (">=", at, _num(1))]
        return self._comparison(forms, negated)

    def _not_above(self, axis: int, at: Expr, negated: bool = False) -> Expr:
        """A comparison that an index is less than the extent."""
        n = _var(f"n{axis}")
        forms = [("<", at, n), ("<=", at, _plus(n, -1)), (">", n, at)]
        if self._chance(0.15):
            forms = [("<", at, _plus(n, -1)), ("!=", at, n), ("!=", _var(self.axes[axis]), _plus(n, -1)), ("<=", _plus(at, 2), n)]
        return self._comparison(forms, negated)

    def _comparison(self, forms: list[tuple[str, Expr, Expr]], negated: bool) -> Expr:
        op, left, right = self.random.choice(forms)
        if not negated:
            return Expr(op, (left, right))
        if self._chance(0.2):
            return Expr("not", (Expr(op, (left, right)),))
        return Expr({"<": ">=", "<=": ">", ">": "<=", ">=": "<", "!=": "=="}[op], (left, right))

    def _index(self, axis: int) -> Expr:
        """A periodic, clamped or masked index."""
        at = self._index(axis) if self._chance(0.05) else self._neighbour(axis)
        forms = [self._selected] * 5 + [self._modulo] * 3 + [self._clamped] * 4 + [self._reflected]
        return at if self._chance(0.08) else self.random.choice(forms)(axis, at)

    def _selected(self, axis: int, at: Expr) -> Expr:
        n = _var(f"n{axis}")
        last = _plus(n, -1)
        below = self.random.choice([Expr("+", (at, n)), Expr("+", (n, at)), last, _num(0), _num(1), Expr("neg", (at,))])
        above = self.random.choice([Expr("-", (at, n)), last, _num(0), Expr("-", (_plus(Expr("*", (_num(2), n)), -2), at))])
        choose = "select" if self._chance(0.25) else "if"
        low = self._chance(0.5)
        test, outside = (self._not_below, below) if low else (self._not_above, above)
        pick = self.random.random()
        if pick < 0.4:
            return Expr(choose, (test(axis, at), at, outside))
        if pick < 0.6:
            return Expr(choose, (test(axis, at, negated=True), outside, at))
        if pick < 0.7:
            # The original index is compared: `n - 1 if j == 0 else j - 1`.
            edge = _num(self.random.randint(0, 2)) if low else _plus(n, -self.random.randint(1, 3))
            return Expr(choose, (Expr("==", (_var(self.axes[axis]), edge)), outside, at))
        if pick < 0.8:
            return Expr(choose, (Expr(self.random.choice(["<", "<="]), (_num(-1), at, n)), at, outside))
        inside = Expr(choose, (self._not_above(axis, at), at, above))
        return Expr(choose, (self._not_below(axis, at, negated=True), below, inside))

    def _modulo(self, axis: int, at: Expr) -> Expr:
        n = _var(f"n{axis}")
        pick = self.random.random()
        if pick < 0.3:
            return Expr("%", (at, n))
        if pick < 0.6:
            periods = self.random.choice([n, n, Expr("*", (_num(self.random.randint(2, 8)), n))])
            return Expr("%", (Expr("+", (at, periods)), n))
        if pick < 0.7:
            return Expr("%", (Expr("+", (Expr("%", (at, n)), n)), n))
        if pick < 0.8:
            return Expr("-", (at, Expr("*", (n, Expr("//", (at, n))))))
        # A power of two that is not larger than the extent.
        return Expr("&", (at, _num((1 << self.shape[axis].bit_length() - 1) - 1)))

    def _clamped(self, axis: int, at: Expr) -> Expr:
        zero, last = _num(0), _plus(_var(f"n{axis}"), -1)
        pick = self.random.random()
        if pick < 0.3:
            return Expr("max", self._either(at, zero))
        if pick < 0.6:
            return Expr("min", self._either(at, last))
        if pick < 0.75:
            return Expr("min", self._either(Expr("max", self._either(at, zero)), last))
        if pick < 0.9:
            return Expr("max", self._either(Expr("min", self._either(at, last)), zero))
        return Expr("math.clamp", (at, zero, last))

    def _either(self, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        return (a, b) if self._chance(0.7) else (b, a)

    def _reflected(self, axis: int, at: Expr) -> Expr:
        last = _plus(_var(f"n{axis}"), -1)
        return Expr("abs", (at,)) if self._chance(0.5) else Expr("-", (last, Expr("abs", (Expr("-", (last, at)),))))


def attempt(seed: int) -> None:
    """Make the program of a seed and compare everything that runs it."""
    comparison.attempt(StencilGenerator(seed).stencil())
