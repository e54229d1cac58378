"""Random kernels: compiled code, the interpreter and NumPy must agree, and constants must behave as variables do.

``python -m fuzz.programs --seconds 60 --seed 1``
"""

from __future__ import annotations

import linecache
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import wuji as ti

from . import campaign, reference
from .campaign import Failed
from .program import INPUTS, Generator, Stmt, smaller, source

Body = tuple[Stmt, ...]
Results = dict[str, Any]

# Enough for whole vectors and a remainder.
_ROWS = 11
# A smaller program is not searched for longer.
_PATIENCE = 20.0

# A constant expression that leaves the range of its type is an error.
_OUT_OF_RANGE = "W0603"

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
    lines = [_HEADER, "@ti.kernel", "def rows(A: ti.types.ndarray(), B: ti.types.ndarray(), X: ti.types.ndarray(), Y: ti.types.ndarray(), OUT: ti.types.ndarray()):"]
    lines += ["    for row in range(A.shape[0]):", "        a, b, x, y = A[row], B[row], X[row], Y[row]", source(body, "        ")]
    lines += [f"        OUT[row, {k}] = {name}" for k, name in enumerate(variables(body))]
    return "\n".join(lines) + "\n"


def of_constants(body: Body, row: Results) -> str:
    """A kernel with the inputs of one row as constants of the module."""
    lines = [_HEADER, *(f"{name} = {value!r}" for name, value in row.items()), "", "@ti.kernel", "def constants(OUT: ti.types.ndarray()):"]
    lines += ["    if True:", source(body, "        ")]
    lines += [f"        OUT[0, {k}] = {name}" for k, name in enumerate(variables(body))]
    return "\n".join(lines) + "\n"


def kernel(text: str, name: str) -> Any:
    """The kernel of a source text."""
    filename = f"<fuzz {abs(hash(text))}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    scope: Results = {}
    exec(compile(text, filename, "exec"), scope)  # noqa: S102
    return scope[name]


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


def same(found: Any, expected: Any) -> bool:
    return bool(np.array_equal(found, expected, equal_nan=True) and np.array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0])))


class Worlds:
    """One world of compiled code and one of the interpreter, both in strict math."""

    def __init__(self) -> None:
        options: Results = {"arch": ti.cpu, "fast_math": False, "offline_cache": False, "cpu_max_num_threads": 2}
        self.compiled = ti.World(**options)
        self.interpreted = ti.World(interpreter=True, **options)


def differences(body: Body, rows: list[Results], worlds: Worlds) -> Iterator[tuple[str, str]]:
    """What disagrees: its kind, and a description."""
    with worlds.compiled:
        compiled = run_rows(body, rows)
    with worlds.interpreted:
        interpreted = run_rows(body, rows)
    if not same(compiled, interpreted):
        yield "interpreter", f"compiled code and interpreter differ\n{compiled}\n{interpreted}"
    if run_reference(body, rows[0])[1]:
        with worlds.compiled:
            constants = run_constants(body, rows[0])
        if not same(constants, compiled[0]):
            yield "constants", f"constants and variables differ\nconstants {constants}\nvariables {compiled[0]}"
    for k, row in enumerate(rows):
        expected, _ = run_reference(body, row)
        if expected is not None and not same(compiled[k], expected):
            yield "numpy", f"compiled code and NumPy differ for {row}\n{compiled[k]}\n{expected}"
            return


def first_difference(body: Body, rows: list[Results], worlds: Worlds) -> tuple[str, str] | None:
    try:
        return next(differences(body, rows, worlds), None)
    except ti.WujiError as error:
        if _OUT_OF_RANGE in str(error):
            return None
        return f"error {type(error).__name__}", str(error)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError, IndexError, RecursionError) as error:
        return f"raw {type(error).__name__}", repr(error)


def shrink(body: Body, rows: list[Results], worlds: Worlds, kind: str) -> Body:
    """The smallest program found that fails in the same way."""
    end = time.monotonic() + _PATIENCE
    progress = True
    while progress:
        progress = False
        for candidate in smaller(body):
            if time.monotonic() > end:
                return body
            try:
                found = first_difference(candidate, rows, worlds)
            except KeyError:
                continue
            if found and found[0] == kind and variables(candidate):
                body, progress = candidate, True
                break
    return body


_WORLDS: list[Worlds] = []


def attempt(seed: int) -> None:
    """Make the program of a seed and compare everything that runs it."""
    warnings.simplefilter("ignore")
    if not _WORLDS:
        _WORLDS.append(Worlds())
    body, rows = Generator(seed).body(), inputs(seed)
    found = first_difference(body, rows, _WORLDS[0])
    if found is None:
        return
    small = shrink(body, rows, _WORLDS[0], found[0])
    kind, why = first_difference(small, rows, _WORLDS[0]) or found
    text = f"# {kind}: " + why.replace("\n", "\n# ") + "\n" + over_rows(small) + "\n" + of_constants(small, rows[0])
    raise Failed(f"{kind}: {why}", text)


if __name__ == "__main__":
    campaign.main(attempt)
