"""Worlds as Python sees them: `init`, `reset`, `World`, and which one is the current one."""

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
from .errors import told
from .options import Config

# Worlds that there are.
_alive: weakref.WeakSet[Runtime] = weakref.WeakSet()


class Runtime:
    """A world: one device, its memory, its kernels."""

    def __init__(self, config: Config) -> None:
        from .snode import FieldsBuilder

        self.config = config
        from .text import write_line

        # As for launches that are waited for: accesses outside of fields are worth a warning.
        strict = config.debug or config.check_out_of_bound  # type: ignore[attr-defined]
        try:
            self.native = _native.World(**config.native(), printer=write_line, dropped=None if strict else self._dropped)
        except _native.NativeError as e:
            raise told(e) from None
        _alive.add(self)
        if config.kernel_profiler:
            self.native.profile(True)
        self.closed = False
        self.root = FieldsBuilder(self)
        self.pending: list[FieldsBuilder] = []
        self.warned: set[Any] = set()
        # Code goes with its kernel.
        self.codes: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()
        self.builders: weakref.WeakSet[FieldsBuilder] = weakref.WeakSet()

    def _dropped(self, message: str, text: str) -> None:
        if message not in self.warned:
            self.warned.add(message)
            warnings.warn(text, RuntimeWarning, stacklevel=3)

    def close(self) -> None:
        """Frees everything. Fields and kernels of this world cannot be used after that."""
        if not self.closed:
            self.closed = True
            self.native.close()

    def materialize(self) -> None:
        """Makes the fields that were placed in the root so far."""
        if not self.root.empty:
            builder = self.root
            from .snode import FieldsBuilder

            self.root = FieldsBuilder(self)
            builder.finalize()


class World:
    """A world of its own, beside the one that `init` makes: ``with ti.World() as w: ...``

    Inside of the block, fields are made and kernels run in this world.
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
        """Frees everything in it."""
        self.runtime.close()

    @property
    def threads(self) -> int:
        return self.runtime.native.threads


class _State:
    def __init__(self) -> None:
        self.runtime: Runtime | None = None
        # In a process that was forked: the world of the process it came from, whose threads it does not have.
        self.forked: Runtime | None = None


_state = _State()


def _after_fork() -> None:
    _state.forked, _state.runtime = _state.runtime or _state.forked, None


os.register_at_fork(after_in_child=_after_fork)
# Before the libraries of the process are taken apart, which compilers in the background must not see.
atexit.register(_native.before_exit)


def _settle() -> None:
    """Pending launches on a GPU still print, and report their errors."""
    for world in list(_alive):
        if not world.closed and world.config.arch is archs.cuda:
            try:
                world.native.synchronize()
            except Exception as e:  # noqa: BLE001
                print(e, file=sys.stderr)


# Called before the other one.
atexit.register(_settle)
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
            "this process was forked from one that uses Wuji, whose threads it does not have\n"
            "  = help: start processes with `multiprocessing.get_context('spawn')`, or call `ti.init` in the new one",
            "W0606",
        )
    raise WujiRuntimeError("there is no world yet\n  = help: call `ti.init(arch=ti.cpu)` first", "W0605")


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
    """Makes a new world and forgets the one before, with all its fields.

    Options are those of Taichi 1.7; ``docs/python/options.md`` says what each does here. Each can also be set by the
    environment, as ``TI_DEBUG=1``.
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
    if config.verbose and options.says("info", config.log_level):
        version = ".".join(map(str, sys.version_info[:3]))
        print(f"[Wuji] version {_native.__version__}, arch={config.arch.name}, threads={current().native.threads}, python {version}", file=sys.stderr)


@python_only
def reset() -> None:
    """Forgets the world: its fields are freed, and defaults are as they were."""
    with _lock:
        runtime = _state.runtime
        _state.runtime = None
        if runtime is not None:
            runtime.close()
        dtypes.defaults.fp = dtypes.f32
        dtypes.defaults.ip = dtypes.i32


@python_only
def sync() -> None:
    """Waits until all launches have ended. On the CPU they have."""
    current().native.synchronize()


@python_only
def cuda_stream() -> int | None:
    """The stream that everything is launched on, for other libraries: `torch.cuda.ExternalStream(ti.cuda_stream())`. Nothing on the CPU."""
    return current().native.cuda_stream


@python_only
def finish_compiling() -> None:
    """Waits until every kernel that was launched so far has its best code, which is otherwise made in the background: for benchmarks."""
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
