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


class Program:
    """A program with a `ti.ui.Window`, a slider and a button, and a camera that follows the user."""

    def __init__(self) -> None:
        self.window = ti.ui.Window("program", (WIDTH, HEIGHT), pos=(40, 20))
        self.camera, self.value, self.clicks = ti.ui.Camera(), 0.0, 0
        self.camera.position(0, 0, 3)
        self.camera.lookat(0, 0, 0)

    def frame(self) -> None:
        canvas, scene, gui = self.window.get_canvas(), self.window.get_scene(), self.window.get_gui()
        canvas.set_background_color((0.25, 0.5, 0.75))
        self.camera.track_user_inputs(self.window, movement_speed=0.01, hold_key=ti.ui.RMB)
        scene.set_camera(self.camera)
        scene.ambient_light((1, 1, 1))
        scene.particles(np.array([[0.0, 0.0, 0.0]]), radius=0.5, color=(1, 0.5, 0))
        canvas.scene(scene)
        with gui.sub_window("panel", 0, 0, 0.5, 0.5) as panel:
            self.value = panel.slider_float("value", self.value, 0, 1)
            self.clicks += panel.button("button")
        self.window.show()

    def until(self, what: Any) -> None:
        until(lambda: (self.frame(), what())[1])


def test_ui_window(display: Display) -> None:
    program = Program()
    window = program.window
    assert window._window is not None and window.running

    def shown() -> bool:
        # The window is 40 pixels from the left and 20 from the top of the screen, which `screenshot` shows in part.
        screen = display.screenshot()
        return screen[200, HEIGHT - 20 - 120].tolist() == [255, 127, 0] and screen[300, HEIGHT - 220].tolist() == [63, 127, 191]

    program.until(shown)
    assert display.screenshot()[20, 100].tolist() == [0, 0, 0]
    user = InputSimulator(display.name)
    # The slider follows the mouse: from 8 to 101 of 160 pixels, in the first row of the panel.
    user.do(InputSimulator.MOVE, x=40 + 55, y=20 + 34)
    user.do(InputSimulator.PRESS_BUTTON, 1)
    program.until(lambda: 0.4 < program.value < 0.6)
    assert window.is_pressed(ti.ui.LMB) and window.get_event(ti.ui.PRESS) and window.event.key == ti.ui.LMB
    user.do(InputSimulator.RELEASE_BUTTON, 1)
    program.until(lambda: window.get_event(ti.ui.RELEASE))
    user.do(InputSimulator.MOVE, x=40 + 20, y=20 + 58)
    user.do(InputSimulator.PRESS_BUTTON, 1)
    user.do(InputSimulator.RELEASE_BUTTON, 1)
    program.until(lambda: program.clicks == 1)
    # The right button and the mouse turn the camera; keys move it.
    user.do(InputSimulator.PRESS_BUTTON, 3)
    program.until(lambda: window.is_pressed(ti.ui.RMB))
    user.do(InputSimulator.MOVE, x=40 + 60, y=20 + 58)
    program.until(lambda: program.camera.curr_lookat[0] != 0)
    user.do(InputSimulator.PRESS_KEY, KEY_A)
    program.until(lambda: program.camera.curr_position[0] != 0)
    x, y = window.get_cursor_pos()
    assert x == pytest.approx(60 / WIDTH, abs=0.02) and y == pytest.approx(1 - 58 / HEIGHT, abs=0.02)
    assert program.clicks == 1
    display.server.kill()
    display.server.wait()
    program.until(lambda: not window.running)
    window.destroy()


def test_ui_window_limits_the_frame_rate(display: Display) -> None:
    # The display resets itself when its last window is gone.
    windows = [ti.ui.Window("pace", (32, 32), **options) for options in ({"fps_limit": 50}, {"fps_limit": 60, "vsync": True}, {"vsync": True})]
    for window in windows:
        window.show()
        started = time.perf_counter()
        for _ in range(10):
            window.show()
        assert time.perf_counter() - started > 0.14


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
    window = ti.ui.Window("none", (8, 8))
    assert window._window is None and window.running
    window.show()
    assert window.running and window.get_events() == []
