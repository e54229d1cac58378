"""Counters of the hardware, which are those of NVIDIA's CUPTI: names only in this version."""

from __future__ import annotations

from typing import Any, NoReturn

from ..exceptions import NotYet


def _refuse(what: str) -> NoReturn:
    raise NotYet(f"`{what}` reads counters of NVIDIA's GPUs by CUPTI, which this version does not do yet", "W0607")


class CuptiMetric:
    """A counter of the GPU."""

    def __init__(self, name: str = "", header: str = "unnamed_header", val_format: str = "     {:8.0f} ", scale: float = 1.0) -> None:
        _refuse("CuptiMetric")


def get_predefined_cupti_metrics(name: str = "") -> Any:
    """Counters that come with the profiler."""
    _refuse("get_predefined_cupti_metrics")


def set_kernel_profiler_metrics(metric_list: Any = None) -> None:
    """Chooses counters."""
    _refuse("set_kernel_profiler_metrics")


def collect_kernel_profiler_metrics(metric_list: Any = None) -> Any:
    """Counts inside of a ``with``."""
    _refuse("collect_kernel_profiler_metrics")
