"""Names of keys, buttons and event types in `Window`."""

from __future__ import annotations

SHIFT = "Shift"
ALT = "Alt"
CTRL = "Control"
ESCAPE = "Escape"
RETURN = "Return"
TAB = "Tab"
BACKSPACE = "BackSpace"
SPACE = " "
UP = "Up"
DOWN = "Down"
LEFT = "Left"
RIGHT = "Right"
CAPSLOCK = "CapsLock"
LMB = "LMB"
MMB = "MMB"
RMB = "RMB"
PRESS = "Press"
RELEASE = "Release"

__all__ = [name for name in dir() if name.isupper()]
