"""Calls of functions that are not inlined."""

from __future__ import annotations

from typing import Any

from ..exceptions import WujiSyntaxError, WujiTypeError
from . import emit, signatures
from .compiler.function import FunctionCompiler
from .compiler.statements import typed_storage
from .compound import RefType, StructType, is_template, value_type
from .context import Compilation
from .func import ByReference, RealFunc
from .signatures import MISSING
from .values import Expr, Ref, StructVal


def ir_type(cx: Compilation, ty: Any) -> str:
    """Return the IR spelling of a type. Structs are declared in the module."""
    if isinstance(ty, StructType):
        return cx.builder.struct(ty.name, [(k, ir_type(cx, t)) for k, t in ty.members.items()])
    if isinstance(ty, tuple):
        return cx.builder.struct("tuple", [(str(k), ir_type(cx, t)) for k, t in enumerate(ty)])
    found: str = ty.ir
    return found


def pack(cx: Compilation, ty: Any, value: Any) -> int:
    """Convert a value to a single IR value of a type."""
    b = cx.builder
    if isinstance(ty, tuple):
        parts = list(value) if isinstance(value, (list, tuple)) else [value]
        if len(parts) != len(ty):
            raise WujiTypeError(f"{len(parts)} values returned, but the return annotation has {len(ty)}")
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
    """Return the annotated return type: a type, a tuple of types, or None."""
    annotation = signatures.result(function)
    if annotation is MISSING or annotation is None:
        return None
    args = getattr(annotation, "__args__", None)
    if args is not None and getattr(annotation, "__origin__", None) is tuple:
        annotation = args
    if isinstance(annotation, (tuple, list)):
        types = tuple(value_type(t) for t in annotation)
        if any(t is None for t in types):
            raise WujiSyntaxError(f"the return annotation of `{function.__name__}` is {annotation!r}, which are not value types")
        return types
    ty = value_type(annotation)
    if ty is None:
        raise WujiSyntaxError(f"the return annotation of `{function.__name__}` is {annotation!r}, which is not a value type")
    return ty


class Declaration:
    """A real function declared in one kernel."""

    def __init__(self, cx: Compilation, func: RealFunc) -> None:
        self.parameters = signatures.parameters(func.function)
        self.types: list[Any] = []
        self.references: list[int] = []
        for k, (name, annotation, _) in enumerate(self.parameters):
            if is_template(annotation) or annotation is MISSING:
                raise WujiSyntaxError(f"parameter `{name}` of the real function `{func.function.__name__}` needs an annotation")
            if isinstance(annotation, RefType):
                self.references.append(k)
                annotation = annotation.to
            ty = value_type(annotation)
            if ty is None:
                raise WujiSyntaxError(f"parameter `{name}` of `{func.function.__name__}` is annotated with {annotation!r}, which is not a value type")
            self.types.append(ty)
        self.result = result_type(func.function)
        # Reference parameters are passed by value and returned next to the result.
        outs = [self.types[k] for k in self.references]
        self.returned: Any = self.result
        if outs:
            self.returned = ((self.result,) if self.result is not None else ()) + tuple(outs)
        ir = None if self.returned is None else ir_type(cx, self.returned)
        self.number = cx.builder.declare(func.function.__name__, [ir_type(cx, t) for t in self.types], ir)


class RealReturn:
    """Compiles `return` in a real function."""

    def __init__(self, declared: Declaration, refs: list[Any]) -> None:
        self.declared = declared
        self.refs = refs

    def emit_return(self, fc: Any, value: Any) -> None:
        d = self.declared
        if (value is None) != (d.result is None):
            raise WujiTypeError(
                "`return` with a value, but the function has no return annotation" if d.result is None else "`return` without a value, but the function has a return annotation"
            )
        if d.returned is None:
            fc.b.jump_return()
            return
        if d.references:
            value = ((value,) if d.result is not None else ()) + tuple(self.refs[k].load() for k in d.references)
        fc.b.jump_return(pack(fc.cx, d.returned, value))


def call_real(cx: Compilation, func: RealFunc, args: list[Any], named: dict[str, Any]) -> Any:
    declared = cx.functions.get(func)
    if declared is None:
        declared = cx.functions[func] = Declaration(cx, func)
        _define(cx, func, declared)
    values = signatures.bind(f"`{func.function.__name__}`", declared.parameters, args, named, WujiTypeError)
    for k in declared.references:
        if not isinstance(values[k], (Ref, StructVal)):
            raise WujiTypeError(f"argument `{declared.parameters[k][0]}` is passed by reference; it needs a variable, not {emit.describe(values[k])}")
    values = [v.value if isinstance(v, ByReference) else v for v in values]
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


def _define(cx: Compilation, func: RealFunc, declared: Declaration) -> None:
    source = func.source
    params = cx.builder.begin_function(declared.number)
    loop, outermost = cx.loop, cx.outermost
    # Locals belong to the function, regardless of the loop that calls it.
    cx.loop, cx.outermost = object(), False
    fc = FunctionCompiler(cx, source, kernel=False, real=True)
    refs = []
    for (name, _, _), ty, value in zip(declared.parameters, declared.types, params, strict=True):
        ref = typed_storage(cx, ty, name)
        ref.store(unpack(cx, ty, value))
        fc.scope.define(name, ref)
        refs.append(ref)
    fc.scope.push()
    fc.returns = RealReturn(declared, refs)
    fc.depth = 1
    fc.body(source.node.body)
    if not cx.builder.closed():
        if declared.result is None:
            fc.returns.emit_return(fc, None)
        else:
            zero = cx.builder.zero(ir_type(cx, declared.returned))
            cx.builder.jump_return(zero)
    cx.builder.end_function()
    cx.loop, cx.outermost = loop, outermost
