"""The kernel that this thread compiles. One thread compiles at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from .. import _native

if TYPE_CHECKING:
    from .runtime import Runtime
    from .snode import Leaf, SNode
    from .values import Var

_lock = threading.RLock()
Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")


def python_only(function: Function) -> Function:
    """Mark a function as Python-scope only. Calls to it from a kernel are rejected: they would run once, at compile time."""
    function._wuji_python_only = True  # type: ignore[attr-defined]
    return function


class SparseAccess:
    """What a kernel does with the active cells of an independent part of a tree."""

    __slots__ = ("activates", "deactivates", "loops", "part")

    def __init__(self, part: SNode) -> None:
        self.part = part
        self.loops = False
        self.activates = False  # apart from writes to fields
        self.deactivates = False


class Compilation:
    """A kernel under construction, plus the compiler state at the current statement."""

    def __init__(self, builder: _native.Builder, runtime: Runtime, name: str) -> None:
        self.builder = builder
        self.runtime = runtime
        self.name = name
        self.loop: object = None  # the enclosing parallel loop, if any
        self.files: dict[str, int] = {}
        self.location: tuple[str, int] = ("", 0)  # file and line of the current statement
        self.trees: list[Any] = []  # keeps the keys of `fields` valid
        self.nodes: list[SNode | None] = []  # a node of each tree
        self.fields: dict[int, int] = {}  # id of a tree -> number of its first field in this kernel
        self.leaves: dict[int, Leaf] = {}  # number of a field in this kernel -> the field
        self.reads: set[tuple[str, int]] = set()  # places that the kernel loads from, except as constants
        self.writes: set[tuple[str, int]] = set()
        self.constants: set[int] = set()  # values: constants, and parameters of the kernel
        self.results: set[tuple[str, int]] = set()  # written with something other than constants
        self.sparse: dict[int, SparseAccess] = {}  # of each independent part of a sparse tree
        self.stopped: list[int] = []  # numbers of fields under `ti.stop_grad`
        self.functions: dict[Any, Any] = {}  # real functions -> their declarations
        self.config = LoopConfig()
        self.bit_loops: list[tuple[str, int]] = []  # file and line of loops with `bit_vectorize`
        self.outermost = True  # whether a loop here would be outermost in the kernel
        self.inactive: list[Any] = []  # nodes under `ti.no_activate`
        self.mesh_elements: tuple[Any, ...] = ()  # where the enclosing loops over meshes are

    def new_var(self, name: str, ty: Any) -> Var:
        from .values import Var

        return Var(("l", self.builder.local(name, ty.ir)), ty, name, self.loop)

    def file(self, path: str) -> int:
        number = self.files.get(path)
        if number is None:
            number = self.files[path] = self.builder.file(path)
        return number

    def writes_to(self, base: tuple[str, int], value: int) -> None:
        """Take note of a write."""
        self.writes.add(base)
        if value not in self.constants:
            self.results.add(base)

    def cells_of(self, node: SNode) -> SparseAccess:
        """Return what the kernel does with the active cells of the part of the tree that a node is in."""
        part = node.independent_part
        return self.sparse.setdefault(id(part._structure), SparseAccess(part))

    def field_number(self, tree: Any, number: int, node: SNode | None = None) -> int:
        """Return the number of a tree's field in this kernel. ``node`` is one of its nodes."""
        first = self.fields.get(id(tree))
        if first is None:
            first = self.fields[id(tree)] = self.builder.tree(tree)
            self.trees.append(tree)
            self.nodes.append(node)
        return first + number


class LoopConfig:
    """The `ti.loop_config` settings for the next loop."""

    __slots__ = ("bit_vectorize", "block_dim", "parallelize", "serialize", "simd")

    def __init__(self) -> None:
        self.block_dim: int | None = None
        self.serialize = False
        self.parallelize: int | None = None
        self.simd: bool | None = None
        self.bit_vectorize = False


# Python code in other threads is not part of the kernel.
_current: ContextVar[Compilation | None] = ContextVar("wuji_compilation", default=None)


def current() -> Compilation:
    found = _current.get()
    if found is None:
        from ..exceptions import WujiRuntimeError

        raise WujiRuntimeError("this function can only be called inside a kernel")
    return found


def compiling() -> Compilation | None:
    return _current.get()


def exclusively(work: Callable[[], Result]) -> Result:
    """Call a function while no other thread compiles."""
    return _native.locked(_lock, work)


def run(compilation: Compilation, build: Callable[[], Result]) -> Result:
    """Call a function that builds a kernel, inside of `exclusively`.

    It runs in a copy of the context, which ends with the call: an exception from a signal handler, which can be raised at any instruction, cannot leave the kernel open.
    """

    def inside() -> Result:
        _current.set(compilation)
        return build()

    return copy_context().run(inside)


def _after_fork() -> None:
    # Another thread of the parent process may have held it.
    global _lock
    _lock = threading.RLock()
    _current.set(None)


os.register_at_fork(after_in_child=_after_fork)


def builder() -> _native.Builder:
    return current().builder
