"""Fuzzers of the Python package: ``python -m fuzz.programs`` and ``python -m fuzz.hosts``."""
