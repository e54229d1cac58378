"""Vectorized rasterizer on NumPy arrays: circles, lines, triangles and text.

Pixels are ``float32`` RGBA, indexed ``image[x, y]`` with x to the right and y up. Positions are normalized to [0, 1]; radii are in pixels.
A shape is decomposed into *spans*, vertical runs of pixels. All spans of a call are filled at once; later shapes are drawn on top.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from . import font

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Image = npt.NDArray[np.float32]


def colors(hexes: Any) -> Image:
    """Convert colors such as ``0x3388ff`` to RGBA rows."""
    numbers = np.asarray(hexes, dtype=np.int64).reshape(-1)
    rows = np.ones((len(numbers), 4), np.float32)
    for channel, shift in enumerate((16, 8, 0)):
        rows[:, channel] = ((numbers >> shift) & 255) / 255.0
    return rows


def _expand(counts: Ints) -> tuple[Ints, Ints]:
    """Expand counts: return the owner of each unit, and the unit's index within its owner."""
    owner = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(owner))
    number -= np.repeat(np.cumsum(counts) - counts, counts)
    return owner, number


class Canvas:
    """An image of ``width`` by ``height`` pixels."""

    def __init__(self, width: int, height: int, background: int = 0) -> None:
        self.width = width
        self.height = height
        self.image: Image = np.zeros((width, height, 4), np.float32)
        self.clear(background)

    def clear(self, color: int) -> None:
        self.image[:] = colors(color)[0]

    def _paint(self, x: Ints, low: Ints, high: Ints, color: Image, shape: Ints) -> None:
        """Fill columns ``x`` from ``low`` to ``high``, inclusive. ``color`` has one row, or one per shape."""
        low = np.maximum(low, 0)
        high = np.minimum(high, self.height - 1)
        seen = (x >= 0) & (x < self.width) & (low <= high)
        x, low, high, shape = x[seen], low[seen], high[seen], shape[seen]
        span, step = _expand(high - low + 1)
        at = (x * self.height + low)[span] + step
        # Copy each 16-byte pixel as one complex number.
        pixels = self.image.reshape(-1, 4).view(np.complex128)[:, 0]
        paint = np.ascontiguousarray(color, np.float32).view(np.complex128)[:, 0]
        pixels[at] = paint[0] if len(paint) == 1 else paint[shape[span]]

    def _pixels(self, positions: Any) -> Floats:
        return np.asarray(positions, np.float64).reshape(-1, 2) * (self.width, self.height)

    def circles(self, centers: Any, radius: Any, color: Image) -> None:
        """Draw discs: the pixels closer to the center than the radius."""
        center = self._pixels(centers)
        reach = np.broadcast_to(np.asarray(radius, np.float64).reshape(-1), (len(center),))
        near = _finite(center) & (reach > 0)
        near &= (center[:, 0] + reach > 0) & (center[:, 0] - reach < self.width)
        near &= (center[:, 1] + reach > 0) & (center[:, 1] - reach < self.height)
        number = np.flatnonzero(near)
        center, reach = center[near], reach[near]
        # Columns covered by each disc. Pixel (i, j) has its center at (i, j).
        first = np.maximum(np.floor(center[:, 0] - reach).astype(np.int64) + 1, 0)
        last = np.minimum(np.ceil(center[:, 0] + reach).astype(np.int64) - 1, self.width - 1)
        disc, step = _expand(np.maximum(last - first + 1, 0))
        x = first[disc] + step
        rest = np.maximum(reach[disc] ** 2 - (x - center[disc, 0]) ** 2, 0.0)
        half = np.sqrt(rest)
        low = np.floor(center[disc, 1] - half).astype(np.int64) + 1
        high = np.ceil(center[disc, 1] + half).astype(np.int64) - 1
        self._paint(x, low, high, color, number[disc])

    def polygons(self, corners: Floats, color: Image) -> None:
        """Draw convex polygons, given in pixels as an array (polygon, corner, 2). Pixels on an edge are included."""
        count = len(corners)
        number = np.arange(count)
        seen = _finite(corners.reshape(count, -1))
        number, corners = number[seen], corners[seen]
        left = np.ceil(corners[:, :, 0].min(1) - 1e-9) if len(corners) else np.zeros(0)
        right = np.floor(corners[:, :, 0].max(1) + 1e-9) if len(corners) else np.zeros(0)
        first = np.clip(left, 0, self.width).astype(np.int64)
        last = np.clip(right, -1, self.width - 1).astype(np.int64)
        shape, step = _expand(np.maximum(last - first + 1, 0))
        x = first[shape] + step
        low = np.full(len(x), np.inf)
        high = np.full(len(x), -np.inf)
        sides = corners.shape[1]
        for side in range(sides):
            a = corners[shape, side]
            b = corners[shape, (side + 1) % sides]
            run = b[:, 0] - a[:, 0]
            upright = np.abs(run) < 1e-12
            t = np.where(upright, 0.0, (x - a[:, 0]) / np.where(upright, 1.0, run))
            crosses = (t >= -1e-9) & (t <= 1 + 1e-9) & ~upright
            y = a[:, 1] + t * (b[:, 1] - a[:, 1])
            on = upright & (np.abs(a[:, 0] - x) < 1e-9)
            low = np.where(crosses, np.minimum(low, y), np.where(on, np.minimum(low, np.minimum(a[:, 1], b[:, 1])), low))
            high = np.where(crosses, np.maximum(high, y), np.where(on, np.maximum(high, np.maximum(a[:, 1], b[:, 1])), high))
        low = np.clip(low, -1, self.height + 1)
        high = np.clip(high, -2, self.height + 1)
        self._paint(x, np.ceil(low - 1e-9).astype(np.int64), np.floor(high + 1e-9).astype(np.int64), color, number[shape])

    def triangles(self, a: Any, b: Any, c: Any, color: Image) -> None:
        self.polygons(np.stack([self._pixels(p) for p in (a, b, c)], axis=1), color)

    def lines(self, begin: Any, end: Any, radius: Any, color: Image) -> None:
        """Draw lines of width ``2 * radius`` with square caps."""
        self.strokes(self._pixels(begin), self._pixels(end), radius, color)

    def strokes(self, begin: Floats, end: Floats, radius: Any, color: Image) -> None:
        """Draw lines between positions in pixels."""
        # At least one pixel wide, so that no line falls between pixels.
        half = np.maximum(np.asarray(radius, np.float64).reshape(-1, 1), 0.5)
        with np.errstate(invalid="ignore"):  # invalid positions are skipped later
            along = end - begin
            length = np.hypot(along[:, 0], along[:, 1])[:, None]
            unit = np.where(length > 0, along / np.where(length > 0, length, 1.0), (1.0, 0.0))
        side = np.stack([-unit[:, 1], unit[:, 0]], axis=1) * half
        # Half a cap: joints of connected lines then have no gaps.
        cap = unit * half * 0.5
        self.polygons(np.stack([begin - cap + side, end + cap + side, end + cap - side, begin - cap - side], axis=1), color)

    def rectangle(self, x: int, y: int, width: int, height: int, color: int) -> None:
        """Fill a rectangle, in pixels."""
        self.image[max(x, 0) : max(x + width, 0), max(y, 0) : max(y + height, 0)] = colors(color)[0]

    def text(self, content: str, x: float, top: float, size: float, color: Image) -> None:
        """Draw text. ``x`` is the left edge and ``top`` the upper edge of its first line, in pixels."""
        cover = _coverage(content, max(float(size), 1.0))
        if not np.isfinite([x, top]).all() or abs(x) + abs(top) > 1e6:
            return
        left, low = round(x) - _MARGIN, round(top) - cover.shape[1]
        # Clip to the image.
        a, b = max(left, 0), max(low, 0)
        cover = cover[a - left : max(self.width - left, 0), b - low : max(self.height - low, 0), None]
        if cover.size:
            part = self.image[a : a + cover.shape[0], b : b + cover.shape[1], :3]
            part += cover * (color[0, :3] - part)

    def bytes(self) -> npt.NDArray[np.uint8]:
        """Return RGBA rows from top to bottom."""
        scaled = self.image * np.float32(255)
        np.clip(scaled, 0, 255, out=scaled)
        scaled += np.float32(0.5)
        with np.errstate(invalid="ignore"):  # NaN
            packed = scaled.astype(np.uint8).view(np.uint32)[:, :, 0]
        rows = np.ascontiguousarray(packed[:, ::-1].T)
        return rows.view(np.uint8).reshape(self.height, self.width, 4)


