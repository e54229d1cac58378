"""Calls of functions that are not inlined."""

from __future__ import annotations

from typing import Any

from ..exceptions import WujiSyntaxError, WujiTypeError
from . import emit, signatures
from .compiler.function import FunctionCompiler
from .compiler.statements import typed_storage
from .compound import RefType, StructType, is_template, value_type
from .context import Compilation
from .func import Itself, RealFunc, bind
from .signatures import MISSING
from .values import Expr, Ref, StructVal


def ir_type(cx: Compilation, ty: Any) -> str:
    """The type in the IR; structs are entered into the module."""
    if isinstance(ty, StructType):
        return cx.builder.struct(ty.name, [(k, ir_type(cx, t)) for k, t in ty.members.items()])
    if isinstance(ty, tuple):
        return cx.builder.struct("tuple", [(str(k), ir_type(cx, t)) for k, t in enumerate(ty)])
    found: str = ty.ir
    return found


def pack(cx: Compilation, ty: Any, value: Any) -> int:
    """A value of a type as one value of the IR."""
    b = cx.builder
    if isinstance(ty, tuple):
        parts = list(value) if isinstance(value, (list, tuple)) else [value]
        if len(parts) != len(ty):
            raise WujiTypeError(f"{len(parts)} values are returned where {len(ty)} were said")
        return b.compose(ir_type(cx, ty), [pack(cx, t, v) for t, v in zip(ty, parts, strict=True)])
    if isinstance(ty, StructType):
        from .struct import Struct, construct

        if isinstance(value, Struct):
            value = value.in_kernel()
        if not isinstance(value, StructVal):
            made = construct(ty, (value,), {})
            value = made.in_kernel() if isinstance(made, Struct) else made
        return b.compose(ir_type(cx, ty), [pack(cx, t, value.members[k]) for k, t in ty.members.items()])
    return emit.fit(value, ty).id


def unpack(cx: Compilation, ty: Any, value: int) -> Any:
    b = cx.builder
    if isinstance(ty, tuple):
        return tuple(unpack(cx, t, b.extract(value, k)) for k, t in enumerate(ty))
    if isinstance(ty, StructType):
        return StructVal(ty, {k: unpack(cx, t, b.extract(value, n)) for n, (k, t) in enumerate(ty.members.items())})
    return Expr(value, ty)


def result_type(function: Any) -> Any:
    """What a function is said to return: a type, a tuple of types, or nothing."""
    said = signatures.result(function)
    if said is MISSING or said is None:
        return None
    args = getattr(said, "__args__", None)
    if args is not None and getattr(said, "__origin__", None) is tuple:
        said = args
    if isinstance(said, (tuple, list)):
        types = tuple(value_type(t) for t in said)
        if any(t is None for t in types):
            raise WujiSyntaxError(f"`{function.__name__}` returns {said!r}, which are no types of values")
        return types
    ty = value_type(said)
    if ty is None:
        raise WujiSyntaxError(f"`{function.__name__}` returns {said!r}, which is no type of values")
    return ty


class Declared:
    """A real function as one kernel knows it."""

    def __init__(self, cx: Compilation, func: RealFunc) -> None:
        self.parameters = signatures.parameters(func.function)
        self.types: list[Any] = []
        self.references: list[int] = []
        for k, (name, annotation, _) in enumerate(self.parameters):
            if is_template(annotation) or annotation is MISSING:
                raise WujiSyntaxError(f"parameter `{name}` of the real function `{func.function.__name__}` needs a type")
            if isinstance(annotation, RefType):
                self.references.append(k)
                annotation = annotation.to
            ty = value_type(annotation)
            if ty is None:
                raise WujiSyntaxError(f"parameter `{name}` of `{func.function.__name__}` has the annotation {annotation!r}, which is no type of values")
            self.types.append(ty)
        self.result = result_type(func.function)
        # What is changed through references comes back beside the result.
        outs = [self.types[k] for k in self.references]
        self.returned: Any = self.result
        if outs:
            self.returned = ((self.result,) if self.result is not None else ()) + tuple(outs)
        ir = None if self.returned is None else ir_type(cx, self.returned)
        self.number = cx.builder.declare(func.function.__name__, [ir_type(cx, t) for t in self.types], ir)


class RealReturn:
    """How a real function returns."""

    def __init__(self, declared: Declared, places: list[Any]) -> None:
        self.declared = declared
        self.places = places

    def give(self, fc: Any, value: Any) -> None:
        d = self.declared
        if (value is None) != (d.result is None):
            raise WujiTypeError(
                "the function says that it returns nothing" if d.result is None else "the function says that it returns something"
            )
        if d.returned is None:
            fc.b.jump_return()
            return
        if d.references:
            value = ((value,) if d.result is not None else ()) + tuple(self.places[k].load() for k in d.references)
        fc.b.jump_return(pack(fc.cx, d.returned, value))


def call_real(cx: Compilation, func: RealFunc, args: list[Any], named: dict[str, Any]) -> Any:
    declared = cx.functions.get(func)
    if declared is None:
        declared = cx.functions[func] = Declared(cx, func)
        _define(cx, func, declared)
    values = bind(func.function.__name__, declared.parameters, args, named)
    for k in declared.references:
        if not isinstance(values[k], (Ref, StructVal)):
            raise WujiTypeError(f"argument `{declared.parameters[k][0]}` is a reference; it needs a variable, not {emit.describe(values[k])}")
    values = [v.value if isinstance(v, Itself) else v for v in values]
    ids = [pack(cx, t, v) for t, v in zip(declared.types, values, strict=True)]
    result = cx.builder.call(declared.number, ids)
    if declared.returned is None:
        return None
    assert result is not None
    value = unpack(cx, declared.returned, result)
    if declared.references:
        outs = value[1:] if declared.result is not None else value
        for k, out in zip(declared.references, outs, strict=True):
            values[k].store(out)
        value = value[0] if declared.result is not None else None
    return value


def _define(cx: Compilation, func: RealFunc, declared: Declared) -> None:
    source = func.source
    params = cx.builder.begin_function(declared.number)
    loop, shallow = cx.loop, cx.shallow
    # Locals of the function are its own, whichever loop calls it.
    cx.loop, cx.shallow = object(), False
    fc = FunctionCompiler(cx, source, kernel=False, real=True)
    places = []
    for (name, _, _), ty, value in zip(declared.parameters, declared.types, params, strict=True):
        place = typed_storage(cx, ty, name)
        place.store(unpack(cx, ty, value))
        fc.scope.define(name, place)
        places.append(place)
    fc.scope.push()
    fc.returns = RealReturn(declared, places)
    fc.depth = 1
    fc.body(source.node.body)
    if not cx.builder.closed():
        if declared.result is None:
            fc.returns.give(fc, None)
        else:
            zero = cx.builder.zero(ir_type(cx, declared.returned))
            cx.builder.jump_return(zero)
    cx.builder.end_function()
    cx.loop, cx.shallow = loop, shallow
