"""Kernels: specialization on the arguments of a call, compilation and launch."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from .. import _native
from ..exceptions import (
    WujiArrayError,
    WujiCallError,
    WujiConversionError,
    WujiError,
    WujiRuntimeError,
    WujiRuntimeTypeError,
    WujiSyntaxError,
    WujiTypeError,
)
from . import context, dtypes, host_values, runtime, signatures
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
    type_by_ir,
    value_type,
)
from .context import Compilation
from .dtypes import DataType
from .errors import from_native
from .field import Field
from .matrix import Matrix
from .missing import refuse
from .ndarray import Ndarray, flat_value
from .real import ir_type, pack, result_type
from .runtime import Runtime
from .signatures import MISSING
from .struct import Struct
from .values import Expr, StructVal

_MAX_ARGUMENTS = 64
# Errors that are only warnings outside debug mode: out-of-bounds writes are dropped, reads return zero.
_DROPPED = ("W0401", "W0402")


class Parameter:
    """A kernel parameter, classified by its annotation."""

    __slots__ = ("annotation", "default", "kind", "name", "type")

    def __init__(self, kernel: str, name: str, annotation: Any, default: Any, is_self: bool) -> None:
        self.name = name
        self.annotation = annotation
        self.default = default
        self.type: Any = None
        if is_self or is_template(annotation):
            self.kind = "template"
        elif annotation is MISSING:
            raise WujiSyntaxError(f"Taichi kernels parameters must be type annotated: parameter `{name}` of kernel `{kernel}` has no annotation\n  = help: annotate it, as in `{name}: ti.f32` or `{name}: ti.template()`")
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
                raise WujiSyntaxError(f"Invalid type annotation of Taichi kernel: parameter `{name}` of `{kernel}` is annotated with {annotation!r}")
            self.kind = "value"


class Specialization:
    """A kernel compiled for one combination of argument types and template arguments."""

    __slots__ = ("key_objects", "program", "take", "wrap")

    def __init__(self, program: _native.Program, take: Any, wrap: Any) -> None:
        self.program = program
        self.take: Callable[[tuple[Any, ...]], list[Any]] = take  # kernel arguments -> program arguments
        self.wrap: Callable[[Any], Any] | None = wrap  # program result -> kernel result
        self.key_objects: list[Any] = []  # objects whose identity is in the key, or weak references to them


class WorldCode:
    """The compiled code of a kernel in one world."""

    __slots__ = ("__weakref__", "codes", "fast", "native", "warned", "world")

    def __init__(self, world: Runtime) -> None:
        self.world = weakref.ref(world)
        self.native = world.native
        self.fast: _native.Program | None = None  # takes the arguments as they are
        self.codes: dict[Any, Specialization] = {}
        self.warned = False

    def enter(self, key: Any, code: Specialization, objects: Iterator[Any]) -> None:
        """Keep code until one of the objects that its key identifies is freed: another object may get the same ``id``."""
        own = weakref.ref(self)

        def evict(_: Any) -> None:
            known = own()
            if known is not None:
                known.codes.pop(key, None)

        for thing in objects:
            try:
                code.key_objects.append(weakref.ref(thing, evict))
            except TypeError:
                code.key_objects.append(thing)
        self.codes[key] = code


def _nothing() -> None:
    """Stand for a weak reference to nothing."""


class Kernel:
    """A function that runs on a device. Its outermost loops are parallel."""

    _wuji_kind = "kernel"

    def __init__(self, function: FunctionType, in_class: bool = False) -> None:
        self.function = function
        self.in_class = in_class
        self._parameters: list[Parameter] | None = None
        self._source: Source | None = None
        # The code of the last call; its world owns it.
        self._latest: Callable[[], WorldCode | None] = _nothing
        functools.update_wrapper(self, function)

    # Signature and source.
    @property
    def parameters(self) -> list[Parameter]:
        if self._parameters is None:
            name = self.function.__name__
            listed = signatures.parameters(self.function)
            self._parameters = [
                Parameter(name, p, a, d, k == 0 and self.in_class and a is MISSING) for k, (p, a, d) in enumerate(listed)
            ]
            arguments = sum(_count(p.type) for p in self._parameters if p.kind in ("value", "pack"))
            if arguments > _MAX_ARGUMENTS:
                raise WujiRuntimeError(
                    f"The number of elements in kernel arguments is too big! Kernel `{name}` takes {arguments} scalars, vectors and matrices; the limit is {_MAX_ARGUMENTS}\n"
                    "  = help: pass them in a vector, a field or an array"
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
        refuse("kernel.grad", "automatic differentiation")

    # Half-public names of Taichi.
    _is_wrapped_kernel = True

    @property
    def _primal(self) -> Kernel:
        return self

    @property
    def _is_classkernel(self) -> bool:
        return self.in_class

    @property
    def compiled_kernels(self) -> dict[Any, Specialization]:
        """The specializations compiled in the current world."""
        world = runtime.lookup()
        compiled: WorldCode | None = None if world is None else world.codes.get(self)
        return {} if compiled is None else compiled.codes

    def __repr__(self) -> str:
        return f"<ti.kernel {self.function.__qualname__}>"

    def __reduce__(self) -> Any:
        # Pickle by qualified name, like a function.
        return self.function.__qualname__

    # Launch.
    def __call__(self, *args: Any, **named: Any) -> Any:
        latest = self._latest()
        world = runtime._state.only or runtime.lookup()
        if latest is not None and latest.fast is not None and world is not None and latest.native is world.native and not named:
            try:
                result = latest.fast(*args)
            except _native.NativeError as e:
                return self._failed(e, latest)
            except _native.ArgumentError as e:
                if len(args) == len(self.parameters):
                    return self._call(self._fitted(args, e.__cause__ or e), {})
                # Default arguments are missing, or there are too many arguments.
                return self._call(args, named)
            if result is not NotImplemented:
                return result
        return self._call(args, named)

    def _call(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if context.compiling() is not None:
            raise WujiSyntaxError("Kernels cannot call other kernels: a kernel is being compiled")
        world = runtime.current()
        compiled = self._latest()
        if compiled is None or compiled.native is not world.native:
            compiled = world.codes.setdefault(self, WorldCode(world))
            self._latest = weakref.ref(compiled)
        full = self._bind(args, named)
        # Optimistic code assumes that arrays do not alias; the program returns `NotImplemented` if they do.
        for unaliased in (True, False):
            key = self._key(full, unaliased)
            code = compiled.codes.get(key)
            if code is None:
                code = self._compile(world, compiled, full, key, unaliased)
            try:
                given = code.take(full)
            except (TypeError, OverflowError, ValueError, KeyError) as e:
                raise self._bad_argument(full, e) from e
            try:
                result = code.program(*given)
            except _native.NativeError as e:
                failed = self._failed(e, compiled)
                return code.wrap(failed) if code.wrap is not None and failed is not None else failed
            except _native.ArgumentError as e:
                return self._call(self._fitted(full, e.__cause__ or e), {})
            if result is not NotImplemented:
                return code.wrap(result) if code.wrap is not None else result
        raise WujiRuntimeError(f"kernel `{self.function.__name__}` does not accept these arrays")

    def _bind(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        if not named and len(args) == len(self.parameters):
            return args
        parameters = [(p.name, p.annotation, p.default) for p in self.parameters]
        return tuple(signatures.bind(f"kernel `{self.function.__name__}`", parameters, args, named, WujiCallError))

    def _key(self, args: tuple[Any, ...], unaliased: bool) -> Any:
        """Return the specialization key of a call."""
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
            parts.append(unaliased)
        return tuple(parts)

    # Compilation.
    def _compile(self, world: Runtime, compiled: WorldCode, args: tuple[Any, ...], key: Any, unaliased: bool) -> Specialization:
        name = self.function.__name__
        with context.lock:
            known = compiled.codes.get(key)
            if known is not None:
                return known
            source = self.source
            source.refresh()
            cx = Compilation(_native.Builder(name), world, name)
            before = context.enter(cx)
            try:
                code = self._build(cx, source, args, unaliased)
            except _native.NativeError as e:
                raise from_native(e) from None
            except WujiError as e:
                if world.config.print_full_traceback:  # type: ignore[attr-defined]
                    raise
                # The message shows the user's source line; frames of the compiler would only add noise.
                raise e.with_traceback(None) from None
            finally:
                context.enter(before)
            compiled.enter(key, code, self._identified(args))
            simple = all(p.kind == "value" and isinstance(p.type, DataType) or p.kind == "array" for p in self.parameters)
            if simple and code.wrap is None:
                compiled.fast = code.program
            return code

    def _identified(self, args: tuple[Any, ...]) -> Iterator[Any]:
        """Yield the objects whose identity is in the specialization key."""
        for p, value in zip(self.parameters, args, strict=True):
            if p.kind == "template":
                yield from identified(value)

    def _build(self, cx: Compilation, source: Source, args: tuple[Any, ...], unaliased: bool) -> Specialization:
        b = cx.builder
        fc = FunctionCompiler(cx, source, kernel=True)
        binder = Binder(self, cx, unaliased)
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
        return Specialization(program, binder.taker(), wrap)

    def _assignable(self, cx: Compilation, fc: FunctionCompiler) -> None:
        """Turn parameters that the body assigns to into variables."""
        from .compiler.statements import storage, store_into

        for p in self.parameters:
            value = fc.scope.local(p.name)
            if p.name in fc.source.assigned and isinstance(value, (Expr, StructVal)):
                ref = storage(cx, value, p.name)
                store_into(ref, value)
                fc.scope.define(p.name, ref)

    # Errors.
    def _failed(self, error: _native.NativeError, compiled: WorldCode) -> Any:
        world = compiled.world()
        if error.code in _DROPPED and world is not None and not world.config.debug and not world.config.check_out_of_bound:  # type: ignore[attr-defined]
            if not compiled.warned:
                compiled.warned = True
                warnings.warn(str(error), RuntimeWarning, stacklevel=4)
            return getattr(error, "result", None)
        raise from_native(error) from None

    def _fitted(self, args: tuple[Any, ...], error: BaseException) -> tuple[Any, ...]:
        """Return arguments that fit their types after a call refused them; raise if there are none."""
        if dtypes.defaults.lenient and len(args) == len(self.parameters):
            name = self.function.__name__
            fitted = tuple(
                host_values.wrapped(value, p.type, f"argument `{p.name}` of kernel `{name}`") if p.kind == "value" else value
                for p, value in zip(self.parameters, args, strict=True)
            )
            if any(a is not b for a, b in zip(fitted, args, strict=True)):
                return fitted
        raise self._bad_argument(args, error) from error

    def _bad_argument(self, args: tuple[Any, ...], error: BaseException) -> Exception:
        name = self.function.__name__
        if len(args) != len(self.parameters):
            return WujiCallError(f"Too many arguments. Kernel `{name}` takes {len(self.parameters)}, not {len(args)}")
        for p, value in zip(self.parameters, args, strict=True):
            if p.kind == "value" and not _fits(p.type, value):
                kind = WujiConversionError if isinstance(error, OverflowError) else WujiRuntimeTypeError
                return kind(
                    f"Argument `{p.name}` of kernel `{name}` cannot be converted into required type {p.type}: got {value!r} of type {type(value).__name__}",
                    "W0610",
                )
            if p.kind == "array":
                array_key(self, p, value)
        return WujiRuntimeTypeError(f"kernel `{name}`: {error}")


def _count(ty: Any) -> int:
    """Return the number of scalars, vectors and matrices."""
    if isinstance(ty, ArgPackType):
        return sum(_count(t) for t in ty.members.values())
    if isinstance(ty, StructType):
        return sum(_count(t) for t in ty.members.values())
    return 1 if isinstance(ty, (DataType, MatrixType)) else 0


def _fits(ty: Any, value: Any) -> bool:
    """Return whether a Python value can be converted to a type."""
    try:
        if isinstance(ty, MatrixType):
            flat = flat_value(ty, value)
            return len(flat) == ty.count and all(_fits(ty.dtype, x) for x in flat)
        if isinstance(ty, StructType):
            entries = value.entries if isinstance(value, Struct) else value
            return isinstance(entries, dict) and all(name in entries for name in ty.members)
        if ty.is_float:
            float(value)
            return not isinstance(value, (str, bytes))
        number = value.__index__()
        low, high = ty.range()
        return bool(low <= number <= high) or ty.is_bool
    except (TypeError, ValueError, AttributeError, WujiTypeError):
        return False


def template_key(value: Any) -> Any:
    """Return the specialization key of a template argument. It distinguishes equal but different numbers, such as 0.0 and -0.0."""
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


def identified(value: Any) -> Iterator[Any]:
    """Yield the objects whose identity is in the key of a template argument."""
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from identified(part)
    elif isinstance(value, Matrix):
        for part in value.entries:
            yield from identified(part)
    elif template_key(value) == id(value):
        yield value


def array_key(kernel: Kernel, p: Parameter, value: Any) -> Any:
    """Return the specialization key of an array: element type, rank, contiguity, writability."""
    spec: NdarrayType = p.type
    name = kernel.function.__name__

    def wrong(needed: Any, provided: Any) -> WujiArrayError:
        return WujiArrayError(f"Invalid value for argument {p.name} - required {needed}, but {provided} is provided (kernel `{name}`)")

    element: Any = None
    if isinstance(value, Ndarray):
        scalar, shape, contiguous, writable = value.dtype.ir, value.shape, True, True
        element = value.element_type
    else:
        found = _native.describe_array(value)
        if found is None:
            if isinstance(value, Field):
                raise wrong("an array", "a field (annotate it with `ti.template()`)")
            raise WujiRuntimeTypeError(f"Invalid type for argument {p.name}, got {_kind(value)}: kernel `{name}` needs {spec}")
        scalar, shape, contiguous, writable = found
        declared = spec.dtype
        if isinstance(declared, (MatrixType, ElementRank)):
            count = declared.ndim
            if len(shape) < count:
                raise wrong(f"ndim of at least {count}", f"{len(shape)}d array with shape {shape}")
            inner, shape = shape[len(shape) - count :], shape[: len(shape) - count]
            if isinstance(declared, MatrixType) and inner != declared.shape:
                raise wrong(f"element_shape={declared.shape}", f"{inner}")
            dtype = dtypes.by_ir(scalar)
            element = MatrixType(inner[0], inner[1] if count > 1 else 1, count, dtype)
        else:
            element = dtypes.by_ir(scalar)
    declared = spec.dtype
    if isinstance(declared, MatrixType):
        if element != declared:
            raise wrong(f"element type: {declared}", f"{element}")
    elif isinstance(declared, ElementRank):
        if not isinstance(element, MatrixType) or element.ndim != declared.ndim or declared.dtype not in (None, element.dtype):
            raise wrong(f"element_dim={declared.ndim}", f"{element}")
    elif declared is not None and declared is not element:
        if isinstance(value, Ndarray):
            raise WujiArrayError(f"Expect element type {declared} for argument {p.name}, but get {element} (kernel `{name}`)")
        raise WujiArrayError(f"Invalid value for argument {p.name} - required array has dtype={declared}, array with dtype={element} is provided (kernel `{name}`)")
    if spec.ndim is not None and spec.ndim != len(shape):
        raise wrong(f"ndim={spec.ndim}", f"{len(shape)}d ndarray with shape {shape}")
    return (element.ir, len(shape), contiguous, writable)


_WANTED = {TextureType: "texture", RWTextureType: "texture", SparseMatrixBuilderType: "sparse matrix builder"}


def object_key(kernel: Kernel, p: Parameter, value: Any) -> Any:
    """Return the specialization key of a texture or a sparse matrix builder."""
    if not hasattr(value, "_wuji_key"):
        raise WujiRuntimeTypeError(
            f"Argument `{p.name}` must be a {_WANTED.get(type(p.type), p.type)}, got {type(value)} (kernel `{kernel.function.__name__}`)"
        )
    try:
        return value._wuji_key(p.type)
    except WujiRuntimeTypeError as e:
        raise WujiRuntimeTypeError(f"Argument `{p.name}` of kernel `{kernel.function.__name__}`: {e}") from None


def _kind(value: Any) -> str:
    """Describe an argument that is not an array, for error messages."""
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ if dtype is None else f"{type(value).__name__} of {dtype}"


def _pack_key(kernel: Kernel, ty: ArgPackType, value: Any) -> Any:
    from .argpack import ArgPack

    if not isinstance(value, ArgPack):
        raise WujiRuntimeTypeError(f"expected an argument pack, got {type(value)}")
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
    """Maps kernel parameters to IR parameters and arrays, and records how a call marshals its arguments."""

    def __init__(self, kernel: Kernel, cx: Compilation, unaliased: bool) -> None:
        self.kernel = kernel
        self.cx = cx
        self.unaliased = unaliased
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
        number = self.cx.builder.array(name, ir, rank, writable, contiguous, self.unaliased)
        self.arguments.append(("a", number))
        self.steps.append(lambda args: _bare(get(args)))
        return ArrayVal(number, type_by_ir(ir), rank, name, spec.boundary == "clamp", writable)

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
    """An argpack inside a kernel."""

    def __init__(self, members: dict[str, Any]) -> None:
        self.__dict__.update(members)


class KernelReturn:
    """Compiles `return` in a kernel."""

    def __init__(self, ty: Any) -> None:
        self.ty = ty
        self.seen = False

    def emit_return(self, fc: Any, value: Any) -> None:
        self.seen = True
        if self.ty is None:
            if value is not None:
                raise WujiSyntaxError(
                    "A kernel with a return value must be annotated with a return type, e.g. def func() -> ti.f32"
                )
            fc.b.jump_return()
            return
        if value is None:
            raise WujiSyntaxError("`return` without a value, but the kernel is annotated with a return type")
        if isinstance(self.ty, tuple) and not isinstance(value, (tuple, list)):
            raise WujiTypeError(f"the kernel returns one value, but its return annotation has {len(self.ty)}")
        fc.b.jump_return(pack(fc.cx, self.ty, value))


def wrapper(ty: Any) -> Any:
    """Return a function that rebuilds the kernel's result from flat scalars; None for a single scalar."""
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
    """A kernel that is a method, bound to its object."""

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
    """Decorate a function as a kernel.

    The kernel is compiled on its first call, and again for every new combination of argument types and template arguments.
    Its outermost loops run in parallel.

    ```python
    @ti.kernel
    def scale(x: ti.template(), factor: ti.f32):
        for i in x:  # parallel
            x[i] *= factor
    ```
    """
    signatures.resolve_early(fn)
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(kernel(fn.__func__))
    if not isinstance(fn, FunctionType):
        raise WujiSyntaxError("`ti.kernel` can only decorate a function")
    return Kernel(fn, in_class=signatures.in_class(fn))


def data_oriented(cls: Any) -> Any:
    """Decorate a class whose methods may be kernels. `self` is a compile-time constant in them."""

    for attribute in vars(cls).values():
        if isinstance(attribute, staticmethod) and isinstance(attribute.__func__, Kernel):
            attribute.__func__.in_class = False
    cls._data_oriented = True
    return cls
