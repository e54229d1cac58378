"""Profiler and logging."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import wuji as ti
from wuji.exceptions import NotYet


def start(**options: Any) -> tuple[Any, Any]:
    ti.init(arch=ti.cpu, offline_cache=False, verbose=False, **options)
    x = ti.field(ti.f32, 64)

    @ti.kernel
    def twice():
        for i in x:
            x[i] += 1
        for i in x:
            x[i] *= 2

    @ti.kernel
    def once():
        for i in x:
            x[i] += 1

    return twice, once


def test_kernel_profile(capsys: Any) -> None:
    twice, once = start(kernel_profiler=True)
    for _ in range(3):
        twice()
    once()
    found = ti.profiler.query_kernel_profiler_info(twice.__name__)
    assert found.counter == 3
    assert 0 < found.min <= found.avg <= found.max < 10_000
    assert ti.profiler.query_kernel_profiler_info("no_such_kernel").counter == 0
    total = ti.profiler.get_kernel_profiler_total_time()
    assert 1e-3 * found.avg * 3 < total < 10
    ti.profiler.print_kernel_profiler_info()
    text = capsys.readouterr().out
    assert "twice" in text and "once" in text and "3x" in text
    ti.profiler.print_kernel_profiler_info("trace")
    text = capsys.readouterr().out
    assert text.count("once") == 1 and "Number of records: " in text
    ti.profiler.clear_kernel_profiler_info()
    assert ti.profiler.get_kernel_profiler_total_time() == 0


def test_kernel_traces(tmp_path: Path) -> None:
    twice, _ = start(kernel_profiler=True)
    twice()
    file = tmp_path / "trace.json"
    ti.profiler.save_trace(str(file))
    assert any(e.get("cat") == "launch" for e in json.loads(file.read_text())["traceEvents"])


def test_other_reports(capsys: Any) -> None:
    twice, _ = start(kernel_profiler=True)
    twice()
    ti.profiler.print_scoped_profiler_info()
    assert "compilation" in capsys.readouterr().out
    ti.profiler.print_memory_profiler_info()
    out = capsys.readouterr().out
    assert out.startswith("x, ti.root.dense(i, [64])") and "256" in out
    ti.profiler.clear_scoped_profiler_info()


def test_profiler_warns_if_disabled() -> None:
    twice, _ = start()
    twice()
    with pytest.warns(UserWarning, match="kernel_profiler=True"):
        assert ti.profiler.get_kernel_profiler_total_time() == 0
    assert ti.profiler.query_kernel_profiler_info("twice").counter == 0
    assert ti.profiler.set_kernel_profiler_toolkit("default") is False


def test_profiler_rejects_invalid_arguments() -> None:
    start(kernel_profiler=True)
    with pytest.raises(ValueError, match="mode"):
        ti.profiler.print_kernel_profiler_info("all")
    with pytest.raises(ValueError, match="toolkit_name"):
        ti.profiler.set_kernel_profiler_toolkit("mine")
    assert ti.profiler.set_kernel_profiler_toolkit("default") is True
    assert ti.profiler.set_kernel_profiler_toolkit("cupti") is False
    for use in (
        ti.profiler.CuptiMetric,
        ti.profiler.get_predefined_cupti_metrics,
        ti.profiler.set_kernel_profiler_metrics,
        ti.profiler.collect_kernel_profiler_metrics,
    ):
        with pytest.raises(NotYet, match="CUPTI"):
            use()


def test_logging_levels(capsys: Any) -> None:
    ti.set_logging_level(ti.WARN)
    assert [ti.is_logging_effective(level) for level in (ti.INFO, ti.WARN, ti.ERROR)] == [False, True, True]
    ti._logging.info("quiet")
    ti._logging.warn("loud")
    assert capsys.readouterr().err == "[Wuji] warning: loud\n"
    ti.set_logging_level(ti.CRITICAL)
    ti.set_logging_level(ti.TRACE)
    assert ti.is_logging_effective(ti.TRACE)
    with pytest.raises(ti.TaichiRuntimeError, match="trace, debug, info"):
        ti.set_logging_level("shout")
    ti.reset()
    assert isinstance(ti.is_logging_effective(ti.INFO), bool)


def test_debug_level_logs_compilation(capfd: Any) -> None:
    _, once = start(log_level=ti.DEBUG)
    once()
    assert "launch of kernel `once`" in capfd.readouterr().err
    _, once = start(log_level=ti.ERROR)
    once()
    assert capfd.readouterr().err == ""
    ti.set_logging_level(ti.DEBUG)
    once()
    assert "launch of kernel `once`" in capfd.readouterr().err
