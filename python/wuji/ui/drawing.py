"""The canvas of a `Window`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _native
from . import arguments
from .arguments import checked, colors, flag, image, integer, number, numbers, one_for_each, positions, positive, scalars, triple, unfit
from .scene import Scene

if TYPE_CHECKING:
    from .window import Window

_GRAY = (0.5, 0.5, 0.5)
# The tips of arrows.
_TIP_LENGTH, _TIP_ANGLE = 0.2, math.radians(150)


class Canvas:
    """The drawing area of a `Window`. What is drawn later is on top.

    Positions are normalized to [0, 1], x to the right and y up. Radii and widths are relative to the height of the window. Colors have
    three components in [0, 1], or four with an alpha. Circles and lines are anti-aliased. Shapes with a position that is infinite or NaN
    are not drawn.
    """

    def __init__(self, window: Window) -> None:
        self._window = window

    def set_background_color(self, color: Any) -> None:
        """Set the color of what is not drawn on. It stays for the following frames."""
        self._window._set_background(triple("set_background_color", "color", color))

    def set_image(self, img: Any) -> None:
        """Draw an image from a field, an ndarray, a texture or a NumPy array, stretched to the window: gray, or with up to four channels.

        Floats are in [0, 1]; unsigned integers use their full range. Alpha is ignored.
        """
        pixels = image("set_image", img)
        frame = self._window._frame
        self._window._draw("set_image", lambda: frame.set_image(pixels))

    def contour(self, scalar_field: Any, cmap_name: str = "plasma", normalize: bool = False) -> None:
        """Draw a 2-D scalar field as colors from 0 to 1, or of the range of its finite values if ``normalize``.

        Color maps other than ``"plasma"`` are those of Matplotlib, which they need.
        """
        call = "contour"
        values = np.ascontiguousarray(numbers(call, "scalar_field", scalar_field), np.float32)
        if values.ndim != 2 or values.size == 0:
            raise unfit(call, f"`scalar_field` must be a 2-D scalar field, not an array of shape {values.shape}")
        if not isinstance(cmap_name, str):
            raise unfit(call, f"`cmap_name` must be the name of a color map, not {cmap_name!r}")
        low, high = 0.0, 1.0
        known = values[np.isfinite(values)]
        if flag(call, "normalize", normalize) and known.size:
            low, high = float(known.min()), float(known.max())
        if cmap_name != "plasma":
            self.set_image(_mapped(cmap_name, (values - low) / ((high - low) or 1.0)))
            return
        frame = self._window._frame
        self._window._draw(call, lambda: frame.contour(values, low, high))

    def vector_field(
        self, vector_field: Any, arrow_spacing: int = 5, scale: float = 0.1, width: float = 0.002, color: Any = (0, 0, 0)
    ) -> None:
        """Draw a 2-D field of vectors as arrows, one every ``arrow_spacing`` elements. The longest one has the length ``scale``."""
        call = "vector_field"
        field = numbers(call, "vector_field", vector_field)
        if field.ndim != 3 or field.shape[2] != 2 or field.size == 0:
            raise unfit(call, f"`vector_field` must be a 2-D field of vectors with 2 components, not an array of shape {field.shape}")
        spacing = integer(call, "arrow_spacing", arrow_spacing)
        if spacing < 1:
            raise unfit(call, f"`arrow_spacing` must be at least 1, not {spacing}")
        lengths = np.hypot(field[..., 0], field[..., 1])
        longest = lengths.max(initial=0.0, where=np.isfinite(lengths))
        # The last element of each axis has an arrow, too.
        i, j = (np.append(np.arange(n // spacing) * spacing, n - 1) for n in field.shape[:2])
        x, y = np.meshgrid(i / max(field.shape[0] - 1, 1), j / max(field.shape[1] - 1, 1), indexing="ij")
        arrows = field[np.ix_(i, j)] * (number(call, "scale", scale) / (longest or 1.0))
        starts = np.stack([x, y], axis=-1).reshape(-1, 2)
        arrows = arrows.reshape(-1, 2)
        moving = arrows.any(axis=1)
        self._lines(call, _arrows(starts[moving], arrows[moving]), positive(call, "width", width), None, color, None)

    def triangles(self, vertices: Any, color: Any = _GRAY, indices: Any = None, per_vertex_color: Any = None) -> None:
        """Draw triangles: each three vertices, or those with these ``indices``. Colors are interpolated between vertices."""
        call = "triangles"
        points, index = positions(call, "vertices", vertices, 2), arguments.indices(call, indices)
        painted = colors(call, color, per_vertex_color, len(points))
        checked(call, _native.check_corners, index, len(points), 3)
        frame = self._window._frame
        self._window._draw(call, lambda: frame.triangles(points, index, painted))

    def lines(self, vertices: Any, width: float, indices: Any = None, color: Any = _GRAY, per_vertex_color: Any = None) -> None:
        """Draw lines between each two vertices, or between those with these ``indices``. Colors are interpolated between ends."""
        self._lines("lines", vertices, positive("lines", "width", width), indices, color, per_vertex_color)

    def _lines(self, call: str, vertices: Any, width: float, indices: Any, color: Any, per_vertex_color: Any) -> None:
        points, index = positions(call, "vertices", vertices, 2), arguments.indices(call, indices)
        painted = colors(call, color, per_vertex_color, len(points))
        checked(call, _native.check_corners, index, len(points), 2)
        frame = self._window._frame
        self._window._draw(call, lambda: frame.lines(points, index, width, painted))

    def circles(self, centers: Any, radius: float, color: Any = _GRAY, per_vertex_color: Any = None, per_vertex_radius: Any = None) -> None:
        """Draw filled circles. Those without a positive ``per_vertex_radius`` are not drawn."""
        call = "circles"
        points = positions(call, "centers", centers, 2)
        painted = colors(call, color, per_vertex_color, len(points))
        if per_vertex_radius is None:
            radii = np.full(len(points), positive(call, "radius", radius), np.float32)
        else:
            radii = scalars(call, "per_vertex_radius", per_vertex_radius)
            one_for_each(call, "per_vertex_radius", radii, len(points))
        frame = self._window._frame
        self._window._draw(call, lambda: frame.circles(points, radii, painted))

    def scene(self, scene: Scene) -> None:
        """Draw a scene, and empty it. Its camera and its ambient light stay."""
        if not isinstance(scene, Scene):
            raise unfit("scene", f"a `ti.ui.Scene` is needed, not {scene!r}")
        taken = checked("scene", scene._native.take)
        frame = self._window._frame
        self._window._draw("scene", lambda: checked("scene", frame.scene, taken))


def _arrows(starts: Any, arrows: Any) -> Any:
    """Return the ends of three lines for each arrow."""
    ends = starts + arrows
    turn = np.array([[math.cos(_TIP_ANGLE), math.sin(_TIP_ANGLE)], [-math.sin(_TIP_ANGLE), math.cos(_TIP_ANGLE)]])
    tips = [ends + _TIP_LENGTH * (arrows @ turned) for turned in (turn, turn.T)]
    return np.stack([starts, ends, ends, tips[0], ends, tips[1]], axis=1).reshape(-1, 2)


def _mapped(name: str, values: Any) -> Any:
    """Return the colors of a color map of Matplotlib."""
    try:
        from matplotlib import colormaps
    except ImportError:
        raise unfit("contour", f"the color map {name!r} needs Matplotlib; 'plasma' does not") from None
    if name not in colormaps:
        raise unfit("contour", f"Matplotlib has no color map {name!r}")
    return np.asarray(colormaps[name](values), np.float32)


__all__ = ["Canvas"]
