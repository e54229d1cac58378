"""Graphs: launches of kernels that are put together once and run again and again, with arguments that have names."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

from .. import _native
from ..exceptions import WujiCompilationError, WujiError, WujiRuntimeError
from ..lang import arch as archs
from ..lang import emit, runtime
from ..lang.compound import ElementRank, MatrixType, NdarrayType, RWTextureType, TextureType
from ..lang.dtypes import DataType, scalar_type
from ..lang.field import Field
from ..lang.kernel import BoundKernel, Kernel, Parameter
from ..lang.matrix import Matrix
from ..lang.ndarray import Ndarray
from ..lang.texture import Format, Texture


class ArgKind(enum.Enum):
    """What an argument of a graph is."""

    SCALAR = 0
    MATRIX = 1
    NDARRAY = 2
    TEXTURE = 3
    RWTEXTURE = 4


class Arg:
    """An argument of a graph: its kind, its name, and its type.

    ``ti.graph.Arg(ti.graph.ArgKind.NDARRAY, "x", ti.f32, ndim=1)``
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
        if not isinstance(tag, ArgKind):
            raise WujiRuntimeError(f"an argument of a graph has a `ti.graph.ArgKind`, not {tag!r}")
        if old:
            raise WujiRuntimeError(f"`ti.graph.Arg` has no argument `{next(iter(old))}`: use `ndim`, and `fmt` for textures that are written to")
        self.tag = tag
        self.name = name
        self.fmt = fmt
        self.ndim = ndim if ndim is not None else field_dim
        found: Any = dtype if isinstance(dtype, MatrixType) else scalar_type(dtype)
        if tag in (ArgKind.TEXTURE, ArgKind.RWTEXTURE):
            if self.ndim not in (1, 2, 3):
                raise WujiRuntimeError(f"argument `{name}` of a graph is a texture: `ndim` is 1, 2 or 3, not {self.ndim}")
        elif found is None:
            raise WujiRuntimeError(f"argument `{name}` of a graph has no type: {dtype!r} is none")
        if tag is ArgKind.SCALAR and isinstance(found, MatrixType):
            raise WujiRuntimeError(f"Tag {tag} must specify a scalar type, but found {found}: argument `{name}` of a graph")
        if tag is ArgKind.MATRIX and not isinstance(found, MatrixType):
            raise WujiRuntimeError(f"Tag {tag} must specify a vector or matrix type, but found {found}: argument `{name}` of a graph")
        if tag is ArgKind.NDARRAY:
            if self.ndim is None:
                raise WujiRuntimeError(f"argument `{name}` of a graph is an array and needs `ndim`")
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

    def _suits(self, parameter: Parameter) -> None:
        """Whether a parameter of a kernel can take it."""
        said: Any = parameter.type
        found: Any = None
        wanted: Any = None
        if self.tag in (ArgKind.SCALAR, ArgKind.MATRIX):
            if parameter.kind == "value":
                found, wanted = self.dtype, said
        elif self.tag is ArgKind.NDARRAY:
            if isinstance(said, NdarrayType):
                if said.ndim not in (None, self.ndim):
                    raise WujiCompilationError(f"{self.ndim} from Arg {self.name} doesn't match kernel's annotated ndim={said.ndim}")
                free = said.dtype is None or isinstance(said.dtype, ElementRank)
                found, wanted = self.dtype, self.dtype if free else said.dtype
        else:
            kind = TextureType if self.tag is ArgKind.TEXTURE else RWTextureType
            if said is kind:
                return
            if isinstance(said, kind):
                found, wanted = self.ndim, said.num_dimensions
        if found is None or found != wanted:
            raise WujiCompilationError(
                f"Arg {self.name}'s dtype {self.dtype} doesn't match kernel's annotated dtype={said}: "
                f"it is a {self.tag.name} for parameter `{parameter.name}`"
            )

    def _check(self, value: Any) -> None:
        """Whether a value can be given for it."""
        ok = False
        if self.tag is ArgKind.SCALAR:
            ok = emit.is_number(value)
        elif self.tag is ArgKind.MATRIX:
            ok = isinstance(value, (Matrix, list, tuple)) or hasattr(value, "tolist")
        elif self.tag is ArgKind.NDARRAY:
            if isinstance(value, Ndarray):
                if value.element_type != self.dtype:
                    raise WujiRuntimeError(
                        f"argument `{self.name}` of a graph is an array of {self.dtype}, not of {value.element_type}: dtype mismatch"
                    )
                if len(value.shape) != self.ndim:
                    raise WujiRuntimeError(f"argument `{self.name}` of a graph is an array with {self.ndim} axes, not {len(value.shape)}")
                return
            ok = not isinstance(value, Field) and (hasattr(value, "__array__") or hasattr(value, "__dlpack__"))
        else:
            ok = isinstance(value, Texture) and value.num_dims == self.ndim
        if not ok:
            raise WujiRuntimeError(f"argument `{self.name}` of a graph is a {self.tag.name}, not {type(value).__name__}")


