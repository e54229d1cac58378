"""`ti.ui.Window` and its canvas, without a display: pictures by their pixels, events, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wuji as ti
from wuji.exceptions import WujiArrayError

WIDTH, HEIGHT = 80, 40


@pytest.fixture
def window() -> Any:
    ti.init(arch=ti.cpu, verbose=False)
    return ti.ui.Window("canvas", (WIDTH, HEIGHT), show_window=False)


def image(window: Any) -> Any:
    found = window.get_image_buffer_as_numpy()
    assert found.shape == (WIDTH, HEIGHT, 4) and found.dtype == np.float32
    assert (found[..., 3] == 1).all()
    return found[..., :3]


def test_background(window: Any) -> None:
    assert not image(window).any()
    canvas = window.get_canvas()
    canvas.circles(np.array([[0.5, 0.5]]), radius=0.1, color=(1, 1, 1))
    canvas.set_background_color((0.25, 0.5, 0.75))  # after drawing, too
    picture = image(window)
    assert picture[0, 0].tolist() == [0.25, 0.5, 0.75] and picture[40, 20].tolist() == [1, 1, 1]
    window.show()
    canvas.circles(np.array([[0.1, 0.1]]), radius=0.1)
    assert image(window)[40, 20].tolist() == [0.25, 0.5, 0.75], "the background stays, shapes do not"


def test_a_frame_ends_when_it_is_shown_or_read(window: Any) -> None:
    canvas, at = window.get_canvas(), np.array([[0.5, 0.5]])
    canvas.circles(at, radius=0.1, color=(1, 0, 0))
    assert image(window)[40, 20].tolist() == [1, 0, 0]
    assert image(window)[40, 20].tolist() == [1, 0, 0], "it can be read twice"
    window.show()
    assert image(window)[40, 20].tolist() == [1, 0, 0], "and after it was shown"
    window.show()
    assert not image(window).any(), "a frame without shapes"
    for color in ((1, 0, 0), (0, 1, 0)):
        canvas.circles(at + (color[1] * 0.25), radius=0.1, color=color)
        picture = image(window)
    assert not picture[40, 20].any() and picture[60, 30].tolist() == [0, 1, 0], "without `show`, frames do not accumulate"


def test_circles(window: Any) -> None:
    centers = ti.Vector.field(2, ti.f32, 3)
    centers.from_numpy(np.array([[0.25, 0.5], [0.75, 0.5], [np.nan, 0.5]], np.float32))
    window.get_canvas().circles(centers, radius=0.25, color=(1, 0.5, 0))
    picture = image(window)
    # Radii are relative to the height.
    assert picture[20, 20].tolist() == picture[28, 20].tolist() == picture[20, 28].tolist() == [1, 0.5, 0]
    assert not picture[31, 20].any() and not picture[20, 31].any()
    assert picture[:, :, 0].sum() == pytest.approx(2 * np.pi * 100, rel=0.01), "anti-aliased"
    window.get_canvas().circles(
        np.array([[0.25, 0.5], [0.75, 0.5], [0.5, 0.5]]),
        radius=0.1,
        per_vertex_color=np.array([[1, 0, 0], [0, 0, 1], [0, 1, 0]]),
        per_vertex_radius=np.array([0.25, 0.1, -1.0]),
    )
    picture = image(window)
    assert picture[28, 20].tolist() == [1, 0, 0] and picture[60, 20].tolist() == [0, 0, 1] and not picture[68, 20].any() and not picture[40, 20].any()


def test_colors_may_have_alpha(window: Any) -> None:
    canvas, at = window.get_canvas(), np.array([[0.5, 0.5]])
    canvas.circles(at, radius=0.2, color=(1, 0, 0))
    canvas.circles(at, radius=0.1, per_vertex_color=np.array([[0, 1, 0, 0.25]]))
    assert image(window)[40, 20].tolist() == [0.75, 0.25, 0]


def test_lines(window: Any) -> None:
    canvas = window.get_canvas()
    vertices = np.array([[0.25, 0.5], [0.75, 0.5], [0.25, 0.9]])
    canvas.lines(vertices[:2], width=0.1, color=(1, 1, 1))
    picture = image(window)
    assert (picture[30, :, 0] > 0.5).sum() == 4 and picture[30, 18:22].all(), "4 of 40 rows"
    # Along a line, the color changes.
    indices = ti.field(ti.i32, 2)
    indices.from_numpy(np.array([0, 2], np.int32))
    canvas.lines(vertices, width=0.1, indices=indices, per_vertex_color=np.array([[1, 0, 0], [0, 0, 0], [0, 0, 1]]))
    picture = image(window)
    assert not picture[40, 20].any()
    red, _, blue = picture[20, 28]
    assert red == pytest.approx(1 - 8.5 / 16, abs=0.01) and blue == pytest.approx(8.5 / 16, abs=0.01)


def test_triangles(window: Any) -> None:
    canvas = window.get_canvas()
    corners = ti.Vector.field(2, ti.f32, 4)
    corners.from_numpy(np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float32))
    canvas.triangles(corners, indices=np.array([0, 1, 2, 0, 2, 3]), per_vertex_color=np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]))
    picture = image(window)
    x, y = np.meshgrid((np.arange(WIDTH) + 0.5) / WIDTH, (np.arange(HEIGHT) + 0.5) / HEIGHT, indexing="ij")
    assert np.allclose(picture[..., 0], x, atol=1e-5) and np.allclose(picture[..., 1], y, atol=1e-5)
    canvas.triangles(np.array([[0.1, 0.1], [0.4, 0.1], [0.1, 0.4], [0.6, 0.6], [0.9, 0.6], [0.6, 0.9]]), color=(0, 1, 0))
    picture = image(window)
    assert picture[12, 6].tolist() == picture[52, 26].tolist() == [0, 1, 0] and not picture[40, 20].any()
    assert (picture[..., 1] == 1).sum() == pytest.approx(2 * 24 * 12 / 2, rel=0.1)


@pytest.mark.parametrize("kind", ["field", "ndarray", "numpy", "texture"])
def test_images(window: Any, kind: str) -> None:
    values = np.zeros((WIDTH, HEIGHT, 3), np.float32)
    values[2, 3], values[70, 35] = [1, 0.5, 0.25], [np.nan, 7, -1]
    if kind == "field":
        source = ti.Vector.field(3, ti.f32, (WIDTH, HEIGHT))
        source.from_numpy(values)
    elif kind == "ndarray":
        source = ti.Vector.ndarray(3, ti.f32, (WIDTH, HEIGHT))
        source.from_numpy(values)
    elif kind == "texture":
        source = ti.Texture(ti.Format.rgba32f, (WIDTH, HEIGHT))
        source.from_numpy(values)
    else:
        source = values
    window.get_canvas().set_image(source)
    picture = image(window)
    assert picture[2, 3].tolist() == [1, 0.5, 0.25] and picture[70, 35].tolist() == [0, 1, 0]
    assert np.count_nonzero(picture.any(axis=2)) == 2


def test_images_of_other_types_and_sizes(window: Any) -> None:
    canvas = window.get_canvas()
    for dtype, white in ((ti.u8, 255), (ti.f32, 1), (ti.f64, 1), (ti.f16, 1), (ti.u16, 65535)):
        gray = ti.field(dtype, (WIDTH, HEIGHT))
        gray[5, 6] = white
        canvas.set_image(gray)
        picture = image(window)
        assert picture[5, 6].tolist() == [1, 1, 1] and picture.sum() == 3, dtype
    # Another size is stretched, and interpolated.
    canvas.set_image(np.array([[[255, 0, 0]], [[0, 0, 255]]], np.uint8))
    picture = image(window)
    assert picture[10, 10].tolist() == [1, 0, 0] and picture[70, 30].tolist() == [0, 0, 1]
    assert picture[40, 5].tolist() == pytest.approx([0.4875, 0, 0.5125])
    canvas.set_image(np.full((WIDTH, HEIGHT, 4), [0.5, 0.5, 0.5, 0], np.float32))
    assert (image(window) == 0.5).all(), "alpha is ignored"
    canvas.set_image(np.full((WIDTH, HEIGHT, 2), 0.5, np.float32))
    assert image(window)[3, 3].tolist() == [0.5, 0.5, 0]
    source = np.ones((HEIGHT, WIDTH), np.float32)
    canvas.set_image(source.T)
    source[:] = 0
    assert image(window).all(), "it is copied"


def test_contour(window: Any) -> None:
    canvas = window.get_canvas()
    values = ti.field(ti.f32, (WIDTH, HEIGHT))
    values.from_numpy(np.broadcast_to(np.linspace(-5, 5, WIDTH, dtype=np.float32)[:, None], (WIDTH, HEIGHT)))
    canvas.contour(values, normalize=True)
    picture = image(window)
    dark, light = picture[0, 0], picture[-1, -1]
    assert dark[2] > dark[0] and light[1] > 0.9 and len(np.unique(picture[:, 5, 0])) > 50
    canvas.contour(np.full((4, 4), 7.0))
    assert np.allclose(image(window), light)
    canvas.contour(np.full((4, 4), 7.0), normalize=True)
    assert np.allclose(image(window), dark)
    canvas.contour(np.full((4, 4), np.nan), normalize=True)
    assert not image(window).any()


def test_vector_field(window: Any) -> None:
    canvas = window.get_canvas()
    field = np.zeros((9, 5, 2))
    field[4, 4] = [3, 0]
    canvas.vector_field(field, arrow_spacing=4, scale=0.25, width=0.05, color=(1, 1, 1))
    lit = image(window)[..., 0] > 0.5
    # From the middle of the upper edge, a quarter of the window to the right.
    assert lit[41:59, 39].all() and not lit[:39].any() and not lit[62:].any()
    canvas.vector_field(np.zeros((9, 5, 2)))
    assert not image(window).any()
    canvas.vector_field(np.ones((1, 1, 2)), color=(1, 1, 1))
    assert image(window).any()


def test_images_are_saved(window: Any, tmp_path: Path) -> None:
    window.get_canvas().circles(np.array([[0.25, 0.75]]), radius=0.1, color=(1, 0, 1))
    file = str(tmp_path / "frame.png")
    window.save_image(file)
    saved = ti.tools.imread(file)
    assert saved.shape[:2] == (WIDTH, HEIGHT) and saved[20, 30, :3].tolist() == [255, 0, 255] and not saved[60, 10, :3].any()
    with pytest.raises(ti.TaichiRuntimeError, match="cannot write .*frame.png"):
        window.save_image(str(tmp_path / "nowhere" / "frame.png"))


def test_events(window: Any) -> None:
    assert window.running and window.get_window_shape() == (WIDTH, HEIGHT)
    assert window.event.key == "" and not window.get_event() and window.get_events() == []
    for kind, key, down, x, y in (
        ("key", "a", True, 0, 0),
        ("key", "A", False, 0, 0),
        ("button", "RMB", True, 0.25, 0.75),
        ("move", "", False, 0.5, 0.5),
        ("wheel", "", True, 0.5, 0.5),
        ("key", "Caps_Lock", True, 0, 0),
    ):
        window._handle(kind, key, down, x, y)
    assert window.is_pressed(ti.ui.RMB) and window.is_pressed("x", ti.ui.CAPSLOCK) and not window.is_pressed("a", ti.ui.LMB)
    assert window.get_cursor_pos() == (0.5, 0.5)
    # What does not match stays.
    assert window.get_event(ti.ui.RELEASE) and window.event.key == "a" and not window.get_event(ti.ui.RELEASE)
    assert window.get_event() and (window.event.key, window.event.type) == ("a", ti.ui.PRESS)
    assert [e.key for e in window.get_events(ti.ui.PRESS)] == [ti.ui.RMB, ti.ui.CAPSLOCK]
    assert window.get_events() == []
    window._handle("close", "", True, 0, 0)
    assert not window.running
    window.running = True
    assert window.running
    # Events that a program does not read are not kept forever.
    for _ in range(5000):
        window._handle("key", "b", True, 0, 0)
    assert len(window.get_events()) == 4096


def test_destroyed_windows(window: Any) -> None:
    canvas = window.get_canvas()
    with window:
        canvas.set_background_color((1, 1, 1))
    assert not window.running
    window.destroy()
    calls = (
        window.show,
        window.get_image_buffer_as_numpy,
        window.get_depth_buffer_as_numpy,
        lambda: window.save_image("x.png"),
        lambda: canvas.set_background_color((0, 0, 0)),
        lambda: canvas.circles(np.zeros((1, 2)), radius=0.1),
        lambda: window.get_gui().text("x"),
    )
    for call in calls:
        with pytest.raises(ti.TaichiRuntimeError, match="the window was destroyed") as caught:
            call()
        assert caught.value.code == "W0611"


def test_bad_arguments_are_errors(window: Any) -> None:
    canvas, p = window.get_canvas(), np.zeros((6, 2))
    bad = [
        (lambda: canvas.circles(np.zeros(4), radius=1), "`circles`: `centers` must be vectors with 2 or 3 components, not an array of shape (4,)"),
        (lambda: canvas.circles("abc", radius=1), "`centers` must be a field or an array of numbers, not `str`"),
        (lambda: canvas.circles(np.zeros((3, 2), complex), radius=1), "not an array of complex128"),
        (lambda: canvas.circles(p, radius=0), "`radius` must be positive and finite, not 0.0"),
        (lambda: canvas.circles(p, radius=float("nan")), "`radius` must be positive and finite, not nan"),
        (lambda: canvas.circles(p, radius="big"), "`radius` must be a number, not 'big'"),
        (lambda: canvas.circles(p, radius=1, color=(1, 2)), "`color` must be three numbers, not (1, 2)"),
        (lambda: canvas.circles(p, radius=1, per_vertex_color=np.zeros((5, 3))), "`per_vertex_color` has 5 elements for 6 vertices"),
        (lambda: canvas.circles(p, radius=1, per_vertex_color=np.zeros((1, 3))), "`per_vertex_color` has 1 elements for 6 vertices"),
        (lambda: canvas.circles(p, radius=1, per_vertex_color=np.zeros((6, 2))), "`per_vertex_color` must be vectors with 3 or 4 components"),
        (lambda: canvas.circles(p, radius=1, per_vertex_radius=np.zeros(5)), "`per_vertex_radius` has 5 elements for 6 vertices"),
        (lambda: canvas.lines(p[:5], width=0.1), "`lines`: 5 ends do not make whole lines"),
        (lambda: canvas.lines(p, width=-1), "`width` must be positive and finite, not -1.0"),
        (lambda: canvas.lines(p, width=0.1, indices=np.array([0, 6])), "index 6 at position 1 has no vertex: there are 6"),
        (lambda: canvas.lines(p, width=0.1, indices=np.array([0, -1])), "index -1 has no vertex"),
        (lambda: canvas.lines(p, width=0.1, indices=np.array([0.0, 1.0])), "`indices` must be integers, not float64"),
        (lambda: canvas.triangles(p[:4]), "`triangles`: 4 corners do not make whole triangles"),
        (lambda: canvas.triangles(p, indices=np.array([0, 1, 2**40])), "index 1099511627776 has no vertex"),
        (lambda: canvas.set_image(np.zeros(5)), "an image must have shape (w, h), or (w, h, 1) to (w, h, 4), not (5,)"),
        (lambda: canvas.set_image(np.zeros((4, 4, 5))), "not (4, 4, 5)"),
        (lambda: canvas.set_image(np.zeros((0, 4))), "not (0, 4, 1)"),
        (lambda: canvas.set_image(np.zeros((4, 4), np.int32)), "an image must have floats or unsigned integers, not int32"),
        (lambda: canvas.set_image(object()), "`img` must be a field or an array of numbers, not `object`"),
        (lambda: canvas.contour(np.zeros(4)), "`scalar_field` must be a 2-D scalar field, not an array of shape (4,)"),
        (lambda: canvas.contour(np.zeros((4, 4)), cmap_name="no such map"), "no such map"),
        (lambda: canvas.vector_field(np.zeros((4, 4, 3))), "`vector_field` must be a 2-D field of vectors with 2 components"),
        (lambda: canvas.contour(np.zeros((4, 4)), cmap_name=7), "`cmap_name` must be the name of a color map, not 7"),
        (lambda: canvas.contour(np.zeros((4, 4)), normalize=np.zeros(2)), "`normalize` must be True or False"),
        (lambda: canvas.vector_field(np.ones((4, 4, 2)), arrow_spacing=1.5), "`arrow_spacing` must be an integer, not 1.5"),
        (lambda: canvas.vector_field(np.ones((4, 4, 2)), arrow_spacing=0), "`arrow_spacing` must be at least 1, not 0"),
        (lambda: canvas.set_background_color("red"), "`color` must be three numbers, not 'red'"),
        (lambda: canvas.scene(7), "a `ti.ui.Scene` is needed, not 7"),
        (lambda: window.get_events("Held"), "`tag` must be `ti.ui.PRESS` or `ti.ui.RELEASE`, not 'Held'"),
        (lambda: window.get_event("Held"), "`tag` must be `ti.ui.PRESS` or `ti.ui.RELEASE`, not 'Held'"),
        (lambda: window.get_depth_buffer(ti.field(ti.f64, (WIDTH, HEIGHT))), "`depth` must be a field or an ndarray of f32 with shape (80, 40)"),
        (lambda: window.get_depth_buffer(ti.field(ti.f32, 4)), "of shape (4,)"),
        (lambda: window.get_depth_buffer(7), "not `int` of shape None"),
        (lambda: ti.ui.Window("x", (0, 5)), "`res` must be two integers from 1 to 16384, not (0, 5)"),
        (lambda: ti.ui.Window("x", "big"), "`res` must be two integers"),
        (lambda: ti.ui.Window("x", (9, 9), show_window=False, pos=7.5), "`pos` must be two integers"),
        (lambda: ti.ui.Window("x", (9, 9), show_window=False, fps_limit="fast"), "`fps_limit` must be a number of frames per second, not 'fast'"),
        (lambda: ti.ui.Window("x", (9, 9), show_window=False, fps_limit=-1), "`fps_limit` must be a number of frames per second, not -1"),
    ]  # fmt: skip
    for call, message in bad:
        with pytest.raises(WujiArrayError) as caught:
            call()
        assert message in str(caught.value), str(caught.value)
        assert caught.value.code == "W0611" and isinstance(caught.value, ValueError)
    assert not image(window).any(), "nothing of it was drawn"


def test_empty_arguments_draw_nothing(window: Any) -> None:
    canvas = window.get_canvas()
    canvas.circles(np.zeros((0, 2)), radius=0.1)
    canvas.circles([], radius=0.1)
    canvas.lines(np.zeros((0, 2)), width=0.1)
    canvas.triangles(np.zeros((3, 2)), indices=np.zeros(0))
    assert not image(window).any()


def test_windows_need_no_runtime() -> None:
    ti.reset()
    window = ti.ui.Window("plain", 16, show_window=False, vsync=True, fps_limit=None)
    window.get_canvas().set_background_color((0, 1, 0))
    window.show()
    assert window.get_window_shape() == (16, 16) and window.get_image_buffer_as_numpy()[3, 3].tolist() == [0, 1, 0, 1]
    ti.ui.check_ggui_availability()
    assert window.GUI is window.get_gui()
