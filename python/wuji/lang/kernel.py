"""Kernels: which code fits the arguments of a call, and running it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

from .. import _native
from ..exceptions import (
    NotYet,
    WujiArrayError,
    WujiCallError,
    WujiError,
    WujiRuntimeError,
    WujiRuntimeTypeError,
    WujiSyntaxError,
    WujiTypeError,
)
from . import context, dtypes, runtime, signatures
from .access import ArrayVal
from .compiler.function import FunctionCompiler
from .compiler.source import Source
from .compound import (
    ArgPackType,
    ElementRank,
    MatrixType,
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
from .errors import told
from .field import Field
from .matrix import Matrix
from .ndarray import Ndarray, flat_value
from .real import ir_type, pack, result_type
from .runtime import Runtime
from .signatures import MISSING
from .struct import Struct
from .values import Expr, StructVal

_MOST_SCALARS = 64
# What a launch reports in release builds without failing: what was written outside was dropped.
_DROPPED = ("W0401", "W0402")


class Parameter:
    """A parameter of a kernel, as its annotation says."""

    __slots__ = ("annotation", "default", "kind", "name", "type")

    def __init__(self, kernel: str, name: str, annotation: Any, default: Any, is_self: bool) -> None:
        self.name = name
        self.annotation = annotation
        self.default = default
        self.type: Any = None
        if is_self or is_template(annotation):
            self.kind = "template"
        elif annotation is MISSING:
            raise WujiSyntaxError(f"Taichi kernels parameters must be type annotated: parameter `{name}` of kernel `{kernel}` has no type\n  = help: such as `{name}: ti.f32`, `{name}: ti.template()`")
        elif isinstance(annotation, NdarrayType) or annotation is NdarrayType:
            self.kind = "array"
            self.type = annotation if isinstance(annotation, NdarrayType) else NdarrayType()
        elif isinstance(annotation, ArgPackType):
            self.kind = "pack"
            self.type = annotation
        elif isinstance(annotation, (TextureType, RWTextureType, SparseMatrixBuilderType)) or annotation in (TextureType, RWTextureType, SparseMatrixBuilderType):
            self.kind = "object"
            self.type = annotation
        else:
            self.type = value_type(annotation)
            if self.type is None:
                if annotation.__class__.__module__ in ("numpy", "torch") or getattr(annotation, "__module__", "") == "numpy":
                    self.kind, self.type = "array", NdarrayType()
                    return
                raise WujiSyntaxError(f"Invalid type annotation of parameter `{name}` of kernel `{kernel}`: {annotation!r}")
            self.kind = "value"


class Specialized:
    """Code for one structure of arguments."""

    __slots__ = ("kept", "program", "take", "wrap")

    def __init__(self, program: _native.Program, take: Any, wrap: Any, kept: list[Any]) -> None:
        self.program = program
        self.take: Callable[[tuple[Any, ...]], list[Any]] = take  # what the program gets, of the arguments of the kernel
        self.wrap: Callable[[Any], Any] | None = wrap  # what the kernel gives, of what the program gives
        self.kept = kept


class Kernel:
    """A function that runs on a device. Loops at its top are parallel."""

    _wuji_kind = "kernel"

    def __init__(self, function: FunctionType, in_class: bool = False) -> None:
        self.function = function
        self.in_class = in_class
        self._parameters: list[Parameter] | None = None
        self._source: Source | None = None
        self._runtime: Runtime | None = None
        self._fast: _native.Program | None = None
        self._codes: dict[Any, Specialized] = {}
        self._warned = False
        functools.update_wrapper(self, function)

    # What it is.
    @property
    def parameters(self) -> list[Parameter]:
        if self._parameters is None:
            name = self.function.__name__
            listed = signatures.parameters(self.function)
            self._parameters = [
                Parameter(name, p, a, d, k == 0 and self.in_class and a is MISSING) for k, (p, a, d) in enumerate(listed)
            ]
            scalars = sum(_count(p.type) for p in self._parameters if p.kind in ("value", "pack"))
            if scalars > _MOST_SCALARS:
                raise WujiRuntimeError(
                    f"The number of elements in kernel arguments is too big! kernel `{name}` has {scalars} numbers as arguments; at most {_MOST_SCALARS} are allowed\n"
                    "  = help: pass them in a field or array"
                )
        return self._parameters

    @property
    def source(self) -> Source:
        if self._source is None:
            self._source = Source(self.function)
        return self._source

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        if not getattr(type(instance), "_data_oriented", False):
            raise WujiSyntaxError(f"Please decorate class {type(instance).__name__} with @ti.data_oriented: its method `{self.function.__name__}` is a kernel")
        return BoundKernel(self, instance)

    def grad(self, *_: Any, **__: Any) -> Any:
        raise NotYet("`kernel.grad`: automatic differentiation is not yet in this version", "W0607")

    def __repr__(self) -> str:
        return f"<ti.kernel {self.function.__qualname__}>"

    def __reduce__(self) -> Any:
        # By its name, as functions are.
        return self.function.__qualname__

    # Running it.
    def __call__(self, *args: Any, **named: Any) -> Any:
        fast = self._fast
        if fast is not None and self._runtime is runtime._state.runtime and not named:
            try:
                result = fast(*args)
            except _native.NativeError as e:
                return self._failed(e)
            except (TypeError, OverflowError, ValueError) as e:
                if len(args) == len(self.parameters):
                    raise self._bad_argument(args, e) from None
                # Some have values of their own, or too many were given.
                return self._call(args, named)
            if result is not NotImplemented:
                return result
        return self._call(args, named)

    def _call(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if context.compiling() is not None and context.lock._is_owned():  # type: ignore[attr-defined]
            raise WujiSyntaxError("Kernels cannot call other kernels: a kernel is being compiled")
        world = runtime.current()
        if self._runtime is not world:
            self._runtime = world
            self._fast = None
            self._warned = False
            self._codes = world.codes.setdefault(self, {})
        full = self._bind(args, named)
        for hopeful in (True, False):
            key = self._key(full, hopeful)
            code = self._codes.get(key)
            if code is None:
                code = self._compile(world, full, key, hopeful)
            try:
                given = code.take(full)
                result = code.program(*given)
            except _native.NativeError as e:
                failed = self._failed(e)
                return code.wrap(failed) if code.wrap is not None and failed is not None else failed
            except (TypeError, OverflowError, ValueError) as e:
                raise self._bad_argument(full, e) from None
            if result is not NotImplemented:
                return code.wrap(result) if code.wrap is not None else result
        raise WujiRuntimeError(f"kernel `{self.function.__name__}` cannot run on these arrays")

    def _bind(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        parameters = self.parameters
        if not named and len(args) == len(parameters):
            return args
        name = self.function.__name__
        out = list(args)
        if len(out) > len(parameters):
            raise WujiCallError(f"kernel `{name}` takes {len(parameters)} arguments, not {len(out)}")
        known = [p.name for p in parameters]
        for k in named:
            if k not in known:
                raise WujiCallError(f"kernel `{name}` has no parameter `{k}`")
            if known.index(k) < len(args):
                raise WujiCallError(f"parameter `{k}` of kernel `{name}` is given twice")
        for p in parameters[len(args) :]:
            if p.name in named:
                out.append(named[p.name])
            elif p.default is not MISSING:
                out.append(p.default)
            else:
                raise WujiCallError(f"kernel `{name}` needs a value for its parameter `{p.name}`")
        return tuple(out)

    def _key(self, args: tuple[Any, ...], hopeful: bool) -> Any:
        """What code depends on."""
        parts: list[Any] = []
        arrays = False
        for p, value in zip(self.parameters, args, strict=True):
            if p.kind == "template":
                parts.append(template_key(value))
            elif p.kind == "array":
                arrays = True
                parts.append(array_key(self, p, value))
            elif p.kind == "pack":
                parts.append(_pack_key(self, p.type, value))
            elif p.kind == "object":
                arrays = True
                parts.append(object_key(self, p, value))
        if arrays:
            parts.append(hopeful)
        return tuple(parts)

    # Making code.
    def _compile(self, world: Runtime, args: tuple[Any, ...], key: Any, hopeful: bool) -> Specialized:
        name = self.function.__name__
        with context.lock:
            known = self._codes.get(key)
            if known is not None:
                return known
            source = self.source
            source.refresh()
            cx = Compilation(_native.Builder(name), world, name)
            before = context.enter(cx)
            try:
                code = self._build(cx, source, args, hopeful)
            except _native.NativeError as e:
                raise told(e) from None
            except WujiError as e:
                if world.config.print_full_traceback:  # type: ignore[attr-defined]
                    raise
                # The user's line is in the message; ours are of no use.
                raise e.with_traceback(None) from None
            finally:
                context.enter(before)
            self._codes[key] = code
            simple = all(p.kind == "value" and isinstance(p.type, DataType) or p.kind == "array" for p in self.parameters)
            if simple and code.wrap is None:
                self._fast = code.program
            return code

    def _build(self, cx: Compilation, source: Source, args: tuple[Any, ...], hopeful: bool) -> Specialized:
        b = cx.builder
        fc = FunctionCompiler(cx, source, kernel=True)
        binder = Binder(self, cx, hopeful)
        for p, value in zip(self.parameters, args, strict=True):
            fc.scope.define(p.name, binder.parameter(p, value))
        self._assignable(cx, fc)
        ty = result_type(self.function)
        wrap = None
        if ty is not None:
            b.result(ir_type(cx, ty))
            wrap = wrapper(ty)
        fc.returns = KernelReturn(ty)
        fc.scope.push()
        fc.body(source.node.body)
        if not b.closed():
            if ty is None:
                b.jump_return()
            else:
                if not fc.returns.seen:
                    raise fc.located(WujiSyntaxError("Kernel has a return type but does not have a return statement"), source.node)
                b.jump_return(b.zero(ir_type(cx, ty)))
        config = cx.runtime.config
        if config.print_ir or config.print_preprocessed_ir:  # type: ignore[attr-defined]
            print(b.text())
        program = b.finish(cx.runtime.native, binder.arguments)
        return Specialized(program, binder.taker(), wrap, cx.kept)

    def _assignable(self, cx: Compilation, fc: FunctionCompiler) -> None:
        """Parameters that the body assigns to are variables."""
        from .compiler.statements import storage, store_into

        for p in self.parameters:
            value = fc.scope.local(p.name)
            if p.name in fc.source.assigned and isinstance(value, (Expr, StructVal)):
                place = storage(cx, value, p.name, fc.shares(p.name))
                store_into(place, value)
                fc.scope.define(p.name, place)

    # When something is wrong.
    def _failed(self, error: _native.NativeError) -> Any:
        world = self._runtime
        if error.code in _DROPPED and world is not None and not world.config.debug and not world.config.check_out_of_bound:  # type: ignore[attr-defined]
            if not self._warned:
                self._warned = True
                warnings.warn(str(error), RuntimeWarning, stacklevel=4)
            return getattr(error, "result", None)
        raise told(error) from None

    def _bad_argument(self, args: tuple[Any, ...], error: Exception) -> Exception:
        name = self.function.__name__
        if len(args) != len(self.parameters):
            return WujiCallError(f"kernel `{name}` takes {len(self.parameters)} arguments, not {len(args)}")
        for p, value in zip(self.parameters, args, strict=True):
            if p.kind == "value" and not _fits(p.type, value):
                return WujiRuntimeTypeError(
                    f"Argument `{p.name}` of kernel `{name}` cannot be converted into required type {p.type}: it is {value!r} of type {type(value).__name__}"
                )
            if p.kind == "array":
                array_key(self, p, value)
        return WujiRuntimeTypeError(f"kernel `{name}`: {error}")


def _count(ty: Any) -> int:
    if isinstance(ty, ArgPackType):
        return sum(_count(t) for t in ty.members.values())
    if isinstance(ty, MatrixType):
        return ty.count
    if isinstance(ty, StructType):
        return sum(_count(t) for t in ty.members.values())
    return 1 if isinstance(ty, DataType) else 0


def _fits(ty: Any, value: Any) -> bool:
    """Whether a value of Python's can be one of a type."""
    try:
        if isinstance(ty, MatrixType):
            flat = flat_value(ty, value)
            return len(flat) == ty.count and all(_fits(ty.dtype, x) for x in flat)
        if isinstance(ty, StructType):
            return isinstance(value, (Struct, dict))
        if ty.is_float:
            float(value)
            return not isinstance(value, (str, bytes))
        number = value.__index__()
        low, high = ty.range()
        return bool(low <= number <= high) or ty.is_bool
    except (TypeError, ValueError, AttributeError, WujiTypeError):
        return False


