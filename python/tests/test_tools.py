"""Image, video, PLY and VTK files."""

from __future__ import annotations

import base64
import re
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wuji as ti


def picture(w: int = 7, h: int = 5, channels: int = 3) -> Any:
    return np.random.default_rng(1).integers(0, 256, (w, h, channels), np.uint8)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_png_round_trip(tmp_path: Path, channels: int) -> None:
    file = str(tmp_path / "x.png")
    image = picture(channels=channels)
    ti.tools.imwrite(image, file)
    back = ti.tools.imread(file)
    assert back.dtype == np.uint8 and np.array_equal(back, image)


def test_the_origin_is_at_the_bottom(tmp_path: Path) -> None:
    image = np.zeros((3, 2, 3), np.uint8)
    image[2, 0] = (255, 0, 0)  # right, below
    file = tmp_path / "x.png"
    ti.tools.imwrite(image, str(file))
    data = file.read_bytes()
    at = data.index(b"IDAT")
    size = struct.unpack(">I", data[at - 4 : at])[0]
    rows = zlib.decompress(data[at + 4 : at + 4 + size])
    assert len(rows) == 2 * (1 + 9)
    assert rows[0] in (0, 1, 2, 3, 4) and rows[1:10] == bytes(9), "the upper row is black"


def test_channels(tmp_path: Path) -> None:
    file = str(tmp_path / "x.png")
    ti.tools.imwrite(np.full((4, 4, 3), (255, 0, 0), np.uint8), file)
    assert ti.tools.imread(file, channels=1).shape == (4, 4, 1)
    assert 70 < ti.tools.imread(file, channels=1)[0, 0, 0] < 80
    assert ti.tools.imread(file, channels=4)[0, 0].tolist() == [255, 0, 0, 255]
    with pytest.raises(ValueError, match="channels"):
        ti.tools.imread(file, channels=2)


@pytest.mark.parametrize(
    ("value", "byte"),
    [
        (np.float32(0.5), 127),
        (np.float64(2.0), 255),
        (np.float32(-1.0), 0),
        (np.uint16(0x8001), 0x80),
        (np.uint32(0xFF000000), 255),
        (np.int32(300), 255),
        (np.bool_(True), 255),
        (np.float16(1.0), 255),
    ],
)
def test_pixel_types(tmp_path: Path, value: Any, byte: int) -> None:
    file = str(tmp_path / "x.png")
    ti.tools.imwrite(np.full((2, 2), value), file)
    assert ti.tools.imread(file)[0, 0, 0] == byte


def test_imwrite_takes_fields(tmp_path: Path) -> None:
    file = str(tmp_path / "x.png")
    pixels = ti.Vector.field(3, ti.f32, (8, 4))
    pixels.fill(1.0)
    ti.tools.imwrite(pixels, file)
    assert ti.tools.imread(file).shape == (8, 4, 3)
    gui = ti.GUI(res=(8, 4), background_color=0x00FF00, show_gui=False)
    gui.show(file)
    assert ti.tools.imread(file, channels=3)[3, 3].tolist() == [0, 255, 0]


def test_imwrite_rejects_invalid_images(tmp_path: Path) -> None:
    with pytest.raises(ti.TaichiRuntimeError, match="nope.png"):
        ti.tools.imread(str(tmp_path / "nope.png"))
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    with pytest.raises(ti.TaichiRuntimeError, match="broken.png"):
        ti.tools.imread(str(broken))
    for shape in ((4,), (4, 4, 2), (4, 4, 5), (2, 2, 2, 2)):
        with pytest.raises(AssertionError, match="RGB"):
            ti.tools.imwrite(np.zeros(shape), str(tmp_path / "y.png"))
    with pytest.raises(ValueError, match="NaN"):
        ti.tools.imwrite(np.full((2, 2), np.nan), str(tmp_path / "y.png"))
    with pytest.raises(ValueError, match="empty"):
        ti.tools.imwrite(np.zeros((0, 2)), str(tmp_path / "y.png"))
    with pytest.raises(ti.TaichiRuntimeError, match="cannot write"):
        ti.tools.imwrite(picture(), str(tmp_path / "no" / "folder.png"))


def test_other_formats_need_pillow(tmp_path: Path) -> None:
    file = str(tmp_path / "x.bmp")
    try:
        import PIL  # noqa: F401
    except ImportError:
        with pytest.raises(ti.TaichiRuntimeError, match=r"\.bmp needs Pillow"):
            ti.tools.imwrite(picture(), file)
        with pytest.raises(ti.TaichiRuntimeError, match=r"\.bmp needs Pillow"):
            ti.tools.imread(file)
    else:
        image = picture()
        ti.tools.imwrite(image, file)
        assert np.array_equal(ti.tools.imread(file), image)


