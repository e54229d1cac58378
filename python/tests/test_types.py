"""The package is typed: mypy checks it, and programs that use it."""

import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("mypy")

ROOT = pathlib.Path(__file__).resolve().parents[2]


def mypy(*args):
    return subprocess.run([sys.executable, "-m", "mypy", *args], capture_output=True, text=True, cwd=ROOT, timeout=600)


def test_the_package_is_typed():
    done = mypy("python/wuji")
    assert done.returncode == 0, done.stdout


def test_programs_type_check(tmp_path):
    good = tmp_path / "good.py"
    good.write_text(
        "import wuji as ti\n\nti.init(arch=ti.cpu)\nx = ti.field(ti.f32, shape=(4, 4))\n"
        "v = ti.Vector([1.0, 2.0]) * 2 + 1\nprint(x.to_numpy(), v.norm())\n"
    )
    bad = tmp_path / "bad.py"
    bad.write_text("import wuji as ti\n\nti.init(arch=ti.cpu, enable_fallback='maybe')\n")
    # Next to the package, so that mypy finds it by path.
    done = mypy("--strict", "--cache-dir", str(tmp_path / "cache"), str(good), "python/wuji/__init__.py")
    assert done.returncode == 0, done.stdout
    done = mypy("--strict", "--cache-dir", str(tmp_path / "cache"), str(bad), "python/wuji/__init__.py")
    assert 'Argument "enable_fallback"' in done.stdout
