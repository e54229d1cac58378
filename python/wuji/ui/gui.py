"""`GUI`: a window for images and shapes, drawn on the CPU.

```python
gui = ti.GUI("particles", res=512, background_color=0x112F41)
while gui.running:
    for event in gui.get_events(ti.GUI.PRESS):
        gui.running = gui.running and event.key != ti.GUI.ESCAPE
    gui.circles(x.to_numpy(), radius=1.5, color=0x068587)
    gui.show()          # or gui.show("frame.png")
```

With ``show_gui=False``, or without a display, everything is drawn but not shown.
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

from .._arrays import as_numpy
from ..exceptions import WujiRuntimeError
from . import widgets
from .canvas import Canvas, colors


class EType(enum.IntEnum):
    """Type of an event."""

    Move = 0
    Press = 1
    Release = 2


class Event:
    """An input event.

    Attributes:
        type: Press, release or move.
        key: The key or mouse button.
        pos: Position of the cursor.
        delta: Movement of the wheel.
        modifier: Which of Shift, Control and Alt are held.
    """

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
    """Selects events by type, key, or pairs of both."""

    def __init__(self, *e_filter: Any) -> None:
        self.filter = set(e_filter)

    def match(self, event: Event) -> bool:
        return not self.filter or bool(self.filter & {event.key, event.type, (event.type, event.key)})


class GUI:
    """A window of ``res`` pixels to draw in.

    Positions are normalized to [0, 1], x to the right and y up. Colors are integers such as ``0x3388ff``. Radii are in pixels.
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
            raise ValueError(f"invalid `res` {res}: a window needs at least one pixel")
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
        """Return the value of an environment variable such as ``TI_GUI_SHOW=0``, or the default."""
        text = os.environ.get(key, "")
        if text.lower() in ("", "0", "1", "true", "false"):
            return bool(default) if not text else text.lower() in ("1", "true")
        raise ValueError(f"the environment variable {key} must be 0 or 1, not {text!r}")

    def __enter__(self) -> GUI:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The window.

    @property
    def running(self) -> bool:
        """Whether the window is open."""
        return self._open

    @running.setter
    def running(self, value: bool) -> None:
        if value:
            self._open = True
        else:
            self.close()

    @property
    def fps_limit(self) -> float | None:
        """Maximum number of frames per second; ``None`` or 0 for no limit."""
        return 1 / self._interval if self._interval else None

    @fps_limit.setter
    def fps_limit(self, value: float | None) -> None:
        self._interval = 1 / value if value else 0.0

    def close(self) -> None:
        """Close the window."""
        self._open = False
        if self._window is not None:
            self._window.close()
            self._window = None

    def show(self, file: str | None = None) -> None:
        """Show the frame, or write it to a file; then clear the canvas."""
        self._widgets.draw()
        if file is not None:
            from ..tools.image import imwrite

            # A window ignores alpha, so the file does, too.
            imwrite(self.canvas.image[:, :, :3], file)
        elif self._window is not None:
            rows = self.canvas.bytes()
            self._window.show(self.res[0], self.res[1], rows.tobytes())
            self._wait()
            self._poll_events()
        self.frame += 1
        self.clear()

    def _wait(self) -> None:
        now = time.perf_counter()
        if self._interval and self._due > now:
            time.sleep(self._due - now)
            now = self._due
        self._due = now + self._interval

    def get_image(self) -> npt.NDArray[np.float32]:
        """Return a copy of the frame drawn so far: RGBA in [0, 1], indexed ``[x, y]``."""
        return self.canvas.image.copy()

    @property
    def img(self) -> npt.NDArray[np.float32]:
        return self.canvas.image

    def clear(self, color: int | None = None) -> None:
        """Fill the canvas with a color, by default the background color."""
        self.canvas.clear(self.background_color if color is None else color)

    # Images.

    def cook_image(self, img: Any) -> npt.NDArray[np.float32]:
        """Convert an image to RGBA floats in [0, 1]. Gray is replicated to all channels."""
        array = as_numpy(img)
        if not array.ndim:
            raise ValueError(f"GUI.set_image only takes a Taichi field or NumPy array, not {type(img)}")
        if array.dtype.kind == "u":
            array = array.astype(np.float32) * np.float32(1 / np.iinfo(array.dtype).max)
        elif array.dtype.kind == "b" or array.dtype.kind == "f":
            array = array.astype(np.float32, copy=False)
        else:
            raise ValueError(f"Data type {array.dtype} not supported in GUI.set_image: use floats or unsigned integers")
        if array.ndim == 2:
            return np.repeat(array[:, :, None], 4, axis=2)
        if array.ndim != 3 or not 1 <= array.shape[2] <= 4:
            raise ValueError(f"an image must have shape (w, h) or (w, h, 3), not {array.shape}")
        if array.shape[2] == 1:
            return np.repeat(array, 4, axis=2)
        converted = np.zeros((*array.shape[:2], 4), np.float32)
        converted[:, :, : array.shape[2]] = array
        return converted

    def set_image(self, img: Any) -> None:
        """Draw an image from a field, an ndarray, a texture or a NumPy array: gray, or with up to four channels."""
        if hasattr(img, "to_image"):
            img = np.asarray(img.to_image())
            img = img[::-1].swapaxes(0, 1)
        converted = self.cook_image(img)
        if converted.shape[:2] != self.res:
            raise AssertionError(f"Image resolution does not match GUI resolution: {converted.shape[:2]} and {self.res}")
        self.canvas.image[:] = converted

    def contour(self, scalar_field: Any, normalize: bool = False) -> None:
        """Draw a 2-D scalar field as a color map from dark blue (0) to yellow (1). ``normalize`` rescales it to [0, 1]."""
        values = as_numpy(scalar_field).astype(np.float64)
        if values.ndim != 2:
            raise ValueError(f"`contour` needs a field with two axes, not {values.ndim}")
        if normalize:
            low, high = values.min(), values.max()
            values = (values - low) / (high - low) if high > low else np.zeros_like(values)
        if values.shape != self.res:
            from ..tools.image import imresize

            values = imresize(values, *self.res)
        at = np.clip(values, 0.0, 1.0)
        stops = np.linspace(0.0, 1.0, len(_COLOR_MAP))
        rows = colors(_COLOR_MAP)
        for channel in range(3):
            self.canvas.image[:, :, channel] = np.interp(at, stops, rows[:, channel])
        self.canvas.image[:, :, 3] = 1.0

    def vector_field(self, vector_field: Any, arrow_spacing: int = 5, color: int = 0xFFFFFF) -> None:
        """Draw a 2-D vector field as arrows, one every ``arrow_spacing`` pixels. The longest arrow reaches the next one."""
        field = as_numpy(vector_field).astype(np.float64)
        if field.ndim != 3 or field.shape[2] != 2:
            raise ValueError(f"a vector field must have shape (w, h, 2), not {field.shape}")
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
        """Draw a disc."""
        self.canvas.circles([_pair(pos)], radius, colors(color))

    def circles(self, pos: Any, radius: Any = 1, color: Any = 0xFFFFFF, palette: Any = None, palette_indices: Any = None) -> None:
        """Draw a disc at each row of ``pos``.

        ``radius`` and ``color`` are scalars or have one entry per disc. With a ``palette``, ``palette_indices`` selects the colors.
        """
        centers = _rows(pos)
        paint = self._colors(color, len(centers))
        if palette is not None:
            if palette_indices is None:
                raise AssertionError("palette must be used together with palette_indices")
            chosen = as_numpy(palette_indices).reshape(-1).astype(np.int64)
            if len(chosen) != len(centers):
                raise ValueError(f"{len(chosen)} palette_indices for {len(centers)} circles")
            if len(chosen) and (chosen.min() < 0 or chosen.max() >= len(palette)):
                raise ValueError(f"palette_indices must be in 0..{len(palette) - 1}")
            paint = colors(palette)[chosen]
        elif palette_indices is not None:
            raise AssertionError("palette_indices must be used together with palette")
        self.canvas.circles(centers, _each("radius", radius, len(centers)), paint)

    def triangle(self, a: Any, b: Any, c: Any, color: int = 0xFFFFFF) -> None:
        """Draw a filled triangle."""
        self.canvas.triangles([_pair(a)], [_pair(b)], [_pair(c)], colors(color))

    def triangles(self, a: Any, b: Any, c: Any, color: Any = 0xFFFFFF) -> None:
        """Draw filled triangles with corners at the rows of ``a``, ``b`` and ``c``."""
        first, second, third = _same_length(a, b, c)
        self.canvas.triangles(first, second, third, self._colors(color, len(first)))

    def line(self, begin: Any, end: Any, radius: float = 1, color: int = 0xFFFFFF) -> None:
        """Draw a line."""
        self.canvas.lines([_pair(begin)], [_pair(end)], radius, colors(color))

    def lines(self, begin: Any, end: Any, radius: Any = 1, color: Any = 0xFFFFFF) -> None:
        """Draw lines from the rows of ``begin`` to those of ``end``."""
        begins, ends = _same_length(begin, end)
        self.canvas.lines(begins, ends, _each("radius", radius, len(begins)), self._colors(color, len(begins)))

    def rect(self, topleft: Any, bottomright: Any, radius: float = 1, color: int = 0xFFFFFF) -> None:
        """Draw the outline of a rectangle."""
        (left, top), (right, bottom) = _pair(topleft), _pair(bottomright)
        corners = np.array([(left, top), (right, top), (right, bottom), (left, bottom)])
        self.lines(corners, np.roll(corners, -1, axis=0), radius, color)

    def text(self, content: Any, pos: Any, font_size: float = 15, color: int = 0xFFFFFF) -> None:
        """Draw text with its upper left corner at ``pos``."""
        x, y = _pair(pos)
        self.canvas.text(str(content), x * self.res[0], y * self.res[1], font_size, colors(color))

    @staticmethod
    def _make_field_base(w: int, h: int, bound: float) -> npt.NDArray[np.float64]:
        x = np.linspace(bound / w, 1 - bound / w, w)
        y = np.linspace(bound / h, 1 - bound / h, h)
        return np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)

    def point_field(self, radius: Any, color: int = 0xFFFFFF, bound: float = 0.5) -> None:
        """Draw a grid of discs, with radii given by a field."""
        radii = as_numpy(radius)
        if radii.ndim != 2:
            raise ValueError(f"`point_field` needs a field with two axes, not {radii.ndim}")
        self.circles(self._make_field_base(radii.shape[0], radii.shape[1], bound), radii.reshape(-1), color)

    def arrow_field(self, direction: Any, radius: Any = 1, color: int = 0xFFFFFF, bound: float = 0.5, **kwargs: Any) -> None:
        """Draw a grid of arrows, with directions given by a field."""
        field = as_numpy(direction)
        if field.ndim != 3 or field.shape[2] != 2:
            raise ValueError(f"an arrow field must have shape (w, h, 2), not {field.shape}")
        starts = self._make_field_base(field.shape[0], field.shape[1], bound)
        self.arrows(starts, field.reshape(-1, 2), radius, color, **kwargs)

    def arrow(self, orig: Any, direction: Any, radius: float = 1, color: int = 0xFFFFFF, **kwargs: Any) -> None:
        """Draw an arrow from ``orig`` to ``orig + direction``."""
        self.arrows([_pair(orig)], [_pair(direction)], radius, color, **kwargs)

    def arrows(
        self, orig: Any, direction: Any, radius: Any = 1, color: Any = 0xFFFFFF, tip_scale: float = 0.2, angle: float = 45
    ) -> None:
        """Draw arrows from the rows of ``orig``. Tips have ``tip_scale`` of an arrow's length, at ``angle`` degrees."""
        starts, along = _same_length(orig, direction)
        ends = starts + along
        # The window may not be square: compute angles in pixels.
        pixels = along * self.res
        self.lines(starts, ends, radius, color)
        for turn in (np.radians(180 - angle), np.radians(angle - 180)):
            cos, sin = np.cos(turn), np.sin(turn)
            tips = tip_scale * (pixels @ np.array([[cos, sin], [-sin, cos]])) / self.res
            self.lines(ends, ends + tips, radius, color)

    @staticmethod
    def _colors(color: Any, count: int) -> npt.NDArray[np.float32]:
        paint = colors(as_numpy(color))
        if len(paint) not in (1, count):
            raise ValueError(f"{len(paint)} colors for {count} shapes")
        return paint

    # Widgets.

    def slider(self, text: str, minimum: float, maximum: float, step: float = 1) -> widgets.WidgetValue:
        """Add a slider. Its ``value`` can be read and set."""
        return self._widgets.add(widgets.Slider(text, float(minimum), float(maximum), float(step)))

    def label(self, text: str) -> widgets.WidgetValue:
        """Add a label with a number. Its ``value`` can be read and set."""
        return self._widgets.add(widgets.Label(text))

    def button(self, text: str, event_name: str | None = None) -> str:
        """Add a button. Return the key of its press events."""
        name = event_name or f"WidgetButton_{text}"
        self._widgets.add(widgets.Button(text, name))
        return name

    # Events.

    def _poll_events(self) -> None:
        """Fetch pending window events."""
        if self._window is None:
            return
        for kind, key, down, x, y in self._window.events():
            self._handle(kind, key, down, x, y)

    def _handle(self, kind: str, key: str, down: bool, x: float, y: float) -> None:
        event = Event()
        if kind == "close":
            self._open = False
            event.type, event.key = EType.Press, self.EXIT
        elif kind == "key":
            # Ignore Shift for letters: what was pressed as `a` must not be released as `A`.
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
        name = self._widgets.handle(event.type, event.key, x * self.res[0], y * self.res[1]) if kind in ("button", "move") else None
        if name is not None:
            event.type, event.key = EType.Press, name
        event.modifier = [m for m in (self.SHIFT, self.ALT, self.CTRL) if m in self.key_pressed]
        if kind in ("key", "button") and name is None and event.key is not None:
            (self.key_pressed.add if down else self.key_pressed.discard)(event.key)
        self._events.append(event)

    def has_key_event(self) -> bool:
        """Return whether an event is pending."""
        self._poll_events()
        return bool(self._events)

    def get_event(self, *e_filter: Any) -> bool:
        """Move the next matching event to `event`; return False if there is none. Events that do not match are dropped."""
        for event in self.get_events(*e_filter):
            self.event = event
            return True
        return False

    def get_events(self, *e_filter: Any) -> Iterator[Event]:
        """Yield all pending events that match: types such as ``GUI.PRESS``, keys such as ``'a'``, or pairs of both."""
        wanted = EventFilter(*e_filter)
        while self.has_key_event():
            event = self._events.popleft()
            if wanted.match(event):
                yield event

    def get_key_event(self) -> Event:
        """Wait for the next event."""
        while not self.has_key_event():
            if self._window is None:
                raise WujiRuntimeError("`get_key_event` needs a window")
            time.sleep(0.005)
        return self._events.popleft()

    def is_pressed(self, *keys: str) -> bool:
        """Return whether one of the keys or buttons is held."""
        self._poll_events()
        return any(key in self.key_pressed or key.lower() in self.key_pressed for key in keys)

    def get_cursor_pos(self) -> tuple[float, float]:
        """Return the cursor position in [0, 1]."""
        self._poll_events()
        return self._cursor


