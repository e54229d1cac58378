"""Videos from frames: GIF natively, MP4 with ``ffmpeg``."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .. import _native
from .._arrays import as_numpy
from ..exceptions import WujiArgumentError, WujiRuntimeError
from .image import Bytes, imread, imwrite, to_bytes

FRAME_FN_TEMPLATE = "%06d.png"
FRAME_DIR = "frames"


class VideoManager:
    """Stores frames as PNG files in ``output_dir/frames`` and encodes them as videos.

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
            raise AssertionError("`width` and `height` must be given together")
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
        """Return the path of a video; ``suffix`` is ``.mp4`` or ``.gif``."""
        return os.path.join(self.directory, self.video_filename + suffix)

    def get_frame_directory(self) -> str:
        return self.frame_directory

    def write_frame(self, img: Any) -> None:
        """Add a frame."""
        array = as_numpy(img)
        if self.width is not None and array.shape[:2] != (self.width, self.height):
            raise AssertionError(f"frame size {array.shape[:2]} does not match video size {(self.width, self.height)}")
        if self.post_processor is not None:
            array = self.post_processor.process(array)
        name = FRAME_FN_TEMPLATE % self.frame_counter
        imwrite(array, os.path.join(self.frame_directory, name))
        self.frame_fns.append(name)
        self.frame_counter += 1
        # Update the video now and then, so that an interrupted run leaves one.
        if self.automatic_build and self.frame_counter % self.next_video_checkpoint == 0 and shutil.which("ffmpeg"):
            self.make_video(mp4=True, gif=False)
            self.next_video_checkpoint *= 2

    def write_frames(self, images: Iterable[Any]) -> None:
        for image in images:
            self.write_frame(image)

    def clean_frames(self) -> None:
        """Delete the frame files. Videos stay."""
        for name in os.listdir(self.frame_directory):
            if name.endswith(".png"):
                os.remove(os.path.join(self.frame_directory, name))
        self.frame_fns.clear()

    def make_video(self, mp4: bool = True, gif: bool = True) -> None:
        """Encode all frames as ``video.mp4``, ``video.gif`` or both."""
        if not self.frame_fns:
            raise WujiRuntimeError("there are no frames to encode")
        for suffix, wanted in ((".gif", gif), (".mp4", mp4)):
            if wanted:
                frames = (imread(os.path.join(self.frame_directory, name), channels=3) for name in self.frame_fns)
                make(self.get_output_filename(suffix), frames, self.framerate)


def make(path: str, frames: Iterable[Bytes], framerate: float, change: Callable[[Bytes], Bytes] | None = None) -> None:
    """Encode frames, indexed ``[x, y]``, as a GIF or MP4 file."""
    try:
        recording = _native.Recording(path, float(framerate))
        for frame in frames:
            frame = to_bytes(frame)[:, :, :3]
            frame = change(frame) if change is not None else frame
            rows = np.ascontiguousarray(frame[:, ::-1].swapaxes(0, 1))
            recording.push(rows.shape[1], rows.shape[0], rows.tobytes())
        recording.finish()
    except OSError as error:
        raise WujiRuntimeError(f"cannot write {path}: {error}") from error


def ffmpeg(source: str, target: str, *options: str) -> int:
    """Convert a video with ``ffmpeg`` and return its exit status."""
    program = shutil.which("ffmpeg")
    if program is None:
        raise WujiRuntimeError(f"{target} needs ffmpeg, which is not installed")
    if not os.path.isfile(source):
        raise WujiRuntimeError(f"no such file: {source}")
    return subprocess.run([program, "-y", "-loglevel", "error", "-i", source, *options, target], check=False).returncode


def _converted(source: str, target: str, *options: str) -> None:
    if ffmpeg(source, target, *options):
        raise WujiRuntimeError(f"ffmpeg cannot write {target}")


def make_video(input_files: list[str] | str, width: int = 0, height: int = 0, frame_rate: float = 24, crf: int = 20, output_path: str = "video.mp4") -> None:
    """Encode image files of the same size as a GIF or MP4 file. MP4 needs ffmpeg. The size is that of the files.

    ``input_files`` is a list, or a template for numbers from 0, such as ``"%06d.png"``.
    """
    if isinstance(input_files, str) and "%" in input_files:
        template = input_files
        input_files = list(itertools.takewhile(os.path.isfile, (template % number for number in itertools.count())))
    if not isinstance(input_files, list) or not input_files:
        raise WujiArgumentError(f"`input_files` should be a list of files, or a template of existing ones such as '%06d.png', not {input_files!r}")
    make(output_path, (imread(name, channels=3) for name in input_files), frame_rate)


def scale_video(input_fn: str, output_fn: str, ratiow: float, ratioh: float) -> None:
    """Scale a video. Needs ffmpeg."""
    _converted(input_fn, output_fn, "-vf", f"scale=2*floor({ratiow}*iw/2):2*floor({ratioh}*ih/2)")


def crop_video(input_fn: str, output_fn: str, x_begin: float, x_end: float, y_begin: float, y_end: float) -> None:
    """Crop a video to a rectangle, given in fractions of its size from the lower left corner. Needs ffmpeg."""
    _converted(input_fn, output_fn, "-filter:v", f"crop=iw*{x_end - x_begin}:ih*{y_end - y_begin}:iw*{x_begin}:ih*{1 - y_end}")


def accelerate_video(input_fn: str, output_fn: str, speed: float) -> None:
    """Change the speed of a video. Needs ffmpeg."""
    _converted(input_fn, output_fn, "-filter:v", f"setpts={1 / speed}*PTS", "-an")
