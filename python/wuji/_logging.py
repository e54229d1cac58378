"""How much Wuji says about what it does."""

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


class _Level:
    def __init__(self) -> None:
        asked = os.environ.get("TI_LOG_LEVEL", INFO)
        self.now = asked if asked in _ORDER else INFO


_level = _Level()


def set_logging_level(level: str) -> None:
    """Says only what is of this level and above: ``ti.TRACE``, ``ti.DEBUG``, ``ti.INFO``, ``ti.WARN``, ``ti.ERROR``, ``ti.CRITICAL``.

    From ``ti.DEBUG`` on, the core says what it compiles.
    """
    from .lang import runtime

    _level.now = _checked(level)
    if runtime.initialized():
        world = runtime.current()
        world.config.log_level = level
        world.native.set_log_level("off" if level == CRITICAL else level)


def is_logging_effective(level: str) -> bool:
    """Whether something of this level would be said."""
    return _ORDER.index(_checked(level)) >= _ORDER.index(current_level())


def current_level() -> str:
    from .lang import runtime

    if runtime.initialized():
        level = runtime.current().config.log_level
        return level if level in _ORDER else INFO
    return _level.now


def _say(level: str, text: object) -> None:
    if is_logging_effective(level):
        print(f"[Wuji] {'warning' if level == WARN else level}: {text}" if level != INFO else f"[Wuji] {text}", file=sys.stderr)


def trace(msg: Any, *_: Any) -> None:
    _say(TRACE, msg)


def debug(msg: Any, *_: Any) -> None:
    _say(DEBUG, msg)


def info(msg: Any, *_: Any) -> None:
    _say(INFO, msg)


def warn(msg: Any, *_: Any) -> None:
    _say(WARN, msg)


def error(msg: Any, *_: Any) -> None:
    _say(ERROR, msg)


def critical(msg: Any, *_: Any) -> None:
    _say(CRITICAL, msg)


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
