"""Runs a random program in several ways, and finds a small one that differs in the same way."""

from __future__ import annotations

import linecache
import time
import warnings
from collections.abc import Iterator
from typing import Any, Protocol, Self, TypeVar

import numpy as np

import wuji as ti

from .campaign import Failed

# A smaller program is not searched for longer.
_PATIENCE = 20.0

# A constant expression that leaves the range of its type is an error.
_OUT_OF_RANGE = "W0603"


class Program(Protocol):
    """A random program."""

    def differences(self, until: str | None = None) -> Iterator[tuple[str, str]]:
        """What disagrees: its kind, and a description. Kinds that come after ``until`` need not be looked for."""

    def smaller(self) -> Iterator[Self]:
        """Programs to try instead."""

    def reproducer(self, kind: str) -> str:
        """The program as Python that shows a difference of this kind."""


P = TypeVar("P", bound=Program)


def world(**options: Any) -> ti.World:
    """A world in strict math."""
    return ti.World(arch=ti.cpu, fast_math=False, offline_cache=False, cpu_max_num_threads=2, **options)


def execute(text: str, scope: dict[str, Any]) -> None:
    """Run a text as a module with these names. Kernels in it can be compiled."""
    filename = f"<fuzz {abs(hash(text))}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    exec(compile(text, filename, "exec"), scope)  # noqa: S102


def kernel(text: str, name: str) -> Any:
    """The kernel of a source text."""
    scope: dict[str, Any] = {}
    execute(text, scope)
    return scope[name]


def same(found: Any, expected: Any) -> bool:
    return bool(
        np.array_equal(found, expected, equal_nan=True)
        and np.array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))
    )


def first_difference(program: Program, until: str | None = None) -> tuple[str, str] | None:
    try:
        return next(program.differences(until), None)
    except ti.WujiError as error:
        if _OUT_OF_RANGE in str(error):
            return None
        return f"error {type(error).__name__}", str(error)
    except (ArithmeticError, AttributeError, IndexError, KeyError, NameError, RecursionError, TypeError, ValueError) as error:
        return f"raw {type(error).__name__}", repr(error)


def shrink(program: P, kind: str) -> P:
    """The smallest program found that fails in the same way."""
    end = time.monotonic() + _PATIENCE
    progress = True
    while progress:
        progress = False
        for candidate in program.smaller():
            if time.monotonic() > end:
                return program
            found = first_difference(candidate, kind)
            if found and found[0] == kind:
                program, progress = candidate, True
                break
    return program


def attempt(program: Program) -> None:
    """Compare everything that runs a program."""
    warnings.simplefilter("ignore")
    found = first_difference(program)
    if found is None:
        return
    small = shrink(program, found[0])
    kind, why = first_difference(small) or found
    raise Failed(f"{kind}: {why}", f"# {kind}: " + why.replace("\n", "\n# ") + "\n" + small.reproducer(kind))
