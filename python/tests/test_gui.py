"""The CPU-drawn window, offscreen: tests compare pixels."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import wuji as ti


@pytest.fixture
def gui() -> Any:
    return ti.GUI("test", res=(40, 20), background_color=0x112F41, show_gui=False)


BACK = (np.array([0x11, 0x2F, 0x41]) / 255).astype(np.float32)


def coverage(gui: ti.GUI) -> Any:
    """Return how much of each pixel white shapes cover, and clear the canvas."""
    image = gui.get_image()[:, :, 0].astype(np.float64)
    gui.clear()
    return (image - BACK[0]) / (1 - float(BACK[0]))


def from_distance(gui: ti.GUI, radius: float, center: float, distance: Any) -> Any:
    """Return the coverage of each pixel by its definition, `radius - distance`, where a pixel's center is at ``center`` in it."""
    x, y = np.meshgrid(np.arange(gui.res[0]) + center, np.arange(gui.res[1]) + center, indexing="ij")
    return np.clip(radius - distance(x, y), 0, 1)


def drawn(gui: ti.GUI) -> set[tuple[int, int]]:
    """Return the pixels that differ from the background."""
    image = gui.get_image()[:, :, :3]
    return {(int(x), int(y)) for x, y in np.argwhere(np.abs(image - BACK).max(axis=2) > 1e-6)}


def test_canvas_starts_with_the_background(gui: Any) -> None:
    image = gui.get_image()
    assert image.shape == (40, 20, 4) and image.dtype == np.float32
    assert np.allclose(image[3, 3], [*BACK, 1])
    assert gui.res == (40, 20) and gui.running and gui.frame == 0
    assert ti.GUI(show_gui=False).res == (512, 512)
    assert ti.GUI(res=8, show_gui=False).get_image()[0, 0].tolist() == [0, 0, 0, 1]


# Sums of coverage that Taichi 1.7.4 has for the same calls in a window of 40 by 20 pixels.
TAICHI_SUMS: list[tuple[Any, float]] = [
    (lambda gui: gui.circle((0.5, 0.5), radius=0.5), 0.5),
    (lambda gui: gui.circle((0.5, 0.5)), 1.0),
    (lambda gui: gui.circle((0.5, 0.5), radius=1.5), 3.3431),
    (lambda gui: gui.circle((0.51, 0.52), radius=1.5), 3.2315),
    (lambda gui: gui.circle((0.5, 0.5), radius=2), 7.3431),
    (lambda gui: gui.circle((0.5, 0.5), radius=3), 19.7977),
    (lambda gui: gui.circle((0.5, 0.5), radius=5), 63.2675),
    (lambda gui: gui.line((0.25, 0.5), (0.5, 0.5), radius=0.5), 0.0),
    (lambda gui: gui.line((0.25, 0.5), (0.5, 0.5)), 11.1716),
    (lambda gui: gui.line((0.25, 0.5), (0.5, 0.5), radius=1.5), 23.1716),
    (lambda gui: gui.line((0.25, 0.5), (0.5, 0.5), radius=2), 37.3509),
    (lambda gui: gui.line((0.25, 0.5), (0.5, 0.5), radius=3), 69.7948),
    (lambda gui: gui.line((0.25, 0.25), (0.5, 0.75), radius=1), 17.0294),
    (lambda gui: gui.line((0.25, 0.25), (0.5, 0.75), radius=2), 49.0666),
    (lambda gui: gui.triangle((0.25, 0.25), (0.5, 0.25), (0.5, 0.75)), 55.0),
    (lambda gui: gui.triangle((0.26, 0.26), (0.27, 0.26), (0.27, 0.27)), 0.0),
    (lambda gui: gui.rect((0.25, 0.75), (0.5, 0.25)), 42.1716),
    (lambda gui: gui.arrow((0.25, 0.25), (0.25, 0.25)), 16.3974),
]


@pytest.mark.parametrize(("draw", "expected"), TAICHI_SUMS)
def test_shapes_are_as_large_as_in_taichi(gui: Any, draw: Any, expected: float) -> None:
    draw(gui)
    assert coverage(gui).sum() == pytest.approx(expected, abs=2e-4)


