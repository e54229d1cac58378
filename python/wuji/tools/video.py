"""Frames that become a video: GIF by ourselves, MP4 by the program ``ffmpeg``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .. import _native
from ..exceptions import WujiRuntimeError
from .image import Bytes, imread, imwrite, to_bytes

FRAME_FN_TEMPLATE = "%06d.png"
FRAME_DIR = "frames"


class VideoManager:
    """Keeps frames as PNG files in ``output_dir/frames`` and makes videos of them.

    ```python
    video = ti.tools.VideoManager("out", framerate=24)
    for _ in range(48):
        step()
        video.write_frame(pixels)           # a field or an array
    video.make_video(gif=True, mp4=False)   # out/video.gif
    ```
    """

    def __init__(
        self,
        output_dir: str,
        video_filename: str | None = None,
        width: int | None = None,
        height: int | None = None,
        post_processor: Any = None,
        framerate: int = 24,
        automatic_build: bool = True,
    ) -> None:
        if (width is None) != (height is None):
            raise AssertionError("`width` and `height` are given together")
        self.directory = output_dir
        self.frame_directory = os.path.join(output_dir, FRAME_DIR)
        os.makedirs(self.frame_directory, exist_ok=True)
        self.video_filename = video_filename or "video"
        self.width, self.height = width, height
        self.post_processor = post_processor
        self.framerate = framerate
        self.automatic_build = automatic_build
        self.next_video_checkpoint = 4
        self.frame_counter = 0
        self.frame_fns: list[str] = []

    def get_output_filename(self, suffix: str) -> str:
        """Where a video goes: ``suffix`` is ``.mp4`` or ``.gif``."""
        return os.path.join(self.directory, self.video_filename + suffix)

    def get_frame_directory(self) -> str:
        return self.frame_directory

    def write_frame(self, img: Any) -> None:
        """Adds a frame."""
        array = np.asarray(img.to_numpy() if hasattr(img, "to_numpy") else img)
        if self.width is not None and array.shape[:2] != (self.width, self.height):
            raise AssertionError(f"a frame of {array.shape[:2]} for a video of {(self.width, self.height)}")
        if self.post_processor is not None:
            array = self.post_processor.process(array)
        name = FRAME_FN_TEMPLATE % self.frame_counter
        imwrite(array, os.path.join(self.frame_directory, name))
        self.frame_fns.append(name)
        self.frame_counter += 1
        # A long run that is stopped has a video of what there was.
        if self.automatic_build and self.frame_counter % self.next_video_checkpoint == 0 and shutil.which("ffmpeg"):
            self.make_video(mp4=True, gif=False)
            self.next_video_checkpoint *= 2

    def write_frames(self, images: Iterable[Any]) -> None:
        for image in images:
            self.write_frame(image)

    def clean_frames(self) -> None:
        """Removes the files of the frames. Videos stay."""
        for name in os.listdir(self.frame_directory):
            if name.endswith(".png"):
                os.remove(os.path.join(self.frame_directory, name))
        self.frame_fns.clear()

    def make_video(self, mp4: bool = True, gif: bool = True) -> None:
        """Makes ``video.mp4``, ``video.gif`` or both of all frames."""
        if not self.frame_fns:
            raise WujiRuntimeError("there are no frames to make a video of")
        for suffix, wanted in ((".gif", gif), (".mp4", mp4)):
            if wanted:
                frames = (imread(os.path.join(self.frame_directory, name), channels=3) for name in self.frame_fns)
                make(self.get_output_filename(suffix), frames, self.framerate)


def make(path: str, frames: Iterable[Bytes], framerate: float, change: Callable[[Bytes], Bytes] | None = None) -> None:
    """Writes frames, by ``[x, y]``, as ``path``, a GIF or MP4."""
    try:
        recording = _native.Recording(path, float(framerate))
        for frame in frames:
            frame = to_bytes(frame)[:, :, :3]
            frame = change(frame) if change is not None else frame
            rows = np.ascontiguousarray(frame[:, ::-1].swapaxes(0, 1))
            recording.push(rows.shape[1], rows.shape[0], rows.tobytes())
        recording.finish()
    except OSError as error:
        raise WujiRuntimeError(f"cannot make {path}: {error}") from error
