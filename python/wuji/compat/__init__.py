"""Compatibility with other packages: `taichi`."""