class Sequential:
    """Launches in order."""

    def __init__(self) -> None:
        self._steps: list[Sequential | tuple[Any, tuple[Any, ...]]] = []

    def dispatch(self, kernel_fn: Any, *args: Any) -> None:
        """Adds a launch of a kernel. Arguments are `Arg`, or values that are the same in every run (as templates are)."""
        if isinstance(kernel_fn, BoundKernel):
            parameters = kernel_fn.kernel.parameters[1:]
        elif isinstance(kernel_fn, Kernel):
            parameters = kernel_fn.parameters
        else:
            raise WujiRuntimeError(f"a graph launches kernels, not {type(kernel_fn).__name__}")
        if len(args) != len(parameters):
            raise WujiCompilationError(f"kernel `{kernel_fn.__name__}` takes {len(parameters)} arguments, not {len(args)}")
        for arg, parameter in zip(args, parameters, strict=True):
            if isinstance(arg, Arg):
                arg._suits(parameter)
        self._steps.append((kernel_fn, args))

    def _launches(self) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        for step in self._steps:
            if isinstance(step, Sequential):
                yield from step._launches()
            else:
                yield step


class GraphBuilder(Sequential):
    """A graph under construction: `dispatch` kernels, `append` sequences, `compile`."""

    def create_sequential(self) -> Sequential:
        """A sequence to fill and to append, also several times."""
        return Sequential()

    def append(self, node: Sequential) -> None:
        """Adds all launches of a sequence."""
        if not isinstance(node, Sequential):
            raise WujiRuntimeError(f"a graph is made of sequences, not of {type(node).__name__}")
        self._steps.append(node)

    def compile(self) -> Graph:
        """The graph as it is now."""
        return Graph(list(self._launches()))


class Graph:
    """Launches with arguments that have names. `GraphBuilder.compile` makes one."""

    def __init__(self, launches: list[tuple[Any, tuple[Any, ...]]]) -> None:
        self._launches = launches
        self._args: dict[str, Arg] = {}
        for _, args in launches:
            for arg in args:
                if isinstance(arg, Arg) and not self._args.setdefault(arg.name, arg)._same(arg):
                    raise WujiCompilationError(f"a graph has two different arguments `{arg.name}`")
        # The arguments of the last run, the graph that was made of them, and whether there can be none.
        self._last: list[Any] | None = None
        self._native: _native.Graph | None = None
        self._unfit = False

    def run(self, args: dict[str, Any]) -> None:
        """Launches everything with these values. Names that the graph does not have are left aside.

        On a GPU, launches that have the same arguments as in the run before become a graph of CUDA's, and are replayed as a whole from then on.
        """
        for name, arg in self._args.items():
            if name not in args:
                raise WujiRuntimeError(f"a graph needs a value for its argument `{name}`")
            arg._check(args[name])
        world = runtime.current()
        if world.config.arch is not archs.cuda or self._unfit or not self._stays(world, args):
            return self._launch(args)
        if self._native is None:
            try:
                self._native = world.native.record(lambda: self._launch(args))
            except (WujiError, _native.NativeError) as e:
                if getattr(e, "code", None) != "W0134":
                    raise
                self._unfit = True
                return self._launch(args)
        self._native.launch()

    def _launch(self, args: dict[str, Any]) -> None:
        for kernel, given in self._launches:
            kernel(*(args[a.name] if isinstance(a, Arg) else a for a in given))

    def _stays(self, world: Any, args: dict[str, Any]) -> bool:
        """Whether the arguments are those of the last run, and can be kept."""
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
