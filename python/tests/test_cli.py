"""The command ``wuji``."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import wuji as ti
from wuji.__main__ import _TAICHI_ONLY, main


def wuji(*words: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wuji", *words],
        input=stdin,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_help_lists_commands_and_examples(capsys: Any) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for word in ("run", "debug", "repl", "example", "diagnose", "cache", "video", "gif", "doc", "examples:"):
        assert word in out
    assert main([]) == 2
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.endswith(f"wuji {ti.__version__}\n")
    assert main(["fly"]) == 2
    for command in ("run", "debug", "repl", "example", "cache", "video", "gif", "video_speed", "video_crop", "video_scale", "doc"):
        assert main([command, "--help"]) == 0
        assert len(capsys.readouterr().out) > 100


@pytest.mark.parametrize("name", sorted(_TAICHI_ONLY))
def test_taichi_only_commands_explain_themselves(name: str, capsys: Any) -> None:
    assert main([name, "whatever"]) == 2
    assert name in capsys.readouterr().err


PROGRAM = """
    import sys
    import taichi as ti
    import beside

    ti.init(arch=ti.cpu, verbose=False, offline_cache=False)
    x = ti.field(ti.i32, 4)

    @ti.kernel
    def put(i: ti.i32):
        x[i] = 7
        assert i < 100, "far out"

    put(int(sys.argv[1]))
    print(x[3], beside.NAME, ti.cfg.debug)
"""


def test_run_and_debug(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(dedent(PROGRAM))
    (tmp_path / "beside.py").write_text("NAME = 'beside'")
    done = wuji("run", str(tmp_path / "program.py"), "3")
    assert done.stdout == "7 beside False\n", done.stderr
    done = wuji("debug", str(tmp_path / "program.py"), "3")
    assert done.stdout == "7 beside True\n", done.stderr
    done = wuji("debug", str(tmp_path / "program.py"), "200")
    assert done.returncode == 1 and "program.py" in done.stderr
    done = wuji("run", "nowhere.py")
    assert done.returncode == 2 and "nowhere.py" in done.stderr


def test_repl() -> None:
    typed = """\
ti.init(verbose=False, offline_cache=False)
@ti.kernel
def add(a: int, b: int) -> int:
    return a + b

add(40, 2)
"""
    done = wuji("repl", stdin=typed)
    assert "42" in done.stdout, done.stderr


def test_cache(tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "kernels"
    ti.init(arch=ti.cpu, verbose=False, offline_cache_file_path=str(folder))

    @ti.kernel
    def f() -> ti.i32:
        return 12345

    assert f() == 12345
    ti.lang.runtime.current().native.finish_compiling()
    ti.reset()
    (folder / "mine.txt").write_text("stays")
    assert main(["cache", "info", "-p", str(folder)]) == 0
    out = capsys.readouterr().out
    assert str(folder) in out and ": 0 kernels" not in out
    assert main(["cache", "clean", "-p", str(folder)]) == 0
    assert "removed" in capsys.readouterr().out
    assert [p.name for p in folder.iterdir() if p.suffix != ".lock"] == ["mine.txt"]
    assert main(["cache", "info", "-p", str(folder)]) == 0
    assert ": 0 kernels, 0 bytes" in capsys.readouterr().out


def test_diagnose(capsys: Any) -> None:
    assert main(["diagnose"]) == 0
    assert "with the right result" in capsys.readouterr().out


def test_doc(capsys: Any) -> None:
    assert main(["doc", "ti.tools.imread"]) == 0
    assert "Read an image" in capsys.readouterr().out
    assert main(["doc", "nothing"]) == 2
    assert main(["doc"]) == 0


def frames(folder: Path) -> None:
    for number in range(4):
        ti.tools.imwrite(np.random.default_rng(number).random((32, 24, 3)), str(folder / f"{number}.png"))


def test_video_command_writes_a_gif(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["video", "-o", "x.gif"]) == 1
    assert "no PNG files" in capsys.readouterr().err
    frames(tmp_path)
    assert main(["video", "-o", "x.gif"]) == 0
    assert (tmp_path / "x.gif").read_bytes()[:6] == b"GIF89a"
    assert main(["video", "-o", "x.doc"]) == 1


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_video_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    frames(tmp_path)
    assert main(["video", "-f", "10"]) == 0
    assert main(["gif", "-i", "video.mp4"]) == 0
    assert main(["video_speed", "-i", "video.mp4", "-s", "2"]) == 0
    assert main(["video_crop", "-i", "video.mp4", "--x1", "0.25", "--x2", "0.75", "--y1", "0", "--y2", "0.5"]) == 0
    assert main(["video_scale", "-i", "video.mp4", "-w", "0.5"]) == 0
    made = {p.name for p in tmp_path.iterdir() if p.suffix != ".png"}
    assert made == {"video.mp4", "video.gif", "video-sp2.mp4", "video-cropped.mp4", "video-scaled.mp4"}
    assert main(["video_scale", "-i", "video.mp4", "-w", "-1"]) == 1
    assert main(["gif", "-i", "none.mp4"]) == 1
    assert main(["video_crop", "-i", "video.mp4", "--x1", "1", "--x2", "0.5", "--y1", "0", "--y2", "1"]) == 1
    capsys.readouterr()


PRINTS = """
    import taichi as ti

    ti.init(arch=ti.cpu, verbose=False, offline_cache=False)

    @ti.kernel
    def run():
        print("line")

    run()
    ti.sync()
    print("done")
"""


def test_commands_run_without_standard_output(tmp_path: Path) -> None:
    program = tmp_path / "prints.py"
    program.write_text(dedent(PRINTS))
    for words in (["run", str(program)], ["--version"], ["example"]):
        command = " ".join(map(shlex.quote, [sys.executable, "-m", "wuji", *words]))
        done = subprocess.run(["sh", "-c", f"{command} >&-"], stderr=subprocess.PIPE, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, ""), words


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")
def test_a_full_disk_is_an_error_without_frames_of_the_package(tmp_path: Path) -> None:
    program = tmp_path / "prints.py"
    program.write_text(dedent(PRINTS))
    for words in (["run", str(program)], ["--version"], ["example"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([sys.executable, "-u", "-m", "wuji", *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
        assert done.returncode == 1 and "No space left on device" in done.stderr, words
        assert f"{os.sep}wuji{os.sep}" not in done.stderr and "Exception ignored" not in done.stderr, done.stderr
        assert words[0] != "run" or "prints.py" in done.stderr


@pytest.mark.parametrize("buffered", [True, False])
def test_a_closed_pipe_ends_the_command_quietly(tmp_path: Path, buffered: bool) -> None:
    program = tmp_path / "lines.py"
    program.write_text("for i in range(100000):\n    print('line', i)\n")
    for words in (["example"], ["run", str(program)]):
        read, write = os.pipe()
        os.close(read)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "wuji", *words],
                stdout=write,
                stderr=subprocess.PIPE,
                text=True,
                timeout=120,
                env={**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"},
            )
        finally:
            os.close(write)
        assert (done.returncode, done.stderr) == (141, ""), words
