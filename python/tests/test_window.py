"""The window on a real display: Xvfb, an X server with its screen in a file."""

from __future__ import annotations

import mmap
import os
import select
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wuji as ti

# Window size. The screen is larger; the window is in its upper left corner.
WIDTH, HEIGHT = 320, 240


class Display:
    """A display in memory. Its contents are read from a file in `xwd` format."""

    def __init__(self, folder: Path) -> None:
        command = ["Xvfb", "-displayfd", "1", "-screen", "0", "640x480x24", "-nolisten", "tcp", "-fbdir", str(folder)]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.server.stdout is not None
        ready, _, _ = select.select([self.server.stdout], [], [], 30)
        assert ready, "Xvfb does not start"
        self.name = ":" + self.server.stdout.readline().decode().strip()
        self.file = folder / "Xvfb_screen0"

    def screenshot(self) -> Any:
        """Return the RGB pixels of the window, indexed ``[x, y]`` with y up."""
        with open(self.file, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
            header = struct.unpack(">25I", memory[:100])
            size, width, height, line, colors = header[0], header[4], header[5], header[12], header[19]
            pixels = np.frombuffer(memory[size + 12 * colors :], np.uint8)[: line * height].reshape(height, line)
        bgrx = pixels[:, : 4 * width].reshape(height, width, 4)
        return bgrx[HEIGHT - 1 :: -1, :WIDTH, 2::-1].swapaxes(0, 1)

    def end(self) -> None:
        self.server.terminate()
        self.server.wait()


@pytest.fixture
def display(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Display]:
    if shutil.which("Xvfb") is None:
        assert "WUJI_REQUIRE_XVFB" not in os.environ, "Xvfb is not installed"
        pytest.skip("Xvfb is not installed")
    shown = Display(tmp_path)
    monkeypatch.setenv("DISPLAY", shown.name)
    monkeypatch.delenv("WUJI_HEADLESS", raising=False)
    yield shown
    shown.end()


def until(what: Any) -> Any:
    """Wait until a condition holds."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it never happened")


def test_window_shows_the_frame(display: Display) -> None:
    gui = ti.GUI("window", res=(WIDTH, HEIGHT), background_color=0x204060)
    assert gui._window is not None

    def shown() -> bool:
        gui.circle((0.5, 0.75), radius=10, color=0xFF8000)
        gui.show()
        screen = display.screenshot()
        return screen[160, 180].tolist() == [255, 128, 0] and screen[20, 20].tolist() == [0x20, 0x40, 0x60]

    until(shown)
    assert gui.running
    gui.close()
    assert not gui.running


def test_fps_limit_throttles_show(display: Display) -> None:
    gui = ti.GUI("pace", res=32)
    gui.fps_limit = 50
    gui.show()
    started = time.perf_counter()
    for _ in range(10):
        gui.show()
    assert time.perf_counter() - started > 0.17
    gui.close()


def test_losing_the_display_closes_the_window(display: Display) -> None:
    gui = ti.GUI("gone", res=32)
    gui.show()
    display.server.kill()
    display.server.wait()

    def closed() -> bool:
        gui.show()
        return not gui.running

    until(closed)
    assert any(event.key == ti.GUI.EXIT for event in gui.get_events())


class InputSimulator:
    """Simulates mouse and keyboard with the XTEST extension."""

    PRESS_KEY, RELEASE_KEY, PRESS_BUTTON, RELEASE_BUTTON, MOVE = range(2, 7)

    def __init__(self, name: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(f"/tmp/.X11-unix/X{name[1:]}")
        self.socket.sendall(struct.pack("<BxHHHHxx", ord("l"), 11, 0, 0, 0))
        answer = self.read(8)
        assert answer[0] == 1, "the display does not want us"
        self.read(4 * struct.unpack("<H", answer[6:8])[0])
        self.socket.sendall(struct.pack("<BxHHxx5s3x", 98, 4, 5, b"XTEST"))
        answer = self.read(32)
        assert answer[8] == 1, "the display has no XTEST"
        self.extension = answer[9]

    def read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            data += self.socket.recv(count - len(data))
        return data

    def do(self, kind: int, detail: int = 0, x: int = 0, y: int = 0) -> None:
        self.socket.sendall(struct.pack("<BBHBBxxII8xhh8x", self.extension, 2, 9, kind, detail, 0, 0, x, y))


KEY_A, KEY_SHIFT, KEY_ESCAPE = 38, 50, 9


def test_keys_and_buttons(display: Display) -> None:
    gui = ti.GUI("keys", res=(WIDTH, HEIGHT))
    # The window is open once it is visible.
    until(lambda: (gui.clear(0xFFFFFF), gui.show(), display.screenshot()[5, 5].tolist() == [255] * 3)[2])
    user = InputSimulator(display.name)
    user.do(InputSimulator.MOVE, x=80, y=60)
    user.do(InputSimulator.PRESS_KEY, KEY_A)
    user.do(InputSimulator.PRESS_BUTTON, 1)

    def heard(*keys: str) -> Any:
        return lambda: (gui.show(), all(gui.is_pressed(key) for key in keys))[1]

    until(heard("a", ti.GUI.LMB))
    x, y = gui.get_cursor_pos()
    assert x == pytest.approx(0.25, abs=0.02) and y == pytest.approx(0.75, abs=0.02)
    assert [e.key for e in gui.get_events(ti.GUI.PRESS)] == ["a", ti.GUI.LMB]
    user.do(InputSimulator.RELEASE_BUTTON, 1)
    user.do(InputSimulator.PRESS_KEY, KEY_SHIFT)
    user.do(InputSimulator.RELEASE_KEY, KEY_A)
    until(lambda: (gui.show(), not gui.is_pressed("a"))[1])
    events = list(gui.get_events(ti.GUI.RELEASE))
    assert [e.key for e in events] == [ti.GUI.LMB, "a"] and events[1].modifier == [ti.GUI.SHIFT]
    user.do(InputSimulator.PRESS_BUTTON, 4)
    until(lambda: gui.get_event(ti.GUI.WHEEL))
    assert gui.event.delta == (0, 120)
    user.do(InputSimulator.PRESS_KEY, KEY_ESCAPE)
    until(lambda: gui.get_event(ti.GUI.ESCAPE))
    assert gui.running, "what Escape means is up to the program"
    gui.close()


def test_imshow_returns_when_the_window_closes(display: Display) -> None:
    import threading

    ending = threading.Timer(1.0, display.server.kill)
    ending.start()
    ti.tools.imshow(np.zeros((32, 32, 3)))
    ending.join()


def test_without_a_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":4711")
    gui = ti.GUI("none", res=8)
    assert gui._window is None and gui.running
    gui.show()
    assert gui.running and gui.frame == 1
