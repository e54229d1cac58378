"""User interface: `GUI` draws on the CPU. `Window` and its classes (GGUI) need GPU rendering and are not implemented yet."""

from __future__ import annotations

import enum
from typing import Any

from ..lang.missing import refuse
from .gui import GUI, hex_to_rgb, rgb_to_hex

SHIFT, ALT, CTRL = GUI.SHIFT, GUI.ALT, GUI.CTRL
ESCAPE, RETURN, TAB, BACKSPACE, SPACE, CAPSLOCK = GUI.ESCAPE, GUI.RETURN, GUI.TAB, GUI.BACKSPACE, GUI.SPACE, GUI.CAPSLOCK
UP, DOWN, LEFT, RIGHT = GUI.UP, GUI.DOWN, GUI.LEFT, GUI.RIGHT
LMB, MMB, RMB = GUI.LMB, GUI.MMB, GUI.RMB
PRESS, RELEASE = "Press", "Release"

_FEATURE = "GPU-rendered windows"


class ProjectionMode(enum.Enum):
    """Projection of a camera."""

    Perspective = 0
    Orthogonal = 1


class _Missing:
    """Base class of placeholders that raise `NotYet` when instantiated."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        refuse(f"ui.{cls.__name__}", _FEATURE)


class Window(_Missing):
    """Not implemented yet: a GPU-rendered window. Use `GUI` for a window drawn on the CPU."""


class Canvas(_Missing):
    """Not implemented yet: the drawing area of a `Window`."""


class Scene(_Missing):
    """Not implemented yet: meshes, particles and lights."""


class Camera(_Missing):
    """Not implemented yet: the camera of a scene."""


class Gui(_Missing):
    """Not implemented yet: widgets of a `Window`."""


def make_camera() -> Any:
    """Not implemented yet."""
    refuse("ui.make_camera", _FEATURE)


def check_ggui_availability() -> None:
    """Raise `NotYet`: GPU-rendered windows are not implemented yet."""
    refuse("ui.Window", _FEATURE)


__all__ = [
    "ALT",
    "BACKSPACE",
    "CAPSLOCK",
    "CTRL",
    "DOWN",
    "ESCAPE",
    "GUI",
    "LEFT",
    "LMB",
    "MMB",
    "PRESS",
    "RELEASE",
    "RETURN",
    "RIGHT",
    "RMB",
    "SHIFT",
    "SPACE",
    "TAB",
    "UP",
    "Camera",
    "Canvas",
    "Gui",
    "ProjectionMode",
    "Scene",
    "Window",
    "check_ggui_availability",
    "hex_to_rgb",
    "make_camera",
    "rgb_to_hex",
]
