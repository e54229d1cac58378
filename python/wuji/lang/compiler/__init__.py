"""The kernel compiler: one pass over a function's syntax tree that emits IR."""

from .function import FunctionCompiler

__all__ = ["FunctionCompiler"]
