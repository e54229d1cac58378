"""Commands for pictures and videos."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from typing import Any


def add_to(commands: Any) -> None:
    video = commands.add_parser("video", help="make a video of PNG files", description=_video.__doc__)
    video.add_argument("inputs", nargs="*", help="PNG files in order; none means all of this folder")
    video.add_argument("-o", "--output", default="video.mp4", help="a file .mp4 or .gif (video.mp4)")
    video.add_argument("-f", "--framerate", type=float, default=24, help="frames per second (24)")
    video.set_defaults(act=_video)
    gif = commands.add_parser("gif", help="make a GIF of a video", description=_gif.__doc__)
    gif.add_argument("-i", "--input", required=True, help="a video")
    gif.add_argument("-f", "--framerate", type=float, default=24, help="frames per second (24)")
    gif.set_defaults(act=_gif)
    speed = commands.add_parser("video_speed", help="make a video quicker or slower", description=_speed.__doc__)
    speed.add_argument("-i", "--input", required=True, help="a video")
    speed.add_argument("-s", "--speed", type=float, required=True, help="how many times as quick")
    speed.set_defaults(act=_speed)
    crop = commands.add_parser("video_crop", help="cut a part out of a video", description=_crop.__doc__)
    crop.add_argument("-i", "--input", required=True, help="a video")
    for name, what in (("x1", "left"), ("x2", "right"), ("y1", "upper"), ("y2", "lower")):
        crop.add_argument(f"--{name}", type=float, required=True, help=f"the {what} edge: a part of the whole, 0 to 1, or pixels")
    crop.set_defaults(act=_crop)
    scale = commands.add_parser("video_scale", help="make a video larger or smaller", description=_scale.__doc__)
    scale.add_argument("-i", "--input", required=True, help="a video")
    scale.add_argument("-w", "--ratio-width", type=float, required=True, help="how many times as wide")
    scale.add_argument("--ratio-height", type=float, help="how many times as high; as wide where it is not said")
    scale.set_defaults(act=_scale)


def _video(asked: argparse.Namespace) -> int:
    """Makes a video of PNG files of the same size: MP4 by the program ffmpeg, GIF without."""
    from ..tools.image import imread
    from ..tools.video import make

    names = asked.inputs or sorted(name for name in os.listdir() if name.lower().endswith(".png"))
    if not names:
        raise ValueError("there are no PNG files here; name some")
    make(asked.output, (imread(name, channels=3) for name in names), asked.framerate)
    print(asked.output)
    return 0


def _named(file: str, suffix: str, end: str | None = None) -> str:
    stem, own = os.path.splitext(file)
    return f"{stem}{suffix}{end or own}"


def _ffmpeg(source: str, target: str, *options: str) -> int:
    program = shutil.which("ffmpeg")
    if program is None:
        raise RuntimeError("this needs the program ffmpeg, which is not installed")
    if not os.path.isfile(source):
        raise ValueError(f"there is no file {source}")
    done = subprocess.run([program, "-y", "-loglevel", "error", "-i", source, *options, target], check=False)
    if done.returncode == 0:
        print(target)
    return min(done.returncode, 1)


def _positive(value: float, what: str) -> float:
    if not 0 < value < 1e4:
        raise ValueError(f"{what} is a positive number, not {value}")
    return value


def _gif(asked: argparse.Namespace) -> int:
    """Makes a GIF beside a video. Needs the program ffmpeg."""
    filters = f"fps={_positive(asked.framerate, '--framerate')},split[a][b];[a]palettegen[p];[b][p]paletteuse"
    return _ffmpeg(asked.input, _named(asked.input, "", ".gif"), "-vf", filters)


def _speed(asked: argparse.Namespace) -> int:
    """Writes a quicker video beside the old one. Needs the program ffmpeg."""
    speed = _positive(asked.speed, "--speed")
    return _ffmpeg(asked.input, _named(asked.input, f"-sp{speed:g}"), "-filter:v", f"setpts={1 / speed}*PTS", "-an")


def _crop(asked: argparse.Namespace) -> int:
    """Writes a part of a video beside the old one. Needs the program ffmpeg."""

    def edge(value: float, side: str) -> str:
        if value < 0:
            raise ValueError(f"edges are not negative: {value}")
        return f"{value}*{side}" if value <= 1 else f"{value}"

    if asked.x1 >= asked.x2 or asked.y1 >= asked.y2:
        raise ValueError("the right edge lies right of the left one, the lower below the upper one")
    x1, x2, y1, y2 = edge(asked.x1, "iw"), edge(asked.x2, "iw"), edge(asked.y1, "ih"), edge(asked.y2, "ih")
    # MP4 needs even sizes.
    area = f"crop=2*floor(({x2}-{x1})/2):2*floor(({y2}-{y1})/2):{x1}:{y1}"
    return _ffmpeg(asked.input, _named(asked.input, "-cropped"), "-filter:v", area)


def _scale(asked: argparse.Namespace) -> int:
    """Writes a larger or smaller video beside the old one. Needs the program ffmpeg."""
    w = _positive(asked.ratio_width, "--ratio-width")
    h = _positive(asked.ratio_height or w, "--ratio-height")
    size = f"scale=2*floor({w}*iw/2):2*floor({h}*ih/2)"
    return _ffmpeg(asked.input, _named(asked.input, "-scaled"), "-filter:v", size)
