"""Mistakes that users of Taichi 1.7 make: the class of the exception that it raises, and the key phrase of the message.

The programs are written for both; class and phrase were recorded with Taichi 1.7.4.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from textwrap import dedent


@dataclass(frozen=True)
class Mistake:
    name: str
    error: str  # class of the exception: a public name of Taichi, or a builtin one
    phrase: str
    program: str


MISTAKES: list[Mistake] = []


def mistake(name: str, error: str, phrase: str, program: str) -> None:
    """Add a program. Lines that start with ``>`` are the body of a kernel, which runs after the preceding lines."""
    lines: list[str] = []
    body: list[str] = []
    for line in dedent(program).strip("\n").split("\n"):
        if line.startswith(">"):
            body.append("    " + line[1:].removeprefix(" "))
        else:
            lines.append(line)
    if body:
        lines += ["@ti.kernel", "def run(a: ti.i32, f: ti.f32):", *body, "run(1, 1.0)"]
    MISTAKES.append(Mistake(name, error, phrase, "\n".join(lines) + "\n"))


def load() -> list[Mistake]:
    if not MISTAKES:
        for part in ("kernels", "calls", "data"):
            importlib.import_module(f".{part}", __name__)
    return MISTAKES
