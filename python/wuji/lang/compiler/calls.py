"""Calls: `ti.func`s, functions that work in kernels and in Python, and plain Python functions."""

from __future__ import annotations

import ast
import builtins
import contextlib
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...exceptions import WujiCompilationError, WujiSyntaxError, WujiTypeError
from .. import dtypes, folding, matrix_ops, ops
from ..context import Compilation
from ..field import Field
from ..matrix import Matrix
from ..ndrange import RangeVal
from ..static import static, static_assert
from ..text import format_text, kernel_print
from ..values import Expr, Ref, StructVal, is_device
from .conditions import refuse_whole
from .suggestions import foreign

if TYPE_CHECKING:
    from .scope import Scope


def _any(value: Any) -> Any:
    return matrix_ops.any(value) if isinstance(value, (Expr, Matrix)) else builtins.any(value)


def _all(value: Any) -> Any:
    return matrix_ops.all(value) if isinstance(value, (Expr, Matrix)) else builtins.all(value)


def _sum(value: Any, start: Any = 0) -> Any:
    if isinstance(value, (Expr, Matrix)):
        return matrix_ops.sum(value)
    result = start
    for item in value:
        result = ops.add(result, item)
    return result


def _to(name: str, dtype_of: Any, plain: Any) -> Any:
    def convert(value: Any = 0) -> Any:
        if isinstance(value, (Expr, Matrix)):
            return ops.cast(value, dtype_of())
        refuse_whole(value, f"cannot be converted by `{name}`", "x")
        return plain(value)

    # Python names it where the number of arguments is wrong.
    convert.__qualname__ = name
    return convert


def _len(value: Any) -> Any:
    if isinstance(value, StructVal):
        return len(value.members)
    return len(value)


# Python functions and their kernel counterparts.
_BUILTINS: dict[Any, Any] = {
    builtins.min: ops.min,
    builtins.max: ops.max,
    builtins.abs: ops.abs,
    builtins.pow: ops.pow,
    builtins.round: ops.round,
    builtins.int: _to("int", lambda: dtypes.defaults.ip, folding.to_int),
    builtins.float: _to("float", lambda: dtypes.defaults.fp, folding.to_float),
    builtins.bool: _to("bool", lambda: dtypes.u1, bool),
    builtins.any: _any,
    builtins.all: _all,
    builtins.sum: _sum,
    builtins.len: _len,
    math.sin: ops.sin,
    math.cos: ops.cos,
    math.tan: ops.tan,
    math.asin: ops.asin,
    math.acos: ops.acos,
    math.atan2: ops.atan2,
    math.tanh: ops.tanh,
    math.sqrt: ops.sqrt,
    math.exp: ops.exp,
    math.log: ops.log,
    math.floor: ops.floor,
    math.ceil: ops.ceil,
    math.pow: ops.pow,
    math.fabs: ops.abs,
}


