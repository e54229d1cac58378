"""Every test has a world of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import wuji as ti


@pytest.fixture(autouse=True)
def world() -> Iterator[None]:
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
    yield
    ti.reset()
