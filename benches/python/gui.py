"""Time of calls of `GUI` in microseconds of CPU time, best of many: ``python gui.py [wuji | taichi] [part of a name]...``."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

SIZE = 512


def best(call: Callable[[], Any], count: int) -> float:
    """Return the time of a call in microseconds."""
    call()
    times = []
    for _ in range(15):
        started = time.thread_time()
        for _ in range(count):
            call()
        times.append((time.thread_time() - started) / count)
    return min(times) * 1e6


def calls(ti: Any) -> dict[str, tuple[Callable[[], Any], int]]:
    """Return what to measure, with the number of calls per measurement."""
    gui = ti.GUI(res=SIZE, show_gui=False, background_color=0x112F41)
    rng = np.random.default_rng(0)
    points, ends, corners = (rng.random((100_000, 2), np.float32) for _ in range(3))
    ends, corners = points + 0.02 * (ends - 0.5), points + 0.02 * (corners - 0.5)
    image = rng.random((SIZE, SIZE, 3), np.float32)
    pixels = ti.Vector.field(3, ti.f32, (SIZE, SIZE))
    pixels.from_numpy(image)
    return {
        "circle, radius 1.5": (lambda: gui.circle((0.5, 0.5), radius=1.5), 2000),
        "circle, radius 200": (lambda: gui.circle((0.5, 0.5), radius=200), 20),
        "triangle, small": (lambda: gui.triangle((0.5, 0.5), (0.52, 0.5), (0.5, 0.52)), 1000),
        "triangle, half the window": (lambda: gui.triangle((0, 0), (1, 0), (0, 1)), 20),
        "line, short": (lambda: gui.line((0.5, 0.5), (0.52, 0.51)), 1000),
        "line, long": (lambda: gui.line((0.1, 0.2), (0.9, 0.7)), 200),
        "rect": (lambda: gui.rect((0.2, 0.8), (0.7, 0.3)), 200),
        "arrow": (lambda: gui.arrow((0.2, 0.3), (0.2, 0.1)), 300),
        "text": (lambda: gui.text("frame 123", (0.1, 0.9)), 100),
        "circles, 100000": (lambda: gui.circles(points, radius=1.5), 2),
        "lines, 100000": (lambda: gui.lines(points, ends), 2),
        "triangles, 100000": (lambda: gui.triangles(points, ends, corners), 2),
        "set_image, array": (lambda: gui.set_image(image), 5),
        "set_image, field": (lambda: gui.set_image(pixels), 5),
        "show": (lambda: gui.show(), 30),
    }


def main() -> None:
    name, *parts = sys.argv[1:] or ["wuji"]
    ti = importlib.import_module(name)
    ti.init(arch=ti.cpu)
    for label, (call, count) in calls(ti).items():
        if not parts or any(part in label for part in parts):
            print(f"{label:26}{best(call, count):12.2f}", flush=True)


if __name__ == "__main__":
    main()
