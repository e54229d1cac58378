"""Generates ``docs/python/status.md`` from the table in `surface`."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path

from surface import Row, load

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python" / "status.md"

HEAD = """# API status

The public names and behaviours of Taichi 1.7, and their status in Wuji: {works} work, {partly} work partly, and {refused} raise an error.
`python python/tests/surface_page.py` generates this page, and a test tries each row.

- **works**: as in Taichi 1.7, or better.
- **partly**: the note describes the difference.
- **W0607** and other codes: using the name raises this error.
  W0607 means *not supported yet*.
"""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def page() -> str:
    rows = load()
    counts = Counter(row.status if row.status in ("works", "partly") else "refused" for row in rows)
    parts = [HEAD.format(works=counts["works"], partly=counts["partly"], refused=counts["refused"])]
    for section, group in groupby(rows, key=lambda row: row.section):
        parts.append(f"\n## {section}\n\n| names | status | note |\n|---|---|---|\n")
        parts.extend(_line(list(same)) for _, same in groupby(group, key=lambda row: (row.status, row.note)))
    return "".join(parts)


def _line(rows: list[Row]) -> str:
    names = ", ".join(f"`{_cell(row.name)}`" for row in rows)
    return f"| {names} | {rows[0].status} | {_cell(rows[0].note)} |\n"


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
