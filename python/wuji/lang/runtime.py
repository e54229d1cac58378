"""Worlds: `init`, `reset`, `World`, and the current world."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import warnings
import weakref
from types import TracebackType
from typing import Any

from .. import _native
from ..exceptions import WujiRuntimeError
from . import arch as archs
from . import dtypes, options
from .arch import Arch
from .context import python_only
from .errors import from_native
from .options import Config

# All open worlds.
_open_worlds: weakref.WeakSet[Runtime] = weakref.WeakSet()


class Runtime:
    """A world: a device with its memory and kernels."""

    def __init__(self, config: Config) -> None:
        from .snode import FieldsBuilder

        self.config = config
        from .text import write_line

        # Out-of-bounds accesses warn, as for synchronous launches.
        strict = config.debug or config.check_out_of_bound  # type: ignore[attr-defined]
        try:
            self.native = _native.World(**config.native(), printer=write_line, dropped=None if strict else self._warn_dropped)
        except _native.NativeError as e:
            raise from_native(e) from None
        _open_worlds.add(self)
        if config.kernel_profiler:
            self.native.profile(True)
        self.closed = False
        self._trees = 0
        self.root = FieldsBuilder(self)
        self.pending: list[FieldsBuilder] = []
        self.warned: set[Any] = set()
        # Compiled code lives as long as its kernel.
        self.codes: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()
        self.builders: weakref.WeakSet[FieldsBuilder] = weakref.WeakSet()

    def _warn_dropped(self, message: str, text: str) -> None:
        if message not in self.warned:
            self.warned.add(message)
            warnings.warn(text, RuntimeWarning, stacklevel=3)

    def next_tree(self) -> int:
        """Return a number for a new layout."""
        self._trees += 1
        return self._trees - 1

    def close(self) -> None:
        """Free everything. Fields and kernels of this world cannot be used afterwards."""
        if not self.closed:
            self.closed = True
            self.native.close()

    def materialize(self) -> None:
        """Allocate the fields placed in the root so far."""
        if not self.root.empty:
            builder = self.root
            from .snode import FieldsBuilder

            # A layout that fails is discarded: fields placed later start with a new one.
            self.root = FieldsBuilder(self)
            builder.finalize()


class World:
    """An independent world next to the one that `init` creates.

    Inside the ``with`` block, fields are allocated and kernels run in this world.

    ```python
    with ti.World(arch=ti.cpu) as world:
        x = ti.field(ti.f32, 16)
    ```
    """

    def __init__(self, arch: Any = None, **settings: Any) -> None:
        self.runtime = Runtime(options.read(arch, settings))
        self._before: list[Runtime | None] = []

    def __enter__(self) -> World:
        self._before.append(_state.runtime)
        _activate(self.runtime)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _activate(self._before.pop())

    def close(self) -> None:
        """Free everything in the world."""
        self.runtime.close()

    @property
    def threads(self) -> int:
        return self.runtime.native.threads


class _State:
    def __init__(self) -> None:
        self.runtime: Runtime | None = None
        # After a fork: the parent's world. Its threads do not exist in the child.
        self.forked: Runtime | None = None


_state = _State()


def _after_fork() -> None:
    _state.forked, _state.runtime = _state.runtime or _state.forked, None


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


def _activate(runtime: Runtime | None) -> None:
    _state.runtime = runtime
    if runtime is not None:
        dtypes.defaults.fp = runtime.config.default_fp
        dtypes.defaults.ip = runtime.config.default_ip


def current() -> Runtime:
    runtime = _state.runtime
    if runtime is not None:
        return runtime
    if _state.forked is not None:
        raise WujiRuntimeError(
            "this process was forked from a process that uses Wuji; a forked child does not have its threads\n"
            "  = help: start processes with `multiprocessing.get_context('spawn')`, or call `ti.init` in the child",
            "W0606",
        )
    raise WujiRuntimeError("Wuji is not initialized: maybe you forgot to call `ti.init()` first?\n  = help: call `ti.init(arch=ti.cpu)` first", "W0605")


def initialized() -> bool:
    return _state.runtime is not None


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
    """Create a new world and make it the current one. The previous world and all its fields are freed.

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
    with _lock:
        reset()
        _activate(Runtime(config))
    if config.verbose and options.is_enabled("info", config.log_level):
        version = ".".join(map(str, sys.version_info[:3]))
        print(f"[Wuji] version {_native.__version__}, arch={config.arch.name}, threads={current().native.threads}, python {version}", file=sys.stderr)


@python_only
def reset() -> None:
    """Free the current world with its fields, and restore the defaults."""
    with _lock:
        runtime = _state.runtime
        _state.runtime = None
        if runtime is not None:
            runtime.close()
        dtypes.defaults.fp = dtypes.f32
        dtypes.defaults.ip = dtypes.i32


@python_only
def sync() -> None:
    """Wait until all pending launches have finished. CPU launches are synchronous."""
    current().native.synchronize()


@python_only
def cuda_stream() -> int | None:
    """Return the CUDA stream of all launches, for other libraries: `torch.cuda.ExternalStream(ti.cuda_stream())`. None on the CPU."""
    return current().native.cuda_stream


@python_only
def finish_compiling() -> None:
    """Wait until background compilation has produced optimized code for all kernels launched so far. For benchmarks."""
    current().native.finish_compiling()


def set_default_fp(fp: Any) -> None:
    dtypes.defaults.fp = current().config.default_fp = dtypes.need_scalar(fp)


def set_default_ip(ip: Any) -> None:
    dtypes.defaults.ip = current().config.default_ip = dtypes.need_scalar(ip)


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