def test_jpeg_keeps_most_of_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    noise = picture(32, 32)
    for file in (str(tmp_path / "x.jpg"), str(tmp_path / "y.JPEG")):
        ti.tools.imwrite(noise, file)
        assert np.abs(ti.tools.imread(file).astype(int) - noise).mean() < 4  # 50 with Pillow's defaults


def test_imresize() -> None:
    image = np.array([[0, 1], [2, 3]])
    assert ti.tools.imresize(image, 4).tolist() == [[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3], [2, 2, 3, 3]]
    assert ti.tools.imresize(image, 3, 2).tolist() == [[0, 1], [0, 1], [2, 3]]
    assert ti.tools.imresize(picture(8, 8), 4).shape == (4, 4, 3)
    with pytest.raises(ValueError, match="at least one pixel"):
        ti.tools.imresize(image, 0)


def test_imshow_needs_a_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(ti.TaichiRuntimeError, match="display"):
        ti.tools.imshow(picture())


def test_gif_videos(tmp_path: Path) -> None:
    video = ti.tools.VideoManager(str(tmp_path), framerate=20, automatic_build=False)
    for shade in (0.0, 0.5, 1.0):
        video.write_frame(np.full((16, 12, 3), shade))
    assert video.frame_counter == 3
    assert sorted(p.name for p in (tmp_path / "frames").iterdir()) == ["000000.png", "000001.png", "000002.png"]
    video.make_video(mp4=False, gif=True)
    data = (tmp_path / "video.gif").read_bytes()
    assert data[:6] == b"GIF89a" and struct.unpack("<HH", data[6:10]) == (16, 12)
    assert video.get_output_filename(".gif") == str(tmp_path / "video.gif")
    video.clean_frames()
    assert not any((tmp_path / "frames").iterdir())
    with pytest.raises(ti.TaichiRuntimeError, match="no frames"):
        video.make_video()


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_mp4_videos(tmp_path: Path) -> None:
    video = ti.tools.VideoManager(str(tmp_path), video_filename="film")
    video.write_frames(np.random.default_rng(3).random((5, 32, 24, 3)))
    video.make_video(mp4=True, gif=False)
    assert b"ftyp" in (tmp_path / "film.mp4").read_bytes()[:32]


def test_videos_without_ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    video = ti.tools.VideoManager(str(tmp_path), automatic_build=False)
    video.write_frame(np.zeros((8, 8)))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ti.TaichiRuntimeError, match="ffmpeg"):
        video.make_video(mp4=True, gif=False)


def test_frames_must_have_the_same_size(tmp_path: Path) -> None:
    video = ti.tools.VideoManager(str(tmp_path), width=8, height=4)
    with pytest.raises(AssertionError, match="4, 4"):
        video.write_frame(np.zeros((4, 4)))


def full_writer() -> ti.tools.PLYWriter:
    writer = ti.tools.PLYWriter(num_vertices=4, num_faces=2)
    writer.add_vertex_pos(np.array([0, 1, 1, 0.0]), np.array([0, 0, 1, 1.0]), np.zeros(4))
    writer.add_vertex_rgba(*np.full((4, 4), 0.5))
    writer.add_vertex_id()
    writer.add_vertex_channel("weight", "double", [0.1, 0.2, 0.3, 0.4])
    writer.add_faces(np.array([0, 1, 2, 0, 2, 3]))
    writer.add_face_id()
    writer.add_face_piece([5, 6])
    return writer


def test_ply_ascii(tmp_path: Path) -> None:
    file = tmp_path / "x.ply"
    full_writer().export_ascii(str(file))
    lines = file.read_text().splitlines()
    assert lines[:4] == ["ply", "format ascii 1.0", "comment created by PLYWriter", "element vertex 4"]
    assert "property double weight" in lines and "property list uchar int vertex_indices" in lines
    body = lines[lines.index("end_header") + 1 :]
    assert body[1].split() == ["1.0", "0.0", "0.0", "0.5", "0.5", "0.5", "0.5", "1", "0.2"]
    assert body[4:] == ["3 0 1 2 0 5", "3 0 2 3 1 6"]


