"""`GUI`: a window for pictures and shapes, drawn by the CPU.

```python
gui = ti.GUI("particles", res=512, background_color=0x112F41)
while gui.running:
    for event in gui.get_events(ti.GUI.PRESS):
        gui.running = gui.running and event.key != ti.GUI.ESCAPE
    gui.circles(x.to_numpy(), radius=1.5, color=0x068587)
    gui.show()          # or gui.show("frame.png")
```

With ``show_gui=False``, or where there is no display, everything is drawn the same and nothing is shown.
"""

from __future__ import annotations

import enum
import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..exceptions import WujiRuntimeError
from . import widgets
from .canvas import Canvas, colors


class EType(enum.IntEnum):
    """What an event is."""

    Move = 0
    Press = 1
    Release = 2


class Event:
    """Something that a person did. ``pos`` is where the pointer was, ``key`` the key or button, ``delta`` how far the wheel went,
    ``modifier`` which of Shift, Control and Alt were held."""

    def __init__(self) -> None:
        self.type: EType | None = None
        self.modifier: list[str] | None = None
        self.pos: tuple[float, float] | None = None
        self.key: str | None = None
        self.delta: tuple[float, float] | None = None

    def __repr__(self) -> str:
        kind = self.type.name if self.type is not None else None
        return f"<Event {kind} {self.key!r} at {self.pos}>"


class EventFilter:
    """Which events are asked for: kinds, keys, or pairs of both."""

    def __init__(self, *e_filter: Any) -> None:
        self.filter = set(e_filter)

    def match(self, event: Event) -> bool:
        return not self.filter or bool(self.filter & {event.key, event.type, (event.type, event.key)})


