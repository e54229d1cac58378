"""Programs to look at and to begin with: `wuji example`."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..ui.gui import GUI

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def known() -> dict[str, str]:
    """Names of the examples, and the first sentence of each."""
    found = {}
    for name in sorted(os.listdir(_FOLDER)):
        if name.endswith(".py") and not name.startswith("_"):
            with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
                text = ast.get_docstring(ast.parse(file.read())) or ""
            found[name.removesuffix(".py")] = text.split("\n")[0].rstrip(".")
    return found


def path(name: str) -> str:
    return os.path.join(_FOLDER, f"{name}.py")


def frames(gui: GUI) -> Iterator[int]:
    """Counts frames until somebody closes the window or presses Escape, and shows each.

    ``wuji example julia 30`` ends after 30 frames. Without a window, frames go to ``NAME.gif``, and there are 60.
    """
    from ..tools.video import make

    asked = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else None
    windowless = gui._window is None
    limit = asked if asked is not None else (60 if windowless else sys.maxsize)
    kept = []
    frame = 0
    while gui.running and frame < limit:
        if gui.get_event(gui.ESCAPE):
            break
        yield frame
        if windowless:
            kept.append((gui.get_image()[:, :, :3].clip(0, 1) * 255).astype("uint8"))
        gui.show()
        frame += 1
    if kept:
        name = f"{os.path.splitext(os.path.basename(sys.argv[0]))[0]}.gif"
        make(name, kept, 25)
        print(f"{len(kept)} frames in {name}")
    gui.close()
