"""Whether launches are recorded: on a tape, or in forward mode."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .kernel import Kernel


class Recorder(Protocol):
    """What launches and writes of the host are reported to."""

    thread: int

    def launch(self, kernel: Kernel, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Launch a kernel, and record it."""

    def write(self, written: Any, clear: Callable[[str], None], redo: Callable[[], None]) -> None:
        """Record that the host writes to a field or array.

        ``clear`` makes the derivatives of what it overwrites zero: ``"grad"`` or ``"dual"``. ``redo`` writes again.
        """

    def copy(self, to: Any, source: Any) -> None:
        """Record that the host copies one field to another."""


# The recorders, innermost last. Empty most of the time, which makes the check in each launch cheap.
active: list[Recorder] = []


def current() -> Recorder | None:
    """Return the innermost recorder of this thread."""
    thread = threading.get_ident()
    # A copy: other threads may change the list.
    return next((recorder for recorder in reversed(tuple(active)) if recorder.thread == thread), None)


def launch(kernel: Kernel, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Launch a kernel while something is recorded."""
    recorder = current()
    return kernel._call(args, named) if recorder is None else recorder.launch(kernel, args, named)


def write(written: Any, clear: Callable[[str], None], redo: Callable[[], None]) -> None:
    """Report a write of the host."""
    recorder = current()
    if recorder is not None:
        recorder.write(written, clear, redo)


def copied(to: Any, source: Any) -> None:
    """Report that the host copies one field to another."""
    recorder = current()
    if recorder is not None:
        recorder.copy(to, source)


@contextmanager
def paused() -> Iterator[None]:
    """Record nothing of this thread in the block."""
    thread = threading.get_ident()
    own = [recorder for recorder in tuple(active) if recorder.thread == thread]
    for recorder in own:
        active.remove(recorder)
    try:
        yield
    finally:
        active.extend(own)
