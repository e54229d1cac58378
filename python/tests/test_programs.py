"""Small programs with known results: those of Taichi 1.7, or of Python where Taichi deviates. Compiled and interpreted."""

from __future__ import annotations

import ast
import builtins
import math
import re
from pathlib import Path
from typing import Any

import pytest

import wuji as ti

FOLDER = Path(__file__).parent / "programs"
BEGIN = "import math\nimport numpy as np\nimport wuji as ti\nimport wuji.math as tm\n"


def programs() -> list[Any]:
    found = []
    for file in sorted(FOLDER.glob("*.txt")):
        blocks = file.read_text(encoding="utf-8").split("===\n")[1:]
        found += [pytest.param(block, id=f"{file.stem}-{number}") for number, block in enumerate(blocks)]
    return found


def alike(a: Any, b: Any) -> bool:
    """Compare; floats up to their last digits."""
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, float):
        return isinstance(b, float) and math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6)
    return bool(a == b)


@pytest.mark.parametrize("interpreter", [False, True], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("program", programs())
@pytest.mark.filterwarnings("ignore")
def test_programs(program: str, interpreter: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Also for programs that call `init` themselves.
    monkeypatch.setenv("TI_INTERPRETER", str(int(interpreter)))
    monkeypatch.setenv("TI_OFFLINE_CACHE", "0")
    ti.init(arch=ti.cpu, verbose=False)
    if program.startswith("# in order") and not interpreter and ti.cfg.arch is ti.cuda:
        pytest.skip("iterations of a parallel loop that depend on each other: short loops run in order, but not on a GPU")
    file = tmp_path / "main.py"
    file.write_text(BEGIN + program, encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}
    expected = re.search(r"^# (gives|raises) (.*)\Z", program.strip(), re.M | re.S)
    assert expected is not None
    if expected[1] == "raises":
        kind = getattr(ti, expected[2], None) or getattr(builtins, expected[2])
        with pytest.raises(kind):
            exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), names)
    else:
        exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), names)
        assert alike(ast.literal_eval(expected[2]), names.get("r"))
