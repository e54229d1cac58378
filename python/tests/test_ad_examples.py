"""The examples that optimize something reach their goals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wuji import examples

GOALS = {
    "throw": (8, "losses[-1] < 0.02 * losses[0]"),
    "billiards": (30, "min(losses) < 0.1 * losses[0]"),
    "ripples": (12, "losses[-1] < 0.3 * losses[0] and all(a > b for a, b in zip(losses, losses[1:]))"),
    "smoke": (30, "losses[-1] < 0.2 * losses[0]"),
    "walker": (12, "losses[-1] < losses[0] - 0.25"),
}


@pytest.mark.parametrize("name", GOALS)
def test_examples_reach_their_goals(name: str, tmp_path: Path) -> None:
    frames, goal = GOALS[name]
    program = f"""
import runpy, sys
sys.argv = ["{name}.py", "{frames}"]
losses = runpy.run_path({examples.path(name)!r}, run_name="__main__")["losses"]
assert {goal}, losses
"""
    quiet = {**os.environ, "TI_GUI_SHOW": "0", "WUJI_CACHE": "off"}
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=quiet, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