def test_ply_binary(tmp_path: Path) -> None:
    full_writer().export(str(tmp_path / "x.ply"))
    header, _, body = (tmp_path / "x.ply").read_bytes().partition(b"end_header\n")
    assert b"format binary_little_endian 1.0" in header
    assert len(body) == 4 * (7 * 4 + 4 + 8) + 2 * (1 + 12 + 8)
    assert struct.unpack("<3f", body[40:52]) == (1, 0, 0)
    assert struct.unpack("<B3i", body[160:173]) == (3, 0, 1, 2)


def test_ply_series(tmp_path: Path) -> None:
    writer = ti.tools.PLYWriter(1)
    writer.add_vertex_pos([1], [2], [3])
    writer.add_vertex_normal([0], [0], [1])
    writer.add_vertex_vel([0], [0], [1])
    writer.add_vertex_color([0], [0], [1])
    writer.add_vertex_alpha([1])
    writer.add_vertex_piece([1])
    writer.export_frame(7, str(tmp_path / "a.ply"))
    writer.export_frame_ascii(8, str(tmp_path / "b"))
    writer.print_header(str(tmp_path / "c"), "ascii")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a_000007.ply", "b_000008.ply", "c"]


def test_ply_quads_and_invalid_arguments(tmp_path: Path, capsys: Any) -> None:
    writer = ti.tools.PLYWriter(4, 1, "quad")
    with pytest.raises(AssertionError, match="x is missing"):
        writer.export(str(tmp_path / "x.ply"))
    writer.add_vertex_pos(*np.zeros((3, 4)))
    with pytest.raises(AssertionError, match="out of range"):
        writer.export(str(tmp_path / "x.ply"))
    writer.add_faces([0, 1, 2, 3])
    writer.export(str(tmp_path / "x.ply"))
    with pytest.raises(AssertionError, match="3 indices for 1 faces with 4"):
        writer.add_faces([0, 1, 2])
    writer.add_vertex_channel("q", "quadruple", np.zeros(4))
    assert "Unknown type quadruple" in capsys.readouterr().err and writer.num_vertex_channels == 3
    with pytest.raises(AssertionError, match="2 values, expected 4"):
        writer.add_vertex_channel("q", "float", np.zeros(2))
    with pytest.raises(ValueError, match="one word"):
        writer.add_vertex_channel("a b", "float", np.zeros(4))
    writer.add_vertex_pos(*np.zeros((3, 4)))
    assert "already exists" in capsys.readouterr().err
    for wrong in ((0, 0, "tri"), (1, -1, "tri"), (1, 1, "penta")):
        with pytest.raises(AssertionError):
            ti.tools.PLYWriter(*wrong)


def test_vtk(tmp_path: Path) -> None:
    field = ti.field(ti.f32, (2, 3, 4))
    field.from_numpy(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    ti.tools.write_vtk(field, str(tmp_path / "volume"))
    text = (tmp_path / "volume.vtr").read_text()
    assert 'WholeExtent="0 1 0 2 0 3"' in text
    found = re.search(r'Name="result" format="binary">([^<]*)<', text)
    assert found is not None
    raw = base64.b64decode(found[1])
    assert struct.unpack("=Q", raw[:8]) == (96,)
    values = np.frombuffer(raw[8:], np.float32).reshape((2, 3, 4), order="F")
    assert np.array_equal(values, field.to_numpy())
    ti.tools.write_vtk(np.zeros((2, 2)), str(tmp_path / "flat.vtr"))
    with pytest.raises(ValueError, match="2D or 3D"):
        ti.tools.write_vtk(np.zeros(2), str(tmp_path / "line"))


def test_diagnose(capsys: Any) -> None:
    ti.tools.diagnose()
    out = capsys.readouterr().out
    assert ti.__version__ in out and "with the right result" in out and "python" in out


def test_videos_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wuji.tools.video import make_video, scale_video

    names = [str(tmp_path / f"{number:03d}.png") for number in range(3)]
    for name in names:
        ti.tools.imwrite(picture(8, 6), name)
    for files in (names, str(tmp_path / "%03d.png")):
        make_video(files, frame_rate=10, output_path=str(tmp_path / "x.gif"))
        assert (tmp_path / "x.gif").read_bytes()[:10] == b"GIF89a" + struct.pack("<HH", 8, 6)
        (tmp_path / "x.gif").unlink()
    for wrong in ([], 3, str(tmp_path / "none-%d.png")):
        with pytest.raises(AssertionError, match="`input_files` should be a list of files"):
            make_video(wrong)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(ti.TaichiRuntimeError, match="needs ffmpeg"):
        scale_video("a.mp4", "b.mp4", 0.5, 0.5)
