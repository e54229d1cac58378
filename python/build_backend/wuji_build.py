"""What `pip install .` calls (PEP 517): cargo builds the extension module and writes the wheel."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    return []


def get_requires_for_build_sdist(config_settings: dict[str, Any] | None = None) -> list[str]:
    return []


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    out = Path(wheel_directory).resolve()
    before = set(out.glob("*.whl"))
    try:
        subprocess.run(["cargo", "xtask", "wheel", "--out", str(out)], cwd=ROOT, check=True)
    except FileNotFoundError:
        raise SystemExit("error: cargo is not installed; see https://rustup.rs") from None
    made = [path for path in out.glob("wuji-*.whl") if path not in before]
    if len(made) != 1:
        made = sorted(out.glob("wuji-*.whl"), key=lambda path: path.stat().st_mtime)[-1:]
    return made[0].name


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """All files that git has."""
    import tarfile
    import tomllib

    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    name = f"wuji-{version}"
    path = Path(sdist_directory) / f"{name}.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        for file in listed.stdout.decode().split("\0"):
            if file:
                packed.add(ROOT / file, f"{name}/{file}")
    return path.name