def template_key(value: Any) -> Any:
    """What code depends on of a template argument. Numbers that are equal and not the same, such as 0.0 and -0.0, differ."""
    kind = type(value)
    if kind is float:
        return (kind, value.hex())
    if kind in (int, bool, str) or value is None:
        return (kind, value)
    if isinstance(value, (list, tuple)):
        return (kind, tuple(template_key(v) for v in value))
    if isinstance(value, Matrix):
        return (kind, value.shape, value._dtype, tuple(template_key(v) for v in value.entries))
    if dtypes.of_constant(value) is not None and hasattr(value, "item"):
        return (kind, template_key(value.item()))
    return id(value)


def array_key(kernel: Kernel, p: Parameter, value: Any) -> Any:
    """What code depends on of an array: scalar type, axes, elements, gaps, whether it may be written to."""
    spec: NdarrayType = p.type
    name = kernel.function.__name__

    def wrong(needed: Any, provided: Any) -> WujiArrayError:
        return WujiArrayError(f"Argument `{p.name}` of kernel `{name}`: required {needed}, but {provided} is provided")

    element: Any = None
    if isinstance(value, Ndarray):
        scalar, shape, contiguous, writable = value.dtype.ir, value.shape, True, True
        element = value.element_type
    else:
        found = _native.describe_array(value)
        if found is None:
            if isinstance(value, Field):
                raise wrong("an array", "a field (annotate it with `ti.template()`)")
            raise WujiRuntimeTypeError(f"Argument `{p.name}` of kernel `{name}` cannot be converted into required type {spec}: it is {_kind(value)}")
        scalar, shape, contiguous, writable = found
        said = spec.dtype
        if isinstance(said, (MatrixType, ElementRank)):
            count = said.ndim
            if len(shape) < count:
                raise wrong(f"an array with at least {count} axes", f"one with {len(shape)}")
            inner, shape = shape[len(shape) - count :], shape[: len(shape) - count]
            if isinstance(said, MatrixType) and inner != said.shape:
                raise wrong(f"elements of shape {said.shape}", f"{inner}")
            dtype = dtypes.by_ir(scalar)
            element = MatrixType(inner[0], inner[1] if count > 1 else 1, count, dtype)
        else:
            element = dtypes.by_ir(scalar)
    said = spec.dtype
    if isinstance(said, MatrixType):
        if element != said:
            raise wrong(f"elements of type {said}", f"{element}")
    elif isinstance(said, ElementRank):
        if not isinstance(element, MatrixType) or element.ndim != said.ndim or said.dtype not in (None, element.dtype):
            raise wrong(f"elements with {said.ndim} axes", f"{element}")
    elif said is not None and said is not element:
        raise wrong(f"elements of type {said}", f"{element}")
    if spec.ndim is not None and spec.ndim != len(shape):
        raise wrong(f"an array with {spec.ndim} axes", f"one with {len(shape)}")
    return (element.ir, len(shape), contiguous, writable)