# Color map: dark blue to yellow through red, with increasing lightness.
_COLOR_MAP = (0x0B0887, 0x46039F, 0x7601A8, 0x9D189D, 0xBD3786, 0xD8576B, 0xEC7853, 0xFB9F3A, 0xFDCA26, 0xF0F724)
_warned = False


def _open_window(name: str) -> Any:
    """Open a window; return None without a display."""
    global _warned
    from .. import _native

    try:
        return _native.Window(name)
    except OSError as error:
        if not _warned:
            _warned = True
            print(f"[Wuji] {error}; GUI draws offscreen", file=sys.stderr)
        return None


def _rows(value: Any) -> npt.NDArray[np.float64]:
    rows = as_numpy(value).astype(np.float64)
    if rows.ndim == 1 and rows.size == 0:
        return rows.reshape(0, 2)
    if rows.ndim != 2 or rows.shape[1] < 2:
        raise ValueError(f"positions must have shape (n, 2), not {rows.shape}")
    return rows[:, :2]


def _same_length(*values: Any) -> tuple[npt.NDArray[np.float64], ...]:
    rows = tuple(map(_rows, values))
    if len({len(r) for r in rows}) > 1:
        raise ValueError(f"the arguments must have the same number of positions, not {', '.join(str(len(r)) for r in rows)}")
    return rows


