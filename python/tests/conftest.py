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

ON_GPU = os.environ.get("TI_ARCH") == "cuda"
if ON_GPU:
    # Tests look for errors and printed lines where the launch is.
    os.environ.setdefault("WUJI_LAUNCH_BLOCKING", "1")

# Tests of how `init` chooses a device, which TI_ARCH overrides.
_OF_OPTIONS = ["test_options", "test_unknown_options", "test_it_is_as_the_page_says[Profiler and log: ti.cfg]",
               "test_it_is_as_the_page_says[Internals that programs use: ti.lang.impl.current_cfg]"]  # fmt: skip

# What is shown, and what the host does meanwhile, is the same on every device.
_OF_HOST = ["test_window.py", "test_book.py"]
_WHILE_WAITING = "test_other_threads_run_during_a_launch"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not ON_GPU:
        return
    for item in items:
        if item.name in _OF_OPTIONS or item.name.startswith("test_it_is_as_the_page_says[Devices: "):
            item.add_marker(pytest.mark.skip(reason="TI_ARCH says which device it is"))
        elif item.path.name in _OF_HOST or item.name == _WHILE_WAITING:
            item.add_marker(pytest.mark.skip(reason="it is not about the device"))


@pytest.fixture(autouse=True)
def world() -> Iterator[None]:
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
    yield
    ti.reset()
