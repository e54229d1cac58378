"""Writes ``docs/python/status.md`` from the table in `surface`."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path

from surface import Row, load

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python" / "status.md"

HEAD = """# Name by name

Every name and behaviour of Taichi 1.7 that programs use, and whether it works here: {works} work, {partly} in part, and {refused} are refused with an error that says so.
This page is written by `python python/tests/surface_page.py`, and a test tries each line of it.

- **works**: as in Taichi 1.7, or better.
- **partly**: the note says what is different.
- **W0607** and other codes: the error that is raised when it is used. W0607 means *not yet in this version*.
"""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def page() -> str:
    rows = load()
    counts = Counter(row.status if row.status in ("works", "partly") else "refused" for row in rows)
    parts = [HEAD.format(works=counts["works"], partly=counts["partly"], refused=counts["refused"])]
    for section, group in groupby(rows, key=lambda row: row.section):
        parts.append(f"\n## {section}\n\n| names | status | |\n|---|---|---|\n")
        parts.extend(_line(list(same)) for _, same in groupby(group, key=lambda row: (row.status, row.note)))
    return "".join(parts)


def _line(rows: list[Row]) -> str:
    names = ", ".join(f"`{_cell(row.name)}`" for row in rows)
    return f"| {names} | {rows[0].status} | {_cell(rows[0].note)} |\n"


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
