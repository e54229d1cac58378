"""Files with triangles or tetrahedra."""

from __future__ import annotations

import os
import re
from typing import Any, NoReturn

import numpy as np

from ...exceptions import WujiRuntimeError


def _damaged(path: str, kind: str, why: str) -> NoReturn:
    raise WujiRuntimeError(f"{path} is not a valid {kind} file\n  = note: {why}", "W0531")


def _text(path: str, kind: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as e:
        raise WujiRuntimeError(f"cannot read {path}\n  = note: {e.strerror or e}", "W0530") from e
    except UnicodeDecodeError as e:
        _damaged(path, kind, str(e))


def load(path: Any) -> tuple[Any, dict[int, Any]]:
    """Return the positions of a mesh in a file, and the corners of its faces or cells by their order."""
    name = os.fspath(path)
    ending = os.path.splitext(name)[1].lower()
    if ending == ".obj":
        return _load_obj(name)
    if ending == ".off":
        return _load_off(name)
    if ending in (".node", ".ele"):
        return _load_tetgen(os.path.splitext(name)[0])
    raise WujiRuntimeError(
        f"{name}: meshes in `{ending}` files cannot be read\n"
        "  = help: use an .obj, .off or .node/.ele file, or read it with another package, such as `meshio`, and use `ti.Mesh.from_arrays`",
        "W0531",
    )


def _triangles(counts: Any, corners: Any) -> Any:
    """Cut polygons, which have these numbers of corners, into triangles around their first corner."""
    counts = np.asarray(counts, dtype=np.int64)
    starts = np.cumsum(counts) - counts
    pieces = counts - 2
    polygon = np.repeat(np.arange(counts.size), pieces)
    number = np.arange(int(pieces.sum())) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    first = starts[polygon]
    return np.stack((corners[first], corners[first + number + 1], corners[first + number + 2]), axis=-1)


def _load_obj(path: str) -> tuple[Any, dict[int, Any]]:
    text = _text(path, "OBJ").replace("\\\n", " ")
    points = re.findall(r"^[ \t]*v[ \t]+(.*)$", text, re.MULTILINE)
    faces = re.findall(r"^[ \t]*f[ \t]+(.*)$", text, re.MULTILINE)
    if not points or not faces:
        _damaged(path, "OBJ", "it has no vertices" if not points else "it has no faces")
    try:
        positions = np.array([line.split()[:3] for line in points], dtype=np.float64)
        # Of `vertex/texture/normal`, only the vertex.
        rows = [re.sub(r"/\S*", "", line).split() for line in faces]
        counts = np.array([len(row) for row in rows])
        corners = np.array([corner for row in rows for corner in row], dtype=np.int64)
    except (ValueError, OverflowError) as e:
        _damaged(path, "OBJ", str(e))
    if counts.min() < 3:
        _damaged(path, "OBJ", f"face {int(counts.argmin()) + 1} has {int(counts.min())} corners")
    # Negative numbers count from the last vertex so far: here, as in almost all files, from the last one of the file.
    corners = np.where(corners < 0, corners + positions.shape[0], corners - 1)
    return positions, {2: _triangles(counts, corners)}


def _numbers(text: str) -> list[str]:
    return re.sub(r"#.*", "", text).split()


def _load_off(path: str) -> tuple[Any, dict[int, Any]]:
    words = _numbers(_text(path, "OFF"))
    if not words or words[0] != "OFF":
        _damaged(path, "OFF", "it does not start with the line `OFF`")
    try:
        count, polygons = int(words[1]), int(words[2])
        at = 4 + 3 * count
        positions = np.array(words[4:at], dtype=np.float64).reshape(count, 3)
        counts, starts = [], []
        for _ in range(polygons):
            counts.append(int(words[at]))
            if counts[-1] < 3:
                _damaged(path, "OFF", f"face {len(counts)} has {counts[-1]} corners")
            starts.append(at + 1)
            at += 1 + counts[-1]
        if at > len(words):
            _damaged(path, "OFF", "it ends in a face")
        corners = np.array([corner for n, start in zip(counts, starts, strict=True) for corner in words[start : start + n]], dtype=np.int64)
    except (ValueError, IndexError, OverflowError) as e:
        _damaged(path, "OFF", str(e))
    if not counts:
        _damaged(path, "OFF", "it has no faces")
    return positions, {2: _triangles(counts, corners)}


def _load_tetgen(base: str) -> tuple[Any, dict[int, Any]]:
    points, first = _tetgen_table(f"{base}.node", 3, np.float64)
    cells, _ = _tetgen_table(f"{base}.ele", 4, np.int64)
    return points, {3: cells - first}


def _tetgen_table(path: str, columns: int, dtype: Any) -> tuple[Any, int]:
    """Return the columns behind the number of each line, and the first of these numbers."""
    lines = [line for line in (raw.split("#", 1)[0] for raw in _text(path, "TetGen").splitlines()) if line.strip()]
    try:
        count = int(lines[0].split()[0])
        rows = [line.split()[: columns + 1] for line in lines[1 : count + 1]]
        if len(rows) < count:
            _damaged(path, "TetGen", f"it has {len(rows)} of {count} lines")
        return np.array([row[1:] for row in rows], dtype=dtype).reshape(count, columns), int(rows[0][0])
    except (ValueError, IndexError, OverflowError) as e:
        _damaged(path, "TetGen", str(e))
