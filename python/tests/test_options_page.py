"""The options page lists every option under the right heading."""

from __future__ import annotations

import re
from pathlib import Path

from wuji.lang import options

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python" / "options.md"


def test_every_option_is_documented() -> None:
    acting, _, idle = PAGE.read_text(encoding="utf-8").partition("## Accepted options without effect")
    first = {name for line in acting.splitlines() if line.startswith("|") for name in re.findall(r"^\| `(\w+)`", line)}
    second = {name for line in idle.splitlines() if line.startswith("|") for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert first == {*options._ACTIVE, "default_fp", "default_ip"}
    assert second == set(options._IGNORED)