def test_circle(gui: Any) -> None:
    gui.circle((0.5, 0.5), radius=5, color=0xFF0000)
    assert drawn(gui) == {(x, y) for x in range(40) for y in range(20) if (x - 20) ** 2 + (y - 10) ** 2 < 25}
    assert gui.get_image()[20, 10].tolist() == [1, 0, 0, 1]
    gui.clear()
    gui.circle((0.5, 0.5), radius=1)
    assert drawn(gui) == {(20, 10)}


@pytest.mark.parametrize("radius", [0.3, 1, 1.5, 4.2, 7.99, 8, 13, 500])
def test_circles_are_antialiased(gui: Any, radius: float) -> None:
    for x, y in ((0.5, 0.5), (0.513, 0.288), (-0.1, 0.9), (1.04, 1.2)):
        expected = from_distance(gui, radius, 0.0, lambda i, j: np.hypot(i - x * 40, j - y * 20))  # noqa: B023
        gui.circle((x, y), radius=radius)
        assert np.allclose(coverage(gui), expected, atol=1e-5)
        gui.circles(np.array([[x, y]]), radius=radius)
        assert np.allclose(coverage(gui), expected, atol=1e-5)


@pytest.mark.parametrize("radius", [0.3, 1, 1.5, 4.2, 30])
def test_lines_are_antialiased(gui: Any, radius: float) -> None:
    for a, b in (((0.1, 0.5), (0.9, 0.5)), ((0.5, 0.1), (0.5, 0.8)), ((0.9, 0.8), (0.2, 0.13)), ((-0.3, -1.2), (0.7, 3))):
        begin, end = np.array(a) * gui.res, np.array(b) * gui.res
        along = end - begin

        def distance(x: Any, y: Any) -> Any:
            t = np.clip(((x - begin[0]) * along[0] + (y - begin[1]) * along[1]) / (along @ along), 0, 1)  # noqa: B023
            return np.hypot(x - begin[0] - t * along[0], y - begin[1] - t * along[1])  # noqa: B023

        gui.line(a, b, radius=radius)
        expected = from_distance(gui, radius, 0.5, distance)
        assert np.allclose(coverage(gui), expected, atol=1e-5)


def test_circles_with_radii_colors_and_palettes(gui: Any) -> None:
    places = np.array([[0.25, 0.5], [0.75, 0.5]])
    gui.circles(places, radius=2, color=0x00FF00)
    assert len(drawn(gui)) == 18
    corner = BACK * (np.sqrt(2) - 1) + np.array([0, 1, 0]) * (2 - np.sqrt(2))
    assert np.allclose(gui.get_image()[9, 9, :3], corner, atol=1e-5)
    gui.clear()
    gui.circles(places, radius=np.array([1, 3]), color=np.array([0xFF0000, 0x0000FF]))
    assert len(drawn(gui)) == 1 + 25
    assert gui.get_image()[30, 10].tolist() == [0, 0, 1, 1]
    gui.circles(places, radius=1, palette=[0x101010, 0xFFFFFF], palette_indices=[1, 0])
    assert gui.get_image()[10, 10].tolist() == [1, 1, 1, 1]
    x = ti.Vector.field(2, ti.f32, 2)
    x.from_numpy(places.astype(np.float32))
    gui.clear()
    gui.circles(x, radius=2)
    assert len(drawn(gui)) == 18
    gui.circles(np.zeros((0, 2)))


def test_later_circles_are_drawn_on_top(gui: Any) -> None:
    places = np.full((1000, 2), 0.5)
    hues = np.arange(1, 1001)
    gui.circles(places, radius=3, color=hues)
    assert (gui.get_image()[20, 10, :3] * 255).round().tolist() == [0, 1000 >> 8, 1000 & 255]


def test_shapes_outside_the_canvas_are_clipped(gui: Any) -> None:
    nowhere = np.array([[np.nan, 0.5], [np.inf, 0.5], [1e30, 0.5], [-3, 0.5], [0.5, 7]])
    gui.circles(nowhere, radius=2)
    gui.lines(nowhere, nowhere)
    gui.triangles(nowhere, nowhere, nowhere)
    gui.arrows(nowhere, nowhere)
    for at in nowhere:
        gui.circle(at)
        gui.line(at, at)
        gui.triangle(at, at, at)
        gui.text("nowhere", at)
    gui.text("nowhere", (4, 4))
    assert drawn(gui) == set()
    gui.circle((0, 0), radius=3)
    assert drawn(gui) == {(x, y) for x in range(3) for y in range(3) if x * x + y * y < 9}


