"""Inspect and clear the on-disk cache of compiled kernels."""

from __future__ import annotations

import os
from typing import NamedTuple


class Cached(NamedTuple):
    folder: str | None
    files: int
    bytes: int


def folder() -> str | None:
    """Return the cache folder of the current world, or of a default world if none exists; None if caching is off."""
    from .lang import runtime

    if runtime.initialized():
        return runtime.current().native.cache_folder()
    world = runtime.World(verbose=False)
    try:
        return world.runtime.native.cache_folder()
    finally:
        world.close()


def _files(path: str | None) -> tuple[str | None, list[os.DirEntry[str]]]:
    path = path or folder()
    if path is None or not os.path.isdir(path):
        return path, []
    with os.scandir(path) as entries:
        return path, [e for e in entries if e.name.endswith(".wuji") and e.is_file(follow_symlinks=False)]


def info(path: str | None = None) -> Cached:
    """Count the cache entries and their total size."""
    where, files = _files(path)
    return Cached(where, len(files), sum(e.stat().st_size for e in files))


def clean(path: str | None = None) -> Cached:
    """Delete all cache entries and nothing else. Running programs keep the kernels they have loaded."""
    where, files = _files(path)
    removed = size = 0
    for entry in files:
        try:
            bytes_ = entry.stat().st_size
            os.remove(entry.path)
        except FileNotFoundError:  # another process deleted it first
            continue
        removed += 1
        size += bytes_
    return Cached(where, removed, size)


def size(count: float) -> str:
    """Format a byte count for display."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
