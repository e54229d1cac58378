"""Rotations, scalings and translations as matrices.

`translate`, `scale` and `rotation2d` are for column vectors, the rotations in space for row vectors: that is how programs
know them.
"""

from __future__ import annotations

from typing import Any

from ..lang import matrix_ops, ops
from ..lang.emit import is_number
from ..lang.matrix import Matrix, Vector


def _floats(rows: list[list[Any]]) -> Any:
    return Matrix([[float(x) if is_number(x) else x for x in row] for row in rows])


def vdir(ang: Any) -> Any:
    """The direction at an angle in the plane."""
    return Vector([ops.cos(ang), ops.sin(ang)])


def rotation2d(ang: Any) -> Any:
    """A rotation in the plane, counter-clockwise."""
    c, s = ops.cos(ang), ops.sin(ang)
    return _floats([[c, ops.neg(s)], [s, c]])


def translate(dx: Any, dy: Any, dz: Any) -> Any:
    """A translation, 4 by 4."""
    return _floats([[1, 0, 0, dx], [0, 1, 0, dy], [0, 0, 1, dz], [0, 0, 0, 1]])


def scale(sx: Any, sy: Any, sz: Any) -> Any:
    """A scaling along the axes, 4 by 4."""
    return _floats([[sx, 0, 0, 0], [0, sy, 0, 0], [0, 0, sz, 0], [0, 0, 0, 1]])


def rot_by_axis(axis: Any, ang: Any) -> Any:
    """A rotation about an axis, 4 by 4, for row vectors."""
    c, s = ops.cos(ang), ops.sin(ang)
    n = matrix_ops.normalized(axis)
    t = ops.mul(ops.sub(1.0, c), n)
    x, y, z = n[0], n[1], n[2]
    tx, ty, tz = t[0], t[1], t[2]

    def plus(a: Any, b: Any) -> Any:
        return ops.add(a, b)

    def times(a: Any, b: Any) -> Any:
        return ops.mul(a, b)

    columns = _floats(
        [
            [plus(c, times(tx, x)), ops.sub(times(tx, y), times(s, z)), plus(times(tx, z), times(s, y)), 0],
            [plus(times(ty, x), times(s, z)), plus(c, times(ty, y)), ops.sub(times(ty, z), times(s, x)), 0],
            [ops.sub(times(tz, x), times(s, y)), plus(times(tz, y), times(s, x)), plus(c, times(tz, z)), 0],
            [0, 0, 0, 1],
        ]
    )
    return matrix_ops.transpose(columns)


def rot_yaw_pitch_roll(yaw: Any, pitch: Any, roll: Any) -> Any:
    """A rotation by angles about the y axis (yaw), the x axis (pitch) and the z axis (roll), 4 by 4, for row vectors."""
    cx, sx = ops.cos(pitch), ops.sin(pitch)
    cy, sy = ops.cos(yaw), ops.sin(yaw)
    cz, sz = ops.cos(roll), ops.sin(roll)
    rx = _floats([[1, 0, 0, 0], [0, cx, ops.neg(sx), 0], [0, sx, cx, 0], [0, 0, 0, 1]])
    ry = _floats([[cy, 0, sy, 0], [0, 1, 0, 0], [ops.neg(sy), 0, cy, 0], [0, 0, 0, 1]])
    rz = _floats([[cz, ops.neg(sz), 0, 0], [sz, cz, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    return matrix_ops.transpose(matrix_ops.matmul(matrix_ops.matmul(ry, rx), rz))


def rotation3d(ang_x: Any, ang_y: Any, ang_z: Any) -> Any:
    """`rot_yaw_pitch_roll` with the yaw last: ``rotation3d(pitch, roll, yaw)``."""
    return rot_yaw_pitch_roll(ang_z, ang_x, ang_y)
