"""Fixtures: every test runs in its own world."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterator

import pytest

import wuji as ti

# Subprocesses import the same package, from any working directory.
_PACKAGE = str(pathlib.Path(ti.__file__).resolve().parents[1])
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_PACKAGE, os.environ.get("PYTHONPATH")]))

ON_GPU = os.environ.get("TI_ARCH") == "cuda"
if ON_GPU:
    # Tests expect errors and printed lines at the launch.
    os.environ.setdefault("WUJI_LAUNCH_BLOCKING", "1")

# Tests of the backend choice in `init`, which TI_ARCH overrides.
_INIT_TESTS = ["test_options", "test_unknown_options", "test_status_page[Profiler and log: ti.cfg]",
               "test_status_page[Internals that programs use: ti.lang.impl.current_cfg]"]  # fmt: skip

# Tests of host behaviour, independent of the backend.
_HOST_FILES = ["test_window.py", "test_book.py"]
_HOST_TEST = "test_other_threads_run_during_a_launch"

# NumPy cannot read the memory of a GPU.
_NUMPY_TEST = "test_shared_memory_is_up_to_date"

# With WUJI_LAZY=1, worlds are lazy. These tests expect errors, time limits, warnings or statistics from the launch itself.
_EAGER_FILES = ["test_book.py", "test_cuda.py", "test_limits.py", "test_signals.py"]
_EAGER_TESTS = ["test_random_calls_survive_faults", "test_world_reports", "test_interpreter_worlds", "test_time_limit", "test_launches_release_the_gil",
                "test_ctrl_c_interrupts_a_kernel", "test_kernel_profile", "test_debug_level_logs_compilation", "test_ctrl_c_stops_a_kernel",
                "test_time_limits", "test_cache_folder"]  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not ON_GPU:
        return
    for item in items:
        if item.name in _INIT_TESTS or item.name.startswith("test_status_page[Devices: "):
            item.add_marker(pytest.mark.skip(reason="TI_ARCH selects the backend"))
        elif item.path.name in _HOST_FILES or item.name == _HOST_TEST:
            item.add_marker(pytest.mark.skip(reason="independent of the backend"))
        elif item.name == _NUMPY_TEST:
            item.add_marker(pytest.mark.skip(reason="NumPy cannot read the memory of a GPU"))


@pytest.fixture(autouse=True)
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.path.name in _EAGER_FILES or request.node.originalname in _EAGER_TESTS:
        monkeypatch.delenv("WUJI_LAZY", raising=False)


@pytest.fixture(autouse=True)
def world(mode: None) -> Iterator[None]:
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False)
    yield
    ti.reset()
    # A program of the book may have imported Taichi.
    compat = sys.modules.pop("wuji.compat.taichi", None)
    if compat is not None:
        compat.uninstall()