class GUI:
    """A window of ``res`` pixels, and what is drawn in it.

    Places are pairs from 0 to 1, to the right and up; colours are numbers such as ``0x3388ff``; radii are in pixels.
    """

    Event: TypeAlias = Event
    EventFilter: TypeAlias = EventFilter
    WidgetValue: TypeAlias = widgets.WidgetValue

    SHIFT = "Shift"
    ALT = "Alt"
    CTRL = "Control"
    ESCAPE = "Escape"
    RETURN = "Return"
    TAB = "Tab"
    BACKSPACE = "BackSpace"
    SPACE = " "
    UP = "Up"
    DOWN = "Down"
    LEFT = "Left"
    RIGHT = "Right"
    CAPSLOCK = "Caps_Lock"
    LMB = "LMB"
    MMB = "MMB"
    RMB = "RMB"
    EXIT = "WMClose"
    WHEEL = "Wheel"
    MOVE = "Motion"
    MOTION = EType.Move
    PRESS = EType.Press
    RELEASE = EType.Release

    def __init__(
        self,
        name: str = "Wuji",
        res: Any = 512,
        background_color: int = 0x0,
        show_gui: bool = True,
        fullscreen: bool = False,
        fast_gui: bool = False,
    ) -> None:
        width, height = (res, res) if np.ndim(res) == 0 else tuple(res)
        if int(width) < 1 or int(height) < 1:
            raise ValueError(f"a window has at least one pixel; `res` is {res}")
        self.name = name
        self.res = (int(width), int(height))
        self.background_color = background_color
        self.fast_gui = fast_gui
        self.frame = 0
        self.event: Event | None = None
        self.key_pressed: set[str] = set()
        self.canvas = Canvas(*self.res, background_color)
        self._open = True
        self._cursor = (0.0, 0.0)
        self._events: deque[Event] = deque()
        self._widgets = widgets.Panel(self.canvas)
        self._interval = 1 / 60
        self._due = 0.0
        self._window: Any = None
        if self.get_bool_environ("TI_GUI_SHOW", show_gui):
            self._window = _open_window(name)

    @staticmethod
    def get_bool_environ(key: str, default: bool) -> bool:
        """What the environment says, as ``TI_GUI_SHOW=0``, or the default."""
        return bool(int(os.environ.get(key, default)))

    def __enter__(self) -> GUI:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The window.

    @property
    def running(self) -> bool:
        """Whether nobody has closed the window."""
        return self._open

    @running.setter
    def running(self, value: bool) -> None:
        if value:
            self._open = True
        else:
            self.close()

    @property
    def fps_limit(self) -> float | None:
        """Frames per second at most; ``None`` or 0 for no limit."""
        return 1 / self._interval if self._interval else None

    @fps_limit.setter
    def fps_limit(self, value: float | None) -> None:
        self._interval = 1 / value if value else 0.0

    def close(self) -> None:
        """Closes the window."""
        self._open = False
        if self._window is not None:
            self._window.close()
            self._window = None

    def show(self, file: str | None = None) -> None:
        """Shows what was drawn, or writes it to a file, and begins a new picture of the background's colour."""
        self._widgets.draw()
        if file is not None:
            from ..tools.image import imwrite

            # How transparent the drawing is means nothing to a window.
            imwrite(self.canvas.image[:, :, :3], file)
        elif self._window is not None:
            rows = self.canvas.bytes()
            self._window.show(self.res[0], self.res[1], rows.tobytes())
            self._wait()
            self._hear()
        self.frame += 1
        self.clear()

    def _wait(self) -> None:
        now = time.perf_counter()
        if self._interval and self._due > now:
            time.sleep(self._due - now)
            now = self._due
        self._due = now + self._interval

    def get_image(self) -> npt.NDArray[np.float32]:
        """What was drawn so far: RGBA from 0 to 1, by ``[x, y]``."""
        return self.canvas.image.copy()

    @property
    def img(self) -> npt.NDArray[np.float32]:
        return self.canvas.image

    def clear(self, color: int | None = None) -> None:
        """Makes all pixels the colour, or that of the background."""
        self.canvas.clear(self.background_color if color is None else color)

    # Pictures.

    def cook_image(self, img: Any) -> npt.NDArray[np.float32]:
        """A picture as it is kept here: floats from 0 to 1, gray as three equal channels, as many as four."""
        array = _array(img)
        if array.dtype.kind == "u":
            array = array.astype(np.float32) * np.float32(1 / np.iinfo(array.dtype).max)
        elif array.dtype.kind == "b" or array.dtype.kind == "f":
            array = array.astype(np.float32, copy=False)
        else:
            raise ValueError(f"Data type {array.dtype} not supported in GUI.set_image: floats or unsigned integers are")
        if array.ndim == 2:
            return np.repeat(array[:, :, None], 4, axis=2)
        if array.ndim != 3 or not 1 <= array.shape[2] <= 4:
            raise ValueError(f"a picture has the shape (w, h) or (w, h, 3), not {array.shape}")
        if array.shape[2] == 1:
            return np.repeat(array, 4, axis=2)
        made = np.zeros((*array.shape[:2], 4), np.float32)
        made[:, :, : array.shape[2]] = array
        return made

    def set_image(self, img: Any) -> None:
        """Makes the picture that of a field, an ndarray, a texture or a NumPy array: gray, or with up to four channels."""
        if hasattr(img, "to_image"):
            img = np.asarray(img.to_image())
            img = img[::-1].swapaxes(0, 1)
        made = self.cook_image(img)
        if made.shape[:2] != self.res:
            raise AssertionError(f"Image resolution does not match GUI resolution: {made.shape[:2]} and {self.res}")
        self.canvas.image[:] = made

    def contour(self, scalar_field: Any, normalize: bool = False) -> None:
        """Shows a field of numbers as colours from dark blue (0) to yellow (1); ``normalize`` makes them fit."""
        values = _array(scalar_field).astype(np.float64)
        if values.ndim != 2:
            raise ValueError(f"a contour is of a field of two axes, not of {values.ndim}")
        if normalize:
            low, high = values.min(), values.max()
            values = (values - low) / (high - low) if high > low else np.zeros_like(values)
        if values.shape != self.res:
            from ..tools.image import imresize

            values = imresize(values, *self.res)
        at = np.clip(values, 0.0, 1.0)
        stops = np.linspace(0.0, 1.0, len(_WARMTH))
        rows = colors(_WARMTH)
        for channel in range(3):
            self.canvas.image[:, :, channel] = np.interp(at, stops, rows[:, channel])
        self.canvas.image[:, :, 3] = 1.0

    def vector_field(self, vector_field: Any, arrow_spacing: int = 5, color: int = 0xFFFFFF) -> None:
        """Draws a field of pairs as arrows, one each ``arrow_spacing`` pixels; the longest reaches the next."""
        field = _array(vector_field).astype(np.float64)
        if field.ndim != 3 or field.shape[2] != 2:
            raise ValueError(f"a vector field has the shape (w, h, 2), not {field.shape}")
        width, height = self.res
        x, y = np.arange(0, width, arrow_spacing), np.arange(0, height, arrow_spacing)
        i, j = x * field.shape[0] // width, y * field.shape[1] // height
        arrows = field[i[:, None], j[None, :]].reshape(-1, 2)
        longest = np.hypot(field[..., 0], field[..., 1]).max(initial=0.0)
        if longest == 0:
            return
        starts = np.stack(np.meshgrid(x / width, y / height, indexing="ij"), axis=-1).reshape(-1, 2)
        self.arrows(starts, arrows / longest * arrow_spacing / np.array(self.res), radius=1, color=color)

    # Shapes.

    def circle(self, pos: Any, color: int = 0xFFFFFF, radius: float = 1) -> None:
        """Draws a disc."""
        self.canvas.circles([_pair(pos)], radius, colors(color))

    def circles(self, pos: Any, radius: Any = 1, color: Any = 0xFFFFFF, palette: Any = None, palette_indices: Any = None) -> None:
        """Draws discs at the rows of ``pos``. Each may have its own radius, and its own colour: one of ``color``, or that of
        ``palette`` which ``palette_indices`` says."""
        centers = _rows(pos)
        paint = self._colors(color, len(centers))
        if palette is not None:
            if palette_indices is None:
                raise AssertionError("palette must be used together with palette_indices")
            chosen = np.asarray(_array(palette_indices)).reshape(-1).astype(np.int64)
            if len(chosen) != len(centers):
                raise ValueError(f"{len(chosen)} palette_indices for {len(centers)} circles")
            if len(chosen) and (chosen.min() < 0 or chosen.max() >= len(palette)):
                raise ValueError(f"palette_indices go from 0 to {len(palette) - 1} here")
            paint = colors(palette)[chosen]
        elif palette_indices is not None:
            raise AssertionError("palette_indices must be used together with palette")
        self.canvas.circles(centers, _each("radius", radius, len(centers)), paint)

    def triangle(self, a: Any, b: Any, c: Any, color: int = 0xFFFFFF) -> None:
        """Draws a filled triangle."""
        self.canvas.triangles([_pair(a)], [_pair(b)], [_pair(c)], colors(color))

    def triangles(self, a: Any, b: Any, c: Any, color: Any = 0xFFFFFF) -> None:
        """Draws filled triangles with corners at the rows of ``a``, ``b`` and ``c``."""
        first, second, third = _same_length(a, b, c)
        self.canvas.triangles(first, second, third, self._colors(color, len(first)))

    def line(self, begin: Any, end: Any, radius: float = 1, color: int = 0xFFFFFF) -> None:
        """Draws a line."""
        self.canvas.lines([_pair(begin)], [_pair(end)], radius, colors(color))

    def lines(self, begin: Any, end: Any, radius: Any = 1, color: Any = 0xFFFFFF) -> None:
        """Draws lines from the rows of ``begin`` to those of ``end``."""
        begins, ends = _same_length(begin, end)
        self.canvas.lines(begins, ends, _each("radius", radius, len(begins)), self._colors(color, len(begins)))

    def rect(self, topleft: Any, bottomright: Any, radius: float = 1, color: int = 0xFFFFFF) -> None:
        """Draws the edges of a rectangle."""
        (left, top), (right, bottom) = _pair(topleft), _pair(bottomright)
        corners = np.array([(left, top), (right, top), (right, bottom), (left, bottom)])
        self.lines(corners, np.roll(corners, -1, axis=0), radius, color)

    def text(self, content: Any, pos: Any, font_size: float = 15, color: int = 0xFFFFFF) -> None:
        """Draws text whose upper left corner is at ``pos``."""
        x, y = _pair(pos)
        self.canvas.text(str(content), x * self.res[0], y * self.res[1], font_size, colors(color))

    @staticmethod
    def _make_field_base(w: int, h: int, bound: float) -> npt.NDArray[np.float64]:
        x = np.linspace(bound / w, 1 - bound / w, w)
        y = np.linspace(bound / h, 1 - bound / h, h)
        return np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)

    def point_field(self, radius: Any, color: int = 0xFFFFFF, bound: float = 0.5) -> None:
        """Draws a grid of discs, each of the radius that a field says."""
        radii = _array(radius)
        if radii.ndim != 2:
            raise ValueError(f"a field of points has two axes, not {radii.ndim}")
        self.circles(self._make_field_base(radii.shape[0], radii.shape[1], bound), radii.reshape(-1), color)

    def arrow_field(self, direction: Any, radius: Any = 1, color: int = 0xFFFFFF, bound: float = 0.5, **kwargs: Any) -> None:
        """Draws a grid of arrows, each with the direction that a field says."""
        field = _array(direction)
        if field.ndim != 3 or field.shape[2] != 2:
            raise ValueError(f"a field of arrows has the shape (w, h, 2), not {field.shape}")
        starts = self._make_field_base(field.shape[0], field.shape[1], bound)
        self.arrows(starts, field.reshape(-1, 2), radius, color, **kwargs)

    def arrow(self, orig: Any, direction: Any, radius: float = 1, color: int = 0xFFFFFF, **kwargs: Any) -> None:
        """Draws an arrow from ``orig``, as far as ``direction``."""
        self.arrows([_pair(orig)], [_pair(direction)], radius, color, **kwargs)

    def arrows(
        self, orig: Any, direction: Any, radius: Any = 1, color: Any = 0xFFFFFF, tip_scale: float = 0.2, angle: float = 45
    ) -> None:
        """Draws arrows from the rows of ``orig``; their tips are ``tip_scale`` as long, at ``angle`` degrees."""
        starts, along = _same_length(orig, direction)
        ends = starts + along
        # The picture may not be square: angles are those of pixels.
        pixels = along * self.res
        self.lines(starts, ends, radius, color)
        for turn in (np.radians(180 - angle), np.radians(angle - 180)):
            cos, sin = np.cos(turn), np.sin(turn)
            tips = tip_scale * (pixels @ np.array([[cos, sin], [-sin, cos]])) / self.res
            self.lines(ends, ends + tips, radius, color)

    @staticmethod
    def _colors(color: Any, count: int) -> npt.NDArray[np.float32]:
        paint = colors(_array(color))
        if len(paint) not in (1, count):
            raise ValueError(f"{len(paint)} colors for {count} shapes")
        return paint

    # Widgets.

    def slider(self, text: str, minimum: float, maximum: float, step: float = 1) -> widgets.WidgetValue:
        """Adds a slider. Its ``value`` can be read and set."""
        return self._widgets.add(widgets.Slider(text, float(minimum), float(maximum), float(step)))

    def label(self, text: str) -> widgets.WidgetValue:
        """Adds a text with a number that the program sets: its ``value``."""
        return self._widgets.add(widgets.Label(text))

    def button(self, text: str, event_name: str | None = None) -> str:
        """Adds a button. A press is an event whose key is what this returns."""
        name = event_name or f"WidgetButton_{text}"
        self._widgets.add(widgets.Button(text, name))
        return name

    # Events.

    def _hear(self) -> None:
        """Takes over what has happened in the window."""
        if self._window is None:
            return
        for kind, key, down, x, y in self._window.events():
            self._take(kind, key, down, x, y)

    def _take(self, kind: str, key: str, down: bool, x: float, y: float) -> None:
        event = Event()
        if kind == "close":
            self._open = False
            event.type, event.key = EType.Press, self.EXIT
        elif kind == "key":
            # A letter is its key, whether or not Shift is held: what went down as `a` must not come up as `A`.
            key = key.lower() if len(key) == 1 else key
            event.type, event.key = (EType.Press if down else EType.Release), key
        else:
            self._cursor = (x, y)
            if kind == "button":
                event.type, event.key = (EType.Press if down else EType.Release), key
            elif kind == "wheel":
                event.type, event.key = EType.Move, self.WHEEL
                event.delta = (0.0, 120.0 if down else -120.0)
            else:
                event.type, event.key = EType.Move, self.MOVE
        event.pos = self._cursor
        name = self._widgets.hear(event.type, event.key, x * self.res[0], y * self.res[1]) if kind in ("button", "move") else None
        if name is not None:
            event.type, event.key = EType.Press, name
        event.modifier = [m for m in (self.SHIFT, self.ALT, self.CTRL) if m in self.key_pressed]
        if kind in ("key", "button") and name is None and event.key is not None:
            (self.key_pressed.add if down else self.key_pressed.discard)(event.key)
        self._events.append(event)

    def has_key_event(self) -> bool:
        """Whether there is an event that nobody has taken."""
        self._hear()
        return bool(self._events)

    def get_event(self, *e_filter: Any) -> bool:
        """Takes the next event that fits, which is `event` then; false if there is none. Events that do not fit are dropped."""
        for event in self.get_events(*e_filter):
            self.event = event
            return True
        return False

    def get_events(self, *e_filter: Any) -> Iterator[Event]:
        """All events since the last call that fit: kinds such as ``GUI.PRESS``, keys such as ``'a'``, or pairs of them."""
        wanted = EventFilter(*e_filter)
        while self.has_key_event():
            event = self._events.popleft()
            if wanted.match(event):
                yield event

    def get_key_event(self) -> Event:
        """Waits for the next event."""
        while not self.has_key_event():
            if self._window is None:
                raise WujiRuntimeError("`get_key_event` waits for a person, and there is no window")
            time.sleep(0.005)
        return self._events.popleft()

    def is_pressed(self, *keys: str) -> bool:
        """Whether one of the keys or buttons is held down."""
        self._hear()
        return any(key in self.key_pressed or key.lower() in self.key_pressed for key in keys)

    def get_cursor_pos(self) -> tuple[float, float]:
        """Where the pointer is: pairs from 0 to 1, to the right and up."""
        self._hear()
        return self._cursor