# Margin around text for overhanging strokes, and supersampling factor.
_MARGIN, _SUPERSAMPLING = 2, 4


@functools.lru_cache(maxsize=256)
def _coverage(content: str, size: float) -> Image:
    """Return the coverage of each pixel. The text starts `_MARGIN` pixels from the left, at the top."""
    begin, end = font.strokes(content)
    scale = size / font.LINE
    rows = content.count("\n") + 1
    width = int(np.ceil(font.width(content, size))) + 2 * _MARGIN
    height = int(np.ceil(rows * size)) + _MARGIN
    if not len(begin) or width * height > 1 << 24:
        return np.zeros((width, 1), np.float32)
    fine = Canvas(width * _SUPERSAMPLING, height * _SUPERSAMPLING)
    origin = np.array([_MARGIN, height - size * 0.85])
    radius = max(size / 26, 0.55)
    fine.strokes((begin * scale + origin) * _SUPERSAMPLING, (end * scale + origin) * _SUPERSAMPLING, radius * _SUPERSAMPLING, colors(0xFFFFFF))
    covered: Image = fine.image[:, :, 0].reshape(width, _SUPERSAMPLING, height, _SUPERSAMPLING).mean(axis=(1, 3))
    return covered


def _finite(rows: Floats) -> npt.NDArray[np.bool_]:
    # Coordinates far outside would overflow an integer.
    with np.errstate(invalid="ignore"):
        near: npt.NDArray[np.bool_] = np.all(np.abs(rows) < 1e9, axis=1)
    return near
