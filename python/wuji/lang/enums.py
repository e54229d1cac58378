"""Enumerations."""

from __future__ import annotations

import enum


class Layout(enum.Enum):
    """Memory layout of vector and struct fields: array of structs or struct of arrays."""

    AOS = 1
    SOA = 2


__all__ = ["Layout"]
