"""Graphs: sequences of kernel launches, built once and run many times with named arguments."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

from .. import _native
from ..exceptions import WujiCompilationError, WujiError, WujiRuntimeError
from ..lang import arch as archs
from ..lang import emit, recording, runtime
from ..lang.arguments import Parameter
from ..lang.compound import ElementRank, MatrixType, NdarrayType, RWTextureType, TextureType
from ..lang.dtypes import DataType, scalar_type
from ..lang.field import Field
from ..lang.kernel import BoundKernel, Kernel
from ..lang.matrix import Matrix
from ..lang.ndarray import Ndarray
from ..lang.texture import Format, Texture


class ArgKind(enum.Enum):
    """Kind of a graph argument."""

    SCALAR = 0
    MATRIX = 1
    NDARRAY = 2
    TEXTURE = 3
    RWTEXTURE = 4


# What a graph argument has beside its kind, its name and its type.
_OPTIONS: dict[ArgKind, tuple[str, ...]] = {
    ArgKind.SCALAR: (),
    ArgKind.MATRIX: (),
    ArgKind.NDARRAY: ("ndim", "field_dim", "element_shape"),
    ArgKind.TEXTURE: ("ndim",),
    ArgKind.RWTEXTURE: ("ndim", "fmt"),
}


class Arg:
    """A named, typed argument of a graph.

    ```python
    x = ti.graph.Arg(ti.graph.ArgKind.NDARRAY, "x", ti.f32, ndim=1)
    ```
    """

    def __init__(
        self,
        tag: ArgKind,
        name: str,
        dtype: Any = None,
        ndim: int | None = None,
        field_dim: int | None = None,
        element_shape: tuple[int, ...] | None = None,
        fmt: Format | None = None,
        **old: Any,
    ) -> None:
        given = {"ndim": ndim, "field_dim": field_dim, "element_shape": element_shape, "fmt": fmt}
        if not isinstance(tag, ArgKind):
            raise WujiRuntimeError(f"a graph argument needs a `ti.graph.ArgKind`, not {tag!r}")
        if old:
            raise WujiRuntimeError(f"`ti.graph.Arg` has no argument `{next(iter(old))}`: use `ndim`, and `fmt` for writable textures")
        for parameter, value in given.items():
            if value is not None and parameter not in _OPTIONS[tag]:
                raise WujiRuntimeError(f"Invalid argument: {parameter}, you can only create a graph argument with: {['tag', 'name', 'dtype', *_OPTIONS[tag]]}")
        self.tag = tag
        self.name = name
        self.fmt = fmt
        self.ndim = ndim if ndim is not None else field_dim
        found: Any = dtype if isinstance(dtype, MatrixType) else scalar_type(dtype)
        if tag in (ArgKind.TEXTURE, ArgKind.RWTEXTURE):
            if self.ndim not in (1, 2, 3):
                raise WujiRuntimeError(f"graph argument `{name}` is a texture: `ndim` must be 1, 2 or 3, not {self.ndim}")
        elif found is None:
            raise WujiRuntimeError(f"graph argument `{name}` needs a type; {dtype!r} is not one")
        if tag is ArgKind.SCALAR and isinstance(found, MatrixType):
            raise WujiRuntimeError(f"Tag {tag} must specify a scalar type, but found {found} (graph argument `{name}`)")
        if tag is ArgKind.MATRIX and not isinstance(found, MatrixType):
            raise WujiRuntimeError(f"Tag {tag} must specify a vector or matrix type, but found {found} (graph argument `{name}`)")
        if tag is ArgKind.NDARRAY:
            if self.ndim is None:
                raise WujiRuntimeError(f"graph argument `{name}` is an array and needs `ndim`")
            if element_shape:
                found = MatrixType(element_shape[0], element_shape[1] if len(element_shape) > 1 else 1, len(element_shape), found)
        self.dtype: DataType | MatrixType | None = found

    @property
    def field_dim(self) -> int | None:
        return self.ndim

    @property
    def element_shape(self) -> tuple[int, ...]:
        return self.dtype.shape if isinstance(self.dtype, MatrixType) else ()

    def __repr__(self) -> str:
        return f"Arg({self.tag.name}, {self.name!r}, {self.dtype})"

    def _same(self, other: Arg) -> bool:
        return (self.tag, self.dtype, self.ndim, self.fmt) == (other.tag, other.dtype, other.ndim, other.fmt)

    def _check_parameter(self, parameter: Parameter) -> None:
        """Raise if a kernel parameter cannot take this argument."""
        annotated: Any = parameter.type
        found: Any = None
        wanted: Any = None
        if self.tag in (ArgKind.SCALAR, ArgKind.MATRIX):
            if parameter.kind == "value":
                found, wanted = self.dtype, annotated
        elif self.tag is ArgKind.NDARRAY:
            if isinstance(annotated, NdarrayType):
                if annotated.ndim not in (None, self.ndim):
                    raise WujiCompilationError(f"{self.ndim} from Arg {self.name} doesn't match kernel's annotated ndim={annotated.ndim}")
                free = annotated.dtype is None or isinstance(annotated.dtype, ElementRank)
                found, wanted = self.dtype, self.dtype if free else annotated.dtype
        else:
            kind = TextureType if self.tag is ArgKind.TEXTURE else RWTextureType
            if annotated is kind:
                return
            if isinstance(annotated, kind):
                found, wanted = self.ndim, annotated.num_dimensions
        if found is None or found != wanted:
            raise WujiCompilationError(
                f"Arg {self.name}'s dtype {self.dtype} doesn't match kernel's annotated dtype={annotated}: "
                f"it is a {self.tag.name} for parameter `{parameter.name}`"
            )

    def _check(self, value: Any) -> None:
        """Raise if a value cannot be passed for this argument."""
        ok = False
        if self.tag is ArgKind.SCALAR:
            ok = emit.is_number(value)
        elif self.tag is ArgKind.MATRIX:
            ok = isinstance(value, (Matrix, list, tuple)) or hasattr(value, "tolist")
        elif self.tag is ArgKind.NDARRAY:
            if isinstance(value, Ndarray):
                if value.element_type != self.dtype:
                    raise WujiRuntimeError(
                        f"graph argument `{self.name}` is an array of {self.dtype}, not of {value.element_type}: dtype mismatch"
                    )
                if len(value.shape) != self.ndim:
                    raise WujiRuntimeError(f"graph argument `{self.name}` is an array with {self.ndim} axes, not {len(value.shape)}")
                return
            ok = not isinstance(value, Field) and (hasattr(value, "__array__") or hasattr(value, "__dlpack__"))
        else:
            ok = isinstance(value, Texture) and value.num_dims == self.ndim
        if not ok:
            raise WujiRuntimeError(f"graph argument `{self.name}` is a {self.tag.name}, not {type(value).__name__}")


class Sequential:
    """A sequence of launches."""

    def __init__(self) -> None:
        self._steps: list[Sequential | tuple[Any, tuple[Any, ...]]] = []

    def dispatch(self, kernel_fn: Any, *args: Any) -> None:
        """Append a launch. Each argument is an `Arg`, or a value that is the same in every run, such as a template argument."""
        if isinstance(kernel_fn, BoundKernel):
            parameters = kernel_fn.kernel.parameters[1:]
        elif isinstance(kernel_fn, Kernel):
            parameters = kernel_fn.parameters
        else:
            raise WujiRuntimeError(f"`dispatch` needs a kernel, not {type(kernel_fn).__name__}")
        if len(args) != len(parameters):
            raise WujiCompilationError(f"kernel `{kernel_fn.__name__}` takes {len(parameters)} arguments, not {len(args)}")
        for arg, parameter in zip(args, parameters, strict=True):
            if isinstance(arg, Arg):
                arg._check_parameter(parameter)
        self._steps.append((kernel_fn, args))

    def _sequences(self) -> set[Sequential]:
        """Return this sequence and all that it contains."""
        found: set[Sequential] = set()
        work = [self]
        while work:
            sequence = work.pop()
            if sequence not in found:
                found.add(sequence)
                work.extend(step for step in sequence._steps if isinstance(step, Sequential))
        return found

    def _launches(self) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        for step in self._steps:
            if isinstance(step, Sequential):
                yield from step._launches()
            else:
                yield step


class GraphBuilder(Sequential):
    """Builds a graph: `dispatch` kernels, `append` sequences, then `compile`."""

    def create_sequential(self) -> Sequential:
        """Create a sequence. It can be appended any number of times."""
        return Sequential()

    def append(self, node: Sequential) -> None:
        """Append all launches of a sequence."""
        if not isinstance(node, Sequential):
            raise WujiRuntimeError(f"`append` needs a sequence, not {type(node).__name__}")
        if self in node._sequences():
            raise WujiRuntimeError("a sequence of launches cannot contain itself")
        self._steps.append(node)

    def compile(self) -> Graph:
        """Return the graph of everything added so far."""
        return Graph(list(self._launches()))


class Graph:
    """A compiled sequence of launches with named arguments. Created by `GraphBuilder.compile`."""

    def __init__(self, launches: list[tuple[Any, tuple[Any, ...]]]) -> None:
        self._launches = launches
        self._args: dict[str, Arg] = {}
        for _, args in launches:
            for arg in args:
                if isinstance(arg, Arg) and not self._args.setdefault(arg.name, arg)._same(arg):
                    raise WujiCompilationError(f"the graph has two different arguments named `{arg.name}`")
        # Arguments of the last run, the CUDA graph captured for them, and whether capture is impossible.
        self._last: list[Any] | None = None
        self._native: _native.Graph | None = None
        self._uncapturable = False

    def run(self, args: dict[str, Any]) -> None:
        """Run all launches with these arguments. Unknown names are ignored.

        On CUDA, a run with the same arguments as the previous one is captured as a CUDA graph and replayed from then on.
        """
        if not isinstance(args, dict):
            raise WujiRuntimeError(f"a graph needs a dictionary of arguments, not {type(args).__name__}")
        for name, arg in self._args.items():
            if name not in args:
                raise WujiRuntimeError(f"the graph needs a value for argument `{name}`")
            arg._check(args[name])
        world = runtime.current()
        if recording.active:
            # A tape records single launches.
            return self._launch(args)
        if world.config.arch is not archs.cuda or self._uncapturable or not self._unchanged(world, args):
            return self._launch(args)
        if self._native is None:
            try:
                self._native = world.native.record(lambda: self._launch(args))
            except (WujiError, _native.NativeError) as e:
                if getattr(e, "code", None) != "W0134":
                    raise
                self._uncapturable = True
                return self._launch(args)
        self._native.launch()

    def _launch(self, args: dict[str, Any]) -> None:
        for kernel, given in self._launches:
            kernel(*(args[a.name] if isinstance(a, Arg) else a for a in given))

    def _unchanged(self, world: Any, args: dict[str, Any]) -> bool:
        """Return whether the arguments equal those of the last run, and can be captured."""
        now: list[Any] = [world]
        for name in self._args:
            value = args[name]
            now.append(value)
            if isinstance(value, Ndarray) and value._native.is_shared:
                now.append(object())
        before, self._last = self._last, now
        same = before is not None and len(before) == len(now)
        same = same and all(a is b or (emit.is_number(a) and type(a) is type(b) and a == b) for a, b in zip(before or [], now, strict=True))
        if not same:
            self._native = None
        return same


__all__ = ["Arg", "ArgKind", "Graph", "GraphBuilder"]
