"""Every mistake raises the exception that Taichi raises, with its key phrase."""

from __future__ import annotations

import builtins
import linecache
from typing import Any

import numpy as np
import pytest
from mistakes import Mistake, load

import wuji as ti


def run(case: Mistake, module: Any) -> None:
    """Run a program. The compiler finds its source in `linecache`."""
    name = f"<{case.name}>"
    linecache.cache[name] = (len(case.program), None, [line + "\n" for line in case.program.split("\n")], name)
    exec(compile(case.program, name, "exec", dont_inherit=True), {"ti": module, "np": np, "__name__": "mistake"})


@pytest.mark.parametrize("case", load(), ids=[case.name for case in load()])
def test_mistakes_raise_what_taichi_raises(case: Mistake) -> None:
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
    error = getattr(ti, case.error, None) or getattr(builtins, case.error)
    with pytest.raises(error) as caught:
        run(case, ti)
    assert case.phrase in str(caught.value)
