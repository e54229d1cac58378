"""Worlds: `init`, `reset`, `World`, and the current world."""

from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .. import _native
from ..exceptions import WujiRuntimeError
from . import arch as archs
from . import dtypes, options
from .arch import Arch
from .context import python_only
from .errors import forked, from_native
from .options import Config

if TYPE_CHECKING:
    from .snode import SNode

# All open worlds.
_open_worlds: weakref.WeakSet[Runtime] = weakref.WeakSet()


class Runtime:
    """A world: a device with its memory and kernels."""

    def __init__(self, config: Config) -> None:
        from .fields_builder import FieldsBuilder
        from .text import write_line

        self.config = config
        self.warned: set[Any] = set()
        # Out-of-bounds accesses warn, as for synchronous launches.
        strict = config.debug or config.check_out_of_bound  # type: ignore[attr-defined]
        # The native world must not refer to this object: garbage collection does not see references from there.
        dropped = None if strict else functools.partial(_warn_dropped, self.warned)
        try:
            self.native = _native.World(**config.native(), printer=write_line, dropped=dropped)
        except _native.NativeError as e:
            raise from_native(e) from None
        options.check_passes(self.native, config)
        _open_worlds.add(self)
        if config.kernel_profiler:
            self.native.profile(True)
        self.closed = False
        self._trees = 0
        self.root = FieldsBuilder(self)
        # Compiled code lives as long as its kernel and its world.
        self.codes: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self.roots: weakref.WeakSet[SNode] = weakref.WeakSet()
        # Gradients and tangents of arrays.
        self.gradients: weakref.WeakSet[Any] = weakref.WeakSet()
        self.tangents: weakref.WeakSet[Any] = weakref.WeakSet()

    def next_tree(self) -> int:
        """Return a number for a new layout."""
        self._trees += 1
        return self._trees - 1

    def close(self) -> None:
        """Free everything. Fields, arrays and kernels of this world cannot be used afterwards."""
        if not self.closed:
            self.native.close()
            self.closed = True
            self.codes.clear()

    def materialize(self) -> None:
        """Allocate the fields placed in the root so far."""
        if not self.root.empty:
            builder = self.root
            from .fields_builder import FieldsBuilder

            # A layout that fails is discarded: fields placed later start with a new one.
            self.root = FieldsBuilder(self)
            builder.finalize()


def _warn_dropped(warned: set[Any], message: str, text: str) -> None:
    if message not in warned:
        warned.add(message)
        warnings.warn(text, RuntimeWarning, stacklevel=3)


class World:
    """An independent world next to the one that `init` creates.

    Inside the ``with`` block, fields are allocated and kernels run in this world.
    The block counts for its own thread and asynchronous task only.

    ```python
    with ti.World(arch=ti.cpu) as world:
        x = ti.field(ti.f32, 16)
    ```
    """

    def __init__(self, arch: Any = None, **settings: Any) -> None:
        self.runtime = Runtime(options.read(arch, settings))

    def __enter__(self) -> World:
        _share_no_more()
        _entered.set((*_entered.get(), self.runtime))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        entered = list(_entered.get())
        if self.runtime in entered:
            # The innermost block of this world.
            del entered[len(entered) - 1 - entered[::-1].index(self.runtime)]
        _entered.set(tuple(entered))

    def close(self) -> None:
        """Free everything in the world."""
        self.runtime.close()

    @property
    def threads(self) -> int:
        return self.runtime.native.threads


# Which world is current:
# 1. that of the innermost `with ti.World()` block of this thread or asynchronous task,
_entered: ContextVar[tuple[Runtime, ...]] = ContextVar("wuji_worlds", default=())


class _OfThread(threading.local):
    """2. the one that `init` has made in this thread,"""

    runtime: Runtime | None = None


_own = _OfThread()


class _State:
    """3. the world of the process: that of the main thread, or the first of another one."""

    def __init__(self) -> None:
        self.shared: Runtime | None = None
        # The same, as long as no thread or task has ever had another world. Launches look here first.
        self.only: Runtime | None = None
        self.single = True
        # Whether this process was forked from one that had a world. Its threads do not exist here.
        self.forked = False


_state = _State()


def lookup() -> Runtime | None:
    """Return the current world, if there is one."""
    only = _state.only
    if only is not None:
        return only
    entered = _entered.get()
    if entered:
        return entered[-1]
    own = _own.runtime
    return own if own is not None and not own.closed else _state.shared


def _share_no_more() -> None:
    """Have every launch find out which world is current in its thread or task."""
    _state.single = False
    _state.only = None


def _default_config() -> Config | None:
    world = lookup()
    return None if world is None else world.config


dtypes.defaults.config = _default_config


def _after_fork() -> None:
    global _lock, _open_worlds
    _state.forked = _state.forked or lookup() is not None
    _state.shared = _state.only = _own.runtime = None
    _entered.set(())
    # Another thread of the parent process may have held it.
    _lock = threading.RLock()
    _open_worlds = weakref.WeakSet()


os.register_at_fork(after_in_child=_after_fork)
# Stop background compilation before the process unloads its libraries.
atexit.register(_native.before_exit)


