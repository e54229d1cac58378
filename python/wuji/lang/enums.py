"""Enumerations."""

from __future__ import annotations

import enum


class Layout(enum.Enum):
    """Memory layout of vector and struct fields: array of structs or struct of arrays."""

    AOS = 1
    SOA = 2


class SNodeGradType(enum.Enum):
    """What a field is for another one."""

    PRIMAL = 0
    ADJOINT = 1
    DUAL = 2
    ADJOINT_CHECKBIT = 3


class AutodiffMode(enum.Enum):
    """Modes of differentiation."""

    NONE = 0
    VALIDATION = 1
    FORWARD = 2
    REVERSE = 3


__all__ = ["AutodiffMode", "Layout", "SNodeGradType"]