# From dark blue over red to yellow, evenly lighter.
_WARMTH = (0x0B0887, 0x46039F, 0x7601A8, 0x9D189D, 0xBD3786, 0xD8576B, 0xEC7853, 0xFB9F3A, 0xFDCA26, 0xF0F724)
_told = False


def _open_window(name: str) -> Any:
    """A window, or nothing where there is no display."""
    global _told
    from .. import _native

    try:
        return _native.Window(name)
    except OSError as error:
        if not _told:
            _told = True
            print(f"[Wuji] {error}; GUI draws without a window", file=sys.stderr)
        return None


def _array(value: Any) -> npt.NDArray[Any]:
    return np.asarray(value.to_numpy() if hasattr(value, "to_numpy") else value)


def _rows(value: Any) -> npt.NDArray[np.float64]:
    rows = _array(value).astype(np.float64)
    if rows.ndim == 1 and rows.size == 0:
        return rows.reshape(0, 2)
    if rows.ndim != 2 or rows.shape[1] < 2:
        raise ValueError(f"places are rows of two numbers; these have the shape {rows.shape}")
    return rows[:, :2]


def _same_length(*values: Any) -> tuple[npt.NDArray[np.float64], ...]:
    rows = tuple(map(_rows, values))
    if len({len(r) for r in rows}) > 1:
        raise ValueError(f"as many places are needed for each end; there are {', '.join(str(len(r)) for r in rows)}")
    return rows


