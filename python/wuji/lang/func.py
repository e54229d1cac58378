"""Functions callable from kernels: `func`, `real_func` and `pyfunc`."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from types import FunctionType
from typing import Any

from ..exceptions import WujiCallError, WujiCompilationError, WujiError, WujiSyntaxError, WujiTypeError
from . import context, emit, signatures
from .compiler.function import FunctionCompiler, Returned
from .compiler.source import Source, is_static_call
from .compiler.statements import storage, store_into, typed_storage
from .compound import (
    ArgPackType,
    NdarrayType,
    RWTextureType,
    SparseMatrixBuilderType,
    StructType,
    TextureType,
    is_template,
    value_type,
)
from .context import Compilation
from .dtypes import DataType
from .matrix import Matrix
from .signatures import MISSING
from .struct import Struct
from .values import Expr, Ref, StructVal, is_device

_MAX_INLINE_DEPTH = 100


class KernelFunction:
    """A Python function that kernels can call, with its source."""

    # Half-public names of Taichi.
    _is_taichi_function = True
    _is_real_function = False

    def __init__(self, function: FunctionType) -> None:
        # The source and the parameters are those of the function below other decorators.
        self.function: FunctionType = inspect.unwrap(function)
        self._source: Source | None = None
        functools.update_wrapper(self, function)

    @property
    def source(self) -> Source:
        if self._source is None:
            self._source = Source(self.function)
        self._source.refresh()
        return self._source

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else BoundFunc(self, instance)

    def __call__(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError


class Func(KernelFunction):
    """A function that is inlined into its callers."""

    _wuji_kind = "func"

    def __init__(self, function: FunctionType, pyfunc: bool = False) -> None:
        if isinstance(function, (staticmethod, classmethod)):
            function = function.__func__
        if not isinstance(function, FunctionType):
            raise WujiSyntaxError("`ti.func` can only decorate a function")
        super().__init__(function)
        self.pyfunc = pyfunc
        self._parameters: list[tuple[str, Any, Any]] | None = None

    @property
    def parameters(self) -> list[tuple[str, Any, Any]]:
        if self._parameters is None:
            self._parameters = signatures.parameters(self.function)
        return self._parameters

    def __call__(self, *args: Any, **named: Any) -> Any:
        cx = context.compiling()
        if cx is None or (self.pyfunc and not any(map(is_device, args))):
            if self.pyfunc:
                return self.function(*args, **named)
            raise WujiSyntaxError(
                f"Taichi functions cannot be called from Python-scope: `{self.function.__name__}` is a `ti.func`, to be called from kernels\n"
                "  = help: use `ti.pyfunc` to call it from both"
            )
        return inline(cx, self, list(args), named)

    def _wuji_call(self, caller: Any, node: ast.Call, args: list[Any], named: dict[str, Any]) -> Any:
        outermost = caller.outermost and not caller.depth
        try:
            return inline(caller.cx, self, args, named, outermost)
        except WujiError as e:
            if getattr(e, "_wuji_located", False):
                file, line, column = caller.location(node)
                margin = re.search(r"\n( +)\|", e.args[0])
                e.args = (f"{e.args[0]}\n{margin[1] if margin else '  '}= note: called at {file}:{line}:{column}",)
            raise
        finally:
            caller.at(node)

    def __repr__(self) -> str:
        return f"<ti.func {self.function.__qualname__}>"


class BoundFunc:
    """A method bound to its object."""

    _wuji_kind = "func"

    def __init__(self, func: Any, instance: Any) -> None:
        self.func = func
        self.instance = instance

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.func(self.instance, *args, **named)

    def _wuji_call(self, caller: Any, node: ast.Call, args: list[Any], named: dict[str, Any]) -> Any:
        return self.func._wuji_call(caller, node, [self.instance, *args], named)


class ByReference:
    """An argument passed by reference instead of by value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def bind_struct_method(method: Any, value: StructVal) -> Any:
    """Bind a struct method to a run-time struct. The method may modify the struct."""
    if isinstance(method, staticmethod):
        method = method.__func__
        return method if hasattr(method, "_wuji_kind") else Func(method)
    return BoundFunc(method if hasattr(method, "_wuji_kind") else Func(method), ByReference(value))


def inline(cx: Compilation, func: Func, args: list[Any], named: dict[str, Any], outermost: bool = False) -> Any:
    """Compile the body of a function at the call site."""
    name = func.function.__name__
    values = signatures.bind(f"`{name}`", func.parameters, args, named, WujiCallError)
    depth = cx.__dict__.get("inlined", 0)
    if depth >= _MAX_INLINE_DEPTH:
        raise WujiCompilationError(
            f"inlining `{name}` exceeds the limit of {_MAX_INLINE_DEPTH} nested calls; is it recursive?\n"
            "  = help: use `ti.real_func` for recursion"
        )
    source = func.source
    fc = FunctionCompiler(cx, source, kernel=False)
    for (pname, annotation, _), value in zip(func.parameters, values, strict=True):
        fc.scope.define(pname, _argument(cx, source, pname, annotation, value))
    fc.scope.push()
    fc.returns = returns = InlineReturn(has_early_return(source.node))
    fc.outermost = outermost and not returns.early
    cx.__dict__["inlined"] = depth + 1
    try:
        if returns.early:
            returns.label = cx.builder.begin_block()
        try:
            fc.body(source.node.body)
        except Returned:
            pass
        if returns.early:
            cx.builder.end_block()
    finally:
        cx.__dict__["inlined"] = depth
    return _convert_result(func, returns.result())