def test_huge_shapes_are_clipped(gui: Any) -> None:
    for huge in (1e3, 1e12, 1e200, float("inf")):
        gui.circle((0.5, 0.5), radius=huge)
        assert coverage(gui).min() == 1
        gui.line((0.5, 0.5), (0.6, 0.6), radius=huge)
        assert coverage(gui).min() == 1
    gui.triangle((-1e9, -1e9), (1e9, -1e9), (0, 1e9))
    assert coverage(gui).min() == 1
    gui.line((-1e9, 0.525), (1e9, 0.525), radius=1)
    covered = coverage(gui)
    assert np.allclose(covered[:, 10], 1) and covered.sum() == pytest.approx(40)
    for radius in (-1, 0, float("nan"), -float("inf")):
        gui.circle((0.5, 0.5), radius=radius)
        gui.line((0.1, 0.1), (0.5, 0.5), radius=radius)
    gui.text("x" * 10_000, (0.1, 0.1), font_size=1e9)
    gui.clear()
    gui.text("x", (0.1, 0.1), font_size=float("nan"))
    assert drawn(gui) == set()


def test_positions_of_all_types(gui: Any) -> None:
    point = ti.Vector.field(2, ti.f32, ())
    point[None] = (0.5, 0.5)
    for at in ((0.5, 0.5), [0.5, 0.5], np.array([0.5, 0.5], np.float32), ti.Vector([0.5, 0.5]), point[None], point, (0.5, 0.5, 9.0)):
        gui.circle(at)
        assert drawn(gui) == {(20, 10)}
        gui.clear()
    for dtype in (np.float16, np.float32, np.float64, np.longdouble, ">f4"):
        gui.circles(np.array([[0.5, 0.5]], dtype))
        gui.circles(np.full((2, 4), 0.5, dtype)[::-1, ::2])
        gui.circles(np.full((2, 2, 1), 0.5, dtype))
        assert drawn(gui) == {(20, 10)}
        gui.clear()
    gui.circles(np.array([[0, 0], [1, 1]], np.int32), radius=np.array([1, 1], np.uint8), color=np.array([0xFF0000, 1], np.uint32))
    assert drawn(gui) == {(0, 0)} and gui.get_image()[0, 0].tolist() == [1, 0, 0, 1]


def test_empty_arrays_draw_nothing(gui: Any) -> None:
    none = np.zeros((0, 2))
    gui.circles(none, radius=np.zeros(0), color=np.zeros(0, int), palette=[1], palette_indices=[])
    gui.circles([])
    gui.lines(none, none)
    gui.triangles(none, none, none)
    gui.arrows(none, none)
    gui.point_field(np.zeros((0, 3)))
    gui.arrow_field(np.zeros((3, 0, 2)))
    assert drawn(gui) == set()


def test_single_shapes_reject_invalid_arguments(gui: Any) -> None:
    for bad in ((0.5,), [], np.zeros(1), 0.5, None, ("a", "b"), np.zeros((2, 2))):
        with pytest.raises(ValueError, match="a position needs two numbers"):
            gui.circle(bad)
        with pytest.raises(ValueError, match="a position needs two numbers"):
            gui.line((0, 0), bad)
        with pytest.raises(ValueError, match="a position needs two numbers"):
            gui.triangle((0, 0), bad, (0, 0))
    for bad in ((0.5,), [], 0.5, None, ("a", "b"), (None, None), (10**400, 0)):
        with pytest.raises(ValueError, match="a position needs two numbers"):
            gui.rect((0, 0), bad)
        with pytest.raises(ValueError, match="a position needs two numbers"):
            gui.arrow(bad, (0, 0))
        with pytest.raises(ValueError, match="a position needs two numbers"):
            gui.text("x", bad)
    for color in (1.0, "red", None, -1, 1 << 40):
        with pytest.raises(TypeError, match="a color is an integer such as 0x3388ff"):
            gui.circle((0.5, 0.5), color=color)
        with pytest.raises(TypeError, match="a color is an integer such as 0x3388ff"):
            gui.line((0, 0), (1, 1), color=color)
    with pytest.raises(TypeError, match="real number"):
        gui.circle((0.5, 0.5), radius="wide")
    with pytest.raises(TypeError, match="array of numbers"):
        gui.circles(np.array([["a", "b"]]))
    assert drawn(gui) == set()


