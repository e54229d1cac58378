"""What ``import taichi`` finds in processes that a program of ``wuji run`` spawns.

`multiprocessing` gives them the module search path, so this folder is on it.
"""

import sys

# `install`, in the next import, puts another module in place of this one.
sys.modules.pop("taichi", None)

import wuji.compat.taichi  # noqa: E402, F401
