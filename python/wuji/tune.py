"""``ti.tune``: choose the types of fields. ``ti.tune.quant`` finds the quantized types with the least memory for an error."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from . import _native
from .exceptions import WujiArgumentError
from .lang import quant as _quant
from .lang import runtime as _runtime
from .lang.dtypes import DataType, need_scalar
from .lang.errors import from_native
from .lang.field import Field, MatrixField, ScalarField
from .lang.packed import BitpackedFields
from .lang.quantized import QuantizedType
from .lang.snode import SNode

__all__ = ["Point", "Trial", "Tuned", "quant"]

_Row = tuple[str, str, tuple[int, int, bool, float]]


def _storage(row: _Row, compute: DataType) -> QuantizedType | DataType:
    """Return the type of a field: quantized, or the compute type."""
    _, kind, (a, b, signed, most) = row
    if kind == "int":
        return _quant.int(a, signed, compute)
    if kind == "fixed":
        return _quant.fixed(a, signed, most, compute)
    if kind in ("float", "shared"):
        return _quant.float(a, b, signed, compute)
    return compute


class Trial:
    """One run of a program: it says how fields are stored, places them, and takes the outputs."""

    def __init__(self, types: list[_Row], words: list[tuple[int, int, list[tuple[str, list[int]]]]]) -> None:
        self._types = {row[0]: row for row in types}
        self._words = words
        self._computes: dict[str, DataType] = {}
        self._fields: dict[str, tuple[ScalarField | MatrixField, int]] = {}
        self._nodes: list[SNode] = []
        self._outputs: list[tuple[str, list[float]]] = []
        self._watch: tuple[_native.Watch, _native.World] | None = None

    @property
    def is_reference(self) -> bool:
        """Whether this is the first run, with the ordinary types."""
        return not self._types

    def type(self, name: str, dtype: Any) -> Any:
        """Return the type of a field in this run. Kernels see ``dtype`` in all runs."""
        compute = need_scalar(dtype)
        self._computes[name] = compute
        row = self._types.get(name)
        return compute if row is None else _storage(row, compute)

    def place(self, node: SNode, **fields: ScalarField | MatrixField) -> None:
        """Place fields in the cells of a node, packed as this run needs it. Fields of the same node share words."""
        if node not in self._nodes:
            self._nodes.append(node)
        number = self._nodes.index(node)
        for name, field in fields.items():
            self._check(name, field)
            for leaf in field._leaves():
                leaf.name = name
            self._fields[name] = (field, number)
        if self.is_reference:
            self._observe(fields)
        packed = {name for _, _, held in self._words for name, _ in held}
        for name, field in fields.items():
            if name not in packed:
                node.place(field)
        for owner, bits, held in self._words:
            if owner == number:
                self._place_word(node, bits, [(n, c) for n, c in held if n in fields])

    def _check(self, name: str, field: Any) -> None:
        if not isinstance(field, (ScalarField, MatrixField)):
            raise WujiArgumentError(f"`{name}` cannot be tuned: it is not a field of scalars, vectors or matrices\n  = help: place the members of structs one by one", "W0160")
        if name not in self._computes:
            raise WujiArgumentError(f"`{name}` has no type of this run\n  = help: create it with `ti.field(trial.type({name!r}, ti.f32))`", "W0160")
        if name in self._fields:
            raise WujiArgumentError(f"two fields are called `{name}`\n  = help: the name of a field selects its type: give each its own", "W0160")

    def _place_word(self, node: SNode, bits: int, held: list[tuple[str, list[int]]]) -> None:
        if not held:
            return
        word = BitpackedFields(max_num_bits=bits)
        for name, components in held:
            field = self._fields[name][0]
            shape = _shape(field)
            if len(components) == math.prod(shape):
                word.place(field, shared_exponent=self._types[name][1] == "shared")
                continue
            for k in components:
                word.place(field.get_scalar_field(*((divmod(k, shape[1])) if len(shape) == 2 else (k,))))
        node.place(word)

    def _observe(self, fields: Iterable[str]) -> None:
        if self._watch is None:
            world = _runtime.current().native
            self._watch = (_native.Watch(world), world)
        for name in fields:
            self._watch[0].add(name)

    def output(self, name: str, value: Any) -> None:
        """Add an output to compare: a field, an array, or a number such as an energy."""
        if isinstance(value, Field):
            value = value.to_numpy()
        import numpy as np

        try:
            numbers = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise WujiArgumentError(f"the output `{name}` is not a field, an array or a number, but {value!r}", "W0160") from None
        self._outputs.append((name, numbers.reshape(-1).tolist()))

    def _stop(self) -> None:
        if self._watch is not None:
            _native.Watch.stop(self._watch[1])

    def _finish(self) -> tuple[list[Any], list[tuple[str, list[float]]]]:
        self._stop()
        rows: list[Any] = []
        if self.is_reference and self._watch is not None:
            for name, (field, node) in self._fields.items():
                native = field._first.ready()
                cells = native.count_active() if _is_sparse(field) else math.prod(field.shape)
                rows.append((name, self._computes[name].ir, list(_shape(field)), node, cells, self._watch[0].range(native)))
        return rows, self._outputs


def _shape(field: Field) -> tuple[int, ...]:
    """Return the extents of an element."""
    if isinstance(field, MatrixField):
        return (field.n, field.m) if field.ndim == 2 else (field.n,)
    return ()


def _is_sparse(field: Field) -> bool:
    node = field._first.node
    return node is not None and node.is_sparse


@dataclass(frozen=True)
class Point:
    """A combination of types that was run: its memory, its error, and the type of each field, None for the ordinary one."""

    bytes: int
    error: float
    types: dict[str, QuantizedType | None]


class Tuned:
    """The result of ``ti.tune.quant``. It prints as a table, a plot and code."""

    def __init__(self, native: _native.Tuned, computes: dict[str, DataType]) -> None:
        self._native = native
        self._computes = computes

    @property
    def front(self) -> list[Point]:
        """The Pareto front: no other types have both less memory and a smaller error."""

        def stored(row: _Row) -> QuantizedType | None:
            ty = _storage(row, self._computes[row[0]])
            return ty if isinstance(ty, QuantizedType) else None

        return [Point(n, error, {row[0]: stored(row) for row in rows}) for n, error, rows in self._native.front]

    @property
    def point(self) -> Point:
        """The chosen types."""
        return self.front[self._native.chosen]

    @property
    def reference_bytes(self) -> int:
        """Bytes of the fields with their ordinary types."""
        return self._native.reference_bytes

    @property
    def runs(self) -> int:
        """How often the program ran."""
        return self._native.runs

    def code(self, language: str = "python") -> str:
        """Return the layout with the chosen types, in ``"python"`` or ``"rust"``."""
        if language not in ("python", "rust"):
            raise WujiArgumentError(f"there is no code in {language!r}, but in 'python' and 'rust'", "W0160")
        return self._native.python() if language == "python" else self._native.rust()

    def save_plot(self, file: str) -> None:
        """Write memory against error as an SVG picture."""
        with open(file, "w", encoding="utf-8") as out:
            out.write(self._native.svg())

    def report(self) -> str:
        """Return the ranges of the fields, the front and a plot."""
        return self._native.report()

    def __str__(self) -> str:
        return f"{self.report()}\n{self.code()}"


def quant(
    program: Callable[[Trial], Any],
    *,
    error: float | None = None,
    memory: int | None = None,
    memory_part: float | None = None,
    norm: str = "rms",
    reserve: float = 0.1,
    keep: Iterable[str] = (),
    points: int = 10,
    progress: bool | None = None,
) -> Tuned:
    """Find the quantized types with the least memory for an error, or with the smallest error for a memory budget.

    ``program`` is called repeatedly with a `Trial`. It creates fields with types of the trial, places them through it, runs, and ends
    with outputs. The error is that of the outputs, relative to the run with the ordinary types.

    Args:
        error: search the least memory with at most this error.
        memory, memory_part: search the smallest error with at most so many bytes, or this part of the bytes of the ordinary types.
        norm: ``"rms"`` compares root mean squares, ``"max"`` the largest differences.
        reserve: the part that is added to the observed range of each field of floats.
        keep: names of fields that keep their types.
        points: about how many combinations are run.
        progress: whether to show a progress bar; by default on terminals.
    """
    computes: dict[str, DataType] = {}

    def run(types: list[_Row], words: list[Any]) -> Any:
        trial = Trial(types, words)
        try:
            program(trial)
        except BaseException:
            trial._stop()
            raise
        computes.update(trial._computes)
        return trial._finish()

    shown = sys.stderr.isatty() if progress is None else progress
    try:
        found = _native.tune_quant(
            run,
            _bar if shown else lambda *_: None,
            error=error,
            memory=memory,
            memory_part=memory_part,
            norm=norm,
            reserve=float(reserve),
            keep=[keep] if isinstance(keep, str) else list(keep),
            points=points,
        )
    except _native.NativeError as e:
        raise from_native(e) from None
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return Tuned(found, computes)


def _bar(done: int, total: int, note: str) -> None:
    filled = 24 * done // max(total, 1)
    print(f"\r{'█' * filled:·<24} {done}/{total}  {note}\x1b[K", end="", file=sys.stderr, flush=True)
