"""Build backend for `pip install .` (PEP 517): cargo builds the extension module and the wheel."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import wuji_wheel

ROOT = Path(__file__).resolve().parents[2]


def _cargo(*args: str) -> None:
    try:
        subprocess.run(["cargo", *args], cwd=ROOT, check=True)
    except FileNotFoundError:
        raise SystemExit("error: cargo is not installed; see https://rustup.rs") from None


def _version() -> str:
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    return str(manifest["workspace"]["package"]["version"])


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    return []


get_requires_for_build_sdist = get_requires_for_build_wheel
get_requires_for_build_editable = get_requires_for_build_wheel


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    out = Path(wheel_directory).resolve()
    _cargo("xtask", "wheel", "--out", str(out))
    wheels = sorted(out.glob("wuji-*.whl"), key=lambda path: path.stat().st_mtime)
    return wheels[-1].name


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    _cargo("xtask", "python", "--release")
    return wuji_wheel.write_editable(Path(wheel_directory), _version()).name


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """Write a source distribution: all tracked files, plus the metadata."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise SystemExit("error: a source distribution needs a git checkout of the repository") from None
    name = f"wuji-{_version()}"
    path = Path(sdist_directory) / f"{name}.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        for file in listed.stdout.decode().split("\0"):
            if file:
                packed.add(ROOT / file, f"{name}/{file}")
        metadata = wuji_wheel.metadata(_version()).encode()
        about = tarfile.TarInfo(f"{name}/PKG-INFO")
        about.size = len(metadata)
        packed.addfile(about, io.BytesIO(metadata))
    return path.name
