"""Image files. Arrays are indexed ``[x, y]`` with x to the right and y up, like fields and windows."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _native
from .._arrays import as_numpy
from ..exceptions import WujiRuntimeError

Bytes = npt.NDArray[np.uint8]


def to_bytes(img: Any) -> Bytes:
    """Convert an image to ``uint8``. Floats are in [0, 1]; unsigned integers use their full range."""
    array: npt.NDArray[Any] = as_numpy(img)
    kind = array.dtype.kind
    converted: Bytes
    if kind == "b":
        converted = array.astype(np.uint8) * np.uint8(255)
    elif kind == "f":
        # NumPy's own warning would not mention the image.
        if np.isnan(array).any():
            raise ValueError("the image contains NaN")
        converted = (np.clip(array, 0.0, 1.0) * 255).astype(np.uint8)
    elif kind == "u":
        converted = (array >> (8 * array.dtype.itemsize - 8)).astype(np.uint8, copy=False)
    elif kind == "i":
        converted = np.clip(array, 0, 255).astype(np.uint8)
    else:
        raise ValueError(f"an image must have floats or integers, not {array.dtype}")
    return converted


def _rows(img: Any) -> Bytes:
    """Return rows from top to bottom with 1 to 4 channels."""
    array = to_bytes(img)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4):
        raise AssertionError(f"Image must be either RGB/RGBA or greyscale; its shape is {array.shape}")
    if 0 in array.shape:
        raise ValueError(f"the image is empty: its shape is {array.shape}")
    return np.ascontiguousarray(array[:, ::-1].swapaxes(0, 1))


def _from_rows(rows: Bytes) -> Bytes:
    return np.ascontiguousarray(rows.swapaxes(0, 1)[:, ::-1])


def _pillow(filename: str, what: str) -> Any:
    try:
        from PIL import Image  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        suffix = os.path.splitext(filename)[1] or "no suffix"
        raise WujiRuntimeError(
            f"cannot {what} {filename}: {suffix} needs Pillow, which is not installed; .png does not\n  = help: `pip install pillow`"
        ) from None
    return Image


def imwrite(img: Any, filename: str) -> None:
    """Write an image: an array, field or ndarray of shape ``(w, h)``, ``(w, h, 3)`` or ``(w, h, 4)``."""
    filename = os.fspath(filename)
    rows = _rows(img)
    height, width, channels = rows.shape
    if filename.lower().endswith(".png"):
        try:
            _native.write_png(filename, width, height, channels, rows.tobytes())
        except OSError as error:
            raise WujiRuntimeError(f"cannot write {filename}: {error}") from error
        return
    image = _pillow(filename, "write").fromarray(rows[:, :, 0] if channels == 1 else rows)
    if filename.lower().endswith((".jpg", ".jpeg", ".bmp")) and channels == 4:
        image = image.convert("RGB")
    # As in Taichi: Pillow's defaults lose much more of a picture.
    options: dict[str, Any] = {"quality": 95, "subsampling": 0} if filename.lower().endswith((".jpg", ".jpeg")) else {}
    try:
        image.save(filename, **options)
    except (ValueError, OSError) as error:
        raise WujiRuntimeError(f"cannot write {filename}: {error}") from error


def imread(filename: str, channels: int = 0) -> Bytes:
    """Read an image as ``uint8`` of shape ``(w, h, channels)``. ``channels`` is 1, 3 or 4, or 0 for those of the file."""
    filename = os.fspath(filename)
    if channels not in (0, 1, 3, 4):
        raise ValueError(f"`channels` must be 0, 1, 3 or 4, not {channels}")
    try:
        if filename.lower().endswith(".png"):
            width, height, have, data = _native.read_png(filename)
            rows = np.frombuffer(data, np.uint8).reshape(height, width, have)
        else:
            opened = _pillow(filename, "read").open(filename)
            if opened.mode not in ("L", "LA", "RGB", "RGBA"):
                opened = opened.convert("RGBA" if "transparency" in opened.info else "RGB")
            rows = np.atleast_3d(np.asarray(opened))
    except OSError as error:
        raise WujiRuntimeError(f"Cannot read image file [{filename}]: {error}") from error
    return _from_rows(_with_channels(rows, channels or {2: 4}.get(rows.shape[2], rows.shape[2])))


def _with_channels(rows: Bytes, wanted: int) -> Bytes:
    have = rows.shape[2]
    if have == wanted:
        return rows
    opaque = np.full(rows.shape[:2], 255, np.uint8)
    alpha = rows[:, :, -1] if have in (2, 4) else opaque
    if wanted == 1:
        light = rows[:, :, :3].astype(np.uint32) @ np.array([77, 150, 29], np.uint32) // 256 if have >= 3 else rows[:, :, 0]
        return light.astype(np.uint8)[:, :, None]
    color = rows[:, :, :3] if have >= 3 else np.repeat(rows[:, :, :1], 3, axis=2)
    return color if wanted == 3 else np.dstack([color, alpha])


def imresize(img: Any, w: int, h: int | None = None) -> npt.NDArray[Any]:
    """Resize an image to ``w`` by ``h`` pixels (``w`` by ``w`` by default), with nearest-neighbor sampling."""
    array: npt.NDArray[Any] = as_numpy(img)
    if array.ndim < 2:
        raise ValueError(f"an image needs at least two axes, not shape {array.shape}")
    h = w if h is None else h
    if w < 1 or h < 1:
        raise ValueError(f"an image needs at least one pixel, not {w} by {h}")
    x = np.arange(w) * array.shape[0] // w
    y = np.arange(h) * array.shape[1] // h
    converted: npt.NDArray[Any] = array[x[:, None], y[None, :]]
    return converted


def imshow(img: Any, title: str = "imshow") -> None:
    """Show an image in a window until it is closed, or inline in a notebook."""
    rows = _rows(img)
    notebook = _notebook()
    if notebook is not None:
        notebook(rows)
        return
    from ..ui.gui import GUI

    if not GUI.get_bool_environ("TI_GUI_SHOW", True):
        return
    height, width = rows.shape[:2]
    gui = GUI(title, res=(width, height))
    if gui._window is None:
        raise WujiRuntimeError("`imshow` needs a display\n  = help: use `imwrite` to write a file")
    image = _from_rows(_with_channels(rows, 3))
    while gui.running:
        if gui.get_event(GUI.ESCAPE):
            gui.close()
            break
        gui.set_image(image)
        gui.show()


def _notebook() -> Any:
    """Return a function that shows rows of pixels in the current notebook, or None outside notebooks."""
    import sys

    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or "IPKernelApp" not in getattr(shell, "config", {}):
        return None

    def show(rows: Bytes) -> None:
        import tempfile

        from IPython.display import Image, display  # type: ignore[import-not-found, unused-ignore]

        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "x.png")
            _native.write_png(file, rows.shape[1], rows.shape[0], rows.shape[2], rows.tobytes())
            display(Image(filename=file))  # type: ignore[no-untyped-call,unused-ignore]

    return show
