"""Limits the frame rate of windows."""

from __future__ import annotations

import time


class Pace:
    """Waits between frames. A late frame does not shorten the following ones."""

    def __init__(self, fps: float | None) -> None:
        self._interval = 0.0
        self._due = 0.0
        self.fps = fps

    @property
    def fps(self) -> float | None:
        """Maximum number of frames per second; ``None`` or 0 for no limit."""
        return 1 / self._interval if self._interval else None

    @fps.setter
    def fps(self, value: float | None) -> None:
        self._interval = 1 / value if value else 0.0

    def wait(self) -> None:
        now = time.perf_counter()
        if self._interval and self._due > now:
            time.sleep(self._due - now)
            now = self._due
        self._due = now + self._interval
