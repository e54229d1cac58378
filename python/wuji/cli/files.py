"""Image and video commands."""

from __future__ import annotations

import argparse
import os
from typing import Any


def add_to(commands: Any) -> None:
    video = commands.add_parser("video", help="encode PNG files as a video", description=_video.__doc__)
    video.add_argument("inputs", nargs="*", help="PNG files in order (default: all in this folder)")
    video.add_argument("-o", "--output", default="video.mp4", help="output file, .mp4 or .gif (default: video.mp4)")
    video.add_argument("-f", "--framerate", type=float, default=24, help="frames per second (default: 24)")
    video.set_defaults(handler=_video)
    gif = commands.add_parser("gif", help="convert a video to a GIF", description=_gif.__doc__)
    gif.add_argument("-i", "--input", required=True, help="input video")
    gif.add_argument("-f", "--framerate", type=float, default=24, help="frames per second (default: 24)")
    gif.set_defaults(handler=_gif)
    speed = commands.add_parser("video_speed", help="change the speed of a video", description=_speed.__doc__)
    speed.add_argument("-i", "--input", required=True, help="input video")
    speed.add_argument("-s", "--speed", type=float, required=True, help="speed factor")
    speed.set_defaults(handler=_speed)
    crop = commands.add_parser("video_crop", help="crop a video", description=_crop.__doc__)
    crop.add_argument("-i", "--input", required=True, help="input video")
    for name, what in (("x1", "left"), ("x2", "right"), ("y1", "upper"), ("y2", "lower")):
        crop.add_argument(f"--{name}", type=float, required=True, help=f"{what} edge: a fraction, 0 to 1, or pixels")
    crop.set_defaults(handler=_crop)
    scale = commands.add_parser("video_scale", help="scale a video", description=_scale.__doc__)
    scale.add_argument("-i", "--input", required=True, help="input video")
    scale.add_argument("-w", "--ratio-width", type=float, required=True, help="scale factor of the width")
    scale.add_argument("--ratio-height", type=float, help="scale factor of the height (default: that of the width)")
    scale.set_defaults(handler=_scale)


def _video(args: argparse.Namespace) -> int:
    """Encode PNG files of the same size as a video. MP4 needs ffmpeg, GIF does not."""
    from ..tools.image import imread
    from ..tools.video import make

    names = args.inputs or sorted(name for name in os.listdir() if name.lower().endswith(".png"))
    if not names:
        raise ValueError("no PNG files in this folder")
    make(args.output, (imread(name, channels=3) for name in names), args.framerate)
    print(args.output)
    return 0


def _named(file: str, suffix: str, end: str | None = None) -> str:
    stem, own = os.path.splitext(file)
    return f"{stem}{suffix}{end or own}"


def _ffmpeg(source: str, target: str, *options: str) -> int:
    from ..tools.video import ffmpeg

    status = ffmpeg(source, target, *options)
    if status == 0:
        print(target)
    return min(status, 1)


def _positive(value: float, what: str) -> float:
    if not 0 < value < 1e4:
        raise ValueError(f"{what} must be positive, not {value}")
    return value


def _gif(args: argparse.Namespace) -> int:
    """Convert a video to a GIF next to it. Needs ffmpeg."""
    filters = f"fps={_positive(args.framerate, '--framerate')},split[a][b];[a]palettegen[p];[b][p]paletteuse"
    return _ffmpeg(args.input, _named(args.input, "", ".gif"), "-vf", filters)


def _speed(args: argparse.Namespace) -> int:
    """Change the speed of a video; write the result next to it. Needs ffmpeg."""
    speed = _positive(args.speed, "--speed")
    return _ffmpeg(args.input, _named(args.input, f"-sp{speed:g}"), "-filter:v", f"setpts={1 / speed}*PTS", "-an")


def _crop(args: argparse.Namespace) -> int:
    """Crop a video; write the result next to it. Needs ffmpeg."""

    def edge(value: float, side: str) -> str:
        if value < 0:
            raise ValueError(f"edges cannot be negative: {value}")
        return f"{value}*{side}" if value <= 1 else f"{value}"

    if args.x1 >= args.x2 or args.y1 >= args.y2:
        raise ValueError("x1 must be less than x2, and y1 less than y2")
    x1, x2, y1, y2 = edge(args.x1, "iw"), edge(args.x2, "iw"), edge(args.y1, "ih"), edge(args.y2, "ih")
    # MP4 needs even dimensions.
    area = f"crop=2*floor(({x2}-{x1})/2):2*floor(({y2}-{y1})/2):{x1}:{y1}"
    return _ffmpeg(args.input, _named(args.input, "-cropped"), "-filter:v", area)


def _scale(args: argparse.Namespace) -> int:
    """Scale a video; write the result next to it. Needs ffmpeg."""
    w = _positive(args.ratio_width, "--ratio-width")
    h = _positive(args.ratio_height or w, "--ratio-height")
    size = f"scale=2*floor({w}*iw/2):2*floor({h}*ih/2)"
    return _ffmpeg(args.input, _named(args.input, "-scaled"), "-filter:v", size)