class Calls:
    cx: Compilation
    b: Any
    scope: Scope
    static_depth: int
    depth: int

    if TYPE_CHECKING:

        def eval(self, node: ast.expr) -> Any: ...
        def value(self, node: ast.expr) -> Any: ...
        def at(self, node: ast.AST) -> None: ...
        def warn(self, text: str, node: ast.AST) -> None: ...
        def _spread(self, node: ast.Starred) -> list[Any]: ...

    def is_static(self, node: ast.expr) -> bool:
        """Whether an expression is a call of `ti.static`."""
        if not isinstance(node, ast.Call):
            return False
        f = node.func
        name = f.attr if isinstance(f, ast.Attribute) else f.id if isinstance(f, ast.Name) else ""
        # Evaluate the callee only if it can be `ti.static`.
        if name != "static" and not (isinstance(f, ast.Name) and f.id in self.scope.source.globals):
            return False
        try:
            return self.eval(f) is static
        except WujiCompilationError:
            return False

    def visit_Call(self, node: ast.Call) -> Any:
        f = self.eval(node.func)
        if f is static:
            return self._static(node)
        kind = getattr(f, "_wuji_kind", None)
        if kind is not None and kind != "plain":
            args, named = self._arguments(node, references=True)
            self.at(node)
            if kind == "kernel":
                raise WujiSyntaxError(
                    f"Kernels cannot call other kernels: `{ast.unparse(node.func)}` is a kernel\n  = help: make it a `ti.func`, or call both from Python"
                )
            return f._wuji_call(self, node, args, named)
        if f is builtins.print:
            return self._print(node)
        if f is builtins.range:
            return self._range(node)
        if f is static_assert:
            return self._static_assert(node)
        references = getattr(f, "_wuji_takes_references", False)
        args, named = self._arguments(node, references)
        self.at(node)
        owner = getattr(f, "__self__", None)
        if isinstance(owner, str) and f.__name__ == "format":
            return format_text(owner, tuple(args), named)
        if isinstance(owner, Field) and f.__name__ == "fill":
            from ..fills import fill

            return fill(self, node, owner, args, named)
        if getattr(f, "_wuji_python_only", False):
            raise WujiSyntaxError(f"`{ast.unparse(node.func)}` can only be called from Python, not from a kernel")
        mapped = _BUILTINS.get(f) if _hashable(f) else None
        if mapped is not None:
            return mapped(*args, **named)
        refused = foreign(f, args)
        if refused is not None:
            raise WujiTypeError(refused)
        if f is builtins.super:
            raise WujiSyntaxError("`super` is not supported in kernels")
        if not self.static_depth and not _handles_run_time_values(f) and any(map(is_device, args)):
            self.warn(
                f'Calling non-taichi function "{ast.unparse(node.func)}" in a kernel: it runs once, at compile time\n  = help: consider turning it into a `ti.func`',
                node,
            )
        return f(*args, **named)

    def _arguments(self, node: ast.Call, references: bool) -> tuple[list[Any], dict[str, Any]]:
        get = self.eval if references else self.value
        args: list[Any] = []
        for a in node.args:
            if isinstance(a, ast.Starred):
                args.extend(self._spread(a))
            else:
                args.append(get(a))
        named: dict[str, Any] = {}
        for k in node.keywords:
            if k.arg is None:
                named.update(self.value(k.value))
            else:
                named[k.arg] = get(k.value)
        return args, named

    @contextlib.contextmanager
    def static_scope(self) -> Iterator[None]:
        """Evaluate at compile time, as in `ti.static`."""
        self.static_depth += 1
        try:
            yield
        finally:
            self.static_depth -= 1

    def _static(self, node: ast.Call) -> Any:
        if node.keywords:
            raise WujiSyntaxError("`ti.static` takes no keyword arguments")
        with self.static_scope():
            values = [self.eval(a) for a in node.args]
        for value in values:
            if isinstance(value, Expr) and not isinstance(value, Ref) and not value.shape:
                raise WujiTypeError(
                    "Input to ti.static must be compile-time constants or global pointers, and this is a run-time value\n"
                    "  = help: pass it as a `ti.template()` argument"
                )
        return static(*values)

    def _static_assert(self, node: ast.Call) -> None:
        with self.static_scope():
            args, named = self._arguments(node, False)
        self.at(node)
        if args and is_device(args[0]):
            raise WujiTypeError("Static assert with non-static condition: `ti.static_assert` needs a compile-time constant")
        static_assert(*args, **named)

    def _print(self, node: ast.Call) -> None:
        args, named = self._arguments(node, False)
        self.at(node)
        unknown = set(named) - {"sep", "end", "flush", "file"}
        if unknown:
            raise WujiTypeError(f"`print` has no parameter `{unknown.pop()}`")
        if named.get("file") is not None:
            raise WujiTypeError("kernels print to the standard output: `print` takes no `file` here")
        kernel_print(args, named.get("sep") if named.get("sep") is not None else " ", named.get("end") if named.get("end") is not None else "\n")

    def _range(self, node: ast.Call) -> Any:
        args, named = self._arguments(node, False)
        if named:
            raise WujiSyntaxError("`range` takes no keyword arguments")
        if self.static_depth:
            if any(is_device(a) for a in args):
                raise WujiTypeError("the bounds of a static range must be compile-time constants")
            return range(*args)
        return RangeVal.of(args)


def _hashable(f: Any) -> bool:
    try:
        hash(f)
    except TypeError:
        return False
    return True


def _handles_run_time_values(f: Any) -> bool:
    if isinstance(f, type):
        return True
    module = getattr(f, "__module__", None) or getattr(type(f), "__module__", "") or ""
    return module.split(".")[0] in ("wuji", "builtins", "operator", "math", "itertools", "functools", "_operator")