def object_key(kernel: Kernel, p: Parameter, value: Any) -> Any:
    """What code depends on of a texture or a builder of a sparse matrix."""
    if not hasattr(value, "_wuji_key"):
        raise WujiRuntimeTypeError(
            f"Argument `{p.name}` of kernel `{kernel.function.__name__}` cannot be converted into required type {p.type}: it is {type(value).__name__}"
        )
    try:
        return value._wuji_key(p.type)
    except WujiRuntimeTypeError as e:
        raise WujiRuntimeTypeError(f"Argument `{p.name}` of kernel `{kernel.function.__name__}`: {e}") from None


def _kind(value: Any) -> str:
    """What was given in the place of an array."""
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ if dtype is None else f"{type(value).__name__} of {dtype}"


def _pack_key(kernel: Kernel, ty: ArgPackType, value: Any) -> Any:
    from .argpack import ArgPack

    if not isinstance(value, ArgPack):
        raise WujiRuntimeTypeError(f"an argpack is needed, not {type(value).__name__}")
    keys = []
    for name, spec in ty.members.items():
        if isinstance(spec, NdarrayType):
            keys.append(array_key(kernel, Parameter("argpack", name, spec, MISSING, False), value.entries[name]))
        elif isinstance(spec, ArgPackType):
            keys.append(_pack_key(kernel, spec, value.entries[name]))
        elif isinstance(spec, (TextureType, RWTextureType)):
            keys.append(object_key(kernel, Parameter("argpack", name, spec, MISSING, False), value.entries[name]))
    return tuple(keys)


