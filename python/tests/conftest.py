"""Every test has a world of its own."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

import pytest

import wuji as ti

# Programs that tests start find the same package, from wherever they run.
_PACKAGE = str(pathlib.Path(ti.__file__).resolve().parents[1])
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_PACKAGE, os.environ.get("PYTHONPATH")]))


@pytest.fixture(autouse=True)
def world() -> Iterator[None]:
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
    yield
    ti.reset()
