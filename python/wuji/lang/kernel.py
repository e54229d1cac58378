"""Kernels: specialization on the arguments of a call, compilation and launch."""

from __future__ import annotations

import functools
import inspect
import warnings
import weakref
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from .. import _native
from ..exceptions import (
    WujiCallError,
    WujiConversionError,
    WujiError,
    WujiRuntimeError,
    WujiRuntimeTypeError,
    WujiSyntaxError,
    WujiTypeError,
)
from . import context, dtypes, host_values, recording, runtime, signatures
from .arguments import Binder, Parameter, array_key, count, has_derivatives, identified, object_key, pack_key, template_key
from .compiler.function import FunctionCompiler
from .compiler.source import Source
from .compound import MatrixType, StructType
from .context import Compilation, SparseAccess
from .dtypes import DataType
from .errors import from_native
from .matrix import Matrix
from .ndarray import flat_value
from .real import ir_type, pack, result_type
from .runtime import Runtime
from .signatures import MISSING
from .snode import Leaf
from .struct import Struct
from .values import Expr, StructVal

_MAX_ARGUMENTS = 64
# Errors that are only warnings outside debug mode: out-of-bounds writes are dropped, reads return zero.
_DROPPED = ("W0401", "W0402")


class Specialization:
    """A kernel compiled for one combination of argument types and template arguments."""

    __slots__ = ("array_uses", "arrays", "gradients", "key_objects", "keys", "leaves", "parts", "positions", "program", "reads", "results", "sparse", "take", "uses", "wrap", "writes")

    def __init__(self, program: _native.Program, take: Any, wrap: Any) -> None:
        self.program = program
        self.take: Callable[[tuple[Any, ...]], list[Any]] = take  # kernel arguments -> program arguments
        self.wrap: Callable[[Any], Any] | None = wrap  # program result -> kernel result
        self.key_objects: list[Any] = []  # objects whose identity is in the key, or weak references to them
        self.gradients = False  # whether the program also gets gradients of arrays
        self.keys: frozenset[tuple[int, int]] = frozenset()  # the fields that the kernel accesses
        # The fields and arrays, by number.
        self.leaves: dict[int, Leaf] = {}
        self.arrays: dict[int, tuple[str, Callable[[tuple[Any, ...]], Any]]] = {}
        self.sparse: list[SparseAccess] = []
        # Places that the kernel accesses: fields ("f") and arrays ("a").
        self.reads: frozenset[tuple[str, int]] = frozenset()
        self.writes: frozenset[tuple[str, int]] = frozenset()
        self.results: frozenset[tuple[str, int]] = frozenset()  # of these, written with something other than constants
        # Of a gradient: how it uses fields and arrays, and the arguments that are parameters.
        self.uses: list[Any] = []
        self.array_uses: list[Any] = []
        self.positions: dict[int, int] = {}
        # Of a kernel that runs in parts: each with its gradient.
        self.parts: list[tuple[Specialization, Specialization]] = []


