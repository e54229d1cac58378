"""Where Taichi has kernels and functions."""

from .func import func, pyfunc, real_func
from .kernel import Kernel, data_oriented, kernel

__all__ = ["Kernel", "data_oriented", "func", "kernel", "pyfunc", "real_func"]