def test_circles_rejects_invalid_arguments(gui: Any) -> None:
    with pytest.raises(ValueError, match="shape \\(n, 2\\)"):
        gui.circles(np.zeros(4))
    # Taichi's class.
    with pytest.raises(AssertionError, match="shape \\(n, 2\\)"):
        gui.circles(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="3 colors for 2"):
        gui.circles(np.zeros((2, 2)), color=[1, 2, 3])
    with pytest.raises(ValueError, match="3 values of radius for 2"):
        gui.circles(np.zeros((2, 2)), radius=np.zeros(3))
    with pytest.raises(ValueError, match="integer array"):
        gui.circles(np.zeros((2, 2)), palette=[1], palette_indices=[0.0, 1.0])
    with pytest.raises(AssertionError, match="palette_indices"):
        gui.circles(np.zeros((2, 2)), palette=[1])
    with pytest.raises(ValueError, match="0\\.\\.0"):
        gui.circles(np.zeros((2, 2)), palette=[1], palette_indices=[0, 1])


def test_line(gui: Any) -> None:
    gui.line((0.1, 0.5), (0.9, 0.5), radius=1)
    covered = coverage(gui)
    # One pixel wide: half of the pixels above and below.
    assert np.allclose(covered[4:36, 9:11], 0.5, atol=1e-6) and np.count_nonzero(covered > 1e-6) == 2 * 34
    gui.lines(np.array([[0.5125, 0.1]]), np.array([[0.5125, 0.9]]), radius=1, color=0xFF0000)
    assert {x for x, _ in drawn(gui)} == {20}
    gui.clear()
    gui.line((0.5, 0.5), (0.5, 0.5), radius=1.5)
    assert drawn(gui) == {(19, 9), (19, 10), (20, 9), (20, 10)}


def test_slanted_lines_have_no_gaps(gui: Any) -> None:
    for end in ((0.9, 0.9), (0.2, 0.95), (0.95, 0.2), (0.95, 0.12)):
        gui.clear()
        gui.line((0.1, 0.1), end, radius=1)
        seen = drawn(gui)
        last = (round(end[0] * 40), round(end[1] * 20))
        reached, todo = {(4, 2)}, [(4, 2)]
        while todo:
            x, y = todo.pop()
            for near in ((x + i, y + j) for i in (-1, 0, 1) for j in (-1, 0, 1)):
                if near in seen and near not in reached:
                    reached.add(near)
                    todo.append(near)
        assert any(abs(x - last[0]) <= 1 and abs(y - last[1]) <= 1 for x, y in reached), end


def test_triangle(gui: Any) -> None:
    gui.triangle((0.1, 0.1), (0.5, 0.9), (0.9, 0.1))
    pixels = drawn(gui)
    for x, y in ((20, 5), (20, 16), (5, 3), (34, 3)):
        assert (x, y) in pixels, (x, y)
    for x, y in ((5, 10), (35, 10), (20, 1)):
        assert (x, y) not in pixels, (x, y)
    # Half the square with its edges, none of which is blurred.
    assert len(pixels) == 272
    assert set(coverage(gui).round(6).flat) == {0.0, 1.0}


def test_meshes_have_no_seams(gui: Any) -> None:
    rng = np.random.default_rng(3)
    x, y = np.meshgrid(np.linspace(0, 1, 9), np.linspace(0, 1, 6), indexing="ij")
    grid = np.stack([x, y], axis=-1)
    for jitter in (0.0, 0.03):
        points = grid.copy()
        points[1:-1, 1:-1] += jitter * (rng.random((7, 4, 2)) - 0.5)
        a, b, c, d = (p.reshape(-1, 2) for p in (points[:-1, :-1], points[1:, :-1], points[1:, 1:], points[:-1, 1:]))
        for winding in (1, -1):
            gui.triangles(*(a, b, c)[::winding])
            gui.triangles(*(a, c, d)[::winding])
            assert coverage(gui).min() == 1


