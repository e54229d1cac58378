"""Runs the trial of each row of the status page."""

from __future__ import annotations

import linecache
from pathlib import Path

import numpy as np
import pytest
from surface import Row, load
from surface_page import PAGE, page

import wuji as ti

ROWS = load()


def attempt(row: Row, folder: Path) -> None:
    """Run a trial."""
    name = f"<trial of {row.section}: {row.name}>"
    lines = [line + "\n" for line in row.trial.split("\n")]
    linecache.cache[name] = (len(row.trial), None, lines, name)
    names = {"ti": ti, "tm": ti.math, "np": np, "folder": folder, "__name__": "trial"}
    exec(compile(row.trial, name, "exec", dont_inherit=True), names)


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.section}: {row.name}" for row in ROWS])
def test_status_page(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ti.init(arch=ti.cpu, interpreter=True, verbose=False, debug=row.status in ("works", "partly"))
    if row.status in ("works", "partly"):
        attempt(row, tmp_path)
    else:
        with pytest.raises(ti.WujiError) as caught:
            attempt(row, tmp_path)
        from wuji.lang.errors import code_of

        assert code_of(caught.value) == row.status, caught.value


def test_names_are_unique() -> None:
    seen: set[tuple[str, str]] = set()
    for row in ROWS:
        key = (row.section, row.name)
        assert key not in seen, key
        seen.add(key)


def test_status_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python python/tests/surface_page.py`"
