"""A stroke font, scalable to any size.

A glyph is a list of polylines on a grid: ``"00 26 40,12 32"`` goes from (0, 0) via (2, 6) to (4, 0), plus a bar from (1, 2) to (3, 2).
Lowercase letters are four units high, capitals six. ``a`` and ``b`` stand for y = -1 and -2, below the baseline.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

# Line height, and advance width of a glyph.
LINE = 9.5
WIDTH = 5.6

_GLYPHS = {
    "A": "00 26 40,12 32",
    "B": "00 06 36 45 44 33 03,33 42 41 30 00",
    "C": "45 36 16 05 01 10 30 41",
    "D": "00 06 26 44 42 20 00",
    "E": "46 06 00 40,03 33",
    "F": "46 06 00,03 33",
    "G": "45 36 16 05 01 10 30 41 43 23",
    "H": "00 06,40 46,03 43",
    "I": "16 36,26 20,10 30",
    "J": "26 46,36 31 20 10 01",
    "K": "00 06,46 03 40",
    "L": "06 00 40",
    "M": "00 06 23 46 40",
    "N": "00 06 40 46",
    "O": "10 01 05 16 36 45 41 30 10",
    "P": "00 06 36 45 44 33 03",
    "Q": "10 01 05 16 36 45 41 30 10,22 40",
    "R": "00 06 36 45 44 33 03,23 40",
    "S": "45 36 16 05 04 13 33 42 41 30 10 01",
    "T": "06 46,26 20",
    "U": "06 01 10 30 41 46",
    "V": "06 20 46",
    "W": "06 10 23 30 46",
    "X": "00 46,06 40",
    "Y": "06 23 46,23 20",
    "Z": "06 46 00 40",
    "a": "04 34 43 40,42 12 01 10 30 41",
    "b": "06 00,03 14 34 43 41 30 10 01",
    "c": "43 34 14 03 01 10 30 41",
    "d": "46 40,43 34 14 03 01 10 30 41",
    "e": "02 42 43 34 14 03 01 10 30 41",
    "f": "46 36 25 20,04 44",
    "g": "44 4a 3b 1b 0a,43 34 14 03 01 10 30 41",
    "h": "06 00,03 14 34 43 40",
    "i": "14 24 20,10 30,26 25",
    "j": "24 34 3a 2b 1b,36 35",
    "k": "06 00,44 02,12 40",
    "l": "16 26 20,10 30",
    "m": "00 04 14 23 20,23 34 43 40",
    "n": "00 04,03 14 34 43 40",
    "o": "10 01 03 14 34 43 41 30 10",
    "p": "04 0b,03 14 34 43 41 30 10 01",
    "q": "44 4b,43 34 14 03 01 10 30 41",
    "r": "04 00,02 14 34 43",
    "s": "43 34 14 03 12 32 41 30 10 01",
    "t": "26 21 30 40,04 44",
    "u": "04 01 10 30 41,44 40",
    "v": "04 20 44",
    "w": "04 10 23 30 44",
    "x": "00 44,04 40",
    "y": "04 20,44 20 1b 0b",
    "z": "04 44 00 40",
    "0": "10 01 05 16 36 45 41 30 10,01 45",
    "1": "05 26 20,10 30",
    "2": "05 16 36 45 44 00 40",
    "3": "05 16 36 45 44 33 13,33 42 41 30 10 01",
    "4": "30 36 02 42",
    "5": "46 06 03 33 42 41 30 10 01",
    "6": "45 36 16 05 01 10 30 41 42 33 13 02",
    "7": "06 46 45 10",
    "8": "13 04 05 16 36 45 44 33 13 02 01 10 30 41 42 33",
    "9": "01 10 30 41 45 36 16 05 04 13 33 44",
    ".": "20 21",
    ",": "21 20 1a",
    ":": "20 21,23 24",
    ";": "21 20 1a,23 24",
    "!": "26 22,20 21",
    "?": "05 16 36 45 44 33 23 22,20 21",
    "'": "26 24",
    '"': "16 14,36 34",
    "`": "16 25",
    "+": "03 43,21 25",
    "-": "03 43",
    "*": "21 25,02 44,04 42",
    "/": "00 46",
    "\\": "06 40",
    "=": "02 42,04 44",
    "_": "0a 4a",
    "<": "45 03 41",
    ">": "05 43 01",
    "(": "36 25 21 30",
    ")": "16 25 21 10",
    "[": "36 16 10 30",
    "]": "16 36 30 10",
    "{": "36 26 24 13 22 20 30",
    "}": "16 26 24 33 22 20 10",
    "|": "26 2a",
    "#": "10 16,30 36,02 42,04 44",
    "%": "00 46,06 16 15 05 06,31 41 40 30 31",
    "&": "40 04 05 16 25 24 02 01 10 20 42",
    "@": "31 11 02 04 15 35 44 42 32 34 23 32",
    "$": "45 35 15 04 13 33 42 31 11 01,26 20",
    "^": "04 26 44",
    "~": "02 13 32 43",
}  # fmt: skip
_LEVELS = {"a": -1, "b": -2}
_BOX = "00 06 46 40 00"


@functools.cache
def _glyph(letter: str) -> npt.NDArray[np.float64]:
    """Return the segments of a glyph: an array (segment, end, 2)."""
    if letter.isspace():
        return np.zeros((0, 2, 2))
    lines = []
    for stroke in _GLYPHS.get(letter, _BOX).split(","):
        points = [(int(p[0]), _LEVELS[p[1]] if p[1] in _LEVELS else int(p[1])) for p in stroke.split()]
        lines += list(zip(points, points[1:], strict=False))
    return np.array(lines, np.float64)


@functools.lru_cache(maxsize=256)
def strokes(content: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return start and end points of all segments of a text, with the origin on the baseline of its first glyph."""
    parts = []
    for row, line in enumerate(content.split("\n")):
        for column, letter in enumerate(line):
            parts.append(_glyph(letter) + (column * WIDTH, -row * LINE))
    lines = np.concatenate(parts) if parts else np.zeros((0, 2, 2))
    return lines[:, 0], lines[:, 1]


def width(content: str, size: float) -> float:
    """Return the width of a text in pixels."""
    return max(map(len, content.split("\n")), default=0) * WIDTH * size / LINE
