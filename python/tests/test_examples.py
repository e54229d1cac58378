"""Each example runs as a separate program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wuji import examples
from wuji.__main__ import main


@pytest.mark.parametrize("name", sorted(examples.known()))
def test_example_runs(name: str, tmp_path: Path) -> None:
    quiet = {**os.environ, "TI_GUI_SHOW": "0", "WUJI_CACHE": "off"}
    done = subprocess.run(
        [sys.executable, "-m", "wuji", "example", name, "2"], cwd=tmp_path, env=quiet, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"2 frames in {name}.gif\n"
    assert (tmp_path / f"{name}.gif").read_bytes()[:6] == b"GIF89a"


def test_examples_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["example"]) == 0
    out = capsys.readouterr().out
    assert "julia" in out and "mpm88" in out
    assert main(["example", "-p", "julia"]) == 0
    assert "def paint" in capsys.readouterr().out
    assert main(["example", "julja"]) == 2
    assert "did you mean `julia`" in capsys.readouterr().err


def test_examples_can_be_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["example", "-s", "life"]) == 0
    assert "game of life" in (tmp_path / "life.py").read_text()
    assert main(["example", "-s", "life.py"]) == 1
