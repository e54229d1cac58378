"""Widgets of a `GUI`: sliders, labels and buttons in its upper right corner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _native

if TYPE_CHECKING:
    from .gui import EType

_WIDTH = 170
_HEIGHT = 26
_GAP = 4
_SIZE = 14


class WidgetValue:
    """A widget with a numeric value."""

    def __init__(self, text: str, value: float = 0.0) -> None:
        self.text = text
        self.value = value


class Label(WidgetValue):
    """A text with a number."""


class Slider(WidgetValue):
    """A slider."""

    def __init__(self, text: str, low: float, high: float, step: float) -> None:
        super().__init__(text, low)
        self.low, self.high, self.step = low, high, step

    def drag(self, part: float) -> None:
        """Move the handle to a fraction of the range."""
        value = self.low + min(max(part, 0.0), 1.0) * (self.high - self.low)
        if self.step > 0:
            value = self.low + round((value - self.low) / self.step) * self.step
        self.value = min(max(value, min(self.low, self.high)), max(self.low, self.high))


class Button(WidgetValue):
    """A button."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self.name = name
        self.held = False


class Panel:
    """The widgets of a window, stacked vertically."""

    def __init__(self, canvas: _native.Canvas) -> None:
        self.canvas = canvas
        self.widgets: list[WidgetValue] = []
        self.dragged: Slider | None = None

    def add(self, widget: WidgetValue) -> WidgetValue:
        self.widgets.append(widget)
        return widget

    def _corner(self, number: int) -> tuple[int, int]:
        """Return the lower left corner of a widget in pixels."""
        x = max(self.canvas.width - _WIDTH - _GAP, 0)
        return x, self.canvas.height - (number + 1) * (_HEIGHT + _GAP)

    def draw(self) -> None:
        for number, widget in enumerate(self.widgets):
            x, y = self._corner(number)
            lit = isinstance(widget, Button) and widget.held
            self.canvas.rectangle(x, y, _WIDTH, _HEIGHT, 0x6080A0 if lit else 0x304050)
            if isinstance(widget, Slider):
                part = (widget.value - widget.low) / (widget.high - widget.low or 1.0)
                self.canvas.rectangle(x, y, round(_WIDTH * part), _HEIGHT, 0x4080C0)
            text = widget.text if isinstance(widget, Button) else f"{widget.text}: {widget.value:.4g}"
            room = _WIDTH - 12
            size = min(_SIZE, _SIZE * room / max(_native.text_width(text, _SIZE), 1.0))
            self.canvas.text(text, x + 6, y + _HEIGHT - 5, size, 0xFFFFFF)

    def handle(self, kind: EType | None, key: str | None, x: float, y: float) -> str | None:
        """Handle a mouse event; return the name of the button that was pressed, if any."""
        press, release = kind == 1, kind == 2
        if key == "LMB" and release:
            self.dragged = None
            for widget in self.widgets:
                if isinstance(widget, Button):
                    widget.held = False
        if key == "LMB" and press:
            for number, widget in enumerate(self.widgets):
                left, low = self._corner(number)
                if left <= x < left + _WIDTH and low <= y < low + _HEIGHT:
                    if isinstance(widget, Slider):
                        self.dragged = widget
                    elif isinstance(widget, Button):
                        widget.held = True
                        return widget.name
        if self.dragged is not None:
            left = max(self.canvas.width - _WIDTH - _GAP, 0)
            self.dragged.drag((x - left) / _WIDTH)
        return None