def _synchronize_at_exit() -> None:
    """Synchronize pending GPU launches at exit, so that their output and errors are not lost."""
    for world in list(_open_worlds):
        if not world.closed and world.config.arch is archs.cuda:
            try:
                world.native.synchronize()
            except Exception as e:  # noqa: BLE001
                print(e, file=sys.stderr)


# Handlers run in reverse order, so this one runs first.
atexit.register(_synchronize_at_exit)
_lock = threading.RLock()


def current() -> Runtime:
    runtime = lookup()
    if runtime is not None:
        return runtime
    if _state.forked:
        raise forked()
    raise WujiRuntimeError("Wuji is not initialized: maybe you forgot to call `ti.init()` first?\n  = help: call `ti.init(arch=ti.cpu)` first", "W0605")


def initialized() -> bool:
    return lookup() is not None


@python_only
def init(
    arch: Any = None,
    default_fp: Any = None,
    default_ip: Any = None,
    _test_mode: bool = False,
    enable_fallback: bool = True,
    require_version: str | None = None,
    **kwargs: Any,
) -> None:
    """Create a new world and make it the current one. The world that this thread had before is freed, with all its fields.

    Each thread that calls `init` has its own world. Threads that do not share that of the main thread.

    Every option can also be set by an environment variable, as in ``TI_DEBUG=1``.

    Args:
        arch: Backend, or a list of backends in order of preference: ``ti.cpu``, ``ti.gpu``, ``ti.cuda``.
        default_fp: Type of float constants in kernels: ``ti.f32`` or ``ti.f64``.
        default_ip: Type of integer constants in kernels: ``ti.i32`` or ``ti.i64``.
        enable_fallback: Fall back to the CPU, with a warning, if no backend in ``arch`` is available.
        require_version: Raise if the program needs a newer version.
        **kwargs: Options of Taichi 1.7 and a few more; see ``docs/python/options.md``.
    """
    if default_fp is not None:
        kwargs["default_fp"] = default_fp
    if default_ip is not None:
        kwargs["default_ip"] = default_ip
    if require_version is not None:
        options.check_version(require_version)
    config = options.read(arch, kwargs, fallback=enable_fallback)
    _native.locked(_lock, lambda: _replace(Runtime, config))
    if config.verbose and options.is_enabled("info", config.log_level):
        version = ".".join(map(str, sys.version_info[:3]))
        print(f"[Wuji] version {_native.__version__}, arch={config.arch.name}, threads={current().native.threads}, python {version}", file=sys.stderr)


def _replace(make: Callable[[Config], Runtime], config: Config) -> None:
    """Free the world of this thread and give it a new one. The caller holds the lock."""
    before = _own.runtime
    if before is not None:
        before.close()
        _forget(before)
    made = make(config)
    _entered.set(())
    _own.runtime = made
    if _state.shared is not None:
        # Another thread has made it, and may still use it.
        _share_no_more()
    if _state.shared is None or threading.current_thread() is threading.main_thread():
        _state.shared = made
        _state.only = made if _state.single else None


def _forget(runtime: Runtime) -> None:
    if _own.runtime is runtime:
        _own.runtime = None
    if _state.shared is runtime:
        _state.shared = _state.only = None


@python_only
def reset() -> None:
    """Free the current world with its fields and arrays, and restore the defaults."""
    _native.locked(_lock, _end)


def _end() -> None:
    """Free the current world. The caller holds the lock."""
    runtime = lookup()
    if runtime is not None:
        runtime.close()
        _forget(runtime)


@python_only
def sync() -> None:
    """Wait until all pending launches have finished. CPU launches are synchronous."""
    current().native.synchronize()


@python_only
def async_flush() -> None:
    """Run the launches that wait in a world with `async_mode=True`, without waiting for a GPU."""
    current().native.flush()


@python_only
def flow_graph(format: str = "text", optimized: bool = False) -> str:
    """Return the launches that wait in a world with `async_mode=True` as a graph: as `text`, `dot` (for Graphviz) or `svg`. Nothing runs.

    With `optimized=True`, it is the graph of what will run instead."""
    if format not in ("text", "dot", "svg"):
        raise ValueError(f"there is no format `{format}`: use `text`, `dot` or `svg`")
    return current().native.flow_graph(format, optimized)


@python_only
def cuda_stream() -> int | None:
    """Return the CUDA stream of all launches, for other libraries: `torch.cuda.ExternalStream(ti.cuda_stream())`. None on the CPU."""
    return current().native.cuda_stream


@python_only
def finish_compiling() -> None:
    """Wait until background compilation has produced optimized code for all kernels launched so far. For benchmarks."""
    current().native.finish_compiling()


def set_default_fp(fp: Any) -> None:
    current().config.default_fp = dtypes.need_scalar(fp)


def set_default_ip(ip: Any) -> None:
    current().config.default_ip = dtypes.need_scalar(ip)


class _ConfigView:
    """``ti.cfg``: the options of the current world."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(current().config, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(current().config, name, value)


cfg = _ConfigView()


def warn(text: str, category: type[Warning] = UserWarning, level: int = 3) -> None:
    warnings.warn(text, category, stacklevel=level)


__all__ = ["Arch", "Runtime", "World", "cfg", "current", "finish_compiling", "init", "initialized", "reset", "sync"]