class Binder:
    """Parameters of the kernel become parameters and arrays of the IR; and how a call finds what to pass for them."""

    def __init__(self, kernel: Kernel, cx: Compilation, hopeful: bool) -> None:
        self.kernel = kernel
        self.cx = cx
        self.hopeful = hopeful
        self.arguments: list[tuple[str, int]] = []
        self.steps: list[Callable[[tuple[Any, ...]], Any]] = []
        self.position = 0
        self.plain = True  # what a call gets is what the program gets
        self.params = 0

    def parameter(self, p: Parameter, value: Any) -> Any:
        position = self.position
        self.position += 1
        if p.kind == "template":
            self.plain = False
            self.cx.kept.append(value)
            return value
        return self.bind(p, p.type, p.name, value, lambda args: args[position])

    def bind(self, p: Parameter, ty: Any, name: str, value: Any, get: Callable[[tuple[Any, ...]], Any]) -> Any:
        if isinstance(ty, NdarrayType):
            return self.array(p, ty, name, value, get)
        if isinstance(ty, ArgPackType):
            self.plain = False
            members = {
                k: self.bind(Parameter("argpack", k, t, MISSING, False), t if not _plain_type(t) else value_type(t), f"{name}.{k}", value.entries[k], lambda args, k=k: get(args).entries[k])  # type: ignore[misc]
                for k, t in ty.members.items()
            }
            return PackVal(members)
        if p.kind == "object":
            self.plain = False
            return value._wuji_bind(self, name, get)
        return self.value(ty, name, get)

    def value(self, ty: Any, name: str, get: Callable[[tuple[Any, ...]], Any]) -> Any:
        if isinstance(ty, StructType):
            self.plain = False
            return StructVal(ty, {k: self.value(t, f"{name}.{k}", _member(get, k)) for k, t in ty.members.items()})
        id = self.cx.builder.param(name, ty.ir)
        self.arguments.append(("p", self.params))
        self.params += 1
        if isinstance(ty, MatrixType):
            self.plain = False
            self.steps.append(lambda args: flat_value(ty, get(args)))
        else:
            self.steps.append(get)
        return Expr(id, ty)

    def array(self, p: Parameter, spec: NdarrayType, name: str, value: Any, get: Callable[[tuple[Any, ...]], Any]) -> ArrayVal:
        ir, rank, contiguous, writable = array_key(self.kernel, p, value)
        number = self.cx.builder.array(name, ir, rank, writable, contiguous, self.hopeful)
        self.arguments.append(("a", number))
        self.steps.append(lambda args: _bare(get(args)))
        scalar, *shape = ir.split("x")
        dtype = dtypes.by_ir(scalar)
        element: Any = dtype
        if shape:
            element = MatrixType(int(shape[0]), int(shape[1]) if len(shape) > 1 else 1, len(shape), dtype)
        return ArrayVal(number, element, rank, name, spec.boundary == "clamp", writable)

    def taker(self) -> Any:
        steps = self.steps
        return lambda args: [step(args) for step in steps]


