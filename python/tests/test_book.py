"""Runs every Python program of the book and the README, and compares error messages with the text.

`WUJI_BLESS=1` updates the messages.
"""

import os
import pathlib
import re

import pytest

import wuji as ti

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python(,error|,no_run)?\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)


def programs():
    for page in sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]):
        for number, found in enumerate(BLOCK.finditer(page.read_text())):
            yield pytest.param(page, number, id=f"{page.relative_to(ROOT)}:{number}")


@pytest.mark.parametrize("page,number", list(programs()))
def test_book_programs(page, number, tmp_path, monkeypatch):
    ti.reset()
    monkeypatch.setenv("TI_OFFLINE_CACHE", "0")
    monkeypatch.setenv("TI_VERBOSE", "0")
    monkeypatch.chdir(tmp_path)
    found = list(BLOCK.finditer(page.read_text()))[number]
    kind, code, expected = found.groups()
    if kind == ",no_run":
        compile(code, "main.py", "exec")
        return
    main = tmp_path / "main.py"
    main.write_text(code)
    try:
        exec(compile(code, str(main), "exec"), {"__name__": "__main__"})
    except Exception as e:
        message = str(e).replace(str(main), "main.py") + "\n"
        if kind is None:
            raise
    else:
        assert kind is None, "the program was to end with an error"
        return
    if message != expected and os.environ.get("WUJI_BLESS") == "1":
        text = page.read_text()
        start, end = found.span(3)
        page.write_text(text[:start] + message + text[end:])
        return
    assert message == expected
