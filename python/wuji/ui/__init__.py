"""User interface. `Window` draws pictures of the plane and of space (GGUI); `GUI` draws pictures of the plane. Both draw on the CPU."""

from __future__ import annotations

from .camera import Camera, ProjectionMode, make_camera
from .constants import (
    ALT,
    BACKSPACE,
    CAPSLOCK,
    CTRL,
    DOWN,
    ESCAPE,
    LEFT,
    LMB,
    MMB,
    PRESS,
    RELEASE,
    RETURN,
    RIGHT,
    RMB,
    SHIFT,
    SPACE,
    TAB,
    UP,
)
from .drawing import Canvas
from .gui import GUI, hex_to_rgb, rgb_to_hex
from .imgui import Gui
from .scene import Scene
from .window import Window


def check_ggui_availability() -> None:
    """Do nothing: windows are drawn on the CPU, on every machine."""


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
