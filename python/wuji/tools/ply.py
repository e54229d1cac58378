"""PLY files of points and faces, for Houdini, Blender and MeshLab."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from .._arrays import as_numpy

# PLY type names and their NumPy types.
_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2", "uint16": "u2",
    "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
}  # fmt: skip
_CORNERS = {"tri": 3, "quad": 4}

Array = npt.NDArray[Any]


class PLYWriter:
    """Collects vertex and face channels and writes them to a PLY file.

    ```python
    writer = ti.tools.PLYWriter(num_vertices=len(x))
    writer.add_vertex_pos(x[:, 0], x[:, 1], x[:, 2])
    writer.export_frame(7, "particles.ply")      # particles_000007.ply, binary
    ```
    """

    def __init__(self, num_vertices: int, num_faces: int = 0, face_type: str = "tri", comment: str = "created by PLYWriter") -> None:
        if num_vertices <= 0:
            raise AssertionError("num_vertices should be greater than 0")
        if num_faces < 0:
            raise AssertionError("num_faces shouldn't be less than 0")
        if face_type not in _CORNERS:
            raise AssertionError("Only tri and quad faces are supported for now")
        self.num_vertices = num_vertices
        self.num_faces = num_faces
        self.face_type = face_type
        self.face_indices: Array = -np.ones((num_faces, _CORNERS[face_type]), np.int32)
        self.comment = comment
        self._vertex: dict[str, tuple[str, Array]] = {}
        self._face: dict[str, tuple[str, Array]] = {}

    @property
    def num_vertex_channels(self) -> int:
        return len(self._vertex)

    @property
    def num_face_channels(self) -> int:
        return len(self._face)

    def _channel(self, of: dict[str, tuple[str, Array]], count: int, key: str, data_type: str, data: Any) -> None:
        if data_type not in _TYPES:
            print(f"Unknown type {data_type} detected, skipping this channel; the types are {', '.join(_TYPES)}", file=sys.stderr)
            return
        if not key or any(c.isspace() for c in key):
            raise ValueError(f"a channel name must be one word, not {key!r}")
        values = as_numpy(data).reshape(-1)
        if len(values) != count:
            raise AssertionError(f"The dimension of the channel {key} is not correct: {len(values)} values, expected {count}")
        if key in of:
            print(f"WARNING: key {key} already exists and is replaced", file=sys.stderr)
        of[key] = (data_type, values.astype(_TYPES[data_type]))

    def add_vertex_channel(self, key: str, data_type: str, data: Any) -> None:
        """Add a scalar per vertex, of a PLY type: ``"float"``, ``"double"``, ``"int"``, ``"uchar"``, ..."""
        self._channel(self._vertex, self.num_vertices, key, data_type, data)

    def add_face_channel(self, key: str, data_type: str, data: Any) -> None:
        """Add a scalar per face."""
        self._channel(self._face, self.num_faces, key, data_type, data)

    def _vertices(self, keys: str, *data: Any) -> None:
        for key, values in zip(keys.split(), data, strict=True):
            self.add_vertex_channel(key, "float", values)

    def add_vertex_pos(self, x: Any, y: Any, z: Any) -> None:
        self._vertices("x y z", x, y, z)

    def add_vertex_normal(self, nx: Any, ny: Any, nz: Any) -> None:
        self._vertices("nx ny nz", nx, ny, nz)

    def add_vertex_color(self, r: Any, g: Any, b: Any) -> None:
        self._vertices("red green blue", r, g, b)

    def add_vertex_alpha(self, alpha: Any) -> None:
        self._vertices("Alpha", alpha)

    def add_vertex_rgba(self, r: Any, g: Any, b: Any, a: Any) -> None:
        self._vertices("red green blue Alpha", r, g, b, a)

    def add_vertex_vel(self, vx: Any, vy: Any, vz: Any) -> None:
        self._vertices("vx vy vz", vx, vy, vz)

    def add_vertex_id(self) -> None:
        self.add_vertex_channel("id", "int", np.arange(self.num_vertices))

    def add_vertex_piece(self, piece: Any) -> None:
        self.add_vertex_channel("piece", "int", piece)

    def add_faces(self, indices: Any) -> None:
        """Set the vertex indices of each face, flat or as rows."""
        corners = _CORNERS[self.face_type]
        values = as_numpy(indices).reshape(-1)
        if len(values) != self.num_faces * corners:
            raise AssertionError(f"The dimension of the face indices is not correct: {len(values)} indices for {self.num_faces} faces with {corners} corners")
        self.face_indices = values.reshape(-1, corners).astype(np.int32)

    def add_face_id(self) -> None:
        self.add_face_channel("id", "int", np.arange(self.num_faces))

    def add_face_piece(self, piece: Any) -> None:
        self.add_face_channel("piece", "int", piece)

    def sanity_check(self) -> None:
        """Raise if vertices have no position, or face indices are missing or out of range."""
        for key in "xyz":
            if key not in self._vertex:
                raise AssertionError(f"The vertex pos channel {key} is missing")
        if self.num_faces and (self.face_indices.min() < 0 or self.face_indices.max() >= self.num_vertices):
            raise AssertionError(f"a face index is out of range: vertices are numbered 0 to {self.num_vertices - 1}")

    def _header(self, form: str) -> str:
        lines = ["ply", f"format {form} 1.0", f"comment {self.comment}", f"element vertex {self.num_vertices}"]
        lines += [f"property {kind} {key}" for key, (kind, _) in self._vertex.items()]
        if self.num_faces:
            lines += [f"element face {self.num_faces}", "property list uchar int vertex_indices"]
            lines += [f"property {kind} {key}" for key, (kind, _) in self._face.items()]
        return "\n".join([*lines, "end_header", ""])

    def print_header(self, path: str, _format: str) -> None:
        """Write only the header. ``_format`` is ``ascii`` or ``binary_little_endian``."""
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(self._header(_format))

    def export(self, path: str) -> None:
        """Write a binary file."""
        self.sanity_check()
        vertices = np.zeros(self.num_vertices, [(key, "<" + _TYPES[kind]) for key, (kind, _) in self._vertex.items()])
        for key, (_, values) in self._vertex.items():
            vertices[key] = values
        with open(path, "wb") as file:
            file.write(self._header("binary_little_endian").encode())
            file.write(vertices.tobytes())
            if self.num_faces:
                corners = _CORNERS[self.face_type]
                kinds: list[Any] = [("#", "u1"), ("indices", "<i4", (corners,))]
                faces = np.zeros(self.num_faces, kinds + [(key, "<" + _TYPES[kind]) for key, (kind, _) in self._face.items()])
                faces["#"] = corners
                faces["indices"] = self.face_indices
                for key, (_, values) in self._face.items():
                    faces[key] = values
                file.write(faces.tobytes())

    def export_ascii(self, path: str) -> None:
        """Write a text file."""
        self.sanity_check()
        corners = _CORNERS[self.face_type]
        columns = [values.tolist() for _, values in self._vertex.values()]
        lines = [" ".join(map(str, row)) for row in zip(*columns, strict=True)]
        if self.num_faces:
            more = [values.tolist() for _, values in self._face.values()]
            for number, face in enumerate(self.face_indices.tolist()):
                lines.append(" ".join(map(str, [corners, *face, *(column[number] for column in more)])))
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(self._header("ascii"))
            file.write("\n".join([*lines, ""]))

    def export_frame(self, series_num: int, path: str) -> None:
        """Write a binary file of a series: ``x.ply`` becomes ``x_000007.ply``."""
        self.export(_numbered(series_num, path))

    def export_frame_ascii(self, series_num: int, path: str) -> None:
        self.export_ascii(_numbered(series_num, path))


def _numbered(number: int, path: str) -> str:
    stem, end = os.path.splitext(path)
    return f"{stem if end == '.ply' else path}_{number:06d}.ply"
