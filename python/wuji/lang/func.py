"""Functions of kernels: `func`, `real_func`, `pyfunc`."""

from __future__ import annotations

import ast
import functools
import re
from types import FunctionType
from typing import Any

from ..exceptions import WujiCompilationError, WujiError, WujiSyntaxError, WujiTypeError
from . import context, emit, signatures
from .compiler.function import FunctionCompiler, Returned
from .compiler.source import Source, is_static_call
from .compiler.statements import storage, store_into, typed_storage
from .compound import (
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

_MOST_INLINED = 100


class Func:
    """A function that becomes part of whatever calls it."""

    _wuji_kind = "func"

    def __init__(self, function: FunctionType, pyfunc: bool = False) -> None:
        if isinstance(function, (staticmethod, classmethod)):
            function = function.__func__
        if not isinstance(function, FunctionType):
            raise WujiSyntaxError("`ti.func` decorates a function")
        self.function = function
        self.pyfunc = pyfunc
        self._source: Source | None = None
        self._parameters: list[tuple[str, Any, Any]] | None = None
        functools.update_wrapper(self, function)

    @property
    def source(self) -> Source:
        if self._source is None:
            self._source = Source(self.function)
        self._source.refresh()
        return self._source

    @property
    def parameters(self) -> list[tuple[str, Any, Any]]:
        if self._parameters is None:
            self._parameters = signatures.parameters(self.function)
        return self._parameters

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else BoundFunc(self, instance)

    def __call__(self, *args: Any, **named: Any) -> Any:
        cx = context.compiling()
        if cx is None or (self.pyfunc and not any(map(is_device, args))):
            if self.pyfunc:
                return self.function(*args, **named)
            raise WujiSyntaxError(
                f"`{self.function.__name__}` is a `ti.func`: it is called from kernels, not from Python\n"
                "  = help: `ti.pyfunc` works in both"
            )
        return inline(cx, self, list(args), named)

    def _wuji_call(self, caller: Any, node: ast.Call, args: list[Any], named: dict[str, Any]) -> Any:
        shallow = caller.shallow and not caller.depth
        try:
            return inline(caller.cx, self, args, named, shallow)
        except WujiError as e:
            if getattr(e, "_wuji_located", False):
                file, line, column = caller.place(node)
                margin = re.search(r"\n( +)\|", e.args[0])
                e.args = (f"{e.args[0]}\n{margin[1] if margin else '  '}= note: called at {file}:{line}:{column}",)
            raise
        finally:
            caller.at(node)

    def __repr__(self) -> str:
        return f"<ti.func {self.function.__qualname__}>"


class BoundFunc:
    """A function together with the object it was taken from."""

    _wuji_kind = "func"

    def __init__(self, func: Any, instance: Any) -> None:
        self.func = func
        self.instance = instance

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.func(self.instance, *args, **named)

    def _wuji_call(self, caller: Any, node: ast.Call, args: list[Any], named: dict[str, Any]) -> Any:
        return self.func._wuji_call(caller, node, [self.instance, *args], named)


class Itself:
    """An argument that is the caller's thing, not a copy of its value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def bind_struct_method(method: Any, value: StructVal) -> Any:
    """A method of a struct type, called on a value of a kernel, which it may change."""
    if isinstance(method, staticmethod):
        method = method.__func__
        return method if hasattr(method, "_wuji_kind") else Func(method)
    return BoundFunc(method if hasattr(method, "_wuji_kind") else Func(method), Itself(value))


def bind(name: str, parameters: list[tuple[str, Any, Any]], args: list[Any], named: dict[str, Any]) -> list[Any]:
    """One value for each parameter."""
    if len(args) > len(parameters):
        raise WujiTypeError(f"`{name}` takes {len(parameters)} arguments, not {len(args)}")
    out: list[Any] = list(args)
    names = [p[0] for p in parameters]
    for k in named:
        if k not in names:
            raise WujiTypeError(f"`{name}` has no parameter `{k}`")
        if names.index(k) < len(args):
            raise WujiTypeError(f"parameter `{k}` of `{name}` is given twice")
    for k, _, default in parameters[len(args) :]:
        if k in named:
            out.append(named[k])
        elif default is not MISSING:
            out.append(default)
        else:
            raise WujiTypeError(f"`{name}` needs a value for its parameter `{k}`")
    return out


def inline(cx: Compilation, func: Func, args: list[Any], named: dict[str, Any], shallow: bool = False) -> Any:
    """Compiles the body of a function in the place of a call."""
    name = func.function.__name__
    values = bind(name, func.parameters, args, named)
    depth = cx.__dict__.get("inlined", 0)
    if depth >= _MOST_INLINED:
        raise WujiCompilationError(
            f"`{name}` calls itself, or is {_MOST_INLINED} calls deep, and every call is compiled in its place\n"
            "  = help: `ti.real_func` can call itself"
        )
    source = func.source
    fc = FunctionCompiler(cx, source, kernel=False)
    for (pname, annotation, _), value in zip(func.parameters, values, strict=True):
        fc.scope.define(pname, _argument(cx, source, pname, annotation, value))
    fc.scope.push()
    fc.returns = returns = InlineReturn(has_early_return(source.node))
    fc.shallow = shallow and not returns.early
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
    return _result_as_said(func, returns.result())


def _result_as_said(func: Func, value: Any) -> Any:
    said = signatures.result(func.function)
    if said is MISSING or said is None or value is None:
        return value
    ty = value_type(said)
    if isinstance(ty, StructType) or ty is None:
        return value
    if is_device(value) or emit.is_number(value) or isinstance(value, Matrix):
        if isinstance(ty, DataType):
            # Of a vector that is said to be a number, each component becomes one.
            return emit.convert(value, ty)
        return emit.fit(value, ty)
    return value


def _argument(cx: Compilation, source: Source, name: str, annotation: Any, value: Any) -> Any:
    """What a parameter means in the body: the caller's thing itself, or a copy of the value."""
    if isinstance(value, Itself):
        return value.value
    if is_template(annotation) or isinstance(annotation, (NdarrayType, TextureType, RWTextureType, SparseMatrixBuilderType)):
        return value
    ty = None if annotation is MISSING or annotation is Any else value_type(annotation)
    if ty is None and annotation is not MISSING and annotation is not Any:
        raise WujiTypeError(f"parameter `{name}` has the annotation {annotation!r}, which is no type of values")
    if isinstance(value, (Ref, StructVal)):
        value = value.load()
    if ty is not None:
        if isinstance(ty, StructType):
            place = typed_storage(cx, ty, name)
            place.store(value)
            return place
        if isinstance(value, (Expr, Matrix, list, tuple)) or emit.is_number(value):
            value = emit.fit(value, ty)
    if name in source.assigned or isinstance(value, (StructVal, Struct)):
        if is_device(value) or emit.is_number(value) or isinstance(value, (Matrix, Struct)):
            place = storage(cx, value, name)
            store_into(place, value)
            return place
    return value


def has_early_return(node: ast.FunctionDef) -> bool:
    """Whether the function may return under a condition, or in a loop, that is known only when the kernel runs."""

    def look(nodes: list[ast.stmt], runtime: bool) -> bool:
        for n in nodes:
            if isinstance(n, ast.Return) and runtime:
                return True
            if isinstance(n, ast.If) and (look(n.body, runtime or not is_static_call(n.test)) or look(n.orelse, runtime or not is_static_call(n.test))):
                return True
            if isinstance(n, (ast.For, ast.While)):
                inside = runtime or isinstance(n, ast.While) or not is_static_call(n.iter)
                if look(n.body, inside):
                    return True
        return False

    return look(node.body, False)


class InlineReturn:
    """How a function that becomes part of its caller returns."""

    def __init__(self, early: bool) -> None:
        self.early = early
        self.label: int | None = None
        self.place: Any = None
        self.value: Any = None

    def give(self, fc: Any, value: Any) -> None:
        if not self.early:
            self.value = value
            raise Returned
        if value is not None:
            if self.place is None:
                self.place = storage(fc.cx, value, "result")
            store_into(self.place, value)
        fc.b.jump_break(self.label)

    def result(self) -> Any:
        if not self.early:
            return self.value
        return _loaded(self.place)


def _loaded(place: Any) -> Any:
    if isinstance(place, (Ref, StructVal)):
        return place.load()
    if isinstance(place, (list, tuple)):
        return type(place)(_loaded(p) for p in place)
    return place


class RealFunc:
    """A function that is called, not inlined: it may call itself."""

    _wuji_kind = "real_func"

    def __init__(self, function: FunctionType) -> None:
        if not isinstance(function, FunctionType):
            raise WujiSyntaxError("`ti.real_func` decorates a function")
        self.function = function
        self._source: Source | None = None
        self._inlined: Func | None = None
        functools.update_wrapper(self, function)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else BoundFunc(self, instance)

    def __call__(self, *args: Any, **named: Any) -> Any:
        raise WujiSyntaxError(f"`{self.function.__name__}` is a `ti.real_func`: it is called from kernels, not from Python")

    @property
    def source(self) -> Source:
        if self._source is None:
            self._source = Source(self.function)
        self._source.refresh()
        return self._source

    def _wuji_call(self, caller: Any, node: ast.Call, args: list[Any], named: dict[str, Any]) -> Any:
        from .real import call_real

        if self._takes_arrays():
            if self._inlined is None:
                self._inlined = Func(self.function)
            return inline(caller.cx, self._inlined, args, named)
        return call_real(caller.cx, self, args, named)

    def _takes_arrays(self) -> bool:
        """An array is no value that a call could pass: such a function becomes part of its kernel after all, and cannot call itself."""
        return any(isinstance(annotation, NdarrayType) for _, annotation, _ in signatures.parameters(self.function))

    def __repr__(self) -> str:
        return f"<ti.real_func {self.function.__qualname__}>"


def func(fn: Any, is_real_function: bool = False) -> Any:
    """Makes a function that kernels can call; it becomes part of them."""
    signatures.settle(fn)
    return RealFunc(fn) if is_real_function else Func(fn)


def real_func(fn: Any) -> Any:
    """Makes a function that kernels call without becoming part of them, so that it may call itself. Parameters and result have types."""
    signatures.settle(fn)
    return RealFunc(fn)


def pyfunc(fn: Any) -> Any:
    """Makes a function that kernels and Python can call."""
    signatures.settle(fn)
    return Func(fn, pyfunc=True)
