"""Parallel algorithms: sort and prefix sum."""

from .scan import PrefixSumExecutor
from .sort import parallel_sort

__all__ = ["PrefixSumExecutor", "parallel_sort"]