def _each(name: str, value: Any, count: int) -> npt.NDArray[np.float64]:
    values = _array(value).astype(np.float64).reshape(-1)
    if len(values) not in (1, count):
        raise ValueError(f"{name} has {len(values)} numbers for {count} shapes")
    return values


def _pair(place: Any) -> tuple[float, float]:
    place = _array(place).reshape(-1)
    if len(place) != 2:
        raise ValueError(f"a place is two numbers, not {len(place)}")
    return float(place[0]), float(place[1])


def rgb_to_hex(c: Any) -> Any:
    """The number of a colour: ``rgb_to_hex((0.2, 0.5, 1.0)) == 0x337fff``. Channels may be arrays."""
    red, green, blue = ((np.clip(np.asarray(channel, np.float64), 0, 1) * 255).astype(np.int64) for channel in c)
    made = red << 16 | green << 8 | blue
    return int(made) if made.ndim == 0 else made


def hex_to_rgb(color: Any) -> tuple[Any, Any, Any]:
    """Red, green and blue, from 0 to 1, of a colour such as ``0x3388ff``. It may be an array."""
    return ((color >> 16) & 255) / 255, ((color >> 8) & 255) / 255, (color & 255) / 255


__all__ = ["GUI", "hex_to_rgb", "rgb_to_hex"]
