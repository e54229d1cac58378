"""Kernel profiler: enable it with ``ti.init(kernel_profiler=True)``, then call `print_kernel_profiler_info`."""

from .kernels import (
    clear_kernel_profiler_info,
    get_kernel_profiler_total_time,
    print_kernel_profiler_info,
    query_kernel_profiler_info,
    save_trace,
    set_kernel_profiler_toolkit,
)
from .metrics import CuptiMetric, collect_kernel_profiler_metrics, get_predefined_cupti_metrics, set_kernel_profiler_metrics
from .others import clear_scoped_profiler_info, print_memory_profiler_info, print_scoped_profiler_info

__all__ = [
    "CuptiMetric",
    "clear_kernel_profiler_info",
    "clear_scoped_profiler_info",
    "collect_kernel_profiler_metrics",
    "get_kernel_profiler_total_time",
    "get_predefined_cupti_metrics",
    "print_kernel_profiler_info",
    "print_memory_profiler_info",
    "print_scoped_profiler_info",
    "query_kernel_profiler_info",
    "save_trace",
    "set_kernel_profiler_metrics",
    "set_kernel_profiler_toolkit",
]