def test_triangles(gui: Any) -> None:
    rng = np.random.default_rng(1)
    a, b, c = rng.random((3, 50, 2))
    gui.triangles(a, b, c, color=rng.integers(0, 1 << 24, 50))
    assert len(drawn(gui)) > 400
    with pytest.raises(ValueError, match="50, 49"):
        gui.triangles(a, b[:49], c)


def test_rect(gui: Any) -> None:
    gui.rect((0.1, 0.9), (0.6, 0.3), radius=1)
    pixels = drawn(gui)
    assert {(4, y) for y in range(6, 19)} | {(24, y) for y in range(6, 19)} <= pixels
    assert (10, 10) not in pixels


def test_text() -> None:
    gui = ti.GUI(res=200, show_gui=False)
    gui.text("Wuji", (0.1, 0.9), font_size=30, color=0xFFFF00)
    seen = np.argwhere(gui.get_image()[:, :, 0] > 0.5)
    assert 18 <= seen[:, 0].min() <= 24 and 60 < seen[:, 0].max() < 100
    assert 140 < seen[:, 1].min() and seen[:, 1].max() <= 180
    gui.clear()
    gui.text("two\nlines", (0.1, 0.9), font_size=15)
    assert np.argwhere(gui.get_image()[:, :, 0] > 0.5)[:, 1].min() < 160
    gui.text("ä€ are boxes, and\tspace is space", pos=(0, 1))
    gui.text(42, pos=(0, 1))


def test_every_glyph_is_different() -> None:
    pictures = set()
    for letter in map(chr, range(33, 127)):
        gui = ti.GUI(res=64, show_gui=False)
        gui.text(letter, (0.1, 0.9), font_size=40)
        pictures.add(gui.get_image().tobytes())
    assert len(pictures) == 94


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (np.full((40, 20), 0.5), [0.5, 0.5, 0.5]),
        (np.full((40, 20, 1), 0.5), [0.5, 0.5, 0.5]),
        (np.full((40, 20, 3), [0.1, 0.2, 0.3], np.float32), [0.1, 0.2, 0.3]),
        (np.full((40, 20, 4), [0.1, 0.2, 0.3, 1.0]), [0.1, 0.2, 0.3]),
        (np.full((40, 20, 2), 0.25), [0.25, 0.25, 0]),
        (np.full((40, 20), 51, np.uint8), [0.2, 0.2, 0.2]),
        (np.full((40, 20), 1 << 15, np.uint16), [0.5, 0.5, 0.5]),
    ],
)
def test_images(gui: Any, image: Any, expected: list[float]) -> None:
    gui.set_image(image)
    assert np.allclose(gui.get_image()[7, 7, :3], expected, atol=1e-4)


def test_set_image_takes_fields(gui: Any) -> None:
    pixels = ti.Vector.field(3, ti.f32, (40, 20))
    gray = ti.field(ti.u8, (40, 20))
    array = ti.ndarray(ti.f32, (40, 20))

    @ti.kernel
    def paint(out: ti.types.ndarray()):
        for i, j in pixels:
            pixels[i, j] = ti.Vector([i / 40, j / 20, 1.0])
            gray[i, j] = 255
            out[i, j] = 0.25

    paint(array)
    gui.set_image(pixels)
    assert np.allclose(gui.get_image()[10, 5, :3], [0.25, 0.25, 1])
    gui.set_image(gray)
    assert gui.get_image()[10, 5, 0] == 1
    gui.set_image(array)
    assert gui.get_image()[10, 5, 0] == 0.25


ELEMENTS = [
    (ti.u8, 255, True),
    (ti.u16, 2**16 - 1, False),
    (ti.u32, 2**32 - 1, False),
    (ti.u64, 2**64 - 1, False),
    (ti.f16, 1, False),
    (ti.f32, 1, True),
    (ti.f64, 1, True),
]