def _plain_type(t: Any) -> bool:
    return not isinstance(t, (NdarrayType, ArgPackType))


def _bare(value: Any) -> Any:
    return value._native if isinstance(value, Ndarray) else value


def _member(get: Callable[[tuple[Any, ...]], Any], name: str) -> Callable[[tuple[Any, ...]], Any]:
    return lambda args: get(args)[name]


class PackVal:
    """An argpack in a kernel."""

    def __init__(self, members: dict[str, Any]) -> None:
        self.__dict__.update(members)


class KernelReturn:
    """How a kernel returns."""

    def __init__(self, ty: Any) -> None:
        self.ty = ty
        self.seen = False

    def give(self, fc: Any, value: Any) -> None:
        self.seen = True
        if self.ty is None:
            if value is not None:
                raise WujiSyntaxError(
                    "A kernel with a return value must be annotated with a return type, e.g. def func() -> ti.f32"
                )
            fc.b.jump_return()
            return
        if value is None:
            raise WujiSyntaxError("`return` without a value in a kernel that returns one")
        if isinstance(self.ty, tuple) and not isinstance(value, (tuple, list)):
            raise WujiTypeError(f"one value is returned where {len(self.ty)} were said")
        fc.b.jump_return(pack(fc.cx, self.ty, value))


