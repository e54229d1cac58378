"""Widgets of a `Window`, in immediate mode: each call draws a widget and returns its new value."""

from __future__ import annotations

import colorsys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .. import _native
from .arguments import finite, finite_triple, flag, integer, triple, unfit
from .constants import LMB

if TYPE_CHECKING:
    from .window import Window

Color = tuple[float, float, float, float]
Box = tuple[float, float, float, float]  # left, top, width, height; in pixels from the upper left corner

_FONT = 14.0
_ROW = 20.0
_GAP = 4.0
_PADDING = 8.0
# The part of a panel that controls take; their labels are to the right.
_CONTROL = 0.65
_CELLS = 16

_TITLE: Color = (0.16, 0.29, 0.48, 0.95)
_PANEL: Color = (0.06, 0.06, 0.06, 0.85)
_FIELD: Color = (0.16, 0.29, 0.48, 0.75)
_HOVERED: Color = (0.26, 0.59, 0.98, 0.6)
_ACTIVE: Color = (0.26, 0.59, 0.98, 1.0)
_TEXT: Color = (1.0, 1.0, 1.0, 1.0)


class Gui:
    """Widgets in panels over the picture.

    Positions and sizes of panels are relative to the window, from its upper left corner. A panel grows with its widgets, and is moved by its
    title. Widgets are identified by panel and label.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        self._panels: list[_Panel] = []
        self._drawing: list[Callable[[_native.Frame], None]] = []
        # How far panels were moved, in pixels.
        self._moved: dict[str, tuple[float, float]] = {}
        self._active: tuple[str, str] | None = None
        self._grip = (0.0, 0.0)
        # Where the button was pressed and released before this frame, and since it began.
        self._press: tuple[float, float] | None = None
        self._release: tuple[float, float] | None = None
        self._pending: list[tuple[float, float] | None] = [None, None]

    # Frames and input.

    def _button(self, name: str, down: bool, at: tuple[float, float]) -> None:
        if name == LMB:
            self._pending[0 if down else 1] = self._pixel(at)

    def _pixel(self, at: tuple[float, float]) -> tuple[float, float]:
        width, height = self._window._res
        return at[0] * width, (1 - at[1]) * height

    def _next_frame(self) -> None:
        """Forget the widgets, and the input that they have seen."""
        self._panels.clear()
        self._drawing.clear()
        if self._release is not None:
            self._active = None
        self._press, self._release = self._pending
        self._pending = [None, None]

    def _draw(self, frame: _native.Frame) -> None:
        while self._panels:
            self._close()
        for draw in self._drawing:
            draw(frame)

    def _cursor(self) -> tuple[float, float]:
        return self._pixel(self._window._cursor)

    def _touch(self, key: tuple[str, str], box: Box) -> tuple[bool, bool, bool]:
        """Return whether a control is hovered, held, and clicked."""
        if self._press is not None and _inside(self._press, box) and self._active is None:
            self._active = key
        held = self._active == key
        hovered = _inside(self._cursor(), box) and self._active in (None, key)
        clicked = held and self._release is not None and _inside(self._release, box)
        return hovered, held, clicked

    def _shade(self, hovered: bool, held: bool) -> Color:
        return _ACTIVE if held else _HOVERED if hovered else _FIELD

    # Panels.

    @contextmanager
    def sub_window(self, name: str, x: float, y: float, width: float, height: float) -> Iterator[Gui]:
        """Draw the widgets of the block in a panel: ``with gui.sub_window("options", 0.05, 0.05, 0.3, 0.2) as w:``."""
        self.begin(name, x, y, width, height)
        try:
            yield self
        finally:
            self.end()

    def begin(self, name: str, x: float, y: float, width: float, height: float) -> None:
        """Begin a panel. Widgets belong to it until `end`."""
        self._window._begin("begin")
        numbers = [finite("begin", what, value) for what, value in zip(("x", "y", "width", "height"), (x, y, width, height), strict=True)]
        if not (numbers[2] > 0 and numbers[3] > 0):
            raise unfit("begin", f"a panel must have a positive width and height, not {width} and {height}")
        columns, rows = self._window._res
        name = str(name)
        left, top = numbers[0] * columns, numbers[1] * rows
        left, top = self._move(name, left, top, numbers[2] * columns)
        self._panels.append(_Panel(name, left, top, numbers[2] * columns, numbers[3] * rows))

    def _move(self, name: str, left: float, top: float, width: float) -> tuple[float, float]:
        """Return the position of a panel that may be moved by its title."""
        dx, dy = self._moved.get(name, (0.0, 0.0))
        box = (left + dx, top + dy, width, _ROW)
        before = self._active
        _, held, _ = self._touch((name, ""), box)
        cursor = self._cursor()
        if held and before is None and self._press is not None:
            self._grip = (self._press[0] - dx, self._press[1] - dy)
        if held:
            dx, dy = cursor[0] - self._grip[0], cursor[1] - self._grip[1]
            self._moved[name] = (dx, dy)
        return left + dx, top + dy

    def end(self) -> None:
        """End the panel that was begun last."""
        if not self._panels:
            raise unfit("end", "there is no `begin` before it")
        self._close()

    def _close(self) -> None:
        panel = self._panels.pop()
        self._drawing.extend([panel.background(self._window._res[1]), *panel.drawing])

    def _row(self, call: str, rows: float = 1) -> tuple[_Panel, float]:
        """Return the panel and the upper edge of a new row."""
        self._window._begin(call)
        if not self._panels:
            # As in Dear ImGui, widgets without a panel have one of their own.
            self.begin("Debug", 0.02, 0.02, 0.3, 0.1)
        panel = self._panels[-1]
        top = panel.next
        panel.next += rows * _ROW + _GAP
        return panel, top

    def _rectangle(self, panel: _Panel, box: Box, color: Color) -> None:
        panel.drawing.append(_rectangle(box, color, self._window._res[1]))

    def _label(self, panel: _Panel, text: str, left: float, top: float, color: Color = _TEXT) -> None:
        panel.drawing.append(_text(text, left, top, color, self._window._res[1]))

    # Widgets.

    def text(self, text: Any, color: Any = None) -> None:
        """Draw text, in a color of three components."""
        shade = _TEXT if color is None else (*triple("text", "color", color), 1.0)
        lines = str(text).split("\n")
        panel, top = self._row("text", len(lines))
        self._label(panel, "\n".join(lines), panel.inner, top, shade)

    def button(self, text: Any) -> bool:
        """Draw a button. Return whether it was clicked."""
        label = str(text)
        panel, top = self._row("button")
        width = _native.text_width(label, _FONT) + 2 * _PADDING
        box = (panel.inner, top, width, _ROW)
        hovered, held, clicked = self._touch((panel.name, label), box)
        self._rectangle(panel, box, self._shade(hovered, held))
        self._label(panel, label, panel.inner + _PADDING, top)
        return clicked

    def checkbox(self, text: Any, old_value: Any) -> bool:
        """Draw a checkbox. Return whether it is checked."""
        label, value = str(text), flag("checkbox", "old_value", old_value)
        panel, top = self._row("checkbox")
        box = (panel.inner, top, _ROW, _ROW)
        reach = (panel.inner, top, _ROW + _PADDING + _native.text_width(label, _FONT), _ROW)
        hovered, held, clicked = self._touch((panel.name, label), reach)
        value = value != clicked
        self._rectangle(panel, box, self._shade(hovered, held))
        if value:
            self._rectangle(panel, (panel.inner + 5, top + 5, _ROW - 10, _ROW - 10), _TEXT)
        self._label(panel, label, panel.inner + _ROW + _PADDING, top)
        return value

    def slider_int(self, text: Any, old_value: Any, minimum: int, maximum: int) -> int:
        """Draw a slider. Return its value."""
        call = "slider_int"
        value, low, high = (integer(call, n, v) for n, v in (("old_value", old_value), ("minimum", minimum), ("maximum", maximum)))
        found = self._slider(call, str(text), value, low, high, lambda v: str(round(v)))
        return round(found)

    def slider_float(self, text: Any, old_value: Any, minimum: float, maximum: float) -> float:
        """Draw a slider. Return its value."""
        call = "slider_float"
        value, low, high = (finite(call, n, v) for n, v in (("old_value", old_value), ("minimum", minimum), ("maximum", maximum)))
        return float(self._slider(call, str(text), value, low, high, lambda v: f"{v:.3f}"))

    def _slider(self, call: str, label: str, value: float, low: float, high: float, shown: Callable[[float], str]) -> float:
        if not low <= high:
            raise unfit(call, f"`minimum` must not be greater than `maximum`: {low} and {high}")
        panel, top = self._row(call)
        box = (panel.inner, top, panel.control, _ROW)
        value = self._drag((panel.name, label), panel, box, value, low, high)
        self._label(panel, shown(value), panel.inner + _GAP, top)
        self._label(panel, label, panel.inner + panel.control + _PADDING, top)
        return value

    def _drag(self, key: tuple[str, str], panel: _Panel, box: Box, value: float, low: float, high: float) -> float:
        """Draw a bar that follows the cursor, and return its value."""
        hovered, held, _ = self._touch(key, box)
        if held:
            value = low + _part(self._cursor()[0], box[0], box[2]) * (high - low)
        filled = _part(value, low, high - low)
        self._rectangle(panel, box, _FIELD)
        self._rectangle(panel, (box[0], box[1], box[2] * filled, box[3]), _ACTIVE if held or hovered else _HOVERED)
        return value

    def color_edit_3(self, text: Any, old_value: Any) -> tuple[float, float, float]:
        """Draw a bar for each of red, green and blue. Return the color."""
        label, color = str(text), list(finite_triple("color_edit_3", "old_value", old_value))
        panel, top = self._row("color_edit_3")
        width = (panel.control - _ROW) / 3
        for k, channel in enumerate("RGB"):
            box = (panel.inner + k * width, top, width - _GAP, _ROW)
            color[k] = self._drag((panel.name, f"{label}/{channel}"), panel, box, color[k], 0.0, 1.0)
            self._label(panel, f"{channel}:{round(color[k] * 255)}", box[0] + 2, top)
        self._swatch(panel, label, top, color)
        return color[0], color[1], color[2]

    def _swatch(self, panel: _Panel, label: str, top: float, color: Any) -> None:
        self._rectangle(panel, (panel.inner + panel.control - _ROW, top, _ROW, _ROW), (*color, 1.0))
        self._label(panel, label, panel.inner + panel.control + _PADDING, top)

    def color_picker_3(self, text: Any, old_value: Any) -> tuple[float, float, float]:
        """Draw a square of saturations and values, and a bar of hues. Return the color."""
        label, color = str(text), finite_triple("color_picker_3", "old_value", old_value)
        panel, top = self._row("color_picker_3", 6)
        hue, saturation, value = colorsys.rgb_to_hsv(*(min(max(c, 0.0), 1.0) for c in color))
        side = 6 * _ROW
        square = (panel.inner, top, side, side)
        bar = (panel.inner + side + _GAP, top, _ROW, side)
        _, held, _ = self._touch((panel.name, f"{label}/square"), square)
        x, y = self._cursor()
        if held:
            saturation, value = _part(x, square[0], side), 1 - _part(y, top, side)
        _, turned, _ = self._touch((panel.name, f"{label}/hue"), bar)
        if turned:
            hue = min(_part(y, top, side), 0.999)
        cell = side / _CELLS
        for i in range(_CELLS):
            for j in range(_CELLS):
                shade = colorsys.hsv_to_rgb(hue, (i + 0.5) / _CELLS, 1 - (j + 0.5) / _CELLS)
                self._rectangle(panel, (square[0] + i * cell, top + j * cell, cell, cell), (*shade, 1.0))
            rainbow = colorsys.hsv_to_rgb((i + 0.5) / _CELLS, 1.0, 1.0)
            self._rectangle(panel, (bar[0], top + i * cell, _ROW, cell), (*rainbow, 1.0))
        mark = (square[0] + saturation * side - 2, top + (1 - value) * side - 2, 4, 4)
        self._rectangle(panel, mark, _TEXT)
        self._rectangle(panel, (bar[0], top + hue * side - 1, _ROW, 2), _TEXT)
        chosen = colorsys.hsv_to_rgb(hue, saturation, value) if held or turned else color
        self._rectangle(panel, (bar[0] + _ROW + _GAP, top, _ROW, _ROW), (*chosen, 1.0))
        self._label(panel, label, bar[0] + _ROW + _GAP, top + _ROW)
        return chosen


class _Panel:
    """A panel of widgets, in pixels from the upper left corner."""

    def __init__(self, name: str, left: float, top: float, width: float, height: float) -> None:
        self.name = name
        self.box = (left, top, width, height)
        self.inner = left + _PADDING
        self.control = max((width - 2 * _PADDING) * _CONTROL, 1.0)
        self.next = top + _ROW + _GAP
        self.drawing: list[Callable[[_native.Frame], None]] = []

    def background(self, rows: int) -> Callable[[_native.Frame], None]:
        left, top, width, height = self.box
        height = max(height, self.next - top)

        def draw(frame: _native.Frame) -> None:
            _rectangle((left, top, width, height), _PANEL, rows)(frame)
            _rectangle((left, top, width, _ROW), _TITLE, rows)(frame)
            _text(self.name, left + _PADDING, top, _TEXT, rows)(frame)

        return draw


def _inside(at: tuple[float, float], box: Box) -> bool:
    left, top, width, height = box
    return left <= at[0] < left + width and top <= at[1] < top + height


def _part(at: float, start: float, extent: float) -> float:
    """Return where a position is in a range, from 0 to 1."""
    return min(max((at - start) / extent, 0.0), 1.0) if extent > 0 else 0.0


def _rectangle(box: Box, color: Any, rows: int) -> Callable[[_native.Frame], None]:
    left, top, width, height = box
    x, y = _whole(left), rows - _whole(top + height)
    extents = (_whole(left + width) - x, _whole(top + height) - _whole(top))
    return lambda frame: frame.rectangle((x, y), extents, color)


def _text(content: str, left: float, top: float, color: Color, rows: int) -> Callable[[_native.Frame], None]:
    return lambda frame: frame.text(content, (left, rows - top - 2), _FONT, color)


def _whole(coordinate: float) -> int:
    """Return the nearest pixel; panels may be far outside."""
    return round(min(max(coordinate, -1e6), 1e6))


__all__ = ["Gui"]
