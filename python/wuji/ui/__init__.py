"""Windows: `GUI` draws with the CPU. `Window` and what belongs to it draw with a GPU, which is not yet in this version."""

from __future__ import annotations

import enum
from typing import Any

from ..lang.missing import refuse
from .gui import GUI, hex_to_rgb, rgb_to_hex

SHIFT, ALT, CTRL = GUI.SHIFT, GUI.ALT, GUI.CTRL
ESCAPE, RETURN, TAB, BACKSPACE, SPACE, CAPSLOCK = GUI.ESCAPE, GUI.RETURN, GUI.TAB, GUI.BACKSPACE, GUI.SPACE, GUI.CAPSLOCK
UP, DOWN, LEFT, RIGHT = GUI.UP, GUI.DOWN, GUI.LEFT, GUI.RIGHT
LMB, MMB, RMB = GUI.LMB, GUI.MMB, GUI.RMB
PRESS, RELEASE = "press", "release"

_FEATURE = "windows that a GPU draws are"


class ProjectionMode(enum.Enum):
    """How a camera sees."""

    Perspective = 0
    Orthogonal = 1


class _Missing:
    """A class that refuses to make anything."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        refuse(f"ui.{cls.__name__}", _FEATURE)


class Window(_Missing):
    """Not yet in this version: a window that a GPU draws. `GUI` has one that the CPU draws."""


class Canvas(_Missing):
    """Not yet in this version: what a `Window` shows."""


class Scene(_Missing):
    """Not yet in this version: meshes, particles and lights."""


class Camera(_Missing):
    """Not yet in this version: where a scene is seen from."""


class Gui(_Missing):
    """Not yet in this version: sliders and buttons of a `Window`."""


def make_camera() -> Any:
    """Not yet in this version."""
    refuse("ui.make_camera", _FEATURE)


def check_ggui_availability() -> None:
    """Raises: windows that a GPU draws are not yet in this version."""
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
