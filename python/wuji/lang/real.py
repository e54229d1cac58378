"""Calls of functions that are not inlined."""

from __future__ import annotations

from typing import Any

from ..exceptions import WujiCallError, WujiSyntaxError, WujiTypeError
from . import emit, signatures
from .compiler.function import FunctionCompiler
from .compiler.statements import typed_storage
from .compound import RefType, StructType, is_template, value_type
from .context import Compilation
from .func import ByReference, RealFunc, inline
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


class Constant:
    """The type of a run-time value passed to a template parameter."""

    def __init__(self, to: Any) -> None:
        self.to = to

    def __repr__(self) -> str:
        return f"constant {self.to}"


class Declaration:
    """A real function declared in one kernel, for one combination of template arguments."""

    def __init__(self, cx: Compilation, func: RealFunc, parameters: list[Any], annotations: list[Any], values: list[Any]) -> None:
        self.parameters = parameters
        self.annotations = annotations
        self.values = values  # template arguments, which the key of the declaration refers to
        self.types = [None if a is None else _value_type(func, p[0], a) for p, a in zip(parameters, annotations, strict=True)]
        self.references = [k for k, a in enumerate(annotations) if isinstance(a, RefType)]
        self.result = result_type(func.function)
        # Reference parameters are passed by value and returned next to the result.
        outs = [self.types[k] for k in self.references]
        self.returned: Any = self.result
        if outs:
            self.returned = ((self.result,) if self.result is not None else ()) + tuple(outs)
        ir = None if self.returned is None else ir_type(cx, self.returned)
        self.number = cx.builder.declare(func.function.__name__, [ir_type(cx, t) for t in self.types if t is not None], ir)


def _value_type(func: RealFunc, name: str, annotation: Any) -> Any:
    ty = value_type(annotation.to if isinstance(annotation, (RefType, Constant)) else annotation)
    if ty is None:
        raise WujiSyntaxError(f"parameter `{name}` of `{func.function.__name__}` is annotated with {annotation!r}, which is not a value type")
    return ty


def _annotation(func: RealFunc, k: int, parameter: Any, value: Any) -> Any:
    """Return the type of a parameter in a call, or None if the argument is a compile-time constant."""
    name, annotation, _ = parameter
    if isinstance(value, ByReference):
        return RefType(value.value.ty)  # `self` of a struct
    if is_template(annotation) or (annotation is MISSING and k == 0 and signatures.in_class(func.function)):
        # A run-time value is passed as such; the function cannot assign to it.
        return Constant(value.ty) if isinstance(value, (Expr, StructVal)) else None
    if annotation is MISSING:
        raise WujiSyntaxError(f"Taichi function `{func.function.__name__}` parameter `{name}` must be type annotated")
    return annotation


class RealReturn:
    """Compiles `return` in a real function."""

    def __init__(self, declared: Declaration, refs: list[Any]) -> None:
        self.declared = declared
        self.refs = refs

    def emit_return(self, fc: Any, value: Any) -> None:
        d = self.declared
        if value is not None and d.result is None:
            raise WujiSyntaxError("A function with a return value must be annotated with a return type, e.g. def func() -> ti.f32")
        if value is None and d.result is not None:
            raise WujiTypeError("`return` without a value, but the function has a return annotation")
        if d.returned is None:
            fc.b.jump_return()
            return
        if d.references:
            value = ((value,) if d.result is not None else ()) + tuple(self.refs[k].load() for k in d.references)
        fc.b.jump_return(pack(fc.cx, d.returned, value))


def call_real(cx: Compilation, func: RealFunc, args: list[Any], named: dict[str, Any]) -> Any:
    from .arguments import template_key

    parameters = signatures.parameters(func.function)
    values = signatures.bind(f"`{func.function.__name__}`", parameters, args, named, WujiCallError)
    annotations = [_annotation(func, k, p, v) for k, (p, v) in enumerate(zip(parameters, values, strict=True))]
    values = [v.value if isinstance(v, ByReference) else v for v in values]
    references = [k for k, a in enumerate(annotations) if isinstance(a, RefType)]
    for k in references:
        _check_reference(parameters[k][0], _value_type(func, parameters[k][0], annotations[k]), values[k])
    if not all(values[k].private for k in references):
        # Other iterations can access the variable, so it has to be updated in place.
        return inline(cx, func.inlined, [ByReference(v) if k in references else v for k, v in enumerate(values)], {})
    key = (func, *((template_key(v),) if a is None else str(a) for a, v in zip(annotations, values, strict=True)))
    declared = cx.functions.get(key)
    if declared is None:
        declared = cx.functions[key] = Declaration(cx, func, parameters, annotations, values)
        _define(cx, func, declared)
    ids = [pack(cx, t, v) for t, v in zip(declared.types, values, strict=True) if t is not None]
    result = cx.builder.call(declared.number, ids)
    if declared.returned is None:
        return None
    assert result is not None
    value = unpack(cx, declared.returned, result)
    if references:
        outs = value[1:] if declared.result is not None else value
        for k, out in zip(references, outs, strict=True):
            values[k].store(out)
        value = value[0] if declared.result is not None else None
    return value


def _check_reference(name: str, ty: Any, value: Any) -> None:
    if not isinstance(value, (Ref, StructVal)):
        raise WujiTypeError(f"argument `{name}` is passed by reference; it needs a variable, not {emit.describe(value)}")
    if value.ty != ty:
        raise WujiTypeError(f"argument `{name}` is passed by reference; it needs a variable of type {ty}, not {value.ty}")


def _define(cx: Compilation, func: RealFunc, declared: Declaration) -> None:
    source = func.source
    params = cx.builder.begin_function(declared.number)
    loop, outermost = cx.loop, cx.outermost
    # Locals belong to the function, regardless of the loop that calls it.
    cx.loop, cx.outermost = object(), False
    fc = FunctionCompiler(cx, source, kernel=False, real=True)
    refs = []
    given = iter(params)
    for k, (name, _, _) in enumerate(declared.parameters):
        ty, bound = declared.types[k], declared.values[k]
        if ty is not None:
            bound = unpack(cx, ty, next(given))
            if not isinstance(declared.annotations[k], Constant):
                ref = typed_storage(cx, ty, name)
                ref.store(bound)
                bound = ref
        fc.scope.define(name, bound)
        refs.append(bound)
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
