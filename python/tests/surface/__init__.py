"""The public surface of Taichi 1.7: every name and behaviour, its status in Wuji, and a program that tries it.

``python python/tests/surface_page.py`` writes ``docs/python/status.md``; `test_surface` runs each program and compares the page.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A name or behaviour. ``status`` is ``works``, ``partly``, or the code of the error that it raises."""

    section: str
    name: str
    status: str
    trial: str
    note: str = ""


ROWS: list[Row] = []


class Section:
    """The rows of one section of the page."""

    def __init__(self, title: str) -> None:
        self.title = title

    def _add(self, names: str, status: str, trial: str, note: str, sep: str | None) -> None:
        for name in names.split(sep):
            full = name.strip()
            ROWS.append(Row(self.title, full, status, trial.replace("{}", full).replace("{.}", full.rpartition(".")[2]), note))

    def works(self, names: str, trial: str, note: str = "", sep: str | None = None, partly: bool = False) -> None:
        """In the program, ``{}`` is the name and ``{.}`` its last component. Lines that start with ``>`` are the body of a kernel."""
        self._add(names, "partly" if partly else "works", _program(trial), note, sep)

    def one(self, name: str, trial: str, note: str = "", partly: bool = False) -> None:
        """A name that contains spaces."""
        self.works(name, trial, note, sep="\0", partly=partly)

    def partly(self, name: str, trial: str, note: str) -> None:
        self.one(name, trial, note, partly=True)

    def refused(self, names: str, trial: str = "{}()", note: str = "", code: str = "W0607", sep: str | None = None) -> None:
        self._add(names, code, _program(trial), note, sep)


def _program(trial: str) -> str:
    """Turns lines with ``>`` into a kernel, which runs after the preceding lines."""
    from textwrap import dedent

    lines, body, after = [], [], []
    for line in dedent(trial).strip("\n").split("\n"):
        if line.startswith(">"):
            body.append("    " + line[1:].removeprefix(" "))
        else:
            (after if body else lines).append(line)
    if body:
        lines += ["@ti.kernel", "def run():", *body, "run()", *after]
    return "\n".join(lines) + "\n"


def load() -> list[Row]:
    """All rows, in the order of the page."""
    if not ROWS:
        for chapter in ("language", "data", "library", "tools"):
            importlib.import_module(f".{chapter}", __name__)
    return ROWS
