"""Example programs: `wuji example`."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..ui import GUI, Window

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def known() -> dict[str, str]:
    """Return the names of the examples with the first line of their docstrings."""
    found = {}
    for name in sorted(os.listdir(_FOLDER)):
        if name.endswith(".py") and not name.startswith("_"):
            with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
                text = ast.get_docstring(ast.parse(file.read())) or ""
            found[name.removesuffix(".py")] = text.split("\n")[0].rstrip(".")
    return found


def path(name: str) -> str:
    return os.path.join(_FOLDER, f"{name}.py")


def frames(gui: GUI | Window) -> Iterator[int]:
    """Yield frame numbers until the window is closed or Escape is pressed; show each frame.

    ``wuji example julia 30`` stops after 30 frames. Without a display, 60 frames are written to ``NAME.gif``.
    """
    from ..tools.video import make

    requested = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else None
    offscreen = gui._window is None
    limit = requested if requested is not None else (60 if offscreen else sys.maxsize)
    images = []
    frame = 0
    while gui.running and frame < limit and not gui.is_pressed("Escape"):
        yield frame
        if offscreen:
            images.append((_image(gui)[:, :, :3].clip(0, 1) * 255).astype("uint8"))
        gui.show()
        frame += 1
    if images:
        name = f"{os.path.splitext(os.path.basename(sys.argv[0]))[0]}.gif"
        make(name, images, 25)
        print(f"{len(images)} frames in {name}")
    _close(gui)


def _image(gui: GUI | Window) -> npt.NDArray[Any]:
    """Return the frame that is being drawn."""
    from ..ui import GUI

    return gui.get_image() if isinstance(gui, GUI) else gui.get_image_buffer_as_numpy()


def _close(gui: GUI | Window) -> None:
    from ..ui import GUI

    if isinstance(gui, GUI):
        gui.close()
    else:
        gui.destroy()
