"""Stand-in for Taichi's `lang.kernel_impl`."""

from .func import func, pyfunc, real_func
from .kernel import Kernel, data_oriented, kernel

__all__ = ["Kernel", "data_oriented", "func", "kernel", "pyfunc", "real_func"]
