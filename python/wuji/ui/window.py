"""`Window`: pictures of the plane and of space, drawn by the processor.

```python
window = ti.ui.Window("particles", (1280, 720))
canvas, scene, camera = window.get_canvas(), window.get_scene(), ti.ui.Camera()
camera.position(0, 1, 3)
camera.lookat(0, 0, 0)
while window.running:
    camera.track_user_inputs(window, hold_key=ti.ui.RMB)
    scene.set_camera(camera)
    scene.ambient_light((0.5, 0.5, 0.5))
    scene.point_light((2, 3, 2), (0.6, 0.6, 0.6))
    scene.particles(x, radius=0.01, color=(0.2, 0.5, 0.9))
    canvas.scene(scene)
    window.show()
```

With ``show_window=False``, or without a display, everything is drawn but not shown.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _native
from ..lang.dtypes import f32
from .arguments import closed, unfit
from .constants import CAPSLOCK, PRESS, RELEASE
from .drawing import Canvas
from .gui import GUI, open_window
from .imgui import Gui
from .pace import Pace
from .scene import Scene

# Names of keys that differ from those of X11.
_KEYS = {"Caps_Lock": CAPSLOCK}
# A program that reads no events does not keep them all.
_PENDING_EVENTS = 4096
# The refresh rate of most displays.
_REFRESH_RATE = 60.0


class Event:
    """A key or button that was pressed or released.

    Attributes:
        key: The key or button, such as ``"a"`` or ``ti.ui.LMB``.
        type: ``ti.ui.PRESS`` or ``ti.ui.RELEASE``.
    """

    def __init__(self, key: str = "", type: str = "") -> None:
        self.key = key
        self.type = type

    def __repr__(self) -> str:
        return f"<Event {self.type} {self.key!r}>"


class Window:
    """A window of ``res`` pixels.

    Args:
        name: Its title.
        res: Its width and height.
        vsync: Show no more frames than most displays: 60 in a second.
        show_window: Open a window. Without one, `save_image` and `get_image_buffer_as_numpy` return what was drawn.
        fps_limit: The maximum number of frames per second; ``None`` for no limit.
        pos: The position of its upper left corner on the screen.

    A frame ends with `show`, or when it is read; what is drawn afterwards belongs to the next one.
    """

    def __init__(
        self,
        name: str,
        res: Any,
        vsync: bool = False,
        show_window: bool = True,
        fps_limit: float | None = 1000,
        pos: Any = (100, 100),
    ) -> None:
        self.name = str(name)
        self._res = _pair("res", res, range(1, 16385))
        self._frame = _native.Frame(*self._res)
        limit = _rate(fps_limit)
        self._pace = Pace(min(limit or math.inf, _REFRESH_RATE) if vsync else limit)
        self._background = (0.0, 0.0, 0.0)
        self._commands: list[Callable[[], None]] = []
        self._composed = self._shown = self._destroyed = False
        self._pressed: set[str] = set()
        self._events: deque[Event] = deque(maxlen=_PENDING_EVENTS)
        self._cursor = (0.0, 0.0)
        self._running = True
        self.event = Event()
        self._canvas, self._scene, self._gui = Canvas(self), Scene(), Gui(self)
        position = _pair("pos", pos, range(-32768, 32768))
        shown = GUI.get_bool_environ("TI_GUI_SHOW", show_window)
        self._window = open_window(self.name, position) if shown else None

    def __enter__(self) -> Window:
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()

    # Frames.

    def _begin(self, call: str) -> None:
        """Start a frame, unless one is being drawn."""
        if self._destroyed:
            raise closed(call)
        if self._composed:
            self._commands.clear()
            self._gui._next_frame()
            self._composed = self._shown = False

    def _draw(self, call: str, command: Callable[[], None]) -> None:
        """Draw something when the frame is complete, since the background may still change."""
        self._begin(call)
        self._commands.append(command)

    def _set_background(self, color: tuple[float, float, float]) -> None:
        self._begin("set_background_color")
        self._background = color

    def _compose(self, call: str) -> None:
        if self._destroyed:
            raise closed(call)
        if not self._composed:
            self._frame.clear(self._background)
            for command in self._commands:
                command()
            self._gui._draw(self._frame)
            self._composed = True

    def show(self) -> None:
        """Show the frame, and start the next one."""
        if self._shown:
            self._begin("show")
        self._compose("show")
        self._shown = True
        if self._window is not None:
            self._window.show_frame(self._frame)
            self._pace.wait()
            self._poll()

    def save_image(self, filename: str) -> None:
        """Write the frame to a file: the one that is being drawn, or the last one that was shown."""
        from ..tools.image import imwrite

        self._compose("save_image")
        width, height = self._res
        top_down = np.frombuffer(self._frame.rows(), np.uint8).reshape(height, width, 3)
        imwrite(top_down.swapaxes(0, 1)[:, ::-1], filename)

    def get_image_buffer_as_numpy(self) -> npt.NDArray[np.float32]:
        """Return the frame as RGBA in [0, 1], indexed ``[x, y]`` with y up."""
        self._compose("get_image_buffer_as_numpy")
        return np.frombuffer(self._frame.pixels(), np.float32).reshape(*self._res, 4).copy()

    def get_depth_buffer_as_numpy(self) -> npt.NDArray[np.float32]:
        """Return the depths of scenes, indexed ``[x, y]`` with y up: 1 at the near plane, 0 at the far plane and where nothing is."""
        self._compose("get_depth_buffer_as_numpy")
        return np.frombuffer(self._frame.depths(), np.float32).reshape(self._res).copy()

    def get_depth_buffer(self, depth: Any) -> None:
        """Copy the depths of scenes to a field or an ndarray of ``ti.f32`` with the shape of the window."""
        call = "get_depth_buffer"
        if not hasattr(depth, "from_numpy") or getattr(depth, "dtype", None) is not f32 or tuple(depth.shape) != self._res:
            shape = getattr(depth, "shape", None)
            raise unfit(call, f"`depth` must be a field or an ndarray of f32 with shape {self._res}, not `{type(depth).__name__}` of shape {shape}")
        depth.from_numpy(self.get_depth_buffer_as_numpy())

    # Parts.

    def get_canvas(self) -> Canvas:
        """Return the drawing area."""
        return self._canvas

    def get_scene(self) -> Scene:
        """Return the scene of this window."""
        return self._scene

    def get_gui(self) -> Gui:
        """Return the widgets."""
        return self._gui

    @property
    def GUI(self) -> Gui:
        """Widgets; an older name of `get_gui`."""
        return self._gui

    def get_window_shape(self) -> tuple[int, int]:
        """Return width and height."""
        return self._res

    # The window.

    @property
    def running(self) -> bool:
        """Whether the window is open. It may be set, which ends a loop `while window.running`."""
        return self._running

    @running.setter
    def running(self, value: bool) -> None:
        self._running = bool(value)

    def destroy(self) -> None:
        """Close the window. It cannot be drawn on any more."""
        self._running = False
        self._destroyed = True
        self._commands.clear()
        if self._window is not None:
            self._window.close()
            self._window = None

    # Events.

    def _poll(self) -> None:
        if self._window is not None:
            for event in self._window.events():
                self._handle(*event)

    def _handle(self, kind: str, key: str, down: bool, x: float, y: float) -> None:
        if kind == "close":
            self._running = False
            return
        if kind != "key":
            self._cursor = (x, y)
        if kind not in ("key", "button"):
            return
        # Shift does not change a letter: what was pressed as `a` must not be released as `A`.
        name = key.lower() if len(key) == 1 else _KEYS.get(key, key)
        (self._pressed.add if down else self._pressed.discard)(name)
        self._events.append(Event(name, PRESS if down else RELEASE))
        if kind == "button":
            self._gui._button(name, down, self._cursor)

    def get_events(self, tag: str | None = None) -> list[Event]:
        """Return the pending events: all, or those of a type, ``ti.ui.PRESS`` or ``ti.ui.RELEASE``."""
        _check_tag("get_events", tag)
        self._poll()
        found = [event for event in self._events if tag in (None, event.type)]
        kept = [event for event in self._events if tag not in (None, event.type)]
        self._events = deque(kept, maxlen=_PENDING_EVENTS)
        return found

    def get_event(self, tag: str | None = None) -> bool:
        """Move the next event of a type to `event`; return False if there is none."""
        _check_tag("get_event", tag)
        self._poll()
        for event in self._events:
            if tag in (None, event.type):
                self._events.remove(event)
                self.event = event
                return True
        return False

    def is_pressed(self, *keys: str) -> bool:
        """Return whether one of the keys or buttons is held."""
        self._poll()
        return any(str(key) in self._pressed or str(key).lower() in self._pressed for key in keys)

    def get_cursor_pos(self) -> tuple[float, float]:
        """Return the position of the cursor in [0, 1], x to the right and y up."""
        self._poll()
        return self._cursor


def _check_tag(call: str, tag: object) -> None:
    if tag not in (None, PRESS, RELEASE):
        raise unfit(call, f"`tag` must be `ti.ui.PRESS` or `ti.ui.RELEASE`, not {tag!r}")


def _pair(name: str, value: Any, allowed: range) -> tuple[int, int]:
    """Return two integers in a range."""
    try:
        a, b = (value, value) if isinstance(value, int) else value
        if int(a) in allowed and int(b) in allowed:
            return int(a), int(b)
    except (TypeError, ValueError, OverflowError):
        pass
    raise unfit("Window", f"`{name}` must be two integers from {allowed.start} to {allowed.stop - 1}, not {value!r}")


def _rate(limit: Any) -> float | None:
    try:
        rate = float(limit or 0)
    except (TypeError, ValueError):
        rate = -1.0
    if not rate >= 0:
        raise unfit("Window", f"`fps_limit` must be a number of frames per second, not {limit!r}")
    return rate or None


__all__ = ["Event", "Window"]
