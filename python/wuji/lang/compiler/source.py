"""Source code and syntax tree of a Python function."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import Any

from ...exceptions import WujiRuntimeError, WujiSyntaxError

# Parsed files: path -> hash of the text, functions by first line.
_files: dict[str, tuple[int, dict[int, ast.FunctionDef]]] = {}


class Source:
    """A function with its syntax tree and the names it can see."""

    __slots__ = ("assigned", "file", "function", "globals", "name", "node", "outer", "updated")

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.name = function.__name__
        self.file = function.__code__.co_filename
        self.node = _find(function)
        self.globals: dict[str, Any] = function.__globals__
        self.outer: dict[str, Any] = {}
        self.assigned = assigned_names([self.node])
        self.updated = set(_updated(self.node))
        self.refresh()

    def refresh(self) -> None:
        """Update the captured closure variables."""
        self.outer = {}
        for name, cell in zip(self.function.__code__.co_freevars, self.function.__closure__ or (), strict=False):
            try:
                self.outer[name] = cell.cell_contents
            except ValueError:
                pass  # not assigned yet


def _find(function: FunctionType) -> ast.FunctionDef:
    code = function.__code__
    file, first = code.co_filename, code.co_firstlineno
    lines = linecache.getlines(file, function.__globals__)
    if not lines:
        raise WujiRuntimeError(
            f"no source code found for `{function.__name__}`; kernels are compiled from their source\n"
            f"  = note: it was defined in {file}\n"
            "  = help: define it in a file, a notebook or IPython; the plain Python prompt keeps no source",
            "W0608",
        )
    text = "".join(lines)
    known = _files.get(file)
    if known is None or known[0] != hash(text):
        try:
            tree = ast.parse(text, filename=file)
        except SyntaxError as e:
            raise WujiRuntimeError(f"the file of `{function.__name__}` has changed since it was imported, and no longer parses: {e}", "W0608") from None
        functions: dict[int, ast.FunctionDef] = {}
        for part in ast.walk(tree):
            if isinstance(part, ast.FunctionDef):
                functions[min([part.lineno, *(d.lineno for d in part.decorator_list)])] = part
        known = _files[file] = (hash(text), functions)
    node = known[1].get(first)
    if node is None or node.name != function.__name__:
        if function.__name__ == "<lambda>":
            raise WujiSyntaxError("a lambda cannot be a kernel or `ti.func`\n  = help: write it with `def`")
        raise WujiRuntimeError(
            f"the file {file} has changed since `{function.__name__}` was defined at line {first}\n  = help: restart the program",
            "W0608",
        )
    return node


# What an error is about, for nodes that start at the same place; the innermost or outermost one of its kind.
_ABOUT: dict[str, tuple[type[ast.AST], bool]] = {"W0401": (ast.Subscript, True), "W0402": (ast.Subscript, False), "W0403": (ast.Assert, False)}


def node_at(file: str, line: int, column: int, code: str) -> ast.expr | ast.stmt | None:
    """Return the expression or statement of a parsed function that starts here and that an error is about. Columns count bytes, from 1."""
    kind, innermost = _ABOUT.get(code, (ast.expr, False))
    found: list[ast.expr | ast.stmt] = []
    for function in _files.get(file, (0, {}))[1].values():
        if function.lineno <= line <= (function.end_lineno or 0):
            for node in ast.walk(function):
                if isinstance(node, kind) and isinstance(node, (ast.expr, ast.stmt)) and (node.lineno, node.col_offset + 1) == (line, column):
                    found.append(node)
    # `ast.walk` visits outer nodes first.
    return found[-1 if innermost else 0] if found else None


def assigned_names(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the names that statements assign to, loop variables excluded."""
    names: set[str] = set()
    for child in (c for node in nodes for c in ast.walk(node)):
        targets: list[ast.expr] = []
        if isinstance(child, ast.Assign):
            targets = child.targets
        elif isinstance(child, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
            targets = [child.target]
        for target in targets:
            names.update(_roots(target))
    return names


def _updated(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the names whose elements are assigned to: `a` for `a[i] = x`."""
    for node in ast.walk(function):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
        for target in targets:
            for part in ast.walk(target):
                if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store):
                    yield from _roots(part)


def _roots(target: ast.expr) -> Iterator[str]:
    """Yield the names that an assignment modifies; for `v[0]` and `v.x` that is `v`."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from _roots(part)
    elif isinstance(target, (ast.Subscript, ast.Attribute, ast.Starred)):
        yield from _roots(target.value)


def is_static_call(node: ast.expr) -> bool:
    """Return whether an expression is, syntactically, a call of `ti.static`."""
    f = node.func if isinstance(node, ast.Call) else None
    return (isinstance(f, ast.Attribute) and f.attr == "static") or (isinstance(f, ast.Name) and f.id == "static")
