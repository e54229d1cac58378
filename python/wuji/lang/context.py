"""The kernel that is being compiled. One at a time: whoever compiles holds the lock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from .. import _native
    from .runtime import Runtime
    from .values import Var

lock = threading.RLock()
Function = TypeVar("Function", bound=Callable[..., Any])


def python_only(function: Function) -> Function:
    """Marks what is called from Python and has no meaning in a kernel: there it would be done once, while the kernel is compiled."""
    function._wuji_python_only = True  # type: ignore[attr-defined]
    return function


class Compilation:
    """A kernel under construction, and what is known of the place that is being compiled."""

    def __init__(self, builder: _native.Builder, runtime: Runtime, name: str) -> None:
        self.builder = builder
        self.runtime = runtime
        self.name = name
        self.loop: object = None  # the parallel loop around, if any
        self.files: dict[str, int] = {}
        self.kept: list[Any] = []  # what has to live as long as the code
        self.fields: dict[int, int] = {}  # id of a tree: number of its first field
        self.functions: dict[Any, Any] = {}  # real functions: what was declared for them
        self.config = LoopConfig()
        self.shallow = True  # whether a loop here would be at the top of the kernel
        self.inactive: list[Any] = []  # nodes that writes do not activate

    def new_var(self, name: str, ty: Any) -> Var:
        from .values import Var

        return Var(("l", self.builder.local(name, ty.ir)), ty, name, self.loop)

    def new_shared(self, name: str, ty: Any) -> Var:
        """A variable of the kernel that iterations of its parallel loops change."""
        from .values import Var

        return Var(("t", self.builder.shared(ty.ir)), ty, name, self.loop)

    def file(self, path: str) -> int:
        number = self.files.get(path)
        if number is None:
            number = self.files[path] = self.builder.file(path)
        return number

    def field_number(self, tree: Any, number: int) -> int:
        """The number that a field of a tree has in this kernel."""
        first = self.fields.get(id(tree))
        if first is None:
            first = self.fields[id(tree)] = self.builder.tree(tree)
            self.kept.append(tree)
        return first + number


class LoopConfig:
    """What `loop_config` says of the next loop."""

    __slots__ = ("block_dim", "parallelize", "serialize", "simd")

    def __init__(self) -> None:
        self.block_dim: int | None = None
        self.serialize = False
        self.parallelize: int | None = None
        self.simd: bool | None = None


_current: Compilation | None = None


def current() -> Compilation:
    if _current is None:
        from ..exceptions import WujiRuntimeError

        raise WujiRuntimeError("this works only in a kernel")
    return _current


def compiling() -> Compilation | None:
    return _current


def enter(compilation: Compilation | None) -> Compilation | None:
    """Makes a compilation the current one; gives the one before. Only with the lock."""
    global _current
    before = _current
    _current = compilation
    return before


def builder() -> _native.Builder:
    return current().builder
