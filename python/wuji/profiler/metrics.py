"""Hardware counters (CUPTI). Placeholders: not implemented yet."""

from __future__ import annotations

from typing import Any

from ..lang.missing import refuse


class CuptiMetric:
    """A hardware counter."""

    def __init__(self, name: str = "", header: str = "unnamed_header", val_format: str = "     {:8.0f} ", scale: float = 1.0) -> None:
        refuse("CuptiMetric", "CUPTI hardware counters")


def get_predefined_cupti_metrics(name: str = "") -> Any:
    """Return the predefined counters."""
    refuse("get_predefined_cupti_metrics", "CUPTI hardware counters")


def set_kernel_profiler_metrics(metric_list: Any = None) -> None:
    """Select counters."""
    refuse("set_kernel_profiler_metrics", "CUPTI hardware counters")


def collect_kernel_profiler_metrics(metric_list: Any = None) -> Any:
    """Collect counters inside a ``with`` block."""
    refuse("collect_kernel_profiler_metrics", "CUPTI hardware counters")