def wrapper(ty: Any) -> Any:
    """From the numbers that a program gives to what the kernel gives; nothing for one number."""
    if isinstance(ty, DataType):
        return None

    def read(t: Any, numbers: Any) -> Any:
        if isinstance(t, tuple):
            return tuple(read(part, numbers) for part in t)
        if isinstance(t, StructType):
            return Struct._of(t, {k: read(part, numbers) for k, part in t.members.items()})
        if isinstance(t, MatrixType):
            return Matrix._of([next(numbers) for _ in range(t.count)], t.shape, t.dtype)
        return next(numbers)

    def wrap(flat: Any) -> Any:
        return read(ty, iter(flat if isinstance(flat, tuple) else (flat,)))

    return wrap


class BoundKernel:
    """A kernel that is a method, with its object."""

    _wuji_kind = "kernel"
    __slots__ = ("instance", "kernel")

    def __init__(self, kernel: Kernel, instance: Any) -> None:
        self.kernel = kernel
        self.instance = instance

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.kernel._call((self.instance, *args), named)

    def grad(self, *_: Any, **__: Any) -> Any:
        return self.kernel.grad()

    @property
    def __wrapped__(self) -> Any:
        return self.kernel.function

    @property
    def __name__(self) -> str:
        return self.kernel.function.__name__


def kernel(fn: Any) -> Any:
    """Makes a kernel of a function: it is compiled at its first call, for the types and layouts it finds."""
    signatures.settle(fn)
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(kernel(fn.__func__))
    if not isinstance(fn, FunctionType):
        raise WujiSyntaxError("`ti.kernel` decorates a function")
    return Kernel(fn, in_class=_in_class(fn))


def _in_class(fn: FunctionType) -> bool:
    """Whether a function is being defined in the body of a class."""
    outer = fn.__qualname__.rpartition(".")[0]
    return bool(outer) and not outer.endswith("<locals>")


def data_oriented(cls: Any) -> Any:
    """Marks a class whose methods may be kernels: `self` is known when they are compiled."""

    for attribute in vars(cls).values():
        if isinstance(attribute, staticmethod) and isinstance(attribute.__func__, Kernel):
            attribute.__func__.in_class = False
    cls._data_oriented = True
    return cls
