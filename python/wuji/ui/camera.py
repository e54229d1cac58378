"""The camera of a scene."""

from __future__ import annotations

import enum
import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .. import _native
from ..lang.matrix import Vector
from .arguments import checked, number, triple, unfit

if TYPE_CHECKING:
    from .window import Window


class ProjectionMode(enum.Enum):
    """Projection of a camera."""

    Perspective = 0
    Orthogonal = 1


# Looking straight up or down has no yaw.
_STEEPEST = math.pi / 2 * 0.99
# Speeds are in units per frame at this rate.
_FRAME_RATE = 60.0


class Camera:
    """Where a `Scene` is seen from.

    It is at the origin and looks along the z axis, with a field of view of 45 degrees, until its methods say otherwise.
    """

    def __init__(self) -> None:
        self.curr_position: Any = Vector([0.0, 0.0, 0.0])
        self.curr_lookat: Any = Vector([0.0, 0.0, 1.0])
        self.curr_up: Any = Vector([0.0, 1.0, 0.0])
        self._mode = ProjectionMode.Perspective
        self._fov = 45.0
        self._near, self._far = 0.1, 1000.0
        self._left, self._right, self._top, self._bottom = -1.0, 1.0, -1.0, 1.0
        self._cursor: tuple[float, float] | None = None
        self._time: float | None = None

    def position(self, x: float, y: float, z: float) -> None:
        """Move the camera."""
        self.curr_position = Vector(list(triple("position", "x, y, z", (x, y, z))))

    def lookat(self, x: float, y: float, z: float) -> None:
        """Turn the camera to a point."""
        self.curr_lookat = Vector(list(triple("lookat", "x, y, z", (x, y, z))))

    def up(self, x: float, y: float, z: float) -> None:
        """Set the direction that is upwards in the picture."""
        self.curr_up = Vector(list(triple("up", "x, y, z", (x, y, z))))

    def projection_mode(self, mode: ProjectionMode) -> None:
        """Choose between perspective and parallel rays."""
        if not isinstance(mode, ProjectionMode):
            raise unfit("projection_mode", f"`mode` must be a `ti.ui.ProjectionMode`, not {mode!r}")
        self._mode = mode

    def fov(self, fov: float) -> None:
        """Set the vertical field of view of a perspective, in degrees."""
        self._fov = number("fov", "fov", fov)

    def left(self, left: float) -> None:
        """Set the left edge of an orthogonal view."""
        self._left = number("left", "left", left)

    def right(self, right: float) -> None:
        """Set the right edge of an orthogonal view."""
        self._right = number("right", "right", right)

    def top(self, top: float) -> None:
        """Set an edge of an orthogonal view. As in Taichi, it is the lower edge of the picture, -1 by default."""
        self._top = number("top", "top", top)

    def bottom(self, bottom: float) -> None:
        """Set an edge of an orthogonal view. As in Taichi, it is the upper edge of the picture, 1 by default."""
        self._bottom = number("bottom", "bottom", bottom)

    def z_near(self, z_near: float) -> None:
        """Set the near plane: what is nearer is not drawn."""
        self._near = number("z_near", "z_near", z_near)

    def z_far(self, z_far: float) -> None:
        """Set the far plane: what is farther is not drawn."""
        self._far = number("z_far", "z_far", z_far)

    def _parameters(self) -> tuple[Any, float | None, list[float]]:
        """Return the arguments of `_native`."""
        eye = (*([float(c) for c in v] for v in (self.curr_position, self.curr_lookat, self.curr_up)), self._near, self._far)
        fov = self._fov if self._mode is ProjectionMode.Perspective else None
        return eye, fov, [self._left, self._right, self._top, self._bottom]

    def get_view_matrix(self) -> npt.NDArray[np.float32]:
        """Return the matrix from world to camera space, for row vectors."""
        view, _ = checked("get_view_matrix", _native.camera_matrices, *self._parameters(), 1.0)
        return np.array(view, np.float32).T

    def get_projection_matrix(self, aspect: float) -> npt.NDArray[np.float32]:
        """Return the matrix from camera to clip space, for row vectors. Depth is 1 at the near plane and 0 at the far plane."""
        ratio = number("get_projection_matrix", "aspect", aspect)
        _, projection = checked("get_projection_matrix", _native.camera_matrices, *self._parameters(), ratio)
        return np.array(projection, np.float32).T

    def track_user_inputs(
        self,
        window: Window,
        movement_speed: float = 1.0,
        yaw_speed: float = 2.0,
        pitch_speed: float = 2.0,
        hold_key: str | None = None,
    ) -> None:
        """Move the camera with the keys W, A, S, D, Q and E, and turn it with the mouse, while ``hold_key`` is pressed if there is one.

        Speeds are in units of space, and in radians per width of the window, for each sixtieth of a second.
        """
        now = time.perf_counter()
        frames = (now - (self._time if self._time is not None else now)) * _FRAME_RATE
        self._time = now
        position, front = np.array([float(c) for c in self.curr_position]), self._front()
        up = np.array([float(c) for c in self.curr_up])
        left = np.cross(up, front)
        for key, direction in (("w", front), ("s", -front), ("a", left), ("d", -left), ("e", up), ("q", -up)):
            if window.is_pressed(key):
                position = position + direction * movement_speed * frames
        cursor = window.get_cursor_pos()
        if hold_key is None or window.is_pressed(hold_key):
            x, y = self._cursor or cursor
            yaw = math.atan2(front[0], front[2]) - (cursor[0] - x) * yaw_speed * frames
            pitch = math.asin(max(-1.0, min(1.0, front[1]))) + (cursor[1] - y) * pitch_speed * frames
            pitch = max(-_STEEPEST, min(_STEEPEST, pitch))
            front = np.array([math.sin(yaw) * math.cos(pitch), math.sin(pitch), math.cos(yaw) * math.cos(pitch)])
        self._cursor = cursor
        self.position(*position)
        self.lookat(*(position + front))

    def _front(self) -> npt.NDArray[np.float64]:
        """Return the direction of view, of length 1."""
        front = np.array([float(a) - float(b) for a, b in zip(self.curr_lookat, self.curr_position, strict=True)])
        length = float(np.linalg.norm(front))
        if not 0 < length < math.inf:
            raise unfit("track_user_inputs", "the camera is at the point that it looks at")
        return front / length


def make_camera() -> Camera:
    """Return a new camera."""
    return Camera()


__all__ = ["Camera", "ProjectionMode", "make_camera"]