@pytest.mark.parametrize("offset", [None, (0, 0), (-3, 5), (2000, -4000)])
@pytest.mark.parametrize(("dtype", "white", "fast"), ELEMENTS)
def test_set_image_takes_fields_with_an_offset(dtype: Any, white: int, fast: bool, offset: Any) -> None:
    gray = ti.field(dtype, (6, 4), offset=offset)
    a, b = offset or (0, 0)
    gray[a + 5, b + 1] = white
    expected = np.zeros((6, 4))
    expected[5, 1] = 1
    for fast_gui in (False, True):
        gui = ti.GUI(res=(6, 4), show_gui=False, fast_gui=fast_gui)
        for n in (2, 3, 4):
            image = ti.Vector.field(n, dtype, (6, 4), offset=offset)
            image[a + 5, b + 1] = [white] * (n - 1) + [0]
            if fast_gui and (n == 2 or not fast):
                with pytest.raises(AssertionError, match="fast_gui=True"):
                    gui.set_image(image)
                continue
            gui.set_image(image)
            assert np.array_equal(gui.get_image()[:, :, : n - 1], np.repeat(expected[:, :, None], n - 1, 2))
            assert not gui.get_image()[:, :, n - 1].any()
        if fast_gui:
            with pytest.raises(AssertionError, match="Only ti.Vector.field"):
                gui.set_image(gray)
        else:
            gui.set_image(gray)
            channels = np.repeat(expected[:, :, None], 4, 2)
            channels[:, :, 3] *= not dtype.is_float  # as in Taichi
            assert np.array_equal(gui.get_image(), channels)


@pytest.mark.parametrize("fast_gui", [False, True])
def test_images_are_saved_exactly(fast_gui: bool, tmp_path: Any) -> None:
    file = str(tmp_path / "x.png")
    gui = ti.GUI(res=(16, 16), show_gui=False, fast_gui=fast_gui)
    shades = np.arange(256, dtype=np.uint8).reshape(16, 16)
    for dtype in (ti.u8, ti.f32, ti.f64):
        image = ti.Vector.field(3, dtype, (16, 16), offset=(-8, 3))
        image.from_numpy(np.repeat((shades if dtype is ti.u8 else shades / 255)[:, :, None], 3, 2))
        gui.set_image(image)
        gui.show(file)
        assert np.array_equal(ti.tools.imread(file)[:, :, 0], shades)
    # What no byte can show is dark or light, as in a window.
    broken = np.zeros((16, 16), np.float32)
    broken[:3, 0] = np.nan, np.inf, -np.inf
    if not fast_gui:
        gui.set_image(broken)
        gui.show(file)
        assert ti.tools.imread(file)[:4, 0, 0].tolist() == [0, 255, 0, 0]


def test_images_may_be_views(gui: Any) -> None:
    rng = np.random.default_rng(4)
    image = rng.random((20, 40, 5))
    gui.set_image(image.swapaxes(0, 1)[:, :, 3:0:-1])
    assert np.allclose(gui.get_image()[:, :, :3], image.swapaxes(0, 1)[:, :, 3:0:-1])
    # The canvas itself, mirrored.
    before = gui.get_image()
    gui.set_image(gui.img[::-1])
    assert np.array_equal(gui.get_image(), before[::-1])
    gui.contour(gui.img[:, :, 0])
    assert not np.shares_memory(gui.get_image(), gui.img)


def test_img_is_the_canvas(gui: Any) -> None:
    assert gui.img is gui.img and gui.img.shape == (40, 20, 4)
    gui.img[3, 4] = [1, 0, 0, 1]
    assert drawn(gui) == {(3, 4)}
    image = gui.img
    gui.circle((0.5, 0.5))
    assert image[20, 10].tolist() == [1, 1, 1, 1]
    # The pixels outlive the window.
    del gui
    image[:] = 0.5


def test_set_image_rejects_invalid_images(gui: Any) -> None:
    with pytest.raises(AssertionError, match="resolution"):
        gui.set_image(np.zeros((10, 10)))
    with pytest.raises(ValueError, match="int32 not supported"):
        gui.set_image(np.zeros((40, 20), np.int32))
    with pytest.raises(ValueError, match="shape"):
        gui.set_image(np.zeros((40, 20, 5)))
    with pytest.raises(AssertionError, match="Image must be grayscale, RG, RGB or RGBA"):
        gui.set_image(ti.Matrix.field(2, 2, ti.f32, (40, 20)))
    with pytest.raises(ValueError, match="complex128 not supported"):
        gui.set_image(np.zeros((40, 20), complex))
    with pytest.raises(ValueError, match="only takes a Taichi field or NumPy array"):
        gui.set_image(object())


