"""From a Python function to instructions: one visit of its syntax tree."""

from .function import FunctionCompiler

__all__ = ["FunctionCompiler"]