def _each(name: str, value: Any, count: int) -> npt.NDArray[np.float64]:
    values = as_numpy(value).astype(np.float64).reshape(-1)
    if len(values) not in (1, count):
        raise ValueError(f"{len(values)} values of {name} for {count} shapes")
    return values


def _pair(position: Any) -> tuple[float, float]:
    position = as_numpy(position).reshape(-1)
    if len(position) != 2:
        raise ValueError(f"a position needs two components, not {len(position)}")
    return float(position[0]), float(position[1])


def rgb_to_hex(c: Any) -> Any:
    """Convert RGB in [0, 1] to an integer: ``rgb_to_hex((0.2, 0.5, 1.0)) == 0x337fff``. Channels may be arrays."""
    red, green, blue = ((np.clip(np.asarray(channel, np.float64), 0, 1) * 255).astype(np.int64) for channel in c)
    converted = red << 16 | green << 8 | blue
    return int(converted) if converted.ndim == 0 else converted


def hex_to_rgb(color: Any) -> tuple[Any, Any, Any]:
    """Convert a color such as ``0x3388ff`` to RGB in [0, 1]. It may be an array."""
    return ((color >> 16) & 255) / 255, ((color >> 8) & 255) / 255, (color & 255) / 255


__all__ = ["GUI", "hex_to_rgb", "rgb_to_hex"]