def test_contour(gui: Any) -> None:
    field = ti.field(ti.f32, (40, 20))
    gui.contour(field)
    dark = gui.get_image()[5, 5]
    field.fill(1.0)
    gui.contour(field)
    light = gui.get_image()[5, 5]
    assert light[:3].sum() > dark[:3].sum() + 0.5
    gui.contour(np.arange(800.0).reshape(40, 20), normalize=True)
    assert np.allclose(gui.get_image()[0, 0], dark, atol=0.02) and np.allclose(gui.get_image()[39, 19], light, atol=0.02)
    gui.contour(np.zeros((4, 4)), normalize=True)
    assert np.allclose(gui.get_image(), dark)
    # A field of another size is interpolated, and NaN is black.
    gui.contour(np.array([[0.0, 0.0], [1.0, 1.0]]))
    red = gui.get_image()[:, 7, 1]
    assert np.allclose(gui.get_image()[0, 3], dark) and np.allclose(gui.get_image()[39, 3], light) and len(set(red)) == 40
    gui.contour(np.array([[5, np.nan], [np.inf, 9]]), normalize=True)
    corners = gui.get_image()[[0, 0, -1, -1], [0, -1, 0, -1]]
    assert np.allclose(corners, [dark, [0, 0, 0, 1], light, light])
    with pytest.raises(ValueError, match="with elements"):
        gui.contour(np.zeros((0, 3)))
    with pytest.raises(ValueError, match="two axes"):
        gui.contour(np.zeros(4))


def test_arrows(gui: Any) -> None:
    gui.arrow((0.1, 0.5), (0.6, 0.0), radius=1)
    pixels = drawn(gui)
    assert {(x, 10) for x in range(4, 28)} <= pixels
    assert {y for _, y in pixels} != {10}, "a tip"
    gui.clear()
    gui.arrow_field(np.full((4, 4, 2), 0.1))
    assert len(drawn(gui)) > 40
    gui.clear()
    gui.vector_field(np.full((40, 20, 2), 3.0))
    assert len(drawn(gui)) > 40
    gui.vector_field(np.zeros((40, 20, 2)))
    gui.vector_field(np.zeros((0, 20, 2)))
    with pytest.raises(ValueError, match="arrow_spacing"):
        gui.vector_field(np.ones((40, 20, 2)), arrow_spacing=0)
    gui.clear()
    # The longest vector is a tenth of the window long.
    field = np.zeros((2, 2, 2), np.float32)
    field[1, 0] = [50, 0]
    field[0, 1] = [np.nan, np.inf]
    gui.vector_field(field, arrow_spacing=1)
    assert {x for x, _ in drawn(gui)} == set(range(19, 25))
    gui.clear()
    gui.arrow((0.5, 0.5), (0, 0))
    assert drawn(gui) == set()
    gui.point_field(np.full((4, 2), 2.0))
    assert len(drawn(gui)) == 8 * 9
    assert (5, 5) in drawn(gui)


def test_show_counts_and_clears(gui: Any) -> None:
    gui.clear(0xFF0000)
    assert gui.get_image()[0, 0].tolist() == [1, 0, 0, 1]
    gui.show()
    assert gui.frame == 1
    assert drawn(gui) == set()


def test_running(gui: Any) -> None:
    gui.running = False
    assert not gui.running
    with ti.GUI(res=8, show_gui=False) as other:
        assert other.running
    assert not other.running


def test_fps_limit(gui: Any) -> None:
    assert gui.fps_limit == pytest.approx(60)
    gui.fps_limit = 30
    assert gui.fps_limit == pytest.approx(30)
    gui.fps_limit = None
    assert gui.fps_limit is None


