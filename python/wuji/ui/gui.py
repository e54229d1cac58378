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
import math
import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .._arrays import as_numpy
from ..exceptions import WujiArrayError, WujiRuntimeError
from ..lang.dtypes import f32, f64, u8
from ..lang.field import MatrixField, ScalarField
from . import widgets
from .canvas import ArgumentError, each, new_canvas, numbers, pair, rows, rows_of
from .pace import Pace


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
    Circles, lines and text are anti-aliased: a pixel at some distance from the center or the line is covered by ``radius - distance``,
    between 0 and 1, so that a line of radius 1 is one pixel wide. Triangles have hard edges; a mesh has no seams.
    Shapes are clipped to the window, and those with a coordinate that is infinite or NaN are skipped.
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
        try:
            width, height = (int(res), int(res)) if np.ndim(res) == 0 else (int(r) for r in res)
        except (TypeError, ValueError, OverflowError):
            raise WujiArrayError(f"invalid `res` {res!r}: it must be a number of pixels, or one for each axis", "W0611") from None
        if width < 1 or height < 1:
            raise WujiArrayError(f"invalid `res` {res}: a window needs at least one pixel", "W0611")
        self.name = name
        self.res = (int(width), int(height))
        self.background_color = background_color
        self.fast_gui = self.get_bool_environ("TI_GUI_FAST", fast_gui)
        self.frame = 0
        self.event: Event | None = None
        self.key_pressed: set[str] = set()
        try:
            self.canvas = new_canvas(*self.res)
        except (MemoryError, ValueError, OverflowError) as e:
            raise WujiArrayError(f"invalid `res` {self.res}: there is no memory for so many pixels", "W0611") from e
        self.canvas.clear(background_color)
        self._open = True
        self._cursor = (0.0, 0.0)
        self._events: deque[Event] = deque()
        self._widgets = widgets.Panel(self.canvas)
        self._pace = Pace(60)
        self._window: Any = None
        if self.get_bool_environ("TI_GUI_SHOW", show_gui):
            self._window = open_window(name)

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
        return self._pace.fps

    @fps_limit.setter
    def fps_limit(self, value: float | None) -> None:
        if value is not None and not (isinstance(value, (int, float)) and value >= 0):
            raise ValueError(f"`fps_limit` must be a number of frames per second, not {value!r}")
        self._pace.fps = value

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

            # As in a window, without alpha.
            top_down = np.frombuffer(self.canvas.rows(), np.uint8).reshape(self.res[1], self.res[0], 3)
            imwrite(top_down.swapaxes(0, 1)[:, ::-1], file)
        elif self._window is not None:
            self._window.show(self.canvas)
            self._pace.wait()
            self._poll_events()
        self.frame += 1
        self.clear()

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
        array = self._image(img)
        target = new_canvas(*array.shape[:2])
        target.set_image(array)
        return target.image

    def _image(self, img: Any) -> npt.NDArray[Any]:
        """Return an image as an array with two or three axes."""
        if hasattr(img, "to_image"):
            img = np.asarray(img.to_image())[::-1].swapaxes(0, 1)
        array = as_numpy(img)
        if not array.ndim:
            raise ValueError(f"GUI.set_image only takes a Taichi field or NumPy array, not {type(img)}")
        if array.dtype.kind not in "fub":
            raise ValueError(f"Data type {array.dtype} not supported in GUI.set_image: use floats or unsigned integers")
        if not (array.ndim == 2 or (array.ndim == 3 and 1 <= array.shape[2] <= 4)):
            what = f"an image must have shape (w, h) or (w, h, 3), not {array.shape}"
            raise ArgumentError(f"Image must be grayscale, RG, RGB or RGBA: {what}")
        return numbers(array, self.canvas)

    def set_image(self, img: Any) -> None:
        """Draw an image from a field, an ndarray, a texture or a NumPy array: gray, or with up to four channels.

        Floats are in [0, 1]; unsigned integers use their full range. With ``fast_gui``, ``img`` must be a vector field with three or four
        channels of f32, f64 or u8, as in Taichi; it is drawn in the same way.
        """
        if self.fast_gui:
            self._check_fast_image(img)
        array = self._image(img)
        if array.shape[:2] != self.res:
            raise ArgumentError(f"Image resolution does not match GUI resolution: {array.shape[:2]} and {self.res}")
        self.canvas.set_image(array)
        if isinstance(img, ScalarField) and img.dtype.is_float:
            self.canvas.image[..., 3] = 0  # as in Taichi; fields of integers and arrays have alpha

    def _check_fast_image(self, img: Any) -> None:
        """Raise what Taichi raises for images that its fast path does not support."""
        path = "supported in GUI.set_image when fast_gui=True"
        if not isinstance(img, MatrixField):
            raise ArgumentError(f"Only ti.Vector.field is {path}, not {type(img).__name__}")
        if img.n not in (3, 4) or img.m != 1:
            raise ArgumentError(f"Only RGB images are {path}, not {img.n} x {img.m} matrices")
        if img.dtype not in (f32, f64, u8):
            raise ArgumentError(f"Only f32, f64, u8 are {path}, not {img.dtype}")

    def contour(self, scalar_field: Any, normalize: bool = False) -> None:
        """Draw a 2-D scalar field as a color map from dark blue (0) to yellow (1).

        ``normalize`` rescales its finite values to [0, 1]. A field of another size than the window is interpolated.
        """
        values = numbers(scalar_field, self.canvas)
        if values.ndim != 2:
            raise ValueError(f"`contour` needs a field with two axes, not {values.ndim}")
        if values.size == 0:
            raise ValueError(f"`contour` needs a field with elements, not one of shape {values.shape}")
        self.canvas.contour(values, normalize)

    def vector_field(self, vector_field: Any, arrow_spacing: int = 5, color: int = 0xFFFFFF) -> None:
        """Draw a 2-D vector field as arrows, one every ``arrow_spacing`` elements. The longest vector is a tenth of the window long."""
        field = numbers(vector_field, self.canvas)
        if field.ndim != 3 or field.shape[2] != 2:
            raise ValueError(f"a vector field must have shape (w, h, 2), not {field.shape}")
        if arrow_spacing < 1:
            raise ValueError(f"`arrow_spacing` must be at least 1, not {arrow_spacing}")
        lengths = np.hypot(field[..., 0], field[..., 1])
        longest = lengths.max(initial=0.0, where=np.isfinite(lengths))
        if longest == 0:
            return
        width, height = field.shape[:2]
        x, y = np.arange(0, width, arrow_spacing) / width, np.arange(0, height, arrow_spacing) / height
        starts = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
        arrows = field[::arrow_spacing, ::arrow_spacing].reshape(-1, 2)
        self.arrows(starts, arrows * (0.1 / longest), radius=1, color=color)

    # Shapes.

    def circle(self, pos: Any, color: int = 0xFFFFFF, radius: float = 1) -> None:
        """Draw a filled circle."""
        self.canvas.circle(pos, radius, color)

    def circles(self, pos: Any, radius: Any = 1, color: Any = 0xFFFFFF, palette: Any = None, palette_indices: Any = None) -> None:
        """Draw a filled circle at each row of ``pos``. Later ones are on top.

        ``radius`` and ``color`` are scalars or have one entry per circle. With a ``palette``, ``palette_indices`` selects the colors.
        """
        centers = rows(pos, self.canvas)
        if palette is not None:
            if palette_indices is None:
                raise AssertionError("palette must be used together with palette_indices")
            color = _chosen(palette, palette_indices, len(centers))
        elif palette_indices is not None:
            raise AssertionError("palette_indices must be used together with palette")
        self.canvas.circles(centers, self._radii(radius, len(centers)), self._colors(color, len(centers)))

    def triangle(self, a: Any, b: Any, c: Any, color: int = 0xFFFFFF) -> None:
        """Draw a filled triangle: all pixels whose center is inside or on an edge."""
        self.canvas.triangle(a, b, c, color)

    def triangles(self, a: Any, b: Any, c: Any, color: Any = 0xFFFFFF) -> None:
        """Draw filled triangles with corners at the rows of ``a``, ``b`` and ``c``."""
        first, second, third = rows_of(self.canvas, a, b, c)
        self.canvas.triangles(first, second, third, self._colors(color, len(first)))

    def line(self, begin: Any, end: Any, radius: float = 1, color: int = 0xFFFFFF) -> None:
        """Draw a line with round ends. Its width is ``2 * radius - 1`` pixels."""
        self.canvas.line(begin, end, radius, color)

    def lines(self, begin: Any, end: Any, radius: Any = 1, color: Any = 0xFFFFFF) -> None:
        """Draw lines from the rows of ``begin`` to those of ``end``."""
        begins, ends = rows_of(self.canvas, begin, end)
        self.canvas.lines(begins, ends, self._radii(radius, len(begins)), self._colors(color, len(begins)))

    def rect(self, topleft: Any, bottomright: Any, radius: float = 1, color: int = 0xFFFFFF) -> None:
        """Draw the outline of a rectangle."""
        (left, top), (right, bottom) = pair(topleft), pair(bottomright)
        corners = ((left, top), (right, top), (right, bottom), (left, bottom))
        for k, corner in enumerate(corners):
            self.canvas.line(corner, corners[k - 3], radius, color)

    def text(self, content: Any, pos: Any, font_size: float = 15, color: int = 0xFFFFFF) -> None:
        """Draw text with its upper left corner at ``pos``."""
        x, y = pair(pos)
        self.canvas.text(str(content), x * self.res[0], y * self.res[1], font_size, color)

    @staticmethod
    def _make_field_base(w: int, h: int, bound: float) -> npt.NDArray[np.float64]:
        # A grid without points has no spacing either.
        x, y = (np.linspace(bound / max(n, 1), 1 - bound / max(n, 1), n) for n in (w, h))
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
        """Draw an arrow from ``orig`` to ``orig + direction``. One without a direction is not drawn."""
        (x, y), (u, v) = pair(orig), pair(direction)
        if u == v == 0:
            return
        end = (x + u, y + v)
        self.canvas.line((x, y), end, radius, color)
        for tip in _tips(u, v, **kwargs):
            self.canvas.line(end, (end[0] + tip[0], end[1] + tip[1]), radius, color)

    def arrows(self, orig: Any, direction: Any, radius: Any = 1, color: Any = 0xFFFFFF, **kwargs: Any) -> None:
        """Draw arrows from the rows of ``orig``.

        Tips have ``tip_scale`` (0.2) of an arrow's length, at ``angle`` (45) degrees, both in normalized coordinates.
        """
        starts, along = rows_of(self.canvas, orig, direction)
        if not along.all(axis=1).all():
            # An arrow without a direction is not drawn, like everything with a NaN.
            starts = np.where(along.any(axis=1, keepdims=True), starts, np.nan)
        with np.errstate(invalid="ignore", over="ignore"):  # skipped later
            ends = starts + along
            tips = [ends + np.stack(tip, axis=1) for tip in _tips(along[:, 0], along[:, 1], **kwargs)]
        self.lines(starts, ends, radius, color)
        for tip in tips:
            self.lines(ends, tip, radius, color)

    def _radii(self, radius: Any, count: int) -> Any:
        return each("values of radius", radius, count, self.canvas)

    def _colors(self, color: Any, count: int) -> Any:
        return each("colors", color, count, self.canvas)

    # Widgets.

    def slider(self, text: str, minimum: float, maximum: float, step: float = 1) -> widgets.WidgetValue:
        """Add a slider. Its ``value`` can be read and set."""
        numbers = float(minimum), float(maximum), float(step)
        if not all(map(math.isfinite, numbers)):
            raise ValueError(f"the bounds and the step of a slider must be finite, not {minimum!r}, {maximum!r} and {step!r}")
        return self._widgets.add(widgets.Slider(text, *numbers))

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
        return any(str(key) in self.key_pressed or str(key).lower() in self.key_pressed for key in keys)

    def get_cursor_pos(self) -> tuple[float, float]:
        """Return the cursor position in [0, 1]."""
        self._poll_events()
        return self._cursor


