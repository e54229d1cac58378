"""Transformation matrices.

`translate`, `scale` and `rotation2d` multiply column vectors. The 3-D rotations multiply row vectors, as in Taichi.
"""

from __future__ import annotations

from typing import Any

from ..lang import matrix_ops, ops
from ..lang.emit import is_number
from ..lang.matrix import Matrix, Vector


def _floats(rows: list[list[Any]]) -> Any:
    return Matrix([[float(x) if is_number(x) else x for x in row] for row in rows])


def vdir(ang: Any) -> Any:
    """Return the unit vector at an angle."""
    return Vector([ops.cos(ang), ops.sin(ang)])


def rotation2d(ang: Any) -> Any:
    """Return a counterclockwise 2-D rotation matrix."""
    c, s = ops.cos(ang), ops.sin(ang)
    return _floats([[c, ops.neg(s)], [s, c]])


def translate(dx: Any, dy: Any, dz: Any) -> Any:
    """Return a 4x4 translation matrix."""
    return _floats([[1, 0, 0, dx], [0, 1, 0, dy], [0, 0, 1, dz], [0, 0, 0, 1]])


def scale(sx: Any, sy: Any, sz: Any) -> Any:
    """Return a 4x4 scaling matrix."""
    return _floats([[sx, 0, 0, 0], [0, sy, 0, 0], [0, 0, sz, 0], [0, 0, 0, 1]])


def rot_by_axis(axis: Any, ang: Any) -> Any:
    """Return a 4x4 rotation about an axis, for row vectors."""
    c, s = ops.cos(ang), ops.sin(ang)
    n = matrix_ops.normalized(axis)
    t = ops.mul(ops.sub(1.0, c), n)
    x, y, z = n[0], n[1], n[2]
    tx, ty, tz = t[0], t[1], t[2]

    columns = _floats(
        [
            [ops.add(c, ops.mul(tx, x)), ops.sub(ops.mul(tx, y), ops.mul(s, z)), ops.add(ops.mul(tx, z), ops.mul(s, y)), 0],
            [ops.add(ops.mul(ty, x), ops.mul(s, z)), ops.add(c, ops.mul(ty, y)), ops.sub(ops.mul(ty, z), ops.mul(s, x)), 0],
            [ops.sub(ops.mul(tz, x), ops.mul(s, y)), ops.add(ops.mul(tz, y), ops.mul(s, x)), ops.add(c, ops.mul(tz, z)), 0],
            [0, 0, 0, 1],
        ]
    )
    return matrix_ops.transpose(columns)


def rot_yaw_pitch_roll(yaw: Any, pitch: Any, roll: Any) -> Any:
    """Return a 4x4 rotation by angles about the y axis (yaw), the x axis (pitch) and the z axis (roll), for row vectors."""
    cx, sx = ops.cos(pitch), ops.sin(pitch)
    cy, sy = ops.cos(yaw), ops.sin(yaw)
    cz, sz = ops.cos(roll), ops.sin(roll)
    rx = _floats([[1, 0, 0, 0], [0, cx, ops.neg(sx), 0], [0, sx, cx, 0], [0, 0, 0, 1]])
    ry = _floats([[cy, 0, sy, 0], [0, 1, 0, 0], [ops.neg(sy), 0, cy, 0], [0, 0, 0, 1]])
    rz = _floats([[cz, ops.neg(sz), 0, 0], [sz, cz, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    return matrix_ops.transpose(matrix_ops.matmul(matrix_ops.matmul(ry, rx), rz))


def rotation3d(ang_x: Any, ang_y: Any, ang_z: Any) -> Any:
    """Return `rot_yaw_pitch_roll` with the yaw last: ``rotation3d(pitch, roll, yaw)``."""
    return rot_yaw_pitch_roll(ang_z, ang_x, ang_y)