def test_events(gui: Any) -> None:
    assert not gui.get_event() and not gui.has_key_event()
    gui._handle("key", "a", True, 0, 0)
    gui._handle("button", "LMB", True, 0.25, 0.75)
    gui._handle("move", "", False, 0.3, 0.7)
    gui._handle("wheel", "", True, 0.3, 0.7)
    gui._handle("key", "Escape", True, 0, 0)
    assert gui.is_pressed("a") and gui.is_pressed(ti.GUI.LMB, "x") and not gui.is_pressed("b")
    assert gui.get_cursor_pos() == (0.3, 0.7)
    assert gui.get_event(ti.GUI.PRESS) and gui.event.key == "a" and gui.event.type == ti.GUI.PRESS
    assert gui.get_event((ti.GUI.PRESS, ti.GUI.LMB)) and gui.event.pos == (0.25, 0.75)
    assert [e.key for e in gui.get_events(ti.GUI.MOTION)] == [ti.GUI.MOVE, ti.GUI.WHEEL]
    gui._handle("key", "Shift", True, 0, 0)
    gui._handle("key", "A", False, 0, 0)
    events = list(gui.get_events())
    assert events[-1].modifier == [ti.GUI.SHIFT] and events[-1].type == ti.GUI.RELEASE
    assert not gui.is_pressed("a")
    gui._handle("close", "", True, 0, 0)
    assert not gui.running and gui.get_key_event().key == ti.GUI.EXIT


def test_get_key_event_needs_a_window(gui: Any) -> None:
    with pytest.raises(ti.TaichiRuntimeError, match="needs a window"):
        gui.get_key_event()


def test_widgets() -> None:
    gui = ti.GUI(res=400, show_gui=False)
    slider = gui.slider("speed", 0, 10, step=0.5)
    label = gui.label("count")
    name = gui.button("go", event_name="went")
    assert gui.button("stop") == "WidgetButton_stop"
    assert slider.value == 0 and name == "went"
    label.value = 7
    slider.value = 4
    empty = gui.get_image()
    gui._widgets.draw()
    assert not np.array_equal(gui.get_image(), empty)
    # The middle of the slider is the middle of its range.
    gui._handle("button", "LMB", True, (400 - 4 - 85) / 400, (400 - 15) / 400)
    assert slider.value == 5
    gui._handle("move", "", False, 1.5, 0.1)
    assert slider.value == 10
    gui._handle("button", "LMB", False, 1.5, 0.1)
    gui._handle("move", "", False, 0.1, 0.1)
    assert slider.value == 10
    list(gui.get_events())
    gui._handle("button", "LMB", True, (400 - 4 - 85) / 400, (400 - 2 * 30 - 15) / 400)
    assert [e.key for e in gui.get_events(ti.GUI.PRESS)] == ["went"]


def test_shapes_are_drawn_fast() -> None:
    # Generous, for slow and busy machines: typical times are a hundredth.
    gui = ti.GUI(res=512, show_gui=False)
    places = np.random.default_rng(2).random((20_000, 2))
    started = time.perf_counter()
    gui.circles(places, radius=1.5)
    gui.lines(places[:2000], places[:2000] + 0.01)
    for at in places[:2000].tolist():
        gui.circle(at)
        gui.line(at, (at[0] + 0.01, at[1]))
        gui.triangle(at, (at[0] + 0.01, at[1]), (at[0], at[1] + 0.01))
    assert time.perf_counter() - started < 5.0


@pytest.mark.parametrize("numbers", [(float("nan"), 1), (0, float("inf")), (0, 1, float("nan"))])
def test_sliders_have_finite_bounds(gui: Any, numbers: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        gui.slider("speed", *numbers)
    # The frame is drawn: no slider was added.
    gui.get_image()


@pytest.mark.parametrize("limit", [-1, float("nan"), "fast"])
def test_a_wrong_fps_limit_is_rejected(gui: Any, limit: Any) -> None:
    with pytest.raises(ValueError, match="`fps_limit` must be a number of frames per second"):
        gui.fps_limit = limit


def test_color_conversions() -> None:
    assert ti.rgb_to_hex((0.2, 0.5, 1.0)) == 0x337FFF
    assert ti.hex_to_rgb(0x3388FF) == pytest.approx((0.2, 136 / 255, 1.0))
    assert ti.rgb_to_hex(np.array([[0.1, 0.2, 0.3], [1, 1, 1]]).T).tolist() == [1651532, 16777215]
    assert ti.hex_to_rgb(np.array([0x3388FF, 0]))[0].tolist() == pytest.approx([0.2, 0])


def test_names_of_both_interfaces() -> None:
    assert ti.ui.LMB == ti.GUI.LMB == "LMB" and ti.ui.GUI is ti.GUI
    assert (ti.ui.PRESS, ti.ui.RELEASE, ti.ui.CAPSLOCK, ti.ui.SPACE) == ("Press", "Release", "CapsLock", " ")