_warned = False


def open_window(name: str, position: tuple[int, int] | None = None) -> Any:
    """Open a window; return None without a display."""
    global _warned
    from .. import _native

    try:
        return _native.Window(name, position)
    except OSError as error:
        if not _warned:
            _warned = True
            print(f"[Wuji] {error}; windows are drawn offscreen", file=sys.stderr)
        return None


def _chosen(palette: Any, indices: Any, count: int) -> Any:
    """Return the color of each circle."""
    chosen = as_numpy(indices).reshape(-1)
    if chosen.size and chosen.dtype.kind not in "iu":
        raise ArgumentError(f"palette_indices must be an integer array, not {chosen.dtype}")
    if len(chosen) != count:
        raise ArgumentError(f"{len(chosen)} palette_indices for {count} circles")
    if count and (chosen.min() < 0 or chosen.max() >= len(palette)):
        raise ArgumentError(f"palette_indices must be in 0..{len(palette) - 1}")
    return np.asarray(palette, np.int64)[chosen.astype(np.int64)]


def _tips(u: Any, v: Any, tip_scale: float = 0.2, angle: float = 45) -> list[tuple[Any, Any]]:
    """Return both tips of arrows along (u, v), relative to their ends."""
    turn = math.radians(180 - angle)
    cos, sin = tip_scale * math.cos(turn), tip_scale * math.sin(turn)
    return [(u * cos - v * sin, u * sin + v * cos), (u * cos + v * sin, v * cos - u * sin)]


def rgb_to_hex(c: Any) -> Any:
    """Convert RGB in [0, 1] to an integer: ``rgb_to_hex((0.2, 0.5, 1.0)) == 0x337fff``. Channels may be arrays."""
    red, green, blue = ((np.clip(np.asarray(channel, np.float64), 0, 1) * 255).astype(np.int32) for channel in c)
    converted = red << 16 | green << 8 | blue
    return int(converted) if converted.ndim == 0 else converted


def hex_to_rgb(color: Any) -> tuple[Any, Any, Any]:
    """Convert a color such as ``0x3388ff`` to RGB in [0, 1]. It may be an array."""
    return ((color >> 16) & 255) / 255, ((color >> 8) & 255) / 255, (color & 255) / 255


__all__ = ["GUI", "hex_to_rgb", "rgb_to_hex"]
