"""Stand-in for Taichi's `_lib.utils`."""

import os
import sys


def package_root() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def get_os_name() -> str:
    return {"darwin": "osx", "win32": "win"}.get(sys.platform, "linux")


def is_ci() -> bool:
    return os.environ.get("TI_CI", "") == "1"