def _convert_result(func: Func, value: Any) -> Any:
    annotation = signatures.result(func.function)
    if annotation is MISSING or annotation is None or value is None:
        return value
    ty = value_type(annotation)
    if isinstance(ty, StructType) or ty is None:
        return value
    if is_device(value) or emit.is_number(value) or isinstance(value, Matrix):
        if isinstance(ty, DataType):
            # A scalar annotation converts each component of a vector.
            return emit.convert(value, ty)
        return emit.fit(value, ty)
    return value


def _argument(cx: Compilation, source: Source, name: str, annotation: Any, value: Any) -> Any:
    """Return what a parameter is bound to: the caller's object, or a copy of the value."""
    if isinstance(value, ByReference):
        return value.value
    if is_template(annotation) or isinstance(annotation, (ArgPackType, NdarrayType, TextureType, RWTextureType, SparseMatrixBuilderType)):
        return value
    ty = None if annotation is MISSING or annotation is Any else value_type(annotation)
    if ty is None and annotation is not MISSING and annotation is not Any:
        raise WujiTypeError(f"parameter `{name}` is annotated with {annotation!r}, which is not a value type")
    if isinstance(value, (Ref, StructVal)):
        value = value.load()
    if ty is not None:
        if isinstance(ty, StructType):
            ref = typed_storage(cx, ty, name)
            ref.store(value)
            return ref
        if isinstance(value, (Expr, Matrix, list, tuple)) or emit.is_number(value):
            value = emit.fit(value, ty)
    if name in source.assigned or isinstance(value, (StructVal, Struct)):
        if is_device(value) or emit.is_number(value) or isinstance(value, (Matrix, Struct)):
            ref = storage(cx, value, name)
            store_into(ref, value)
            return ref
    return value


def has_early_return(node: ast.FunctionDef) -> bool:
    """Return whether the function may return inside run-time control flow."""

    pending: list[tuple[ast.stmt, bool]] = [(n, False) for n in node.body]
    while pending:
        n, runtime = pending.pop()
        if isinstance(n, ast.Return) and runtime:
            return True
        if isinstance(n, ast.If):
            runtime = runtime or not is_static_call(n.test)
            pending.extend((child, runtime) for child in n.body + n.orelse)
        elif isinstance(n, (ast.For, ast.While)):
            runtime = runtime or isinstance(n, ast.While) or not is_static_call(n.iter)
            pending.extend((child, runtime) for child in n.body)
    return False


class InlineReturn:
    """Compiles `return` in an inlined function."""

    def __init__(self, early: bool) -> None:
        self.early = early
        self.label: int | None = None
        self.ref: Any = None
        self.value: Any = None

    def emit_return(self, fc: Any, value: Any) -> None:
        if not self.early:
            self.value = value
            raise Returned
        if value is not None:
            if self.ref is None:
                self.ref = storage(fc.cx, value, "result")
            store_into(self.ref, value)
        fc.b.jump_break(self.label)

    def result(self) -> Any:
        if not self.early:
            return self.value
        return _loaded(self.ref)


def _loaded(ref: Any) -> Any:
    if isinstance(ref, (Ref, StructVal)):
        return ref.load()
    if isinstance(ref, (list, tuple)):
        return type(ref)(_loaded(p) for p in ref)
    return ref


class RealFunc(KernelFunction):
    """A function that is called instead of inlined, so it may be recursive."""

    _wuji_kind = "real_func"
    _is_real_function = True

    def __init__(self, function: FunctionType) -> None:
        if not isinstance(function, FunctionType):
            raise WujiSyntaxError("`ti.real_func` can only decorate a function")
        super().__init__(function)
        self._inlined: Func | None = None

    @property
    def inlined(self) -> Func:
        """The same function, inlined into its callers."""
        if self._inlined is None:
            self._inlined = Func(self.function)
        return self._inlined

    def __call__(self, *args: Any, **named: Any) -> Any:
        raise WujiSyntaxError(f"Taichi functions cannot be called from Python-scope: `{self.function.__name__}` is a `ti.real_func`")

    def _wuji_call(self, caller: Any, node: ast.Call, args: list[Any], named: dict[str, Any]) -> Any:
        from .real import call_real

        if self._takes_arrays():
            return inline(caller.cx, self.inlined, args, named)
        return call_real(caller.cx, self, args, named)

    def _takes_arrays(self) -> bool:
        """Return whether a parameter is an array. Arrays cannot be passed to a call, so such a function is inlined and cannot be recursive."""
        return any(isinstance(annotation, NdarrayType) for _, annotation, _ in signatures.parameters(self.function))

    def __repr__(self) -> str:
        return f"<ti.real_func {self.function.__qualname__}>"


def func(fn: Any, is_real_function: bool = False) -> Any:
    """Decorate a function that kernels can call. It is inlined into its callers.

    Args:
        fn: The function.
        is_real_function: Same as decorating with `ti.real_func`.
    """
    signatures.resolve_early(fn)
    return RealFunc(fn) if is_real_function else Func(fn)


def real_func(fn: Any) -> Any:
    """Decorate a function that kernels call without inlining, so it may be recursive. Parameters and result need annotations."""
    signatures.resolve_early(fn)
    return RealFunc(fn)


def pyfunc(fn: Any) -> Any:
    """Decorate a function that both kernels and Python can call."""
    signatures.resolve_early(fn)
    return Func(fn, pyfunc=True)
