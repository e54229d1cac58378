"""Random kernels in Python, of two kinds.

``python -m fuzz.programs --seconds 60 --seed 1``

``--kind arithmetic``: compiled code, the interpreter and NumPy must agree, and constants must behave as variables do.
``--kind boundaries``: neighbours in arrays, see ``boundaries.py``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

import wuji as ti

from . import boundaries, campaign, comparison, reference
from .comparison import kernel, same
from .program import INPUTS, Generator, Stmt, smaller, source

Body = tuple[Stmt, ...]
Results = dict[str, Any]

# Enough for whole vectors and a remainder.
_ROWS = 11

_EDGES = {
    "i32": [0, 1, -1, 2, 5, -7, 13, 1000, -65536, 2147483647, -2147483648],
    "f32": [0.0, 1.0, -1.0, 0.5, -2.5, 3.25, 1e-3, 1e8, -1e20, 7.0, 0.1],
}


def inputs(seed: int) -> list[Results]:
    """Rows of inputs, as Python numbers of which floats are exact in f32."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(_ROWS):
        row: Results = {}
        for name, kind in INPUTS.items():
            value = _EDGES[kind][rng.integers(len(_EDGES[kind]))]
            row[name] = value if kind == "i32" else float(np.float32(value))
        rows.append(row)
    return rows


def variables(body: Body) -> list[str]:
    """The variables that a body declares, in order."""
    return list(dict.fromkeys(s.name for s in body if s.op == "=" and s.name[0] == "t"))


_HEADER = """\
import wuji as ti
"""


def over_rows(body: Body) -> str:
    """A kernel that runs the body in a parallel loop, on inputs from arrays."""
    lines = [
        _HEADER,
        "@ti.kernel",
        "def rows(A: ti.types.ndarray(), B: ti.types.ndarray(), X: ti.types.ndarray(), Y: ti.types.ndarray(), OUT: ti.types.ndarray()):",
    ]
    lines += ["    for row in range(A.shape[0]):", "        a, b, x, y = A[row], B[row], X[row], Y[row]", source(body, "        ")]
    lines += [f"        OUT[row, {k}] = {name}" for k, name in enumerate(variables(body))]
    return "\n".join(lines) + "\n"


def of_constants(body: Body, row: Results) -> str:
    """A kernel with the inputs of one row as constants of the module."""
    lines = [_HEADER, *(f"{name} = {value!r}" for name, value in row.items()), "", "@ti.kernel", "def constants(OUT: ti.types.ndarray()):"]
    lines += ["    if True:", source(body, "        ")]
    lines += [f"        OUT[0, {k}] = {name}" for k, name in enumerate(variables(body))]
    return "\n".join(lines) + "\n"


def run_rows(body: Body, rows: list[Results]) -> Any:
    columns = [np.array([row[name] for row in rows], dtype=np.int32 if kind == "i32" else np.float32) for name, kind in INPUTS.items()]
    out = np.zeros((len(rows), max(len(variables(body)), 1)))
    kernel(over_rows(body), "rows")(*columns, out)
    return out


def run_constants(body: Body, row: Results) -> Any:
    out = np.zeros((1, max(len(variables(body)), 1)))
    kernel(of_constants(body, row), "constants")(out)
    return out[0]


def run_reference(body: Body, row: Results) -> tuple[Any, bool]:
    """The results by NumPy, ``None`` where they are not specified, and whether constants have the same."""
    exactness = reference.Exactness()
    env: Results = {name: np.int32(row[name]) if kind == "i32" else np.float32(row[name]) for name, kind in INPUTS.items()}
    try:
        reference.execute(body, env, exactness)
    except reference.Unspecified:
        return None, False
    return np.array([float(env[name]) for name in variables(body)] or [0.0]), exactness.exact


@functools.cache
def worlds() -> tuple[ti.World, ti.World]:
    """One world of compiled code and one of the interpreter."""
    return comparison.world(), comparison.world(interpreter=True)


@dataclasses.dataclass(frozen=True)
class Arithmetic:
    """A body and the rows of inputs that it runs on."""

    body: Body
    rows: list[Results]

    def differences(self, until: str | None = None) -> Iterator[tuple[str, str]]:
        body, rows = self.body, self.rows
        world, interpreter = worlds()
        with world:
            compiled = run_rows(body, rows)
        with interpreter:
            interpreted = run_rows(body, rows)
        if not same(compiled, interpreted):
            yield "interpreter", f"compiled code and interpreter differ\n{compiled}\n{interpreted}"
        if run_reference(body, rows[0])[1]:
            with world:
                constants = run_constants(body, rows[0])
            if not same(constants, compiled[0]):
                yield "constants", f"constants and variables differ\nconstants {constants}\nvariables {compiled[0]}"
        for k, row in enumerate(rows):
            expected, _ = run_reference(body, row)
            if expected is not None and not same(compiled[k], expected):
                yield "numpy", f"compiled code and NumPy differ for {row}\n{compiled[k]}\n{expected}"
                return

    def smaller(self) -> Iterator[Arithmetic]:
        for body in smaller(self.body):
            if variables(body):
                yield dataclasses.replace(self, body=body)

    def reproducer(self, kind: str) -> str:
        return over_rows(self.body) + "\n" + of_constants(self.body, self.rows[0])


def attempt(seed: int) -> None:
    """Make the program of a seed and compare everything that runs it."""
    comparison.attempt(Arithmetic(Generator(seed).body(), inputs(seed)))


if __name__ == "__main__":
    campaign.main({"arithmetic": attempt, "boundaries": boundaries.attempt})
