"""Widgets of `ti.ui`: they react to the mouse, and are drawn over the picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wuji as ti
from wuji.exceptions import WujiArrayError

WIDTH, HEIGHT = 400, 300


class User:
    """Moves the mouse over a window. Positions are in pixels from the upper left corner."""

    def __init__(self) -> None:
        self.window = ti.ui.Window("widgets", (WIDTH, HEIGHT), show_window=False)
        self.gui = self.window.get_gui()

    def at(self, x: float, y: float) -> tuple[float, float]:
        return x / WIDTH, 1 - y / HEIGHT

    def press(self, x: float, y: float) -> None:
        self.window._handle("button", "LMB", True, *self.at(x, y))

    def move(self, x: float, y: float) -> None:
        self.window._handle("move", "", False, *self.at(x, y))

    def release(self, x: float, y: float) -> None:
        self.window._handle("button", "LMB", False, *self.at(x, y))


@pytest.fixture
def user() -> User:
    return User()


# Rows of a panel in the upper left corner: its title, and widgets with 24 pixels each.
def row(number: int) -> float:
    return 34 + 24 * number


def panel(user: User, *widgets: Any) -> list[Any]:
    """Draw a frame with a panel, and show it."""
    with user.gui.sub_window("panel", 0, 0, 0.5, 0.5) as w:
        found = [widget(w) for widget in widgets]
    user.window.show()
    return found


def test_buttons_are_clicked_once(user: User) -> None:
    widgets = (lambda w: w.button("first"), lambda w: w.button("second"))
    assert panel(user, *widgets) == [False, False]
    user.press(20, row(1))
    assert panel(user, *widgets) == [False, False], "not before it is released"
    user.release(20, row(1))
    assert panel(user, *widgets) == [False, True]
    assert panel(user, *widgets) == [False, False]
    # Pressed and released between two frames.
    user.press(20, row(0)), user.release(20, row(0))
    assert panel(user, *widgets) == [True, False]
    # Released somewhere else.
    user.press(20, row(0)), panel(user, *widgets), user.move(300, 200), user.release(300, 200)
    assert panel(user, *widgets) == [False, False]
    user.window._handle("button", "RMB", True, *user.at(20, row(0)))
    user.window._handle("button", "RMB", False, *user.at(20, row(0)))
    assert panel(user, *widgets) == [False, False]


def test_checkboxes(user: User) -> None:
    values = [False]

    def frame() -> bool:
        values[0] = panel(user, lambda w: w.checkbox("on", values[0]))[0]
        return values[0]

    assert frame() is False
    user.press(18, row(0)), user.release(18, row(0))
    assert frame() is True and frame() is True
    user.press(40, row(0)), user.release(40, row(0))  # its label
    assert frame() is False


def test_sliders(user: User) -> None:
    values: list[Any] = [3, 0.25]

    def frame() -> list[Any]:
        values[:] = panel(user, lambda w: w.slider_int("int", values[0], 0, 10), lambda w: w.slider_float("float", values[1], -1, 1))
        return values

    assert frame() == [3, 0.25]
    # 65 % of the panel of 200 pixels, less its padding of 8.
    left, width = 8, 184 * 0.65
    user.press(left + 0.5 * width, row(0))
    assert frame() == [5, 0.25] and isinstance(values[0], int)
    user.move(left + 0.71 * width, 250)
    assert frame() == [7, 0.25], "it follows the mouse outside of its row"
    user.move(999, 0)
    assert frame() == [10, 0.25]
    user.release(999, 0), frame(), user.move(left, row(0))
    assert frame() == [10, 0.25]
    user.press(left + 0.75 * width, row(1))
    assert frame() == [10, pytest.approx(0.5)]
    # A value outside of the range stays until the slider is moved.
    user.release(left, row(1)), frame()
    assert panel(user, lambda w: w.slider_int("other", 99, 0, 10)) == [99]
    assert panel(user, lambda w: w.slider_float("none", 5, 5, 5)) == [5]


def test_colors(user: User) -> None:
    color = (0.25, 0.5, 0.75)

    def edit(w: Any) -> Any:
        return w.color_edit_3("edit", color)

    def pick(w: Any) -> Any:
        return w.color_picker_3("pick", color)

    assert panel(user, edit, pick) == [color, color]
    third = (184 * 0.65 - 20) / 3
    user.press(8 + third + (third - 4) * 0.999, row(0))
    assert panel(user, edit)[0] == (0.25, pytest.approx(1, abs=0.01), 0.75)
    user.release(0, 0), panel(user)
    # The upper right corner of the square is the pure color, and the bar chooses the hue.
    user.press(8 + 119, 25)
    assert panel(user, pick)[0] == pytest.approx((0, 0.5, 1), abs=0.02)
    user.release(0, 0), panel(user)
    user.press(8 + 120 + 4 + 10, 24 + 120 / 3)
    found = panel(user, pick)[0]
    assert found == pytest.approx((0.25, 0.75, 0.25), abs=0.02)


def test_widgets_are_drawn_over_the_picture(user: User) -> None:
    canvas = user.window.get_canvas()

    def drawn(*widgets: Any) -> Any:
        canvas.set_background_color((0, 0.5, 0))
        with user.gui.sub_window("panel", 0.1, 0.1, 0.5, 0.2) as w:
            for widget in widgets:
                widget(w)
        canvas.circles(np.array([[0.3, 0.8]]), radius=0.02, color=(1, 1, 1))
        return user.window.get_image_buffer_as_numpy()[..., :3]

    empty = drawn()
    top = HEIGHT - 30
    assert empty[5, 5].tolist() == [0, 0.5, 0] and empty[230, top - 5, 2] > 0.4, "a title"
    assert empty[220, top - 40].max() < 0.2, "a dark panel"
    assert empty[120, 240].max() < 0.3, "over the circle"
    written = drawn(lambda w: w.text("hello"))
    assert (written != empty).any(axis=2).sum() > 30 and written[40:120, top - 50 : top - 20].max() > 0.9
    red = drawn(lambda w: w.text("hello", color=(1, 0, 0)))
    assert red[40:120, top - 50 : top - 20, 0].max() > 0.9 > red[40:120, top - 50 : top - 20, 1].max()
    lines = drawn(lambda w: w.text("one\ntwo"), lambda w: w.button("three"))
    assert (lines != empty).any(axis=2).sum() > 300
    many = drawn(*[lambda w: w.text("row")] * 8)
    assert many[220, top - 180].max() < 0.2, "a panel grows with its widgets"
    on = drawn(lambda w: w.checkbox("x", True))
    off = drawn(lambda w: w.checkbox("x", False))
    assert 60 < (on != off).any(axis=2).sum() < 200


def test_panels_are_moved_by_their_titles(user: User) -> None:
    def corner() -> tuple[int, int]:
        with user.gui.sub_window("panel", 0.1, 0.1, 0.25, 0.2):
            pass
        title = user.window.get_image_buffer_as_numpy()[..., 2] > 0.4
        user.window.show()
        x, y = np.nonzero(title)
        return int(x.min()), int(HEIGHT - 1 - y.max())

    assert corner() == (40, 30)
    user.press(60, 35)
    assert corner() == (40, 30)
    user.move(160, 135)
    assert corner() == (140, 130)
    user.release(160, 135), corner(), user.move(10, 10)
    assert corner() == (140, 130)


def test_begin_and_end(user: User) -> None:
    gui = user.gui
    gui.begin("outer", 0, 0, 0.5, 0.5)
    gui.begin("inner", 0.5, 0.5, 0.5, 0.5)
    gui.end()
    gui.text("in the outer panel")
    gui.end()
    with pytest.raises(WujiArrayError, match="`end`: there is no `begin` before it") as caught:
        gui.end()
    assert caught.value.code == "W0611"
    # A panel that was not ended is drawn, and widgets without one have their own.
    gui.begin("open", 0, 0, 0.5, 0.5)
    gui.text("text")
    user.window.show()
    assert user.window.get_image_buffer_as_numpy()[100, HEIGHT - 5, 2] > 0.4
    assert gui.button("alone") is False
    assert user.window.get_image_buffer_as_numpy()[..., 2].max() > 0.4
    # An exception ends a panel.
    with pytest.raises(KeyError), gui.sub_window("fails", 0, 0, 0.5, 0.5):
        raise KeyError
    with pytest.raises(WujiArrayError):
        gui.end()


def test_bad_arguments_are_errors(user: User) -> None:
    gui = user.gui
    bad = [
        (lambda: gui.begin("x", "a", 0, 1, 1), "`begin`: `x` must be a number, not 'a'"),
        (lambda: gui.begin("x", 0, 0, 0, 1), "a panel must have a positive width and height, not 0 and 1"),
        (lambda: gui.begin("x", 0, 0, 1, float("nan")), "`height` must be finite, not nan"),
        (lambda: gui.begin("x", float("inf"), 0, 1, 1), "`x` must be finite, not inf"),
        (lambda: gui.slider_float("x", float("nan"), 0, 1), "`old_value` must be finite, not nan"),
        (lambda: gui.checkbox("x", np.zeros(2)), "`old_value` must be True or False"),
        (lambda: gui.color_edit_3("x", (0, float("inf"), 0)), "`color_edit_3`: `old_value` must be finite, not inf"),
        (lambda: gui.color_picker_3("x", (0, 0, float("nan"))), "`color_picker_3`: `old_value` must be finite, not nan"),
        (lambda: gui.slider_int("x", 0.5, 0, 1), "`slider_int`: `old_value` must be an integer, not 0.5"),
        (lambda: gui.slider_int("x", 0, 2, 1), "`minimum` must not be greater than `maximum`: 2 and 1"),
        (lambda: gui.slider_float("x", "a", 0, 1), "`slider_float`: `old_value` must be a number, not 'a'"),
        (lambda: gui.slider_float("x", 0, float("nan"), 1), "`minimum` must be finite, not nan"),
        (lambda: gui.color_edit_3("x", (1, 2)), "`color_edit_3`: `old_value` must be three numbers, not (1, 2)"),
        (lambda: gui.color_picker_3("x", 7), "`color_picker_3`: `old_value` must be three numbers, not 7"),
        (lambda: gui.text("x", color=3), "`text`: `color` must be three numbers, not 3"),
    ]
    for call, message in bad:
        with pytest.raises(WujiArrayError) as caught:
            call()
        assert message in str(caught.value), str(caught.value)
        assert caught.value.code == "W0611"
    # Panels far outside are clipped.
    with gui.sub_window("far", 1e30, -1e30, 1e30, 1e30) as w:
        w.slider_float("x", 0, 0, 1)
    assert not user.window.get_image_buffer_as_numpy()[..., :3].any()
