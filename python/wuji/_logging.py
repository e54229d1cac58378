"""Logging: levels, and output to standard error."""

from __future__ import annotations

import os
import sys
from typing import Any

TRACE, DEBUG, INFO, WARN, ERROR, CRITICAL = "trace", "debug", "info", "warn", "error", "critical"
supported_log_levels = (TRACE, DEBUG, INFO, WARN, ERROR, CRITICAL)
_ORDER = (*supported_log_levels, "off")


def _checked(level: str) -> str:
    from .exceptions import WujiRuntimeError

    if level not in _ORDER:
        raise WujiRuntimeError(f"Unknown logging level [{level}]. Levels = {', '.join(_ORDER)}")
    return level


class _LogLevel:
    def __init__(self) -> None:
        requested = os.environ.get("TI_LOG_LEVEL", INFO)
        self.current = requested if requested in _ORDER else INFO


_level = _LogLevel()


def set_logging_level(level: str) -> None:
    """Set the logging level and drop messages below it.

    Args:
        level: ``ti.TRACE``, ``ti.DEBUG``, ``ti.INFO``, ``ti.WARN``, ``ti.ERROR`` or ``ti.CRITICAL``.
            At ``ti.DEBUG`` and below, the core also logs what it compiles.
    """
    from .lang import runtime

    _level.current = _checked(level)
    if runtime.initialized():
        world = runtime.current()
        world.config.log_level = level
        world.native.set_log_level("off" if level == CRITICAL else level)


def is_logging_effective(level: str) -> bool:
    """Return whether a message of this level would be printed."""
    return _ORDER.index(_checked(level)) >= _ORDER.index(current_level())


def current_level() -> str:
    from .lang import runtime

    if runtime.initialized():
        level = runtime.current().config.log_level
        return level if level in _ORDER else INFO
    return _level.current


def _log(level: str, text: object) -> None:
    if is_logging_effective(level):
        print(f"[Wuji] {'warning' if level == WARN else level}: {text}" if level != INFO else f"[Wuji] {text}", file=sys.stderr)


def trace(msg: Any, *_: Any) -> None:
    _log(TRACE, msg)


def debug(msg: Any, *_: Any) -> None:
    _log(DEBUG, msg)


def info(msg: Any, *_: Any) -> None:
    _log(INFO, msg)


def warn(msg: Any, *_: Any) -> None:
    _log(WARN, msg)


def error(msg: Any, *_: Any) -> None:
    _log(ERROR, msg)


def critical(msg: Any, *_: Any) -> None:
    _log(CRITICAL, msg)


__all__ = [
    "CRITICAL",
    "DEBUG",
    "ERROR",
    "INFO",
    "TRACE",
    "WARN",
    "critical",
    "debug",
    "error",
    "info",
    "is_logging_effective",
    "set_logging_level",
    "supported_log_levels",
    "trace",
    "warn",
]
