"""Whether launches are recorded: on a tape, or in forward mode."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .kernel import Kernel
    from .snode import SNode


class Recorder(Protocol):
    """What launches and writes of the host are reported to."""

    thread: int
    computes_tangents: bool

    def launch(self, kernel: Kernel, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Launch a kernel, and record it."""

    def write(self, written: Any, clear: Callable[[str], None], redo: Callable[[], None]) -> None:
        """Record that the host writes to a field or array.

        ``clear`` makes the derivatives of what it overwrites zero: ``"grad"`` or ``"dual"``. ``redo`` writes again.
        """

    def copy(self, to: Any, source: Any) -> None:
        """Record that the host copies one field to another."""

    def deactivate(self, part: SNode, change: Callable[[], None]) -> None:
        """Deactivate cells of a tree, and record it."""

    def gradients_run(self) -> None:
        """Take note that gradients are computed while this recorder is active."""


class Watcher(Protocol):
    """A tape whose block has ended, and whose gradients may still run: what it needs must not be lost."""

    def before_launch(self, kernel: Kernel, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Keep what a launch overwrites."""

    def before_write(self, written: Any) -> None:
        """Keep what the host overwrites."""

    def before_deactivation(self, part: SNode) -> None:
        """Keep the cells of a tree, and what is in them."""


class _Watching:
    """Stands for all watchers among the recorders, so that launches look for them."""

    thread = -1  # no thread's
    computes_tangents = False


# The recorders, innermost last. Empty most of the time, which makes the check in each launch cheap.
active: list[Any] = []
_watchers: list[weakref.ref[Any]] = []
_watching = _Watching()


def watch(tape: Watcher) -> None:
    """Report all launches and writes of the host to a tape, until it is freed or unwatched."""
    _watchers.append(weakref.ref(tape))
    if _watching not in active:
        active.append(_watching)


def unwatch(tape: Watcher) -> None:
    """Stop reporting to a tape."""
    _watchers[:] = [known for known in _watchers if known() not in (None, tape)]
    if not _watchers and _watching in active:
        active.remove(_watching)


def watchers() -> list[Watcher]:
    """Return the tapes that are watching."""
    if _watching not in active:
        return []
    found = [tape for known in tuple(_watchers) if (tape := known()) is not None]
    if len(found) < len(_watchers):
        _watchers[:] = [known for known in _watchers if known() is not None]
        if not _watchers:
            active.remove(_watching)
    return found


def current() -> Recorder | None:
    """Return the innermost recorder of this thread."""
    return next(reversed(_own()), None)


def launch(kernel: Kernel, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Launch a kernel while something is recorded."""
    for tape in watchers():
        tape.before_launch(kernel, args, named)
    recorder = current()
    return kernel._call(args, named) if recorder is None else recorder.launch(kernel, args, named)


def write(written: Any, clear: Callable[[str], None], redo: Callable[[], None]) -> None:
    """Report a write of the host."""
    for tape in watchers():
        tape.before_write(written)
    recorder = current()
    if recorder is not None:
        recorder.write(written, clear, redo)


def copied(to: Any, source: Any) -> None:
    """Report that the host copies one field to another."""
    for tape in watchers():
        tape.before_write(to)
    recorder = current()
    if recorder is not None:
        recorder.copy(to, source)


def deactivate(part: SNode, change: Callable[[], None]) -> None:
    """Let the host deactivate cells of a part of a tree."""
    for tape in watchers():
        tape.before_deactivation(part)
    recorder = current() if active else None
    if recorder is None:
        change()
    else:
        recorder.deactivate(part, change)


def _own() -> list[Recorder]:
    """Return the recorders of this thread, innermost last."""
    thread = threading.get_ident()
    # A copy: other threads may change the list.
    return [recorder for recorder in tuple(active) if recorder.thread == thread]


def forward_mode() -> Recorder | None:
    """Return the recorder of this thread that computes tangents."""
    return next((recorder for recorder in _own() if recorder.computes_tangents), None)


def gradients_run() -> None:
    """Report that gradients are computed, to all recorders of this thread."""
    for recorder in _own() if active else ():
        recorder.gradients_run()


@contextmanager
def paused() -> Iterator[None]:
    """Record nothing of this thread in the block."""
    own = _own()
    for recorder in own:
        active.remove(recorder)
    try:
        yield
    finally:
        active.extend(own)