class WorldCode:
    """The compiled code of a kernel in one world."""

    __slots__ = ("__weakref__", "codes", "fast", "native", "used", "warned", "world")

    def __init__(self, world: Runtime) -> None:
        self.world = weakref.ref(world)
        self.native = world.native
        self.fast: _native.Program | None = None  # takes the arguments as they are
        self.codes: dict[Any, Specialization] = {}
        self.used: Specialization | None = None  # that of the last call
        self.warned = False

    def enter(self, key: Any, code: Specialization, objects: Iterator[Any]) -> None:
        """Keep code until one of the objects that its key identifies is freed: another object may get the same ``id``."""
        own = weakref.ref(self)

        def evict(_: Any) -> None:
            known = own()
            if known is not None:
                dropped = known.codes.pop(key, None)
                if known.used is dropped:
                    known.used = None

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
        # The source and the parameters are those of the function below other decorators.
        self.function: FunctionType = inspect.unwrap(function)
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
            listed = signatures.parameters(self.function, "kernels")
            self._parameters = [
                Parameter(name, p, a, d, k == 0 and self.in_class and a is MISSING, k) for k, (p, a, d) in enumerate(listed)
            ]
            arguments = sum(count(p.type) for p in self._parameters if p.kind in ("value", "pack"))
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

    @property
    def grad(self) -> GradKernel:
        """The kernel that accumulates gradients: ``k.grad(*args)`` adds to `x.grad` of what `k` reads what `y.grad` of what it writes implies."""
        return GradKernel(self, ())

    # Half-public names of Taichi.
    _is_wrapped_kernel = True

    @property
    def _primal(self) -> Kernel:
        return self

    @property
    def _adjoint(self) -> GradKernel:
        return self.grad

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
        if recording.active:
            return recording.launch(self, args, named)
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

    def _call(self, args: tuple[Any, ...], named: dict[str, Any], mode: str = "", part: tuple[int, int] | None = None) -> Any:
        """Launch the kernel, or the one of its derivatives: ``"reverse"``, ``"forward"``, ``"constant"`` for tangents that are zero, or ``"second"`` for the tangents of gradients.

        In the modes ``"reverse+parts"`` and ``"second+parts"``, launch a part, by its number, or its gradient: 0 or 1.
        """
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
            key = self._key(full, unaliased, mode)
            code = compiled.codes.get(key)
            if code is None:
                code = self._compile(world, compiled, full, key, unaliased, mode)
            if part is not None:
                code = code.parts[part[0]][part[1]]
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
                return self._call(self._fitted(full, e.__cause__ or e), {}, mode, part)
            if result is not NotImplemented:
                compiled.used = code
                return code.wrap(result) if code.wrap is not None else result
        raise WujiRuntimeError(f"kernel `{self.function.__name__}` does not accept these arrays")

    def _parts(self, full: tuple[Any, ...], mode: str) -> Specialization | None:
        """Return the code of a kernel that runs in parts in a mode, compiled if necessary. None if it is one part."""
        code = self._code(full, f"{mode}+parts")
        return code if len(code.parts) > 1 else None

    def _code(self, full: tuple[Any, ...], mode: str) -> Specialization:
        """Return the code for arguments, compiled if necessary."""
        world = runtime.current()
        compiled = world.codes.setdefault(self, WorldCode(world))
        self._latest = weakref.ref(compiled)
        key = self._key(full, True, mode)
        return compiled.codes.get(key) or self._compile(world, compiled, full, key, True, mode)

    def _bind(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        if not named and len(args) == len(self.parameters):
            return args
        parameters = [(p.name, p.annotation, p.default) for p in self.parameters]
        return tuple(signatures.bind(f"kernel `{self.function.__name__}`", parameters, args, named, WujiCallError))

    def _key(self, args: tuple[Any, ...], unaliased: bool, mode: str = "") -> Any:
        """Return the specialization key of a call."""
        parts: list[Any] = [mode] if mode else []
        arrays = False
        for p, value in zip(self.parameters, args, strict=True):
            if p.kind == "template":
                parts.append(template_key(value))
            elif p.kind == "array":
                arrays = True
                parts.append(array_key(self, p, value))
                if mode:
                    parts.append(has_derivatives(value))
            elif p.kind == "pack":
                parts.append(pack_key(self, p.type, value))
            elif p.kind == "object":
                arrays = True
                parts.append(object_key(self, p, value))
        if arrays:
            parts.append(unaliased)
        return tuple(parts)

    # Compilation.
    def _compile(self, world: Runtime, compiled: WorldCode, args: tuple[Any, ...], key: Any, unaliased: bool, mode: str) -> Specialization:
        return context.exclusively(lambda: self._compile_exclusively(world, compiled, args, key, unaliased, mode))

    def _compile_exclusively(self, world: Runtime, compiled: WorldCode, args: tuple[Any, ...], key: Any, unaliased: bool, mode: str) -> Specialization:
        known = compiled.codes.get(key)
        if known is not None:
            return known
        name = self.function.__name__
        source = self.source
        source.refresh()
        cx = Compilation(_native.Builder(name), world, name)
        try:
            code = context.run(cx, lambda: self._build(cx, source, args, unaliased, mode))
        except _native.NativeError as e:
            raise from_native(e) from None
        except WujiError as e:
            if world.config.print_full_traceback:  # type: ignore[attr-defined]
                raise
            # The message shows the user's source line; frames of the compiler would only add noise.
            raise e.with_traceback(None) from None
        compiled.enter(key, code, self._identified(args))
        simple = all(p.kind == "value" and isinstance(p.type, DataType) or p.kind == "array" for p in self.parameters)
        if simple and code.wrap is None and not code.gradients and not mode:
            compiled.fast = code.program
        return code

    def _identified(self, args: tuple[Any, ...]) -> Iterator[Any]:
        """Yield the objects whose identity is in the specialization key."""
        for p, value in zip(self.parameters, args, strict=True):
            if p.kind == "template":
                yield from identified(value)

    def _build(self, cx: Compilation, source: Source, args: tuple[Any, ...], unaliased: bool, mode: str) -> Specialization:
        b = cx.builder
        mode, in_parts = mode.removesuffix("+parts"), mode.endswith("+parts")
        fc = FunctionCompiler(cx, source, kernel=True)
        binder = Binder(self, cx, unaliased, mode)
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
        native = cx.runtime.native
        if in_parts:
            pairs = b.finish_parts(native, binder.arguments, binder.derivatives())
            parts = [(self._part(cx, binder, part, wrap), self._part(cx, binder, gradient, None)) for part, gradient in pairs]
            code = parts[0][0]
            code.parts = parts
            return code
        program = b.finish(native, binder.arguments, binder.derivatives() if mode else [])
        for path, line in cx.bit_loops:
            self._check_bits(native.explain(), path, line)
        return self._specialization(cx, binder, program, wrap if mode in ("", "forward", "constant") else None)

    def _part(self, cx: Compilation, binder: Binder, program: _native.Program, wrap: Any) -> Specialization:
        """Return the code of a part, or of its gradient."""
        code = self._specialization(cx, binder, program, wrap)
        sparse = []
        for fields, loops, activates, deactivates in program.cell_uses():
            own = {id(leaf.node.independent_part._structure) for n in fields if (leaf := cx.leaves.get(n)) is not None and leaf.node is not None}
            for part in [access.part for access in cx.sparse.values()]:
                if id(part._structure) in own:
                    access = SparseAccess(part)
                    access.loops, access.activates, access.deactivates = loops, activates, deactivates
                    sparse.append(access)
        code.sparse = sparse
        return code

    def _specialization(self, cx: Compilation, binder: Binder, program: _native.Program, wrap: Any) -> Specialization:
        code = Specialization(program, binder.taker(), wrap)
        code.gradients = bool(binder.gradients or binder.tangents)
        code.leaves, code.arrays, code.sparse = cx.leaves, binder.arrays, list(cx.sparse.values())
        code.reads, code.writes = frozenset(cx.reads), frozenset(cx.writes)
        code.results = frozenset(cx.results)
        if binder.mode in ("reverse", "second"):
            code.uses, code.array_uses = program.uses(), program.array_uses()
            code.positions = {n: at for at, (kind, n) in enumerate(binder.arguments) if kind == "p"}
        code.keys = frozenset(leaf.key for leaf in cx.leaves.values())
        return code

    def _check_bits(self, remarks: list[str], path: str, line: int) -> None:
        """Warn if a loop with `bit_vectorize=True` does not handle a word of bits at a time."""
        own = [remark for remark in remarks if remark.startswith(f"{path}:{line}:")]
        if any("bits at a time" in remark for remark in own) or not any(f" {self.function.__name__}." in remark for remark in remarks):
            # The interpreter explains nothing.
            return
        reasons = [remark.split("bit by bit: ", 1)[1] for remark in own if "bit by bit: " in remark]
        reason = reasons[0] if reasons else "it is not a parallel loop over an array of single bits that fill their words"
        warnings.warn(
            f"{path}:{line}: `bit_vectorize=True` has no effect on this loop of kernel `{self.function.__name__}`: {reason}\n"
            "  = help: the page on quantized types lists what such a loop can do",
            RuntimeWarning,
            stacklevel=5,
        )

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
        return WujiRuntimeTypeError(f"kernel `{name}`: {error}", "W0610")


def _fits(ty: Any, value: Any) -> bool:
    """Return whether a Python value can be converted to a type."""
    try:
        if isinstance(ty, MatrixType):
            flat = flat_value(ty, value)
            return len(flat) == ty.count and all(_fits(ty.dtype, x) for x in flat)
        if isinstance(ty, StructType):
            entries = value.entries if isinstance(value, Struct) else value
            return isinstance(entries, dict) and all(name in entries and _fits(member, entries[name]) for name, member in ty.members.items())
        if ty.is_float:
            float(value)
            return not isinstance(value, (str, bytes))
        number = value.__index__()
        low, high = ty.range()
        return bool(low <= number <= high) or ty.is_bool
    except (TypeError, ValueError, OverflowError, AttributeError, WujiTypeError):
        return False


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
            return [read(part, numbers) for part in t]
        if isinstance(t, StructType):
            return Struct._of(t, {k: read(part, numbers) for k, part in t.members.items()})
        if isinstance(t, MatrixType):
            return Matrix._of_exact([next(numbers) for _ in range(t.count)], t.shape, t.dtype)
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
        if recording.active:
            return recording.launch(self.kernel, (self.instance, *args), named)
        return self.kernel._call((self.instance, *args), named)

    @property
    def grad(self) -> GradKernel:
        return GradKernel(self.kernel, (self.instance,))

    @property
    def __wrapped__(self) -> Any:
        return self.kernel.function

    @property
    def __name__(self) -> str:
        return self.kernel.function.__name__


class GradKernel:
    """The kernel that accumulates the gradients of another one. It takes the same arguments."""

    _wuji_kind = "kernel"
    __slots__ = ("bound", "kernel")

    def __init__(self, kernel: Kernel, bound: tuple[Any, ...]) -> None:
        self.kernel = kernel
        self.bound = bound

    def __call__(self, *args: Any, **named: Any) -> None:
        recording.gradients_run()
        with recording.paused():
            from ..ad.parts import gradient_in_parts

            full = self.kernel._bind((*self.bound, *args), named)
            if not gradient_in_parts(self.kernel, full):
                self.kernel._call(full, {}, "reverse")

    @property
    def __name__(self) -> str:
        return f"{self.kernel.function.__name__}.grad"

    def __repr__(self) -> str:
        return f"<ti.kernel {self.kernel.function.__qualname__}.grad>"


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

    if not hasattr(cls, "__dict__"):
        raise WujiTypeError(f"`ti.data_oriented` decorates a class, not {cls!r} of type {type(cls).__name__}", "W0603")
    for attribute in vars(cls).values():
        if isinstance(attribute, staticmethod) and isinstance(attribute.__func__, Kernel):
            attribute.__func__.in_class = False
    cls._data_oriented = True
    return cls
