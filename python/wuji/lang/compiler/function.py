"""Compiles one function, or the body of a kernel."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable
from typing import Any

from ... import _native
from ...exceptions import (
    CompilationWarning,
    WujiCompilationError,
    WujiError,
    WujiIndexError,
    WujiSyntaxError,
    WujiTypeError,
)
from ..context import Compilation
from ..errors import code_of, from_native, render
from .calls import Calls
from .expressions import Expressions
from .loops import Loops
from .scope import Scope
from .source import Source
from .statements import Statements

# So many nested calls are more likely recursion than expressions that nest too deeply.
_MANY_CALLS = 10


class FunctionCompiler(Statements, Loops, Calls, Expressions):
    """Visits the syntax tree of one function and emits IR into the builder of the compilation."""

    def __init__(self, cx: Compilation, source: Source, *, kernel: bool, real: bool = False) -> None:
        self.cx = cx
        self.b = cx.builder
        self.source = source
        self.scope = Scope(source)
        self.is_kernel = kernel
        self.is_real = real
        self.static_depth = 0
        self.depth = 0  # nesting of run-time control flow
        self.loops: list[Any] = []
        self.returns: Any = None  # handles `return`
        self.file = cx.file(source.file)
        # Whether an outermost loop of this function is an outermost loop of the kernel.
        self.outermost = cx.outermost

    # Dispatch; errors get a source location.
    def eval(self, node: ast.expr) -> Any:
        visit = _VISIT.get(type(node))
        try:
            if visit is None:
                raise WujiSyntaxError(unsupported(node))
            return visit(self, node)
        except Exception as e:
            raise self.located(e, node) from _cause(e)

    def _located(self, node: Any, visit: Any, *args: Any) -> Any:
        """Visit a node that is compiled by a loop over a chain of nodes."""
        try:
            return visit(node, *args)
        except Exception as e:
            raise self.located(e, node) from _cause(e)

    def exec(self, node: ast.stmt) -> None:
        visit = _VISIT.get(type(node))
        self.at(node)
        try:
            if visit is None:
                raise WujiSyntaxError(unsupported(node))
            visit(self, node)
        except Exception as e:
            raise self.located(e, node) from _cause(e)

    def at(self, node: ast.AST) -> None:
        """Attribute the following instructions to this node."""
        self.b.span(self.file, node.lineno, node.col_offset + 1)  # type: ignore[attr-defined]
        self.cx.location = (self.source.file, node.lineno)  # type: ignore[attr-defined]

    def location(self, node: ast.AST) -> tuple[str, int, int]:
        return self.source.file, getattr(node, "lineno", 0), getattr(node, "col_offset", 0) + 1

    def excerpt(self, node: ast.expr | ast.stmt) -> str:
        """Return the location and the source line of a node, underlined, for messages that a kernel prints."""
        line = linecache.getline(self.source.file, node.lineno).rstrip("\n")
        last = node.end_col_offset if node.end_lineno == node.lineno and node.end_col_offset else len(line)
        mark = " " * node.col_offset + "^" * (last - node.col_offset)
        return f'File "{self.source.file}", line {node.lineno}, in {self.source.name}:\n{line}\n{mark}'

    def located(self, error: Exception, node: ast.AST) -> Exception:
        """Attach the source location to an error, once."""
        if isinstance(error, _Signal) or getattr(error, "_wuji_located", False):
            return error
        wrapped: Any
        if isinstance(error, _native.NativeError):
            wrapped = from_native(error)
        elif isinstance(error, WujiError):
            wrapped = error
        elif isinstance(error, MemoryError):
            return error
        elif isinstance(error, RecursionError) and self.cx.__dict__.get("inlined", 0) >= _MANY_CALLS:
            wrapped = WujiCompilationError(
                f"calls nest too deeply to be inlined; is `{self.source.name}` recursive?\n  = help: use `ti.real_func` for recursion"
            )
        elif isinstance(error, RecursionError):
            wrapped = WujiSyntaxError("the code is nested too deeply\n  = help: split it into several statements or functions")
        else:
            kind: type[WujiError] = WujiCompilationError
            if isinstance(error, TypeError):
                kind = WujiTypeError
            elif isinstance(error, IndexError):
                kind = WujiIndexError
            text = str(error) if isinstance(error, (TypeError, IndexError, AttributeError)) else f"{type(error).__name__}: {error}"
            # What Python says of objects that stand for values of the kernel.
            wrapped = kind(text.replace("'Expr' object", "a run-time value").replace("'Expr'", "a run-time value"))
        message = getattr(wrapped, "message", str(wrapped))
        if not message.startswith("error["):
            code = code_of(wrapped)
            wrapped.code = code
            message = render(code, message, self.location(node), [f"in {'kernel' if self.is_kernel else 'function'} `{self.source.name}`"], end=_end(node))
        wrapped.args = (message,)
        wrapped._wuji_located = True
        return wrapped  # type: ignore[no-any-return]

    def warn(self, text: str, node: ast.AST) -> None:
        """Warn once per source location."""
        import warnings

        file, line, _ = self.location(node)
        key = (file, line, text)
        if key not in self.cx.runtime.warned:
            self.cx.runtime.warned.add(key)
            warnings.warn_explicit(text, CompilationWarning, file, line)


def _end(node: ast.AST) -> tuple[int, int] | None:
    """Return the line and column behind an expression, or behind the header of a statement with a body."""
    line, column = getattr(node, "end_lineno", None), getattr(node, "end_col_offset", None)
    return None if line is None or column is None else (line, column + 1)


class _Signal(Exception):
    """Unwinds the visitor; not an error."""


class StaticBreak(_Signal):
    pass


class StaticContinue(_Signal):
    pass


class Returned(_Signal):
    """The function returned on a path that is decided at compile time."""


def _cause(e: Exception) -> BaseException | None:
    """Return the cause to chain, or None if the message already covers it."""
    return None if isinstance(e, (WujiError, _native.NativeError, RecursionError, _Signal)) else e


_NAMES = {
    "AsyncFor": "`async for`",
    "AsyncWith": "`async with`",
    "Await": "`await`",
    "ClassDef": "a nested class",
    "Delete": "`del`",
    "GeneratorExp": "a generator expression",
    "Global": "`global`",
    "Import": "`import`",
    "ImportFrom": "`import`",
    "Lambda": "`lambda`",
    "Match": "`match`",
    "Nonlocal": "`nonlocal`",
    "Raise": "`raise`",
    "Set": "a set",
    "SetComp": "a set comprehension",
    "Try": "`try`",
    "TryStar": "`try`",
    "With": "`with`",
    "Yield": "`yield`",
    "YieldFrom": "`yield`",
}


def unsupported(node: ast.AST) -> str:
    kind = type(node).__name__
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return "Function definition is not allowed in 'ti.kernel'\n  = help: define it outside of the kernel, as a `ti.func`"
    return f'Unsupported node "{kind}": {_NAMES.get(kind, kind)} is not supported in kernels'


_VISIT: dict[type, Callable[[Any, Any], Any]] = {}
for _name in dir(FunctionCompiler):
    if _name.startswith("visit_"):
        _VISIT[getattr(ast, _name[6:])] = getattr(FunctionCompiler, _name)
